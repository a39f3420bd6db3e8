// q, dq, ddq and torque of each joint against limits: small pictures with one common time.
const MotionCharts = (() => {
  const QUANTITIES = [['q', 'position'], ['dq', 'velocity'], ['ddq', 'acceleration'], ['tau', 'torque']];
  const HEIGHT = 118, AREA = { left: 46, right: 6, top: 6, bottom: 18 };

  // Build all panels; seek(t) is called when someone points at a time. Returns what moves the cursors.
  function build(box, run, robot, options) {
    box.replaceChildren();
    const n = Math.max(0, ...QUANTITIES.map(([key]) => (run[key] || []).length));
    const panels = [];
    const columns = getComputedStyle(box).gridTemplateColumns.split(' ').length || 4;
    const width = Math.max(180, Math.floor((options.width - 14 * (columns - 1)) / columns));
    for (let j = 0; j < n; j++) {
      for (const quantity of QUANTITIES) {
        if ((run[quantity[0]] || [])[j]) panels.push(panel(box, run, robot, { ...options, width, j, quantity }));
      }
    }
    return t => panels.forEach(move => move(t));
  }

  function unit(key, kind, degrees) {
    if (key === 'tau') return kind === 'm' ? 'N' : 'N m';
    return (kind === 'm' ? 'm' : degrees ? '°' : 'rad') + { q: '', dq: '/s', ddq: '/s²' }[key];
  }

  // The lower and upper limit of one curve, null where there is none.
  function limits(run, key, j, factor) {
    const given = ((run.limits || {})[key] || [])[j];
    const pair = Array.isArray(given) ? given : typeof given === 'number' ? [-given, given] : [null, null];
    return pair.map(x => typeof x === 'number' ? factor * x : null);
  }

  // The share of its limits that a curve uses: 1 at the limit.
  function use(seen, [low, high]) {
    if (!seen || low === null || high === null || !(high > low)) return null;
    const middle = (low + high) / 2;
    return Math.max(Math.abs(seen[0] - middle), Math.abs(seen[1] - middle)) / ((high - low) / 2);
  }

  function panel(box, run, robot, options) {
    const { j, quantity: [key, name], width, degrees } = options;
    const kind = robot.units[j] || 'rad', words = kind === 'm' && key === 'tau' ? 'force' : name;
    const factor = degrees && kind !== 'm' && key !== 'tau' ? 180 / Math.PI : 1;
    const values = run[key][j].map(x => x === null ? null : factor * x);
    const bounds = limits(run, key, j, factor), seen = Svg.range(values), share = use(seen, bounds);
    const figure = Svg.html('figure', 'panel', null, box);
    const head = Svg.html('figcaption', '', null, figure);
    Svg.html('b', '', robot.joints[j] ?? `joint ${j + 1}`, head);
    Svg.html('span', 'what', `${words}, ${unit(key, kind, degrees)}`, head);
    const now = Svg.html('span', 'now', '', head), nothing = 1e-9 * Math.max(...(Svg.range(values) || [0]).map(Math.abs));
    if (share !== null) Svg.html('span', share > 1 ? 'use over' : 'use', Svg.percent(share), head).title = 'largest share of the limit that is used';
    const svg = Svg.picture(figure, width, HEIGHT, `${robot.joints[j] ?? ''} ${words}`);
    const [low, high] = window_(seen, bounds);
    const sx = Svg.linear(...span(run.time), AREA.left, width - AREA.right);
    const sy = Svg.linear(low, high, HEIGHT - AREA.bottom, AREA.top);
    shadePhases(svg, run.phases, sx, HEIGHT);
    Svg.frame(svg, [AREA.left, AREA.top, width - AREA.right, HEIGHT - AREA.bottom], sx, sy, { xTicks: width > 260 ? 5 : 4, xText: t => Svg.number(t) + (t === 0 ? ' s' : '') });
    drawLimits(svg, bounds, [low, high], sy, width);
    Svg.make('path', { d: Svg.path(run.time, values, sx, sy), class: share > 1 ? 'curve over' : 'curve' }, svg);
    const cursor = Svg.make('line', { y1: AREA.top, y2: HEIGHT - AREA.bottom, class: 'cursor' }, svg);
    pointing(svg, sx, run.time, options.seek);
    return t => {
      cursor.setAttribute('transform', `translate(${sx(t).toFixed(1)} 0)`);
      const value = valueAt(run.time, values, t);
      now.textContent = Svg.number(Math.abs(value) < nothing ? 0 : value, 3);
    };
  }

  // What part of the axis to show: the curve, and limits that are not so far that the curve would shrink to nothing.
  function window_(seen, bounds) {
    let [low, high] = seen || [-1, 1];
    const reach = Math.max(high - low, 1e-9);
    if (bounds[0] !== null && low - bounds[0] < 1.3 * reach) low = Math.min(low, bounds[0]);
    if (bounds[1] !== null && bounds[1] - high < 1.3 * reach) high = Math.max(high, bounds[1]);
    const room = 0.07 * (high - low) || Math.max(0.05 * Math.abs(high), 0.01);
    const written = 0.2 * (high - low); // for the words that say where a limit outside lies
    return [low - (bounds[0] !== null && bounds[0] < low ? written : room), high + (bounds[1] !== null && bounds[1] > high ? written : room)];
  }

  function drawLimits(svg, bounds, [low, high], sy, width) {
    bounds.forEach((x, side) => {
      if (x === null) return;
      if (x >= low && x <= high) {
        Svg.make('line', { x1: AREA.left, x2: width - AREA.right, y1: sy(x), y2: sy(x), class: 'limit' }, svg);
      } else {
        const y = side ? AREA.top + 9 : HEIGHT - AREA.bottom - 4;
        Svg.text(svg, `${side ? '↑' : '↓'} limit ${Svg.number(x, 3)}`, width - AREA.right - 3, y, 'beyond', 'end');
      }
    });
  }

  function shadePhases(svg, phases, sx, height) {
    for (const phase of phases || []) {
      if (phase.name === 'measured' || !(phase.end > phase.start)) continue;
      Svg.make('rect', { x: sx(phase.start), width: Math.max(0, sx(phase.end) - sx(phase.start)), y: AREA.top, height: height - AREA.top - AREA.bottom, class: 'phase' }, svg);
    }
  }

  function pointing(svg, sx, time, seek) {
    const [from, to] = span(time), left = sx(from), right = sx(to);
    const at = event => {
      const box = svg.getBoundingClientRect();
      const x = (event.clientX - box.left) * svg.viewBox.baseVal.width / box.width;
      seek(from + (to - from) * Math.min(1, Math.max(0, (x - left) / (right - left))));
    };
    svg.addEventListener('pointerdown', at);
    svg.addEventListener('pointermove', event => event.buttons & 1 && at(event));
  }

  // First and last moment; one second where there is but one sample.
  function span(time) {
    const [from, to] = Svg.range(time || []) || [0, 1];
    return [from, to > from ? to : from + 1];
  }

  function valueAt(time, values, t) {
    let i = 0, j = time.length - 1;
    while (j - i > 1) {
      const middle = (i + j) >> 1;
      if (time[middle] <= t) i = middle;
      else j = middle;
    }
    const k = t - time[i] > time[j] - t ? j : i;
    return values[k];
  }

  return { build };
})();
