// Curves over time, a plot for each joint, all with one span of time that can be zoomed.
const TimePlots = (() => {
  const LEFT = 52, RIGHT = 10, TOP = 8, GAP = 16, BOTTOM = 20;

  // panels: [{name, unit, rows: [{height, curves: [{kind, data}]}]}]; returns {zoom(action), resize()}
  function build(box, time, panels, words) {
    const plot = { box, time, words, span: Svg.range(time) || [0, 1], panels: [] };
    if (!(plot.span[1] > plot.span[0])) plot.span = [plot.span[0], plot.span[0] + 1];
    plot.shown = [...plot.span];
    box.replaceChildren();
    plot.panels = panels.map(panel => begin(plot, panel));
    redraw(plot);
    return { zoom: action => zoom(plot, action), resize: () => redraw(plot) };
  }

  function begin(plot, panel) {
    const figure = Svg.html('figure', 'panel', null, plot.box);
    const head = Svg.html('figcaption', '', null, figure);
    Svg.html('b', '', panel.name, head);
    Svg.html('span', 'what', panel.unit, head);
    return { ...panel, now: Svg.html('span', 'now', '', head), figure, svg: null };
  }

  function redraw(plot) {
    for (const panel of plot.panels) {
      const width = Math.max(220, Math.floor(panel.figure.clientWidth || 300));
      const height = TOP + BOTTOM + panel.rows.reduce((sum, row) => sum + row.height + GAP, -GAP);
      if (panel.svg) panel.svg.remove();
      panel.svg = Svg.picture(panel.figure, width, height, `${panel.name}: ${panel.rows.flatMap(row => row.curves.map(c => c.kind)).join(', ')}`);
      panel.sx = Svg.linear(...plot.shown, LEFT, width - RIGHT);
      let top = TOP;
      panel.rows.forEach((row, k) => {
        drawRow(plot, panel, row, top, width, k === panel.rows.length - 1);
        top += row.height + GAP;
      });
      panel.cursor = Svg.make('line', { y1: TOP, y2: height - BOTTOM, class: 'cursor', visibility: 'hidden' }, panel.svg);
      panel.mark = Svg.make('rect', { y: TOP, height: height - TOP - BOTTOM, class: 'mark-span', visibility: 'hidden' }, panel.svg);
      pointing(plot, panel, width);
    }
  }

  function drawRow(plot, panel, row, top, width, last) {
    const [i, j] = visible(plot), bottom = top + row.height;
    const seen = Svg.range(row.curves.flatMap(curve => Object.values(curve.data).flatMap(values => values.slice(i, j))));
    const [low, high] = seen || [-1, 1], room = 0.06 * (high - low) || Math.max(0.05 * Math.abs(high), 1e-6);
    const sy = Svg.linear(low - room, high + room, bottom, top);
    const xTicks = width > 420 ? 6 : 4, first = panel.sx.ticks(xTicks)[0];
    const xText = last ? t => Svg.number(t, 6) + (t === first ? ` ${plot.words.unit}` : '') : () => '';
    Svg.frame(panel.svg, [LEFT, top, width - RIGHT, bottom], panel.sx, sy, { xTicks, yTicks: row.height > 70 ? 4 : 3, xText });
    const size = { x: LEFT, y: top, width: width - RIGHT - LEFT, height: row.height };
    const window_ = Svg.make('svg', { ...size, viewBox: `${LEFT} ${top} ${size.width} ${size.height}`, class: 'window' }, panel.svg);
    row.curves.forEach(curve => Svg.make('path', { d: path(plot.time, curve.data, i, j, panel.sx, sy), class: `curve k-${curve.kind}` }, window_));
  }

  // The samples that are seen, and one more at each side.
  function visible(plot) {
    const { time, shown } = plot;
    return [Math.max(0, place(time, shown[0]) - 1), Math.min(time.length, place(time, shown[1]) + 2)];
  }

  // How many moments lie before t.
  function place(time, t) {
    let i = 0, j = time.length;
    while (i < j) {
      const middle = (i + j) >> 1;
      if (time[middle] < t) i = middle + 1;
      else j = middle;
    }
    return i;
  }

  // A line through samples, or up and down between the least and greatest of each segment.
  function path(time, data, i, j, sx, sy) {
    let words = '', pen = false;
    const add = (x, y) => {
      if (typeof y === 'number') words += `${pen ? 'L' : 'M'}${sx(x).toFixed(1)} ${sy(y).toFixed(1)}`;
      pen = typeof y === 'number';
    };
    for (let k = i; k < j; k++) {
      if (data.value) add(time[k], data.value[k]);
      else [data.low[k], data.high[k]].forEach(y => add(time[k], y));
    }
    return words;
  }

  // Point to read values, drag to zoom, double-click for the whole run.
  function pointing(plot, panel, width) {
    let from = null;
    const at = event => {
      const box = panel.svg.getBoundingClientRect(), x = (event.clientX - box.left) * width / box.width;
      const [a, b] = plot.shown;
      return a + (b - a) * Math.min(1, Math.max(0, (x - LEFT) / (width - RIGHT - LEFT)));
    };
    panel.svg.addEventListener('pointerdown', event => {
      panel.svg.setPointerCapture(event.pointerId);
      from = at(event);
    });
    panel.svg.addEventListener('pointermove', event => {
      read(plot, at(event));
      if (from === null) return;
      const [a, b] = [panel.sx(from), panel.sx(at(event))];
      panel.mark.setAttribute('x', Math.min(a, b));
      panel.mark.setAttribute('width', Math.abs(b - a));
      panel.mark.setAttribute('visibility', 'visible');
    });
    const end = event => {
      const to = at(event), [a, b] = plot.shown;
      const far = from !== null && Math.abs(to - from) > 0.02 * (b - a);
      if (far) show(plot, [Math.min(from, to), Math.max(from, to)]);
      else panel.mark.setAttribute('visibility', 'hidden');
      from = null;
    };
    panel.svg.addEventListener('pointerup', end);
    panel.svg.addEventListener('pointercancel', () => {
      from = null;
      panel.mark.setAttribute('visibility', 'hidden');
    });
    panel.svg.addEventListener('pointerleave', () => from === null && read(plot, null));
    panel.svg.addEventListener('dblclick', () => show(plot, plot.span));
  }

  // Write every panel's values at a moment beside its name.
  function read(plot, t) {
    for (const panel of plot.panels) {
      panel.cursor.setAttribute('visibility', t === null ? 'hidden' : 'visible');
      panel.now.textContent = '';
      if (t === null) continue;
      panel.cursor.setAttribute('transform', `translate(${panel.sx(t).toFixed(1)} 0)`);
      const k = Math.min(plot.time.length - 1, place(plot.time, t));
      const told = panel.rows.flatMap(row => row.curves).map(curve => {
        const values = curve.data.value ? [curve.data.value[k]] : [curve.data.low[k], curve.data.high[k]];
        const mean = values.reduce((sum, x) => sum + x, 0) / values.length;
        return [curve.kind, Svg.number(mean, 3)];
      });
      Svg.html('span', '', `${Svg.number(plot.time[k], 4)} ${plot.words.unit}`, panel.now);
      told.forEach(([kind, words]) => Svg.html('span', `key k-${kind}`, words, panel.now));
    }
  }

  function zoom(plot, action) {
    const [a, b] = plot.shown, [first, last] = plot.span, length = b - a, middle = (a + b) / 2;
    const within = (from, to) => {
      const shift = Math.max(0, first - from) - Math.max(0, to - last);
      return [Math.max(first, from + shift), Math.min(last, to + shift)];
    };
    const next = {
      in: () => [middle - length / 4, middle + length / 4], out: () => within(middle - length, middle + length),
      back: () => within(a - length / 2, b - length / 2), on: () => within(a + length / 2, b + length / 2), all: () => plot.span,
    }[action]();
    show(plot, next);
  }

  // Less than three samples are no span of time.
  function show(plot, [from, to]) {
    const least = 3 * (plot.span[1] - plot.span[0]) / Math.max(plot.time.length, 4);
    if (to - from < least) return;
    plot.shown = [from, to];
    redraw(plot);
  }

  return { build };
})();
