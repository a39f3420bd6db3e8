// What happens on the page: which run is shown, how far it is zoomed, what is drawn where.
(() => {
  const report = JSON.parse(document.getElementById('report').textContent);
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];
  const chart = name => document.querySelector(`[data-chart="${name}"]`);
  const state = { run: 0, plots: new Map(), split: null, width: 0, picture: () => {} };

  function start() {
    all('table.sortable').forEach(table => Tables.sortable(table));
    all('#tabs button').forEach(button => button.addEventListener('click', () => choose(Number(button.dataset.run))));
    all('#zoom button').forEach(button => button.addEventListener('click', () => state.plots.get(state.run)?.zoom(button.dataset.zoom)));
    all('details').forEach(details => details.addEventListener('toggle', () => details.open && residuals()));
    const unseen = report.runs.findIndex(run => run.role === 'validation' && run.joints);
    if (report.runs.length) choose(Math.max(0, unseen));
    guarded(document.getElementById('viewer'), () => state.picture = Viewer.start(report.bodies));
    everything();
    new ResizeObserver(() => requestAnimationFrame(everything)).observe(document.body);
    addEventListener('beforeprint', () => print(true));
    addEventListener('afterprint', () => print(false));
  }

  // Pictures that are as wide as the page allows.
  function everything() {
    if (state.width === document.body.clientWidth) return;
    state.width = document.body.clientWidth;
    state.plots.forEach((plot, k) => k === state.run && plot.resize());
    drawn('split', box => state.split ? state.split.resize() : split(box));
    drawn('spectrum', box => MatrixCharts.spectrum(box, report.spectrum, box.clientWidth));
    drawn('correlation', box => MatrixCharts.correlation(box, report.correlation, box.clientWidth, chart('correlation-hover')));
    drawn('correlation-worst', box => MatrixCharts.worstPairs(box, report.correlation));
    residuals();
    openLoop();
    state.picture();
  }

  // Folded parts have no width until they are opened.
  function residuals() {
    all('[data-chart="residuals"]').forEach(box => box.clientWidth && guarded(box, () => ResidualCharts.build(box, report.residuals[box.dataset.entry], report.robot)));
  }

  function openLoop() {
    all('[data-chart="open-loop"]').forEach(box => guarded(box, () => {
      const run = report.open_loop.runs[box.dataset.entry];
      TimePlots.build(box, run.time || [], run.joints.map((joint, k) => ({
        name: report.robot.joints[k], unit: report.open_loop.units[k],
        rows: [{ height: 120, curves: [{ kind: 'measured', data: joint.measured }, { kind: 'predicted', data: joint.simulated }] }],
      })), { unit: 's' });
    }));
  }

  function choose(index) {
    state.run = index;
    all('#tabs button').forEach(button => button.setAttribute('aria-selected', String(Number(button.dataset.run) === index)));
    all('.run-body').forEach(part => part.hidden = Number(part.dataset.run) !== index);
    build(index);
  }

  function build(index) {
    const box = document.querySelector(`.run-body[data-run="${index}"] [data-chart="run"]`), run = report.runs[index];
    if (!box || !run.joints) return;
    if (state.plots.has(index)) return state.plots.get(index).resize();
    const panels = run.joints.map((joint, k) => ({
      name: report.robot.joints[k], unit: report.robot.torque_units[k],
      rows: [
        { height: 120, curves: ['measured', 'predicted'].map(kind => ({ kind, data: joint[kind] })) },
        { height: 56, curves: [{ kind: 'residual', data: joint.residual }] },
      ],
    }));
    guarded(box, () => state.plots.set(index, TimePlots.build(box, run.time, panels, { unit: run.static ? 'pose' : 's' })));
  }

  function split(box) {
    const panels = (report.split.joints || []).map((joint, k) => ({
      name: report.robot.joints[k], unit: report.robot.torque_units[k],
      rows: [{ height: 150, curves: [{ kind: 'measured', data: joint.measured }, ...Object.values(joint.parts).map((data, part) => ({ kind: `p${part}`, data }))] }],
    }));
    state.split = TimePlots.build(box, report.split.time || [], panels, { unit: report.split.static ? 'pose' : 's' });
  }

  function drawn(name, draw) {
    const box = chart(name);
    if (box) guarded(box, () => draw(box));
  }

  // One chart that cannot be drawn must not take the page with it; the reason goes to the console.
  function guarded(box, draw) {
    try {
      draw();
    } catch (error) {
      box.replaceChildren();
      Svg.html('p', 'hint failed', 'This picture could not be drawn from the numbers in this report.', box);
      console.error(error);
    }
  }

  // On paper: all runs, unless they are many, and nothing folded away but what is long.
  function print(on) {
    if (report.runs.length > 6) return;
    all('.run-body').forEach(body => body.hidden = !on && Number(body.dataset.run) !== state.run);
    if (on) report.runs.forEach((_, index) => build(index));
  }

  start();
})();
