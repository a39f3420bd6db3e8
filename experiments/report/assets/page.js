// What happens on the page: which run is shown, where its time stands, what plays.
(() => {
  const plan = JSON.parse(document.getElementById('plan').textContent);
  const find = id => document.getElementById(id), all = (selector, within = document) => [...within.querySelectorAll(selector)];
  const state = { run: 0, source: 'frames', t: 0, speed: 1, playing: false, degrees: true, last: null, cursors: new Map(), widths: new Map() };
  let scene = null;

  function start() {
    sortableTables();
    drawn('pareto-charts', box => SearchCharts.pareto(box, plan.pareto, box.clientWidth, find('pareto-hover')));
    if (!plan.runs.length) return;
    scene = Scene.create(find('scene'), plan);
    all('#tabs button').forEach(button => button.addEventListener('click', () => choose(Number(button.dataset.run))));
    controls();
    orbit(find('scene'));
    choose(0);
    new ResizeObserver(() => requestAnimationFrame(() => (buildCharts(state.run), picture()))).observe(document.querySelector('.stage'));
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => picture());
    addEventListener('beforeprint', () => print(true));
    addEventListener('afterprint', () => print(false));
  }

  function run() {
    return plan.runs[state.run];
  }

  function frames() {
    return run()[state.source] || { time: [], capsules: [], tool: [] };
  }

  // First and last moment of what is shown.
  function span() {
    const time = state.source === 'frames' && (run().time || []).length ? run().time : frames().time;
    return Svg.range(time) || [0, 1];
  }

  function choose(index) {
    state.run = index;
    all('#tabs button').forEach(button => button.setAttribute('aria-selected', String(Number(button.dataset.run) === index)));
    all('.run-facts, .run-body').forEach(part => part.hidden = Number(part.dataset.run) !== index);
    find('sources').hidden = !(run().approach && run().frames);
    buildCharts(index);
    source(run().frames || !run().approach ? 'frames' : 'approach');
  }

  function source(name) {
    state.source = name;
    all('#sources button').forEach(button => button.classList.toggle('on', button.dataset.source === name));
    Scene.show(scene, frames(), run().capsules);
    find('viewer').classList.toggle('empty', !frames().time.length);
    phaseBar();
    seek(span()[0]);
    find('scene-note').textContent = (frames().time.length ? '' : 'This run comes without a motion to show. ') + (scene.step ? `Floor grid ${Svg.number(scene.step)} m` : '');
  }

  function seek(t) {
    const [from, to] = span();
    state.t = Math.min(to, Math.max(from, t));
    find('scrub').value = String(1000 * (state.t - from) / (to - from || 1));
    find('clock').textContent = `${state.t.toFixed(2)} s of ${to.toFixed(2)} s`;
    const phase = state.source === 'frames' ? (run().phases || []).find(p => state.t >= p.start && state.t < p.end) ?? (run().phases || []).at(-1) : { name: 'way from home to start' };
    find('phase').textContent = phase ? phase.name : '';
    if (state.source === 'frames') (state.cursors.get(state.run) || (() => {}))(state.t);
    picture();
  }

  function seekFromChart(t) {
    if (state.source !== 'frames' && run().frames) source('frames');
    seek(t);
  }

  function picture() {
    Scene.draw(scene, state.t, state.playing || state.dragging);
  }

  function play(on) {
    state.playing = on;
    find('play').textContent = on ? '❚❚ Pause' : '▶ Play';
    if (on && state.t >= span()[1]) seek(span()[0]);
    state.last = null;
    if (on) requestAnimationFrame(tick);
    else picture();
  }

  function tick(now) {
    if (!state.playing) return;
    const passed = state.last === null ? 0 : Math.min(0.1, (now - state.last) / 1000);
    state.last = now;
    seek(state.t + passed * state.speed);
    if (state.t >= span()[1]) play(false);
    else requestAnimationFrame(tick);
  }

  function phaseBar() {
    const box = find('phase-bar'), [from, to] = span();
    box.replaceChildren();
    if (state.source !== 'frames') return;
    for (const phase of run().phases || []) {
      if (!(phase.end > phase.start)) continue;
      const part = Svg.html('button', phase.name === 'measured' ? 'measured' : '', phase.name, box);
      part.type = 'button';
      part.style.left = `${100 * (phase.start - from) / (to - from)}%`;
      part.style.width = `${100 * (phase.end - phase.start) / (to - from)}%`;
      part.title = `${phase.name}: ${Svg.number(phase.start)} to ${Svg.number(phase.end)} s`;
      part.addEventListener('click', () => seek(phase.start));
      if (part.scrollWidth > part.clientWidth + 1) part.textContent = '';
    }
  }

  function controls() {
    find('play').addEventListener('click', () => play(!state.playing));
    find('scrub').addEventListener('input', event => {
      const [from, to] = span();
      seek(from + (to - from) * event.target.value / 1000);
    });
    choice('#speeds button', button => state.speed = Number(button.dataset.speed), '1');
    choice('#views button', button => (Camera.look(scene.camera, button.dataset.view), picture()), '3d');
    all('#sources button').forEach(button => button.addEventListener('click', () => source(button.dataset.source)));
    all('.units button').forEach(button => button.addEventListener('click', () => angles(button.dataset.angle === 'deg')));
    angles(true);
    // a button that was clicked must not keep the space bar to itself
    addEventListener('click', event => event.detail > 0 && event.target.closest('button')?.blur());
    addEventListener('keydown', event => {
      if (event.ctrlKey || event.altKey || event.metaKey || /^(INPUT|TEXTAREA|SELECT|BUTTON)$/.test(event.target.tagName) && event.target.id !== 'scrub') return;
      const [from, to] = span();
      if (event.key === ' ') play(!state.playing);
      else if (event.key === 'ArrowRight' || event.key === 'ArrowLeft') seek(state.t + (event.key === 'ArrowRight' ? 1 : -1) * (to - from) / 200);
      else return;
      event.preventDefault();
    });
  }

  function choice(selector, act, first) {
    const buttons = all(selector);
    buttons.forEach(button => button.addEventListener('click', () => {
      buttons.forEach(other => other.classList.toggle('on', other === button));
      act(button);
    }));
    buttons.forEach(button => button.classList.toggle('on', Object.values(button.dataset)[0] === first));
  }

  function angles(degrees) {
    state.degrees = degrees;
    all('.units button').forEach(button => button.classList.toggle('on', (button.dataset.angle === 'deg') === degrees));
    state.widths.clear();
    if (state.cursors.size) buildCharts(state.run);
    if (state.cursors.size) seek(state.t);
  }

  function orbit(canvas) {
    Orbit.attach(canvas, scene.camera, {
      redraw: picture,
      dragging: on => state.dragging = on,
      turned: () => all('#views button').forEach(button => button.classList.remove('on')),
    });
    canvas.addEventListener('dblclick', () => find('views').firstElementChild.click());
  }

  // Charts of a run are built when it is first shown, and again when the page changes its width.
  function buildCharts(index) {
    const body = document.querySelector(`.run-body[data-run="${index}"]`), data = plan.runs[index];
    const width = body.clientWidth;
    if (!width || state.widths.get(index) === width) return;
    state.widths.set(index, width);
    const chart = (name, draw) => {
      const box = body.querySelector(`[data-chart="${name}"]`);
      if (box) guarded(box, () => draw(box));
    };
    chart('motion', box => state.cursors.set(index, MotionCharts.build(box, data, plan, { width: box.clientWidth, degrees: state.degrees, seek: seekFromChart })));
    chart('history', box => SearchCharts.history(box, data.history, box.clientWidth));
    chart('spectrum', box => MatrixCharts.spectrum(box, data.spectrum, box.clientWidth));
    chart('correlation', box => MatrixCharts.correlation(box, data.correlation, box.clientWidth, body.querySelector('[data-chart="correlation-hover"]')));
    chart('correlation-worst', box => MatrixCharts.worstPairs(box, data.correlation));
    if (index === state.run && state.source === 'frames') (state.cursors.get(index) || (() => {}))(state.t);
  }

  function drawn(id, draw) {
    const box = find(id);
    if (box) guarded(box, () => draw(box));
  }

  // One chart that cannot be drawn must not take the page with it; the reason goes to the console.
  function guarded(box, draw) {
    try {
      draw();
    } catch (error) {
      box.replaceChildren();
      Svg.html('p', 'hint failed', 'This picture could not be drawn from the numbers in this plan.', box);
      console.error(error);
    }
  }

  function print(on) {
    all('.run-body').forEach(body => body.hidden = !on && Number(body.dataset.run) !== state.run);
    if (on) plan.runs.forEach((_, index) => buildCharts(index));
  }

  // two rows of headings: the columns below "standard deviation" and "relative deviation" come after the third
  function sortableTables() {
    all('table.sortable').forEach(table => Tables.sortable(table, [0, 1, 2, 8, 9, 3, 4, 5, 6]));
  }

  start();
})();
