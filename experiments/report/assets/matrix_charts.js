// Conditioning of a matrix of columns: its singular values, and which of its columns are correlated.
const MatrixCharts = (() => {
  function spectrum(box, values, width) {
    box.replaceChildren();
    const span = Svg.range(values.filter(x => x > 0));
    if (!span) return Svg.html('p', 'hint', 'Nothing is excited.', box);
    const svg = Svg.picture(box, width, 330, 'singular values');
    const sx = Svg.linear(0, values.length + 1, 52, width - 12), sy = Svg.logarithmic(span[0] / 1.25, span[1] * 1.25, 288, 30);
    Svg.frame(svg, [52, 30, width - 12, 288], sx, sy, { yLabel: 'singular value (logarithmic, columns of length one)', xLabel: 'number of the combination', xTicks: 8 });
    values.forEach((x, k) => {
      if (!(x > 0)) return;
      Svg.make('line', { x1: sx(k + 1), x2: sx(k + 1), y1: sy(span[0] / 1.25), y2: sy(x), class: 'stem' }, svg);
      const dot = Svg.make('circle', { cx: sx(k + 1), cy: sy(x), r: 3.2, class: 'dot' }, svg);
      Svg.make('title', {}, dot).textContent = `${k + 1}: ${Svg.number(x)}`;
    });
    Svg.text(svg, `largest / smallest = ${Svg.number(span[1] / span[0])}`, width - 14, 46, 'mark', 'end');
    return box;
  }

  function correlation(box, { names, matrix }, width, hover) {
    box.replaceChildren();
    const n = names.length, wide = 12 + 5.6 * Math.max(...names.map(name => Math.min(14, String(name).length)));
    const fit = margin => Math.min(26, Math.floor(2 * (width - margin - 8) / n) / 2), named = fit(wide) >= 6; // smaller names cannot be read
    const margin = named ? wide : 8, cell = Math.max(3, fit(margin)), side = cell * n;
    const svg = Svg.picture(box, side + margin + 2, side + margin + 2, 'correlation of the columns');
    const place = Svg.make('g', { transform: `translate(${margin} ${margin})` }, svg);
    Svg.make('rect', { x: 0, y: 0, width: side, height: side, class: 'heat-frame' }, place);
    matrix.forEach((row, i) => row.forEach((value, j) => {
      if (typeof value !== 'number' || Math.abs(value) < 0.02) return;
      Svg.make('rect', { x: j * cell, y: i * cell, width: cell, height: cell, class: value > 0 ? 'plus' : 'minus', 'fill-opacity': Math.min(1, Math.abs(value)).toFixed(2) }, place);
    }));
    if (named) names.forEach((name, k) => label(svg, String(name), margin, margin + (k + 0.5) * cell, Math.min(11, cell - 0.5)));
    const mark = Svg.make('rect', { width: cell, height: cell, class: 'mark-cell', visibility: 'hidden' }, place);
    svg.addEventListener('pointermove', event => {
      const area = svg.getBoundingClientRect(), zoom = (side + margin + 2) / area.width;
      const j = Math.floor(((event.clientX - area.left) * zoom - margin) / cell), i = Math.floor(((event.clientY - area.top) * zoom - margin) / cell);
      const inside = i >= 0 && j >= 0 && i < n && j < n;
      mark.setAttribute('visibility', inside ? 'visible' : 'hidden');
      mark.setAttribute('x', j * cell);
      mark.setAttribute('y', i * cell);
      if (inside) hover.textContent = `${names[i]} and ${names[j]}: ${Svg.number((matrix[i] || [])[j], 3)}`;
    });
  }

  function label(svg, name, margin, at, size) {
    if (size < 5.5) return;
    const words = name.length > 14 ? name.slice(0, 13) + '…' : name;
    Svg.text(svg, words, margin - 4, at + 0.35 * size, 'cell-name', 'end').setAttribute('font-size', size);
    const top = Svg.text(svg, words, 0, 0, 'cell-name', 'start');
    top.setAttribute('font-size', size);
    top.setAttribute('transform', `translate(${at + 0.35 * size} ${margin - 4}) rotate(-90)`);
  }

  // The most correlated pairs, in words.
  function worstPairs(box, { names, matrix }) {
    box.replaceChildren();
    const pairs = [];
    matrix.forEach((row, i) => row.forEach((value, j) => j < i && typeof value === 'number' && pairs.push([Math.abs(value), value, i, j])));
    pairs.sort((a, b) => b[0] - a[0]);
    if (!pairs.length) return;
    Svg.html('h3', '', 'Most correlated pairs', box);
    const list = Svg.html('ol', '', null, box);
    pairs.slice(0, 10).forEach(([, value, i, j]) => Svg.html('li', '', `${names[i]} and ${names[j]}: ${value.toFixed(2).replace('-', '−')}`, list));
  }

  return { spectrum, correlation, worstPairs };
})();
