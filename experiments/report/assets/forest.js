// Every parameter as each method has it: dots with 95 % intervals, beside the band of the model that is taken.
const Forest = (() => {
  const ROW = 15, TOP = 6, BOTTOM = 22;

  function build(box, parameters, chosen) {
    box.replaceChildren();
    const columns = getComputedStyle(box).gridTemplateColumns.split(' ').length || 1;
    const width = Math.max(220, Math.floor((box.clientWidth - 22 * (columns - 1)) / columns));
    parameters.forEach(parameter => panel(box, parameter, chosen, width));
  }

  function panel(box, parameter, chosen, width) {
    const figure = Svg.html('figure', 'panel', null, box), caption = Svg.html('figcaption', '', null, figure);
    Svg.html('b', '', parameter.name, caption);
    Svg.html('span', 'what', parameter.unit, caption);
    const n = parameter.contradictions;
    if (n) Svg.html('span', 'now', n === 1 ? '1 contradiction' : `${n} contradictions`, caption);
    const rows = parameter.methods, height = TOP + ROW * rows.length + BOTTOM;
    const svg = Svg.picture(figure, width, height, `${parameter.name} by method`);
    const left = 10 + 6.2 * Math.min(16, Math.max(...rows.map(([name]) => name.length)));
    const span = reach(rows, chosen);
    if (!span) return Svg.text(svg, 'no number', width / 2, height / 2, 'label', 'middle');
    const sx = Svg.linear(span[0], span[1], left, width - 10), bottom = height - BOTTOM;
    const taken = rows.find(([name]) => name === chosen);
    if (taken && typeof taken[2] === 'number') Svg.make('rect', { x: sx(taken[2]), y: TOP, width: Math.max(1, sx(taken[3]) - sx(taken[2])), height: bottom - TOP, class: 'band' }, svg);
    for (const x of sx.ticks(3)) {
      Svg.make('line', { x1: sx(x), x2: sx(x), y1: TOP, y2: bottom, class: 'grid' }, svg);
      Svg.text(svg, Svg.number(x, 3), sx(x), bottom + 13, 'tick', 'middle');
    }
    if (span[0] < 0 && span[1] > 0) Svg.make('line', { x1: sx(0), x2: sx(0), y1: TOP, y2: bottom, class: 'axis' }, svg);
    rows.forEach((row, k) => mark(svg, row, TOP + (k + 0.5) * ROW, sx, span, row[0] === chosen, left));
  }

  // As wide as most intervals need: one method far off is drawn at the edge.
  function reach(rows, chosen) {
    const ends = rows.flatMap(([, value, low, high]) => [low ?? value, high ?? value]).filter(x => typeof x === 'number' && isFinite(x));
    if (!ends.length) return null;
    const taken = rows.find(([name]) => name === chosen) ?? rows[0], middle = taken[1];
    const away = rows.map(([, value, low, high]) => Math.max(Math.abs((low ?? value) - middle), Math.abs((high ?? value) - middle)));
    const sorted = away.filter(isFinite).sort((a, b) => a - b), usual = sorted[Math.floor(0.75 * (sorted.length - 1))];
    const half = Math.min(sorted.at(-1), 2.5 * usual) || Math.abs(middle) || 1;
    const [low, high] = [Math.min(...ends), Math.max(...ends)];
    const span = [Math.max(low, middle - half), Math.min(high, middle + half)], pad = 0.06 * (span[1] - span[0] || half);
    return [span[0] - pad, span[1] + pad];
  }

  function mark(svg, [name, value, low, high], y, sx, span, chosen, left) {
    const shown = name.length > 16 ? `${name.slice(0, 15)}…` : name;
    Svg.text(svg, shown, left - 6, y + 3.5, chosen ? 'row-name taken' : 'row-name', 'end');
    if (typeof value !== 'number') return;
    const held = x => Math.min(Math.max(x, span[0]), span[1]), place = Svg.make('g', { class: chosen ? 'entry taken' : 'entry' }, svg);
    if (typeof low === 'number' && typeof high === 'number') Svg.make('line', { x1: sx(held(low)), x2: sx(held(high)), y1: y, y2: y, class: 'whisker' }, place);
    if (value < span[0] || value > span[1]) Svg.text(place, value < span[0] ? '◂' : '▸', sx(held(value)), y + 4, 'far', 'middle');
    else Svg.make('circle', { cx: sx(value), cy: y, r: chosen ? 4 : 3, class: 'dot' }, place);
    const interval = typeof low === 'number' ? `, ${Svg.number(low)} to ${Svg.number(high)}` : ', no interval';
    Svg.make('title', {}, place).textContent = `${name}: ${Svg.number(value)}${interval}`;
  }

  return { build };
})();
