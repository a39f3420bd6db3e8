// What happens on a page: tables sort, runs are chosen, charts are drawn from the page's data when they are first seen.
(() => {
  const find = id => document.getElementById(id), all = (selector, within = document) => [...within.querySelectorAll(selector)];
  const read = id => find(id) ? JSON.parse(find(id).textContent) : null;
  const [plan, report, compared, live] = ['plan', 'report', 'compared', 'live'].map(read);
  const state = { run: 0, source: 'frames', degrees: true, player: null, width: 0 }, FIRST = 12;

  // --- charts by the name of their box; each is drawn when it has a width, and again when that changes

  const CHARTS = {
    motion: (box, run) => Charts.motion(box, plan.runs[run], plan, { degrees: state.degrees, seek: seekFromChart }),
    history: (box, run) => Charts.history(box, plan.runs[run].history),
    pareto: box => Charts.pareto(box, plan.pareto),
    spectrum: (box, run) => Charts.spectrum(box, report ? report.spectrum : plan.runs[run].spectrum),
    correlation: (box, run) => Charts.correlation(box, report ? report.correlation : plan.runs[run].correlation),
    'correlation-worst': (box, run) => Charts.worstPairs(box, report ? report.correlation : plan.runs[run].correlation),
    run: (box, run) => overTime(box, report.runs[run]),
    split: box => overTime(box, report.split),
    residuals: box => Charts.residuals(box, report.residuals[box.dataset.entry], report.robot),
    'open-loop': box => overTime(box, report.open_loop.runs[box.dataset.entry], report.open_loop.units),
    errors: box => Charts.errors(box, compared),
    forest: box => Charts.forest(box, ranked(), compared.chosen),
    recursion: box => Charts.recursion(box, compared.recursions, ranked()),
    'recursion-rest': box => Charts.recursion(box, compared.recursions, compared.parameters),
    eigenvalues: box => Charts.eigenvalues(box, compared.recursions),
    'forest-rest': box => Charts.forest(box, compared.parameters, compared.chosen),
  };

  function drawAll() {
    all('[data-chart]').forEach(box => {
      const width = box.clientWidth, drawn = Number(box.dataset.drawn || 0);
      if (!width || width === drawn) return;
      box.dataset.drawn = width;
      const fixed = ['correlation', 'residuals'].includes(box.dataset.chart);
      if (drawn && box.charts && !fixed) return guarded(box, () => Chart.redraw(box)); // keeps what was zoomed
      guarded(box, () => CHARTS[box.dataset.chart](box, Number(box.closest('.run-body')?.dataset.run ?? 0)));
    });
    if (plan && state.player) cursor(state.player.t);
  }

  // One chart that cannot be drawn must not take the page with it; the reason goes to the console.
  function guarded(box, draw) {
    try {
      draw();
    } catch (error) {
      box.replaceChildren();
      Svg.html('p', 'hint failed', 'This picture could not be drawn from the numbers of this page.', box);
      console.error(error);
    }
  }

  // What was measured at each joint, beside what the model says: all of it, its parts, or its simulation.
  function overTime(box, { time, joints, static: still }, units = report.robot.torque_units) {
    const panels = (joints || []).map(({ measured, predicted, simulated, residual, parts }, k) => {
      const told = parts ? Object.fromEntries(Object.values(parts).map((part, n) => [`p${n}`, part])) : { predicted: predicted ?? simulated };
      const rows = [{ height: parts ? 150 : 120, curves: { measured, ...told } }, ...(residual ? [{ height: 56, curves: { residual } }] : [])];
      return { name: report.robot.joints[k], unit: units[k], rows };
    });
    Charts.time(box, time || [], panels, still ? 'pose' : 's');
  }

  // All parameters, or of many those with the most contradictions.
  function ranked() {
    const { parameters } = compared;
    return parameters.length > FIRST ? [...parameters].sort((a, b) => b.contradictions - a.contradictions).slice(0, FIRST) : parameters;
  }

  // --- runs

  function choose(index) {
    state.run = index;
    all('#tabs button').forEach(button => button.setAttribute('aria-selected', String(Number(button.dataset.run) === index)));
    all('.run-facts, .run-body').forEach(part => part.hidden = Number(part.dataset.run) !== index);
    drawAll();
    if (!plan) return;
    const run = plan.runs[index];
    find('sources').hidden = !(run.approach && run.frames);
    source(run.frames || !run.approach ? 'frames' : 'approach');
  }

  function zoomRun(action) {
    const box = document.querySelector(`.run-body[data-run="${state.run}"] [data-chart="run"]`);
    if (box?.charts?.length) Chart.act(box.charts[0], action);
  }

  // --- the plan's robot in motion: the run, or the way from home to its start

  function source(name) {
    const run = plan.runs[state.run], { player } = state, shown = run[name] || { time: [], capsules: [], tool: [] };
    state.source = name;
    all('#sources button').forEach(button => button.classList.toggle('on', button.dataset.source === name));
    player.show(shown, run.capsules, name === 'frames' && (run.time || []).length ? Svg.range(run.time) : null);
    phaseBar(run);
    player.seek(player.span[0]);
    const grid = player.scene.step ? `Floor grid ${Svg.number(player.scene.step)} m` : '';
    find('scene-note').textContent = (shown.time.length ? '' : 'This run comes without a motion to show. ') + grid;
  }

  function cursor(t) {
    const { phases = [] } = plan.runs[state.run], now = phases.find(p => t >= p.start && t < p.end) ?? phases.at(-1);
    find('phase').textContent = state.source === 'approach' ? 'way from home to start' : now ? now.name : '';
    const box = document.querySelector(`.run-body[data-run="${state.run}"] [data-chart="motion"]`);
    if (state.source === 'frames' && box?.charts?.length) Chart.rest(box.charts[0].group, t);
  }

  function seekFromChart(t) {
    if (state.source !== 'frames' && plan.runs[state.run].frames) source('frames');
    state.player.seek(t);
  }

  function phaseBar(run) {
    const box = find('phase-bar'), [from, to] = state.player.span;
    box.replaceChildren();
    for (const { name, start, end } of state.source === 'frames' ? run.phases || [] : []) {
      if (!(end > start)) continue;
      const title = `${name}: ${Svg.number(start)} to ${Svg.number(end)} s`, share = t => `${100 * t / (to - from)}%`;
      const part = Svg.button(name, title, () => state.player.seek(start), box, name === 'measured' ? name : '');
      Object.assign(part, { title }).style.left = share(start - from);
      part.style.width = share(end - start);
      if (part.scrollWidth > part.clientWidth + 1) part.textContent = '';
    }
  }

  function angles(degrees) {
    state.degrees = degrees;
    all('.units button').forEach(button => button.classList.toggle('on', (button.dataset.angle === 'deg') === degrees));
    all('[data-chart="motion"]').forEach(box => {
      delete box.dataset.drawn;
      box.charts = null;
    });
    drawAll();
  }

  // --- tables: cells with a data-number sort by it, the missing last; others by their words

  function sortable(table) {
    const body = table.tBodies[0], buttons = all('thead button', table);
    buttons.forEach(button => button.addEventListener('click', () => {
      const column = button.dataset.column ?? button.closest('th').cellIndex, down = button.dataset.order === 'up';
      buttons.forEach(other => delete other.dataset.order);
      button.dataset.order = down ? 'down' : 'up';
      [...body.rows].sort((a, b) => compare(a.cells[column], b.cells[column], down ? -1 : 1)).forEach(row => body.appendChild(row));
    }));
  }

  function compare(a, b, sign) {
    if ('number' in a.dataset) {
      const [x, y] = [a.dataset.number, b.dataset.number];
      return x === '' || y === '' ? (x === '') - (y === '') : sign * (Number(x) - Number(y));
    }
    const words = cell => cell.dataset.key ?? cell.textContent;
    return sign * words(a).localeCompare(words(b), undefined, { numeric: true });
  }

  // On paper: all runs, unless they are many.
  function print(on) {
    if ((plan ?? report).runs.length > 6) return;
    all('.run-body').forEach(body => body.hidden = !on && Number(body.dataset.run) !== state.run);
    if (on) drawAll();
  }

  // --- the live page of a watch asks for what is new, until its server has ended

  async function watch(version) {
    let data = null;
    try {
      const answer = await fetch(`data?token=${live.token}&version=${version}`, { cache: 'no-store' });
      if (answer.status === 200) data = await answer.json();
    } catch {
      find('verdict').className = 'banner unknown';
      find('state').textContent = 'The watch has ended';
      return;
    }
    if (data) guarded(find('surprise'), () => update(data));
    setTimeout(watch, 500, data ? data.version : version);
  }

  function update({ cycles, left_out, learning, parameters, history, alarms, problems }) {
    const raised = alarms.filter(alarm => !alarm.confirmed).length, calm = !alarms.length;
    find('verdict').className = `banner ${!calm ? 'no-go' : !cycles || learning.length ? 'unknown' : 'go'}`;
    find('state').textContent = !calm ? `${raised === 1 ? '1 alarm' : `${raised} alarms`}` : !cycles ? 'Waiting for the first cycle'
      : learning.length ? `Learning what is healthy: ${learning.join(', ')}` : '✓ As before';
    find('counts').textContent = `${cycles} ${cycles === 1 ? 'cycle' : 'cycles'}${left_out ? `, ${left_out} of another motion left out` : ''}`;
    list('alarms', alarms.map(alarm => `${alarm.confirmed ? 'it has stayed: ' : ''}${alarm.sentence}`).reverse());
    list('problems', problems);
    find('problems-card').hidden = !problems.length;
    Charts.surprise(find('surprise'), history);
    const body = document.querySelector('table.sortable tbody'), rows = new Map([...body.rows].map(row => [row.dataset.name, row]));
    parameters.forEach(one => fillRow(rows.get(one.name) ?? newRow(body, one.name), one));
  }

  function list(id, sentences) {
    find(id).replaceChildren(...sentences.map(sentence => Svg.html('li', '', sentence)));
  }

  function newRow(body, name) {
    const row = Svg.html('tr', '', null, body);
    row.dataset.name = name;
    ['', 'n', 'n', 'n', 'n', 'u'].forEach(css => Svg.html('td', css, '', row));
    return row;
  }

  function fillRow(row, { name, value, sigma, model, drift_sigmas: drift, unit }) {
    [name, value, sigma, model, drift, unit].forEach((x, k) => {
      row.cells[k].textContent = typeof x === 'number' ? Svg.number(x, k === 4 ? 2 : 4) : x ?? '–';
      if (k > 0 && k < 5) row.cells[k].dataset.number = x ?? '';
    });
    row.className = Math.abs(drift) > 3 ? 'beyond' : '';
  }

  function start() {
    all('table.sortable').forEach(sortable);
    if (live) watch(0);
    if (!plan && !report && !compared) return;
    const clicked = (selector, act) => all(selector).forEach(button => button.addEventListener('click', () => act(button.dataset)));
    clicked('#tabs button', ({ run }) => choose(Number(run)));
    clicked('#zoom button', ({ zoom }) => zoomRun(zoom));
    clicked('#sources button', chosen => source(chosen.source));
    clicked('.units button', ({ angle }) => angles(angle === 'deg'));
    all('.units button').forEach(button => button.classList.toggle('on', button.dataset.angle === 'deg'));
    all('details').forEach(details => details.addEventListener('toggle', () => details.open && drawAll()));
    // a button that was clicked must not keep the space bar to itself
    addEventListener('click', event => event.detail > 0 && event.target.closest('button')?.blur());
    const runs = (plan ?? report)?.runs ?? [];
    if (plan && runs.length) state.player = Player.create(plan, cursor);
    if (runs.length) choose(report ? Math.max(0, runs.findIndex(run => run.role === 'validation' && run.joints)) : 0);
    if (report) guarded(find('viewer'), inertia);
    drawAll();
    new ResizeObserver(() => requestAnimationFrame(resized)).observe(document.body);
    if (runs.length) ['beforeprint', 'afterprint'].forEach(name => addEventListener(name, () => print(name === 'beforeprint')));
  }

  // The report's robot, with the ellipsoids of its links' inertia.
  function inertia() {
    if (!find('viewer')) return;
    const { frames, capsules } = report.bodies;
    state.player = Player.create({ ...report.bodies, zones: [], runs: [{ frames, capsules }] });
    state.player.show(frames, capsules);
    state.player.seek(state.player.span[0]);
  }

  function resized() {
    if (state.width === document.body.clientWidth) return;
    state.width = document.body.clientWidth;
    drawAll();
    state.player?.picture();
  }

  start();
})();
