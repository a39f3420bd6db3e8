// Residuals of a joint: how large, how alike from one moment to the next, and whether they follow the velocity.
const ResidualCharts = (() => {
  const HEIGHT = 150, AREA = { left: 46, right: 8, top: 20, bottom: 34 };

  function build(box, entry, robot) {
    box.replaceChildren();
    entry.joints.forEach(joint => {
      const k = robot.joints.indexOf(joint.joint), unit = robot.torque_units[k] ?? 'N m', kind = robot.units[k] ?? 'rad';
      Svg.html('h4', '', joint.joint, box);
      const row = Svg.html('div', 'trio', null, box);
      const width = Math.max(200, Math.floor(row.clientWidth / (getComputedStyle(row).gridTemplateColumns.split(' ').length || 1)) - 10);
      histogram(row, joint, width, unit);
      autocorrelation(row, joint, width, entry.lag_s);
      velocity(row, joint, width, unit, kind);
    });
  }

  function place(parent, width, label) {
    const svg = Svg.picture(parent, width, HEIGHT, label);
    return [svg, [AREA.left, AREA.top, width - AREA.right, HEIGHT - AREA.bottom]];
  }

  function histogram(parent, { joint, histogram: { edges, counts, sigma } }, width, unit) {
    const [svg, area] = place(parent, width, `${joint}: histogram of residuals`);
    if (!edges.length) return Svg.text(svg, 'nothing is left', width / 2, HEIGHT / 2, 'label', 'middle');
    const total = counts.reduce((sum, n) => sum + n, 0), step = edges[1] - edges[0];
    const normal = x => total * step / (sigma * Math.sqrt(2 * Math.PI)) * Math.exp(-0.5 * (x / sigma) ** 2);
    const sx = Svg.linear(edges[0], edges.at(-1), area[0], area[2]);
    const sy = Svg.linear(0, 1.08 * Math.max(normal(0), ...counts), area[3], area[1]);
    Svg.frame(svg, area, sx, sy, { xTicks: 4, yTicks: 3, xLabel: `residual, ${unit}`, yLabel: 'how often' });
    counts.forEach((n, k) => n && Svg.make('rect', { x: sx(edges[k]), y: sy(n), width: Math.max(1, sx(edges[k + 1]) - sx(edges[k]) - 1), height: sy(0) - sy(n), class: 'bin' }, svg));
    const xs = Array.from({ length: 80 }, (_, k) => edges[0] + k / 79 * (edges.at(-1) - edges[0]));
    Svg.make('path', { d: Svg.path(xs, xs.map(normal), sx, sy), class: 'curve normal' }, svg);
  }

  function autocorrelation(parent, { joint, autocorrelation: { values, bound } }, width, lag) {
    const [svg, area] = place(parent, width, `${joint}: autocorrelation of residuals`);
    const seen = Svg.range([...values, -bound, bound]) || [-1, 1], step = lag ?? 1;
    const sx = Svg.linear(0, step * (values.length + 1), area[0], area[2]);
    const sy = Svg.linear(Math.min(-0.1, 1.1 * seen[0]), Math.max(0.2, 1.1 * seen[1]), area[3], area[1]);
    Svg.frame(svg, area, sx, sy, { xTicks: 4, yTicks: 3, xLabel: lag ? 'lag, s' : 'lag, samples', yLabel: 'correlation' });
    [-bound, bound].forEach(y => Svg.make('line', { x1: area[0], x2: area[2], y1: sy(y), y2: sy(y), class: 'limit' }, svg));
    values.forEach((y, k) => typeof y === 'number' && Svg.make('line', { x1: sx(step * (k + 1)), x2: sx(step * (k + 1)), y1: sy(0), y2: sy(y), class: 'lag' }, svg));
  }

  function velocity(parent, { joint, by_velocity: { velocity: v, mean, rms } }, width, unit, kind) {
    const [svg, area] = place(parent, width, `${joint}: residuals over velocity`);
    const spread = mean.map((m, k) => Math.sqrt(Math.max(0, rms[k] ** 2 - m ** 2)));
    const seen = Svg.range(mean.flatMap((m, k) => [m - spread[k], m + spread[k]])), across = Svg.range(v);
    if (!seen || !(across[1] > across[0])) return Svg.text(svg, 'the joint stands still', width / 2, HEIGHT / 2, 'label', 'middle');
    const reach = 1.1 * Math.max(Math.abs(seen[0]), Math.abs(seen[1])) || 1;
    const sx = Svg.linear(...across, area[0], area[2]), sy = Svg.linear(-reach, reach, area[3], area[1]);
    Svg.frame(svg, area, sx, sy, { xTicks: 4, yTicks: 3, xLabel: `velocity, ${kind}/s`, yLabel: `mean and spread, ${unit}` });
    const edge = [...v.map((x, k) => [x, mean[k] + spread[k]]), ...v.map((x, k) => [x, mean[k] - spread[k]]).reverse()];
    Svg.make('path', { d: `${Svg.path(edge.map(p => p[0]), edge.map(p => p[1]), sx, sy)}Z`, class: 'band' }, svg);
    Svg.make('line', { x1: area[0], x2: area[2], y1: sy(0), y2: sy(0), class: 'axis' }, svg);
    Svg.make('path', { d: Svg.path(v, mean, sx, sy), class: 'curve' }, svg);
    v.forEach((x, k) => Svg.make('circle', { cx: sx(x), cy: sy(mean[k]), r: 2.5, class: 'dot' }, svg));
  }

  return { build };
})();
