// Held-out errors, the least first; whiskers are the 95 % intervals of differences to the best.
const ErrorBars = (() => {
  const ROW = 24, TOP = 38, BOTTOM = 34, USUAL = 10; // times the median distance to the best: farther is drawn at the edge

  function build(box, { errors, marks, chosen }, width) {
    box.replaceChildren();
    const shown = errors.filter(entry => typeof entry.total === 'number').sort((a, b) => a.total - b.total);
    if (!shown.length) return Svg.html('p', 'hint', 'No method gave an estimate.', box);
    const best = shown[0].total, [low, high] = span(shown, marks, best);
    const left = 12 + 7 * Math.min(18, Math.max(...shown.map(entry => entry.name.length)));
    const height = TOP + ROW * shown.length + BOTTOM, svg = Svg.picture(box, width, height, 'held-out errors by method');
    const area = [left, TOP, width - 66, height - BOTTOM], sx = Svg.linear(low, high, area[0], area[2]);
    const ticks = sx.ticks(width < 600 ? 3 : 8), step = ticks.length > 1 ? ticks[1] - ticks[0] : 1;
    const digits = Math.max(0, Math.ceil(-Math.log10(100 * step) - 1e-9));
    for (const x of ticks) {
      Svg.make('line', { x1: sx(x), x2: sx(x), y1: TOP, y2: area[3], class: 'grid' }, svg);
      Svg.text(svg, `${(100 * x).toFixed(digits)} %`, sx(x), area[3] + 14, 'tick', 'middle');
    }
    Svg.text(svg, 'of the held-out torques', (area[0] + area[2]) / 2, area[3] + 29, 'label', 'middle');
    Svg.make('line', { x1: sx(best), x2: sx(best), y1: TOP, y2: area[3], class: 'best' }, svg);
    const inside = marks.filter(mark => mark.total >= low && mark.total <= high).sort((a, b) => a.total - b.total);
    let before = -Infinity, raised = 0;
    inside.forEach(mark => {
      const x = sx(mark.total), anchor = x > area[2] - 40 ? 'end' : x < area[0] + 40 ? 'start' : 'middle';
      Svg.make('line', { x1: x, x2: x, y1: TOP - 6, y2: area[3], class: 'limit' }, svg);
      raised = x - before < 90 && !raised ? 1 : 0; // names of neighbours must not lie on each other
      before = x;
      Svg.text(svg, mark.name, x, TOP - 10 - 13 * raised, 'tick', anchor);
    });
    shown.forEach((entry, k) => row(svg, entry, TOP + (k + 0.5) * ROW, sx, [low, high], best, entry.name === chosen, left));
  }

  function ends({ total, behind }, best) {
    const known = typeof behind.low === 'number' && typeof behind.high === 'number';
    return known ? [Math.min(total, best + behind.low), Math.max(total, best + behind.high)] : [total, total];
  }

  function span(shown, marks, best) {
    const away = shown.map(entry => entry.total - best), median = away[Math.floor(away.length / 2)];
    const limit = best + (median > 0 ? USUAL * median : Math.max(...away));
    const near = shown.filter(entry => entry.total <= limit).flatMap(entry => ends(entry, best));
    near.push(...marks.map(mark => mark.total).filter(x => x <= limit && x >= 2 * best - limit));
    const pad = 0.05 * (Math.max(...near) - Math.min(...near)) || 0.1 * best || 1;
    return [Math.max(0, Math.min(...near) - pad), Math.max(...near) + pad];
  }

  function row(svg, entry, y, sx, [from, to], best, chosen, left) {
    const held = x => Math.min(Math.max(x, from), to), name = entry.name.length > 18 ? `${entry.name.slice(0, 17)}…` : entry.name;
    Svg.text(svg, name, left - 8, y + 4, chosen ? 'row-name taken' : 'row-name', 'end');
    const place = Svg.make('g', { class: chosen ? 'entry taken' : 'entry' }, svg), [low, high] = ends(entry, best);
    const words = `${(100 * entry.total).toFixed(entry.total < 1 ? 2 : 0)} %`;
    if (entry.total > to) {
      Svg.text(place, '▸', sx(to), y + 4, 'far', 'middle');
    } else {
      Svg.make('line', { x1: sx(held(low)), x2: sx(held(high)), y1: y, y2: y, class: 'whisker' }, place);
      Svg.make('circle', { cx: sx(entry.total), cy: y, r: chosen ? 5 : 4, class: 'dot' }, place);
    }
    Svg.make('title', {}, place).textContent = `${entry.name}: ${words}`;
    Svg.text(svg, words, sx(held(entry.total > to ? to : high)) + 8, y + 4, 'value');
  }

  return { build };
})();
