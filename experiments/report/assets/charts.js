// Charts: elements, numbers and gestures (which the robot's picture shares), then one engine that draws any chart, zooms
// and pans it by mouse, touch and keys, reads its values at a point, and gives its data (CSV) and picture (SVG).
// Text only ever enters as text nodes.
const Svg = (() => {
  const SPACE = 'http://www.w3.org/2000/svg', finite = x => typeof x === 'number' && isFinite(x);

  function make(name, attributes, parent) {
    const element = set(document.createElementNS(SPACE, name), attributes);
    if (parent) parent.appendChild(element);
    return element;
  }

  function set(element, attributes) {
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    return element;
  }

  function html(name, className, text, parent) {
    const element = document.createElement(name);
    if (className) element.className = className;
    if (text !== undefined && text !== null) element.textContent = text;
    if (parent) parent.appendChild(element);
    return element;
  }

  function text(parent, words, x, y, className, anchor) {
    const element = make('text', { x, y, class: className || '', 'text-anchor': anchor || 'start' }, parent);
    element.textContent = words;
    return element;
  }

  function button(words, label, act, parent, className) {
    const element = set(html('button', className, words, parent), { type: 'button', 'aria-label': label });
    element.addEventListener('click', act);
    return element;
  }

  function number(x, digits = 4) {
    if (!finite(x)) return '–';
    const size = Math.abs(x);
    if (x === 0 || size >= 1e-3 && size < 1e5) return String(Number(x.toPrecision(digits))).replace('-', '−');
    const [digit, power] = Number(x.toPrecision(Math.min(3, digits))).toExponential().split('e');
    const raised = power.replace('+', '').replace(/./g, c => '⁰¹²³⁴⁵⁶⁷⁸⁹'['0123456789'.indexOf(c)] ?? '⁻');
    return `${digit}·10${raised}`.replace('-', '−');
  }

  function ticks(from, to, count) {
    const rough = (to - from) / count;
    if (!(rough > 0) || !isFinite(rough)) return [from];
    const power = Math.pow(10, Math.floor(Math.log10(rough)));
    const steps = [1, 2, 5, 10].map(k => k * power), last = steps.findIndex(step => step >= 0.72 * rough);
    // one tick defines no scale: use those of a finer step
    const found = [steps[last], steps[last - 1] ?? 0.5 * power, 0.2 * power].map(step => multiples(from, to, step));
    return found.find(values => values.length > 1 || count < 2) ?? found[0];
  }

  function multiples(from, to, step) {
    const first = Math.ceil(from / step - 1e-9), count = Math.floor(to / step + 1e-9) - first + 1;
    return Array.from({ length: count }, (_, k) => Number(((first + k) * step).toPrecision(12)));
  }

  function logTicks(from, to, count) {
    const decades = Math.log10(to / from);
    if (decades < 0.7) return ticks(from, to, count);
    const every = Math.ceil(decades / count), powers = multiples(Math.floor(Math.log10(from)), Math.ceil(Math.log10(to)), every);
    const found = powers.flatMap(p => (decades < 2 ? [1, 2, 5] : [1]).map(k => k * Math.pow(10, p)));
    return found.filter(x => x >= from * 0.999 && x <= to * 1.001);
  }

  function range(values) {
    const known = values.filter(finite);
    return known.length ? [known.reduce((a, b) => Math.min(a, b)), known.reduce((a, b) => Math.max(a, b))] : null;
  }

  // The range, with some room at its ends; never empty.
  function roomy(seen, share = 0.06) {
    const [low, high] = seen || [-1, 1], room = share * (high - low) || Math.max(0.05 * Math.abs(high), 1e-6);
    return [low - room, high + room];
  }

  return { make, set, html, text, button, number, finite, ticks, logTicks, range, roomy };
})();

// How a picture is used: by mouse and fingers, wheel and keys. The wheel zooms with Ctrl, or once the picture was clicked;
// + and - zoom, 0 and Home show all.
const Gestures = (() => {
  const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };

  // acts: press(event), drag(event, x, y) with the way since the last event, lift(event, how many fingers are left),
  // hover(event), zoom(factor, at: where, unless by keys), move(x, y) by two fingers, all(), quit(),
  // arrow(right, up, shift) which says whether that means anything; near: the factor of the key +.
  function attach(element, acts) {
    const fingers = new Map(), near = () => acts.zoom(acts.near), far = () => acts.zoom(1 / acts.near);
    const keys = { '+': near, '=': near, '-': far, 0: acts.all, Home: acts.all, Escape: acts.quit };
    element.addEventListener('pointerdown', event => {
      element.setPointerCapture(event.pointerId);
      fingers.set(event.pointerId, event);
      acts.press(event);
    });
    element.addEventListener('pointermove', event => {
      const before = fingers.get(event.pointerId), other = [...fingers.values()].find(one => one.pointerId !== event.pointerId);
      if (!before) return acts.hover?.(event);
      const x = event.clientX - before.clientX, y = event.clientY - before.clientY;
      fingers.set(event.pointerId, event);
      if (!other) return acts.drag(event, x, y);
      const apart = one => Math.max(10, Math.hypot(one.clientX - other.clientX, one.clientY - other.clientY));
      const middle = { clientX: (event.clientX + other.clientX) / 2, clientY: (event.clientY + other.clientY) / 2 };
      acts.zoom(apart(before) / apart(event), middle);
      acts.move(x / 2, y / 2);
    });
    ['pointerup', 'pointercancel'].forEach(name => element.addEventListener(name, event => {
      fingers.delete(event.pointerId);
      acts.lift(event, fingers.size);
    }));
    element.addEventListener('dblclick', acts.all);
    element.addEventListener('wheel', event => {
      if (!event.ctrlKey && document.activeElement !== element) return;
      event.preventDefault();
      acts.zoom(Math.exp(0.0015 * event.deltaY), event);
    }, { passive: false });
    element.addEventListener('keydown', event => {
      if (event.ctrlKey || event.altKey || event.metaKey) return;
      const arrow = ARROWS[event.key], act = keys[event.key];
      if (arrow ? !acts.arrow(...arrow, event.shiftKey) : !act) return;
      act?.();
      event.preventDefault();
      event.stopPropagation();
    });
  }

  return { attach };
})();

// What can stand in a chart. Each kind draws itself, says how far it reaches and what it is at a place, and lists its data.
const Marks = (() => {
  const { make, finite, number } = Svg, KINDS = {};

  // values: {y} or {low, high}, over x
  KINDS.line = {
    ys: mark => Object.values(mark.values).flat(),
    draw(g, mark, sx, sy, [i, j]) {
      const lists = Object.values(mark.values);
      let words = '', pen = false;
      for (let k = i; k < j; k++) {
        for (const list of lists) {
          const good = finite(mark.x[k]) && finite(list[k]), at = good && [sx(mark.x[k]).toFixed(1), sy(list[k]).toFixed(1)];
          if (good) words += !pen ? `M${at[0]} ${at[1]}` : mark.step ? `H${at[0]}V${at[1]}` : `L${at[0]} ${at[1]}`;
          if (good || !mark.step) pen = good;
        }
      }
      make('path', { d: words, class: `curve ${mark.css ?? ''}` }, g);
    },
    read: (mark, x) => sample(mark, x),
    table: mark => Object.entries(mark.values).map(([key, list]) => [key === 'y' ? mark.name : `${mark.name} ${key}`, list]),
  };

  KINDS.band = {
    ...KINDS.line,
    draw(g, mark, sx, sy) {
      const { low, high } = mark.values, at = (list, k) => `${sx(mark.x[k]).toFixed(1)} ${sy(list[k]).toFixed(1)}`;
      const good = mark.x.map((_, k) => k).filter(k => finite(mark.x[k]) && finite(low[k]) && finite(high[k]));
      const edge = [...good.map(k => at(high, k)), ...good.reverse().map(k => at(low, k))];
      if (edge.length) make('path', { d: `M${edge.join('L')}Z`, class: 'band' }, g);
    },
    read: () => null,
  };

  KINDS.stems = {
    ...KINDS.line,
    draw(g, { x, values, from, dot }, sx, sy) {
      x.forEach((at, k) => {
        if (!finite(values.y[k])) return;
        make('line', { x1: sx(at), x2: sx(at), y1: sy(from), y2: sy(values.y[k]), class: dot ? 'stem' : 'lag' }, g);
        if (dot) make('circle', { cx: sx(at), cy: sy(values.y[k]), r: 3.2, class: 'dot' }, g);
      });
    },
  };

  // counts between edges; x holds their middles
  KINDS.bars = {
    ...KINDS.line,
    draw(g, { edges, values }, sx, sy) {
      values.y.forEach((n, k) => {
        const width = Math.max(1, sx(edges[k + 1]) - sx(edges[k]) - 1);
        if (n && k + 1 in edges) make('rect', { x: sx(edges[k]), y: sy(n), width, height: sy(0) - sy(n), class: 'bin' }, g);
      });
    },
  };

  // points: [{x, y, words, chosen}]
  KINDS.dots = {
    ys: mark => mark.points.map(point => point.y),
    draw(g, mark, sx, sy) {
      for (const { x, y, chosen } of mark.points) {
        if (!finite(x) || !finite(y)) continue;
        if (chosen) make('circle', { cx: sx(x), cy: sy(y), r: 8, class: 'ring' }, g);
        make('circle', { cx: sx(x), cy: sy(y), r: 4, class: chosen ? 'dot chosen' : 'dot' }, g);
      }
    },
    read(mark, x, y, sx, sy) {
      if (y === null) return null;
      const away = point => Math.hypot(sx(point.x) - sx(x), sy(point.y) - sy(y));
      const near = mark.points.reduce((best, point) => best && away(best) <= away(point) ? best : point, null);
      return near && away(near) < 40 ? { x: near.x, words: [near.words ?? number(near.y)] } : null;
    },
    table: mark => [['x', mark.points.map(p => p.x)], ['y', mark.points.map(p => p.y)], ['words', mark.points.map(p => p.words)]],
  };

  // rows: [{name, value, low, high, taken, after}] at y = 0, 1, ...; what lies outside [from, to] is drawn at the edge
  KINDS.whiskers = {
    ys: () => [],
    draw(g, { rows, reach: [from, to] }, sx, sy) {
      const held = x => Math.min(Math.max(x, from), to);
      rows.forEach(({ value, low, high, taken, after }, k) => {
        if (!finite(value)) return;
        const place = make('g', { class: taken ? 'entry taken' : 'entry' }, g), y = sy(k), known = finite(low) && finite(high);
        if (known) make('line', { x1: sx(held(low)), x2: sx(held(high)), y1: y, y2: y, class: 'whisker' }, place);
        const far = value < from ? '◂' : value > to ? '▸' : '';
        if (far) Svg.text(place, far, sx(held(value)), y + 4, 'far', 'middle');
        else make('circle', { cx: sx(value), cy: y, r: taken ? 5 : 4, class: 'dot' }, place);
        if (after) Svg.text(place, after, sx(held(far ? value : high ?? value)) + 8, y + 4, 'value');
      });
    },
    read({ rows }, x, y) {
      const row = y === null ? null : rows[Math.round(y)];
      if (!row || !finite(row.value)) return null;
      const interval = finite(row.low) ? `, ${number(row.low)} to ${number(row.high)}` : ', no interval';
      return { x: row.value, words: [`${row.name}: ${number(row.value)}${interval}`] };
    },
    table: mark => ['name', 'value', 'low', 'high'].map(key => [key, mark.rows.map(row => row[key])]),
  };

  // a matrix of numbers between -1 and 1 as squares of strength; rows count downwards
  KINDS.cells = {
    ys: () => [],
    draw(g, { matrix }, sx, sy) {
      const [wide, high] = [sx(1) - sx(0), sy(1) - sy(0)];
      matrix.forEach((row, i) => row.forEach((value, j) => {
        if (!finite(value) || Math.abs(value) < 0.02) return;
        const size = { x: sx(j).toFixed(2), y: sy(i).toFixed(2), width: wide.toFixed(2), height: high.toFixed(2) };
        const opacity = Math.min(1, Math.abs(value)).toFixed(2);
        make('rect', { ...size, class: value > 0 ? 'plus' : 'minus', 'fill-opacity': opacity }, g);
      }));
    },
    read({ matrix, names }, x, y) {
      const [i, j] = [Math.floor(y), Math.floor(x)];
      if (y === null || !(i in names && j in names)) return null;
      return { x: j + 0.5, words: [`${names[i]} and ${names[j]}: ${number((matrix[i] || [])[j], 3)}`] };
    },
    table: ({ matrix, names }) => [['', names], ...names.map((name, j) => [name, matrix.map(row => row[j])])],
  };

  // a straight line across, no data
  KINDS.rule = {
    ys: () => [], read: () => null, table: () => [],
    draw(g, { x, y, css, words }, sx, sy, _, [left, top, right, bottom]) {
      if (!finite(x ?? y)) return;
      if (x === undefined) make('line', { x1: left, x2: right, y1: sy(y), y2: sy(y), class: css ?? 'limit' }, g);
      else make('line', { x1: sx(x), x2: sx(x), y1: top, y2: bottom, class: css ?? 'limit' }, g);
      const late = words && sx(x) + 6.5 * words.length > right;
      if (words) Svg.text(g, words, sx(x) + (late ? -3 : 3), top + 10, 'stage-name', late ? 'end' : 'start');
    },
  };

  // a span of x, shaded over the whole height
  KINDS.shade = {
    ...KINDS.rule,
    draw(g, { from, to, css }, sx, sy, _, [, top, , bottom]) {
      make('rect', { x: sx(from), width: Math.max(1, sx(to) - sx(from)), y: top, height: bottom - top, class: css }, g);
    },
  };

  function sample(mark, x) {
    const k = nearest(mark.x, x), values = Object.values(mark.values).map(list => list[k]).filter(finite);
    if (k === null) return null;
    const mean = values.length ? values.reduce((sum, value) => sum + value, 0) / values.length : null;
    return { x: mark.x[k], words: [mark.named ? `${mark.name} ${number(mean, 3)}` : number(mean, 3)], css: mark.css };
  }

  // Of sorted values the index of the nearest.
  function nearest(xs, x) {
    if (!xs.length) return null;
    const j = place(xs, x);
    return j > 0 && (j >= xs.length || x - xs[j - 1] <= xs[j] - x) ? j - 1 : j;
  }

  // How many of sorted values lie before x.
  function place(xs, x) {
    let i = 0, j = xs.length;
    while (i < j) {
      const middle = (i + j) >> 1;
      if (xs[middle] < x) i = middle + 1;
      else j = middle;
    }
    return i;
  }

  return { KINDS, place, nearest };
})();

const Chart = (() => {
  const { make, html, text, number, finite } = Svg, { KINDS } = Marks, RIGHT = 10, GAP = 16;
  const SHOWN = ['fill', 'fill-opacity', 'stroke', 'stroke-width', 'stroke-opacity', 'stroke-dasharray', 'font-size', 'font-weight'];

  // Charts that share their x: {whole, shown, charts, rest: where the reading stands while nobody points}
  function group(whole) {
    const [from, to] = whole || [0, 1], safe = to > from ? [from, to] : [from, from + 1];
    return { whole: safe, shown: [...safe], charts: [], rest: null, waiting: false };
  }

  // spec: {name, what, note, label, x: {span, log, label, unit, ticks, text, rotate}, left, top, width, both, seek, link,
  //   rows: [{height, y: {span, log, label, ticks, text, count}, marks}], empty: words where there is nothing to draw}
  function create(box, spec) {
    const figure = html('figure', 'panel', null, box), head = html('figcaption', '', null, figure);
    html('b', '', spec.name, head);
    if (spec.what) html('span', 'what', spec.what, head);
    const now = html('span', spec.both || spec.wide ? 'now wide' : 'now', '', head);
    if (spec.note) html('span', spec.note.css ?? 'use', spec.note.words, head).title = spec.note.title ?? '';
    const to = x => spec.x.log ? Math.log10(x) : x, span = spec.x.span;
    const chart = { spec, figure, now, group: spec.link ?? group(span && span.map(to)), tall: [0, 1], to, at: null };
    chart.svg = make('svg', { role: 'img', 'aria-label': spec.label ?? spec.name, tabindex: 0 }, figure);
    chart.group.charts.push(chart);
    downloads(chart, html('span', 'save', null, head));
    attach(chart);
    return chart;
  }

  function render(chart) {
    const { spec, svg, figure, group: { shown } } = chart, left = spec.left ?? 52, top = spec.top ?? 8;
    const width = Math.max(spec.least ?? 180, Math.floor(spec.width ?? (figure.clientWidth || 300)));
    const right = width - (spec.right ?? RIGHT), bottom = spec.x.label ? 34 : 20;
    const tall = row => typeof row.height === 'function' ? row.height(right - left) : row.height;
    const height = top + bottom + spec.rows.reduce((sum, row) => sum + tall(row) + GAP, -GAP);
    Svg.set(svg, { viewBox: `0 0 ${width} ${height}`, width, height }).replaceChildren();
    const inner = u => left + (u - shown[0]) / (shown[1] - shown[0]) * (right - left);
    Object.assign(chart, { left, right, top, bottom: height - bottom, width, sx: x => inner(chart.to(x)) });
    let at = top;
    chart.rows = spec.rows.map((row, k) => {
      const drawn = renderRow(chart, row, [left, at, right, at + tall(row)], k === spec.rows.length - 1);
      at += tall(row) + GAP;
      return drawn;
    });
    if (spec.x.label) text(svg, spec.x.label, (left + right) / 2, height - 4, 'label', 'middle');
    chart.cursor = make('line', { y1: top, y2: height - bottom, class: 'cursor', visibility: 'hidden' }, svg);
    chart.mark = make('rect', { y: top, height: height - bottom - top, class: 'mark-span', visibility: 'hidden' }, svg);
    read(chart, chart.at ?? chart.group.rest);
  }

  function renderRow(chart, row, area, last) {
    const { spec, svg, group: { shown }, sx, tall } = chart, [left, top, right, bottom] = area;
    const xs = shown.map(u => spec.x.log ? 10 ** u : u);
    const parts = row.marks.map(mark => [Math.max(0, Marks.place(mark.x || [], xs[0]) - 1), Marks.place(mark.x || [], xs[1]) + 1]);
    const seen = Svg.range(row.marks.flatMap((mark, k) => own(mark, ...parts[k])));
    const wanted = typeof row.y.span === 'function' ? row.y.span(seen) : row.y.span ?? Svg.roomy(seen);
    const whole = wanted[0] === wanted[1] ? Svg.roomy(wanted) : wanted;
    const to = y => row.y.log ? Math.log10(y) : y, [a, b] = whole.map(to), part = tall.map(s => a + s * (b - a));
    const sy = y => bottom - (to(y) - part[0]) / (part[1] - part[0]) * (bottom - top);
    axes(chart, row, area, part.map(v => row.y.log ? 10 ** v : v), xs, sy, last);
    const size = { x: left, y: top, width: right - left + (spec.wide ? spec.right ?? 0 : 0), height: bottom - top }; // words may reach into the margin
    const port = { ...size, viewBox: `${left} ${top} ${size.width} ${size.height}`, class: 'window' };
    const window_ = make('svg', port, svg);
    row.marks.forEach((mark, k) => KINDS[mark.kind].draw(window_, mark, sx, sy, parts[k], area));
    (row.words || []).forEach(({ words, share, css }) => text(svg, words, right - 3, top + 10 + share * (bottom - top - 16), css, 'end'));
    const bare = !seen && !Array.isArray(row.y.span) && row.marks.every(mark => !KINDS[mark.kind].ys(mark).some(finite));
    if (bare) text(svg, spec.empty ?? 'no numbers', (left + right) / 2, (top + bottom) / 2 + 4, 'label', 'middle');
    return { row, sy, part, area };
  }

  // The values of a mark between two of its samples.
  function own(mark, i, j) {
    return mark.values && mark.x ? Object.values(mark.values).flatMap(list => list.slice(i, j)) : KINDS[mark.kind].ys(mark);
  }

  function axes({ spec, svg, sx }, row, [left, top, right, bottom], [low, high], [from, to], sy, last) {
    const given = (axis, a, b) => axis.ticks.filter(([at]) => at >= Math.min(a, b) && at <= Math.max(a, b));
    const auto = (axis, a, b, count) => (axis.log ? Svg.logTicks : Svg.ticks)(a, b, count).map(at => [at, (axis.text ?? number)(at)]);
    const apart = (list, scale) => list.length < 2 || Math.abs(scale(list[1][0]) - scale(list[0][0])) >= 7;
    const ys = row.y.ticks ? given(row.y, low, high) : auto(row.y, low, high, row.y.count ?? (bottom - top > 70 ? 4 : 3));
    (apart(ys, sy) ? ys : []).forEach(([y, words, css]) => {
      if (!row.y.ticks) make('line', { x1: left, x2: right, y1: sy(y), y2: sy(y), class: 'grid' }, svg);
      text(svg, words, left - 5, sy(y) + 3.5, css ?? 'tick', 'end');
    });
    const xs = spec.x.ticks ? given(spec.x, from, to) : auto(spec.x, from, to, spec.x.count ?? (right - left > 360 ? 6 : 4));
    make('line', { x1: left, x2: right, y1: bottom, y2: bottom, class: 'axis' }, svg);
    (apart(xs, sx) ? xs : []).forEach(([x, words], k) => {
      if (spec.x.grid) make('line', { x1: sx(x), x2: sx(x), y1: top, y2: bottom, class: 'grid' }, svg);
      else if (!spec.x.rotate) make('line', { x1: sx(x), x2: sx(x), y1: bottom, y2: bottom + 3, class: 'axis' }, svg);
      if (!last) return;
      if (!spec.x.rotate) return text(svg, words + (k || !spec.x.unit ? '' : ` ${spec.x.unit}`), sx(x), bottom + 14, 'tick', 'middle');
      text(svg, words, 0, 0, 'tick').setAttribute('transform', `translate(${sx(x) + 3.5} ${top - 4}) rotate(-90)`);
    });
  }

  // --- reading values

  function read(chart, x, y = null) {
    const { rows, now, cursor, spec, sx } = chart;
    now.replaceChildren();
    cursor.setAttribute('visibility', x === null || spec.both ? 'hidden' : 'visible');
    if (x === null) return;
    cursor.setAttribute('transform', `translate(${sx(x).toFixed(1)} 0)`);
    const found = rows.flatMap(({ row, sy }, k) => {
      const level = y === null ? null : y[k];
      return row.marks.map(mark => KINDS[mark.kind].read(mark, x, level, sx, sy)).filter(Boolean);
    });
    if (!found.length) return;
    if (!spec.both && !spec.rows[0].y.ticks && chart.at !== null) html('span', '', `${(spec.x.text ?? number)(found[0].x)} ${spec.x.unit ?? ''}`, now);
    found.forEach(({ words, css }) => html('span', css && css.startsWith('k-') ? `key ${css}` : '', words.join(', '), now));
  }

  function readAll(group, x, y = null) {
    group.charts.forEach(chart => {
      chart.at = x;
      read(chart, x ?? group.rest, y);
    });
  }

  function rest(group, x) {
    group.rest = x;
    readAll(group, null);
  }

  // --- zoom and pan

  // The span that is as long as wanted, but not longer than the whole, and lies inside.
  function within([from, to], [low, high], least) {
    const length = Math.min(high - low, Math.max(to - from, least * (high - low)));
    const start = Math.min(high - length, Math.max(low, (from + to - length) / 2));
    return [start, start + length];
  }

  function show(chart, span, tall = chart.tall) {
    const { group } = chart;
    group.shown = within(span, group.whole, 1e-4);
    if (chart.spec.both) chart.tall = within(tall, [0, 1], 1e-3);
    if (group.waiting) return;
    group.waiting = true;
    requestAnimationFrame(() => {
      group.waiting = false;
      group.charts.forEach(render);
    });
  }

  function zoom(chart, factor, at) {
    const { group: { shown }, tall } = chart, u = at?.u ?? (shown[0] + shown[1]) / 2;
    const about = ([a, b], center) => [center - (center - a) * factor, center + (b - center) * factor];
    show(chart, about(shown, u), about(tall, tall[0] + (at?.v ?? 0.5) * (tall[1] - tall[0])));
  }

  // Move by shares of what is shown, or of what was shown.
  function pan(chart, share, up = 0, { shown, tall } = { shown: chart.group.shown, tall: chart.tall }) {
    const moved = ([a, b], part) => [a + part * (b - a), b + part * (b - a)];
    show(chart, moved(shown, share), moved(tall, up));
  }

  const ACTIONS = {
    in: chart => zoom(chart, 0.5), out: chart => zoom(chart, 2), all: chart => show(chart, chart.group.whole, [0, 1]),
    back: chart => pan(chart, -0.5), on: chart => pan(chart, 0.5),
  };

  function zoomed({ group: { whole, shown }, tall }) {
    return shown[1] - shown[0] < 0.999 * (whole[1] - whole[0]) || tall[1] - tall[0] < 0.999;
  }

  // Where an event is: u along x in what is shown, v up in shares of the height, and the levels of all rows.
  function where(chart, event) {
    const area = chart.svg.getBoundingClientRect(), scale = chart.width / area.width, [a, b] = chart.group.shown;
    const px = (event.clientX - area.left) * scale, py = (event.clientY - area.top) * scale;
    const share = Math.min(1, Math.max(0, (px - chart.left) / (chart.right - chart.left)));
    const levels = chart.rows.map(({ part, area: [, top, , bottom] }) => part[0] + (bottom - py) / (bottom - top) * (part[1] - part[0]));
    const u = a + share * (b - a), v = 1 - Math.min(1, Math.max(0, (py - chart.top) / (chart.bottom - chart.top)));
    const y = levels.map((level, k) => chart.rows[k].row.y.log ? 10 ** level : level);
    return { u, v, px, py, scale, y, x: chart.spec.x.log ? 10 ** u : u };
  }

  // Drag marks a span to zoom into, or moves what is zoomed; two fingers zoom and move; a click reads.
  function attach(chart) {
    const { svg, spec, group } = chart, readHere = event => readAll(group, where(chart, event).x, where(chart, event).y);
    let begun = null;
    svg.addEventListener('pointerleave', () => begun || readAll(group, null));
    Gestures.attach(svg, {
      near: 0.5, all: () => ACTIONS.all(chart), quit: () => readAll(group, null), hover: readHere,
      press(event) {
        begun = { ...where(chart, event), shown: [...group.shown], tall: [...chart.tall], moved: false, pans: zoomed(chart) };
      },
      drag(event) {
        const here = where(chart, event), x = here.px - begun.px, y = here.py - begun.py;
        begun.moved ||= Math.hypot(x, y) > 4;
        if (!begun.moved) return;
        if (begun.pans) pan(chart, -x / (chart.right - chart.left), y / (chart.bottom - chart.top), begun);
        else if (event.pointerType === 'touch' || spec.both && !spec.span) readHere(event);
        else markSpan(chart, begun.px, here.px);
      },
      lift(event, left) {
        const here = where(chart, event);
        chart.mark.setAttribute('visibility', 'hidden');
        if (!begun || left || event.type === 'pointercancel') return;
        const spans = begun.moved && !begun.pans && event.pointerType !== 'touch' && Math.abs(here.px - begun.px) > 8;
        if (spans) show(chart, [begun.u, here.u].sort((p, q) => p - q), spec.both ? [begun.v, here.v].sort((p, q) => p - q) : undefined);
        else if (!begun.moved) (readHere(event), spec.seek?.(here.x));
        begun = null;
      },
      zoom: (factor, at) => zoom(chart, factor, at && where(chart, at)),
      move: x => pan(chart, -x / svg.getBoundingClientRect().width),
      arrow(side, up, shift) {
        if (spec.both || side && shift) pan(chart, 0.2 * side, 0.2 * up);
        else if (side) step(chart, side);
        return side || spec.both;
      },
    });
  }

  function markSpan(chart, from, to) {
    const [a, b] = [from, to].map(x => Math.min(chart.right, Math.max(chart.left, x)));
    Svg.set(chart.mark, { x: Math.min(a, b), width: Math.abs(b - a), visibility: 'visible' });
  }

  // The reading goes to the next sample that is shown.
  function step(chart, side) {
    const mark = chart.spec.rows.flatMap(row => row.marks).find(one => one.x && one.x.length);
    if (!mark) return;
    const back = u => chart.spec.x.log ? 10 ** u : u, [from, to] = chart.group.shown.map(back);
    const first = chart.at === null ? (side > 0 ? from : to) : chart.at, k = Marks.nearest(mark.x, first);
    const skip = Math.max(1, Math.round((Marks.place(mark.x, to) - Marks.place(mark.x, from)) / 200));
    const next = mark.x[Math.min(mark.x.length - 1, Math.max(0, chart.at === null ? k : k + side * skip))];
    readAll(chart.group, Math.min(to, Math.max(from, next)));
  }

  // --- data and picture as files

  function downloads(chart, box) {
    for (const [kind, make_] of [['CSV', csv], ['SVG', picture]]) {
      const label = `${chart.spec.name}${chart.spec.what ? ` ${chart.spec.what}` : ''}: save as ${kind}`;
      Svg.button(kind, label, () => save(chart, kind.toLowerCase(), make_(chart)), box);
    }
  }

  function save(chart, ending, content) {
    const words = `${document.title} ${chart.spec.name} ${chart.spec.what ?? ''}`.replace(/[^\p{L}\p{N}]+/gu, '-');
    const link = html('a', ''), type = ending === 'csv' ? 'text/csv' : 'image/svg+xml';
    link.href = URL.createObjectURL(new Blob([content], { type: `${type};charset=utf-8` }));
    link.download = `${words.replace(/^-+|-+$/g, '').slice(0, 80)}.${ending}`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  }

  // One row for each x where all marks share theirs; otherwise the marks one after another, named in a column.
  function csv({ spec }) {
    const table = mark => KINDS[mark.kind].table(mark), marks = spec.rows.flatMap(row => row.marks).filter(mark => table(mark).length);
    const x = mark => mark.x ? [[spec.x.label ?? `x, ${spec.x.unit ?? ''}`, mark.x]] : [], first = marks[0];
    const series = mark => ['series', table(mark)[0][1].map(() => mark.name ?? '')];
    const tables = first?.x && marks.every(mark => mark.x === first.x)
      ? [[...x(first), ...marks.flatMap(table)]] : marks.map(mark => [series(mark), ...x(mark), ...table(mark)]);
    const rows = columns => columns[0][1].map((_, k) => columns.map(([, list]) => list[k]));
    const lines = tables.flatMap(columns => [columns.map(([name]) => name), ...rows(columns)]);
    return `${lines.map(line => line.map(cell).join(',')).join('\r\n')}\r\n`;
  }

  // Names are quoted, and no spreadsheet reads one as a formula.
  function cell(value) {
    if (finite(value)) return String(value);
    const words = value === null || value === undefined || typeof value === 'number' ? '' : String(value);
    const inert = /^[=+\-@\t\r]/.test(words) ? `'${words}` : words;
    return /[",\r\n]/.test(inert) ? `"${inert.replace(/"/g, '""')}"` : inert;
  }

  // The picture with its colours written into it, so that it needs no page.
  function picture(chart) {
    const copy = chart.svg.cloneNode(true), [width, height] = ['width', 'height'].map(key => Number(copy.getAttribute(key)));
    const [was, is] = [chart.svg, copy].map(svg => [...svg.querySelectorAll('*')]), font = getComputedStyle(chart.svg).fontFamily;
    was.forEach((element, k) => {
      const style = getComputedStyle(element);
      SHOWN.forEach(key => is[k].setAttribute(key, style.getPropertyValue(key)));
    });
    Svg.set(copy, { height: height + 20, viewBox: `0 -20 ${width} ${height + 20}`, 'font-family': font });
    const style = getComputedStyle(document.documentElement), color = key => style.getPropertyValue(key).trim();
    const title = text(copy, [chart.spec.name, chart.spec.what].filter(Boolean).join(', '), 4, -6, '');
    Svg.set(title, { fill: color('--text'), 'font-size': '13px' });
    copy.prepend(make('rect', { x: 0, y: -20, width, height: height + 20, fill: color('--card') }));
    return `<?xml version="1.0" encoding="UTF-8"?>\n${new XMLSerializer().serializeToString(copy)}\n`;
  }

  function redraw(box) {
    (box.charts || []).forEach(render);
  }

  // Other data in the same chart, at the zoom that was chosen.
  function renew(chart, spec) {
    const { whole, shown } = chart.group, chosen = zoomed(chart);
    chart.spec = spec;
    chart.group.whole = spec.link.whole;
    chart.group.shown = chosen ? shown : [...spec.link.whole];
    if (chosen && shown[0] < spec.link.whole[0]) chart.group.shown = shown.map(u => u + spec.link.whole[0] - whole[0]);
    render(chart);
  }

  // Draw charts into a box; what was there goes.
  function fill(box, specs) {
    box.replaceChildren();
    box.charts = specs.map(spec => create(box, spec));
    redraw(box); // once all have their place, and with it their width
  }

  return { group, create, fill, redraw, renew, rest, act: (chart, action) => ACTIONS[action](chart) };
})();

// The charts of the pages, each as a description of what it shows.
const Charts = (() => {
  const { number, range, roomy, finite, html } = Svg, QUANTITIES = ['position', 'velocity', 'acceleration', 'torque'];
  const KEYS = ['q', 'dq', 'ddq', 'tau'], AXIS = { kind: 'rule', y: 0, css: 'axis' };

  // Curves over time, a chart for each joint, with one span of time. panels: [{name, unit, rows: [{height, curves by name}]}]
  function time(box, x, panels, unit) {
    const link = Chart.group(range(x));
    const line = ([name, data]) => ({ kind: 'line', name, css: `k-${name}`, x, values: data.value ? { y: data.value } : data });
    Chart.fill(box, panels.map(({ name, unit: what, rows }) => ({
      name, what, link, least: 220, label: `${name}: ${rows.flatMap(row => Object.keys(row.curves)).join(', ')}`,
      x: { span: link.whole, unit, text: t => number(t, 6) },
      rows: rows.map(({ height, curves }) => ({ height, y: {}, marks: Object.entries(curves).map(line) })),
    })));
  }

  // Position, velocity, acceleration and torque of each joint against limits.
  function motion(box, run, robot, { degrees, seek }) {
    const link = Chart.group(range(run.time || [])), n = Math.max(0, ...KEYS.map(key => (run[key] || []).length)), specs = [];
    for (let j = 0; j < n; j++) {
      KEYS.forEach((key, k) => (run[key] || [])[j] && specs.push(curve(run, robot, j, key, QUANTITIES[k], degrees, { link, seek })));
    }
    Chart.fill(box, specs);
  }

  function curve(run, robot, j, key, quantity, degrees, more) {
    const slides = robot.units[j] === 'm', words = slides && key === 'tau' ? 'force' : quantity;
    const factor = degrees && !slides && key !== 'tau' ? 180 / Math.PI : 1;
    const unit = key === 'tau' ? (slides ? 'N' : 'N m') : (slides ? 'm' : degrees ? '°' : 'rad') + { q: '', dq: '/s', ddq: '/s²' }[key];
    const values = run[key][j].map(x => finite(x) ? factor * x : null), given = ((run.limits || {})[key] || [])[j];
    const bounds = (Array.isArray(given) ? given : finite(given) ? [-given, given] : [null, null]).map(x => finite(x) ? factor * x : null);
    const share = use(range(values), bounds), axis = seen => window_(seen, bounds);
    const shades = (run.phases || []).filter(phase => phase.name !== 'measured' && phase.end > phase.start);
    const drawn = axis(range(values)), inside = x => x !== null && x >= drawn[0] && x <= drawn[1];
    return {
      ...more, name: robot.joints[j] ?? `joint ${j + 1}`, what: `${words}, ${unit}`, left: 46, right: 6, label: `${robot.joints[j] ?? ''} ${words}`,
      note: share === null ? null : { words: `${number(100 * share, share < 0.1 ? 2 : 3)} %`, css: share > 1 ? 'use over' : 'use', title: 'largest share of the limit that is used' },
      x: { span: more.link.whole, unit: 's', text: t => number(t, 4) },
      rows: [{
        height: 94, y: { span: axis },
        marks: [
          ...shades.map(phase => ({ kind: 'shade', from: phase.start, to: phase.end, css: 'phase' })),
          ...bounds.filter(inside).map(y => ({ kind: 'rule', y })),
          { kind: 'line', name: `${words}, ${unit}`, x: run.time, values: { y: values }, css: share > 1 ? 'over' : '' },
        ],
        words: bounds.flatMap((x, side) => x === null || inside(x) ? []
          : [{ words: `${side ? '↑' : '↓'} limit ${number(x, 3)}`, share: side ? 0 : 1, css: 'beyond' }]),
      }],
    };
  }

  // The share of its limits that a curve uses: 1 at the limit.
  function use(seen, [low, high]) {
    if (!seen || low === null || high === null || !(high > low)) return null;
    const middle = (low + high) / 2;
    return Math.max(Math.abs(seen[0] - middle), Math.abs(seen[1] - middle)) / ((high - low) / 2);
  }

  // What part of the axis to show: the curve, and limits that are not so far that the curve would shrink to nothing.
  function window_(seen, bounds) {
    const ends = seen || [-1, 1], reach = ends[1] - ends[0], room = 0.07 * reach || Math.max(0.05 * Math.abs(ends[1]), 0.01);
    const outside = (x, side) => bounds[side] === null ? 0 : (2 * side - 1) * (bounds[side] - x); // how far a limit is beyond x
    const shown = ends.map((x, side) => outside(x, side) > 0 && outside(x, side) < 1.3 * Math.max(reach, 1e-9) ? bounds[side] : x);
    const written = Math.max(room, 0.2 * (shown[1] - shown[0])); // for the words that say where a limit outside lies
    return shown.map((x, side) => x + (2 * side - 1) * (outside(x, side) > 0 ? written : room));
  }

  // How the search went: the best so far, and the share of candidates that kept every limit.
  function history(box, rows) {
    const good = rows.filter(row => finite(row.evaluations) && row.evaluations > 0), x = good.map(row => row.evaluations);
    if (!good.length) return nothing(box, 'The search left no record.');
    const [first, last] = range(x), bests = good.map(row => row.best), span = range(bests), final = bests.findLast(finite);
    const link = Chart.group([first, last > first ? last : first * 10].map(Math.log10));
    const stages = good.filter((row, k) => k && row.stage && row.stage !== good[k - 1].stage);
    const rules = named => stages.map(row => ({ kind: 'rule', x: row.evaluations, css: 'stage', words: named ? String(row.stage).slice(0, 24) : '' }));
    const short = n => n >= 1e6 ? `${number(n / 1e6)} M` : n >= 1e3 ? `${number(n / 1e3)} k` : number(n);
    const axis = { span: [first, last], log: true, text: short, count: 5 }, wide = span && span[0] > 0 && span[1] > 8 * span[0];
    const upper = !span ? [] : wide ? [span[0] / 1.1, span[1] * (1.1 * span[1] / span[0]) ** 0.2] : roomy(span, 0.12);
    Chart.fill(box, [{
      name: 'best condition number so far', link, x: axis, empty: 'no candidate kept all limits',
      note: span ? { words: number(final), css: 'last', title: 'the last' } : null,
      rows: [{ height: 150, y: span ? { span: upper, log: wide } : {}, marks: [...rules(true), { kind: 'line', name: 'best condition number', x, values: { y: bests }, step: true }] }],
    }, {
      name: 'candidates that kept every limit', link, x: { ...axis, label: 'candidates tried (logarithmic)' },
      rows: [{ height: 74, y: { span: [0, 1.04], count: 2, text: y => `${number(100 * y)} %` }, marks: [...rules(false), { kind: 'line', name: 'share', x, values: { y: good.map(row => row.feasible_share) }, css: 'second' }] }],
    }]);
  }

  // Designs that no other beats in everything, against each of three goals.
  const GOALS = [['duration_s', 'duration', 's', 1], ['peak_torque_share', 'peak torque', '% of limit', 100], ['tool_speed_m_s', 'tool speed', 'm/s', 1]];

  function pareto(box, designs) {
    const said = design => [`condition number ${number(design.condition)}`, ...GOALS.filter(([key]) => finite(design[key]))
      .map(([key, words, unit, factor]) => `${words} ${number(factor * design[key], 3)} ${unit}`)].join(', ');
    Chart.fill(box, GOALS.flatMap(([key, words, unit, factor]) => {
      const points = designs.filter(design => finite(design[key]) && finite(design.condition))
        .map(design => ({ x: factor * design[key], y: design.condition, chosen: design.chosen, words: said(design) }));
      return points.length ? [{
        name: 'condition number', what: `over ${words}`, both: true, span: true, least: 240,
        x: { span: roomy(range(points.map(p => p.x)), 0.08), label: `${words}, ${unit}`, count: 5 },
        rows: [{ height: 190, y: { span: roomy(range(points.map(p => p.y)), 0.08) }, marks: [{ kind: 'dots', name: 'designs', points }] }],
      }] : [];
    }));
  }

  function spectrum(box, values) {
    const span = range(values.filter(x => x > 0));
    if (!span) return nothing(box, 'Nothing is excited.');
    const y = values.map(x => x > 0 ? x : null);
    Chart.fill(box, [{
      name: 'singular values', what: 'logarithmic, columns of length one', note: { words: `largest / smallest = ${number(span[1] / span[0])}`, css: 'last' },
      x: { span: [0, values.length + 1], label: 'number of the combination', count: 8 },
      rows: [{ height: 260, y: { span: [span[0] / 1.25, span[1] * 1.25], log: true }, marks: [{ kind: 'stems', name: 'singular value', x: y.map((_, k) => k + 1), values: { y }, from: span[0] / 1.25, dot: true }] }],
    }]);
  }

  function correlation(box, { names, matrix }) {
    const n = names.length, short = names.map(name => String(name)).map(name => name.length > 14 ? `${name.slice(0, 13)}…` : name);
    const margin = 12 + 5.6 * Math.max(...short.map(name => name.length)), wide = Math.max(box.clientWidth, 200);
    const ticks = short.map((name, k) => [k + 0.5, name]), side = Math.min(26 * n, wide - margin - 4);
    Chart.fill(box, [{
      name: 'correlation of the columns', both: true, left: margin, top: margin, right: 4, width: side + margin + 4,
      x: { span: [0, n], ticks, rotate: true },
      rows: [{ height: inner => inner, y: { span: [n, 0], ticks }, marks: [{ kind: 'cells', matrix, names }] }],
    }]);
  }

  // The most correlated pairs, in words.
  function worstPairs(box, { names, matrix }) {
    box.replaceChildren();
    const pairs = matrix.flatMap((row, i) => row.flatMap((value, j) => j < i && finite(value) ? [[Math.abs(value), value, i, j]] : []));
    if (!pairs.length) return;
    html('h3', '', 'Most correlated pairs', box);
    const worst = pairs.sort((a, b) => b[0] - a[0]).slice(0, 10), words = x => x.toFixed(2).replace('-', '−');
    html('ol', '', null, box).append(...worst.map(([, value, i, j]) => html('li', '', `${names[i]} and ${names[j]}: ${words(value)}`)));
  }

  // Residuals of a joint: how large, how alike from one moment to the next, and whether they follow the velocity.
  function residuals(box, entry, robot) {
    box.replaceChildren();
    box.charts = entry.joints.flatMap(joint => {
      const k = robot.joints.indexOf(joint.joint), unit = robot.torque_units[k] ?? 'N m', kind = robot.units[k] ?? 'rad';
      html('h4', '', joint.joint, box);
      const row = html('div', 'trio', null, box), specs = [histogram(joint, unit), lags(joint, entry.lag_s), velocity(joint, unit, kind)];
      return specs.map(({ y, marks, ...spec }) => Chart.create(row, { left: 46, ...spec, rows: [{ height: 96, y, marks }] }));
    });
    Chart.redraw(box);
  }

  function histogram({ joint, histogram: { edges, counts, sigma } }, unit) {
    const total = counts.reduce((sum, n) => sum + n, 0), step = edges[1] - edges[0];
    const normal = x => total * step / (sigma * Math.sqrt(2 * Math.PI)) * Math.exp(-0.5 * (x / sigma) ** 2);
    const xs = edges.length ? Array.from({ length: 80 }, (_, k) => edges[0] + k / 79 * (edges.at(-1) - edges[0])) : [];
    const middles = edges.slice(1).map((edge, k) => (edges[k] + edge) / 2);
    const bars = { kind: 'bars', name: 'residuals', edges, x: middles, values: { y: counts } };
    return {
      name: 'how often', label: `${joint}: histogram of residuals`, empty: 'nothing is left',
      x: { span: edges.length ? [edges[0], edges.at(-1)] : null, label: `residual, ${unit}`, count: 4 },
      y: edges.length ? { span: [0, 1.08 * Math.max(finite(normal(0)) ? normal(0) : 1, ...counts)] } : {},
      marks: edges.length ? [bars, { kind: 'line', name: 'normal', css: 'normal', x: xs, values: { y: xs.map(normal) } }] : [],
    };
  }

  function lags({ joint, autocorrelation: { values, bound } }, lag) {
    const step = lag ?? 1, seen = range([...values, -bound, bound]) || [-1, 1], x = values.map((_, k) => step * (k + 1));
    return {
      name: 'correlation', label: `${joint}: autocorrelation of residuals`,
      x: { span: [0, step * (values.length + 1)], label: lag ? 'lag, s' : 'lag, samples', count: 4 },
      y: { span: [Math.min(-0.1, 1.1 * seen[0]), Math.max(0.2, 1.1 * seen[1])] },
      marks: [AXIS, ...[bound, -bound].map(y => ({ kind: 'rule', y })), { kind: 'stems', name: 'correlation', x, values: { y: values }, from: 0 }],
    };
  }

  function velocity({ joint, by_velocity: { velocity: v, mean, rms } }, unit, kind) {
    const turn = kind === 'rad' ? 180 / Math.PI : 1, x = v.map(value => turn * value);
    const spread = mean.map((m, k) => Math.sqrt(Math.max(0, rms[k] ** 2 - m ** 2))), ends = [1, -1].map(s => mean.map((m, k) => m + s * spread[k]));
    const seen = range(ends.flat()), reach = 1.1 * Math.max(...(seen || [1]).map(Math.abs)) || 1, across = range(x), still = !seen || !(across && across[1] > across[0]);
    const drawn = [AXIS, { kind: 'band', name: 'spread', x, values: { low: ends[1], high: ends[0] } }, { kind: 'line', name: 'mean', x, values: { y: mean } }];
    return {
      name: 'mean and spread', what: unit, label: `${joint}: residuals over velocity`, empty: 'the joint stands still',
      x: { span: across, label: `velocity, ${kind === 'rad' ? '°' : kind}/s`, count: 4 },
      y: still ? {} : { span: [-reach, reach] }, marks: still ? [] : drawn,
    };
  }

  // Held-out errors, the least first; whiskers are the 95 % intervals of differences to the best.
  function errors(box, { errors: entries, marks, chosen }) {
    const shown = entries.filter(entry => finite(entry.total)).sort((a, b) => a.total - b.total);
    if (!shown.length) return nothing(box, 'No method gave an estimate.');
    const best = shown[0].total, median = shown[Math.floor(shown.length / 2)].total - best;
    const limit = best + (median > 0 ? 10 * median : shown.at(-1).total - best); // farther is drawn at the edge
    const rows = shown.map(({ name, total, behind }) => {
      const known = finite(behind.low) && finite(behind.high), at = x => 100 * x;
      return {
        name, value: at(total), taken: name === chosen, after: `${at(total).toFixed(total < 1 ? 2 : 0)} %`,
        low: known ? at(Math.min(total, best + behind.low)) : null, high: known ? at(Math.max(total, best + behind.high)) : null,
      };
    });
    const near = rows.filter(row => row.value <= 100 * limit).flatMap(row => [row.value, row.low ?? row.value, row.high ?? row.value]);
    const others = marks.filter(mark => mark.total <= limit && mark.total >= 2 * best - limit), [low, high] = roomy(range([...near, ...others.map(mark => 100 * mark.total)]), 0.05);
    const span = [Math.max(0, low), high], lines = others.map(mark => ({ kind: 'rule', x: 100 * mark.total, words: mark.name }));
    Chart.fill(box, [categories('held-out errors by method', '', rows, span, 24, {
      x: { span, label: '% of the held-out torques', grid: true }, right: 66, top: 18,
    }, [{ kind: 'rule', x: 100 * best, css: 'best' }, ...lines])]);
  }

  // Every parameter as each method has it: dots with 95 % intervals, beside the band of the model that is taken.
  function forest(box, parameters, chosen) {
    Chart.fill(box, parameters.map(({ name, unit, contradictions: n, methods }) => {
      const rows = methods.map(([method, value, low, high]) => ({ name: method, value, low, high, taken: method === chosen }));
      const span = reach(rows), taken = rows.find(row => row.taken);
      const bands = taken && finite(taken.low) ? [{ kind: 'shade', from: taken.low, to: taken.high, css: 'band' }] : [];
      const note = n ? { words: n === 1 ? '1 contradiction' : `${n} contradictions`, css: 'care' } : null;
      return { ...categories(name, unit, span ? rows : [], span ?? [0, 1], 15, { x: { span, count: 3, grid: true, text: x => number(x, 3) }, right: 14, note }, bands), least: 220 };
    }));
  }

  // Recursive estimates: a chart for each parameter, a curve for each regression model; what has not settled may leave it.
  function recursion(box, recursions, parameters) {
    const link = Chart.group(range(recursions.flatMap(({ time: moments }) => moments)));
    Chart.fill(box, parameters.map(({ name, unit }) => {
      const marks = recursions.flatMap(({ scheme, names, time: x, values, sigma }, k) => {
        const n = names.indexOf(name), end = sign => values.map((row, i) => row[n] + sign * 1.96 * sigma[i][n]);
        return n < 0 ? [] : [...k ? [] : [{ kind: 'band', name: `${scheme} ±`, x, values: { low: end(-1), high: end(1) } }],
          { kind: 'line', name: scheme, named: true, css: `k-p${k % 5}`, x, values: { y: values.map(row => row[n]) } }];
      });
      const late = range(marks.flatMap(({ values: { y = [] } }) => y.slice(Math.floor(0.5 * y.length))));
      return { name, what: unit, link, least: 220, x: { span: link.whole, unit: 's' }, rows: [{ height: 120, y: late ? { span: roomy(late) } : {}, marks }] };
    }));
  }

  function eigenvalues(box, recursions) {
    Chart.fill(box, recursions.map(({ scheme, time: x, eigenvalues: rows }, k) => {
      const marks = (rows[0] || []).map((_, i) => ({ kind: 'line', name: `eigenvalue ${i + 1}`, css: `k-p${k % 5}`, x, values: { y: rows.map(row => row[i] > 0 ? row[i] : null) } }));
      const span = range(marks.flatMap(({ values: { y } }) => y));
      return { name: scheme, what: 'eigenvalues of P', least: 220, x: { span: range(x), unit: 's' }, rows: [{ height: 120, y: span ? { span: [0.7 * span[0], 1.4 * span[1]], log: true } : {}, marks }] };
    }));
  }

  function categories(name, what, rows, span, height, more, marks) {
    const ticks = rows.map((row, k) => [k, row.name.length > 18 ? `${row.name.slice(0, 17)}…` : row.name, row.taken ? 'row-name taken' : 'row-name']);
    const left = 14 + 6.4 * Math.max(3, ...ticks.map(([, words]) => words.length));
    const head = marks.some(mark => mark.words) ? 0.8 : 0, y = rows.length ? { span: [rows.length - 0.5, -0.5 - head], ticks } : {};
    return { name, what, left, wide: true, ...more, rows: [{ height: Math.max(30, height * (rows.length + head)), y, marks: [...marks, { kind: 'whiskers', name, rows, reach: span }] }] };
  }

  // As wide as most intervals need: one method far off is drawn at the edge.
  function reach(rows) {
    const known = rows.filter(row => finite(row.value));
    if (!known.length) return null;
    const middle = (known.find(row => row.taken) ?? known[0]).value, ends = known.flatMap(row => [row.low ?? row.value, row.high ?? row.value]);
    const sorted = known.map(row => Math.max(...[row.low ?? row.value, row.high ?? row.value].map(x => Math.abs(x - middle)))).sort((a, b) => a - b);
    const half = Math.min(sorted.at(-1), 2.5 * sorted[Math.floor(0.75 * (sorted.length - 1))]) || Math.abs(middle) || 1, [low, high] = range(ends);
    return roomy([Math.max(low, middle - half), Math.min(high, middle + half)]);
  }

  // How unusual cycles were, a line for each thing watched; drawn anew by each call, at the zoom that was chosen.
  function surprise(box, history) {
    const names = [...new Set(history.flatMap(cycle => Object.keys(cycle.surprise)))], x = history.map(cycle => cycle.cycle);
    const alarms = history.filter(cycle => cycle.alarm).map(cycle => ({ kind: 'rule', x: cycle.cycle }));
    const lines = names.map((name, k) => ({ kind: 'line', name, named: true, css: `k-p${k % 5}`, x, values: { y: history.map(cycle => cycle.surprise[name] ?? null) } }));
    const whole = range(x) ?? [0, 1], spec = { name: 'surprise', link: Chart.group(whole), wide: true, empty: 'still learning what is healthy', x: { span: whole, label: 'cycle' }, rows: [{ height: 220, y: {}, marks: [...alarms, ...lines] }] };
    if (box.charts) Chart.renew(box.charts[0], spec);
    else Chart.fill(box, [spec]);
  }

  function nothing(box, words) {
    box.replaceChildren(html('p', 'hint', words));
  }

  return { time, motion, history, pareto, spectrum, correlation, worstPairs, residuals, errors, forest, recursion, eigenvalues, surprise };
})();
