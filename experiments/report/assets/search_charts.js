// How the search went, and what other designs there were.
const SearchCharts = (() => {
  function history(box, rows, width) {
    box.replaceChildren();
    const good = rows.filter(row => typeof row.evaluations === 'number' && row.evaluations > 0);
    if (!good.length) return Svg.html('p', 'hint', 'The search left no record.', box);
    const [first, last] = Svg.range(good.map(row => row.evaluations));
    const scale = Svg.logarithmic(first, last > first ? last : first * 10, 52, width - 12);
    const bests = good.map(row => row.best), span = Svg.range(bests);
    const upper = Svg.picture(box, width, 200, 'best condition number over evaluations');
    if (span) {
      const wide = span[1] > 8 * span[0] && span[0] > 0;
      const sy = wide ? Svg.logarithmic(span[0] / 1.1, span[1] * (1.1 * span[1] / span[0]) ** 0.2, 176, 30)
        : Svg.linear(span[0] - 0.08 * (span[1] - span[0] || span[0]), span[1] + 0.2 * (span[1] - span[0] || span[0]), 176, 30);
      stages(upper, good, scale, 30, 176, true);
      Svg.frame(upper, [52, 30, width - 12, 176], scale, sy, { yLabel: 'best condition number so far', xTicks: 5, xText: count });
      Svg.make('path', { d: steps(good, scale, sy), class: 'curve' }, upper);
      Svg.text(upper, Svg.number(bests.findLast(x => typeof x === 'number'), 4), width - 14, sy(bests.findLast(x => typeof x === 'number')) - 18, 'mark', 'end');
    } else {
      Svg.text(upper, 'no candidate kept all limits', width / 2, 90, 'label', 'middle');
    }
    const lower = Svg.picture(box, width, 130, 'share of feasible candidates over evaluations');
    const sy = Svg.linear(0, 1, 92, 24);
    stages(lower, good, scale, 24, 92, false);
    Svg.frame(lower, [52, 24, width - 12, 92], scale, sy, { yLabel: 'candidates that kept every limit', xLabel: 'candidates tried (logarithmic)', xTicks: 5, xText: count, yTicks: 2, yText: y => `${100 * y} %` });
    Svg.make('path', { d: Svg.path(good.map(row => row.evaluations), good.map(row => row.feasible_share), scale, sy), class: 'curve second' }, lower);
    return box;
  }

  function count(x) {
    return x >= 1e6 ? `${Svg.number(x / 1e6)} M` : x >= 1e3 ? `${Svg.number(x / 1e3)} k` : Svg.number(x);
  }

  // The best so far stays until a better one is found.
  function steps(rows, sx, sy) {
    let words = '', y = null;
    for (const row of rows) {
      if (typeof row.best !== 'number') continue;
      const x = sx(row.evaluations).toFixed(1), next = sy(row.best).toFixed(1);
      words += y === null ? `M${x} ${next}` : `H${x}V${next}`;
      y = next;
    }
    return words + (y === null ? '' : `H${sx(rows[rows.length - 1].evaluations).toFixed(1)}`);
  }

  function stages(svg, rows, sx, top, bottom, named) {
    let before = null, free = -Infinity;
    rows.forEach((row, i) => {
      if (!row.stage || row.stage === before) return;
      const x = sx(row.evaluations);
      if (i) Svg.make('line', { x1: x, x2: x, y1: top, y2: bottom, class: 'stage' }, svg);
      if (named && x > free) {
        const words = String(row.stage).slice(0, 24), right = sx(rows[rows.length - 1].evaluations);
        const late = x + 6.5 * words.length > right;
        Svg.text(svg, words, late ? right : x + 3, top + 10, 'stage-name', late ? 'end' : 'start');
        free = x + 6.5 * words.length;
      }
      before = row.stage;
    });
  }

  const GOALS = [['duration_s', 'duration, s', 1], ['peak_torque_share', 'peak torque, % of limit', 100], ['tool_speed_m_s', 'tool speed, m/s', 1]];

  function pareto(box, designs, width, hover) {
    box.replaceChildren();
    hover.textContent = 'Point at a dot for its numbers.';
    const goals = GOALS.filter(([key]) => designs.some(design => typeof design[key] === 'number'));
    const each = Math.max(240, Math.floor((width - 16 * (goals.length - 1)) / Math.max(1, goals.length)));
    goals.forEach(goal => scatter(box, designs, goal, Math.min(each, width), hover));
  }

  function scatter(box, designs, [key, words, factor], width, hover) {
    const shown = designs.filter(design => typeof design[key] === 'number' && typeof design.condition === 'number');
    const [xs, ys] = [Svg.range(shown.map(design => factor * design[key])), Svg.range(shown.map(design => design.condition))];
    if (!xs) return;
    const grow = ([a, b]) => [a - 0.08 * (b - a || Math.abs(a) || 1), b + 0.08 * (b - a || Math.abs(a) || 1)];
    const svg = Svg.picture(box, width, 260, `condition number against ${words}`);
    const sx = Svg.linear(...grow(xs), 48, width - 10), sy = Svg.linear(...grow(ys), 216, 28);
    Svg.frame(svg, [48, 28, width - 10, 216], sx, sy, { xLabel: words, yLabel: 'condition number', xTicks: 5 });
    for (const design of shown) {
      const [cx, cy] = [sx(factor * design[key]), sy(design.condition)];
      if (design.chosen) Svg.make('circle', { cx, cy, r: 8, class: 'ring' }, svg);
      const dot = Svg.make('circle', { cx, cy, r: 4, class: design.chosen ? 'dot chosen' : 'dot' }, svg);
      dot.addEventListener('pointerenter', () => {
        hover.textContent = [`condition number ${Svg.number(design.condition)}`, ...GOALS.filter(goal => typeof design[goal[0]] === 'number').map(goal => `${goal[1].split(',')[0]} ${Svg.number(goal[2] * design[goal[0]], 3)} ${goal[1].split(', ')[1]}`)].join(', ');
      });
    }
  }

  return { history, pareto };
})();
