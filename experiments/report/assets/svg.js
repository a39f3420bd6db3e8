// Small tools of all charts: elements, numbers for people, scales, ticks. Text only ever enters as text nodes.
const Svg = (() => {
  const SPACE = 'http://www.w3.org/2000/svg';

  function make(name, attributes, parent) {
    const element = document.createElementNS(SPACE, name);
    for (const [key, value] of Object.entries(attributes || {})) element.setAttribute(key, value);
    if (parent) parent.appendChild(element);
    return element;
  }

  function html(name, className, text, parent) {
    const element = document.createElement(name);
    if (className) element.className = className;
    if (text !== undefined && text !== null) element.textContent = text;
    if (parent) parent.appendChild(element);
    return element;
  }

  function picture(parent, width, height, label) {
    return make('svg', { viewBox: `0 0 ${width} ${height}`, width, height, role: 'img', 'aria-label': label }, parent);
  }

  function text(parent, words, x, y, className, anchor) {
    const element = make('text', { x, y, class: className || '', 'text-anchor': anchor || 'start' }, parent);
    element.textContent = words;
    return element;
  }

  function number(x, digits = 4) {
    if (typeof x !== 'number' || !isFinite(x)) return '–';
    const size = Math.abs(x);
    if (x === 0 || size >= 1e-3 && size < 1e5) return String(Number(x.toPrecision(digits))).replace('-', '−');
    const [digit, power] = Number(x.toPrecision(Math.min(3, digits))).toExponential().split('e');
    const raised = power.replace('+', '').replace(/./g, c => '⁰¹²³⁴⁵⁶⁷⁸⁹'['0123456789'.indexOf(c)] ?? '⁻');
    return `${digit}·10${raised}`.replace('-', '−');
  }

  function percent(x) {
    return typeof x === 'number' && isFinite(x) ? number(100 * x, Math.abs(x) < 0.1 ? 2 : Math.abs(x) < 10 ? 3 : 4) + ' %' : '–';
  }

  function linear(from, to, start, end) {
    const scale = x => start + (x - from) / (to - from) * (end - start);
    scale.ticks = count => ticks(from, to, count);
    return scale;
  }

  function logarithmic(from, to, start, end) {
    const inner = linear(Math.log10(from), Math.log10(to), start, end);
    const scale = x => inner(Math.log10(x));
    scale.ticks = count => logTicks(from, to, count);
    return scale;
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
    const found = [];
    for (let k = Math.ceil(from / step - 1e-9); k * step <= to + 1e-9 * step; k++) found.push(Number((k * step).toPrecision(12)));
    return found;
  }

  function logTicks(from, to, count) {
    const decades = Math.log10(to / from);
    if (decades < 0.7) return ticks(from, to, count);
    const every = Math.ceil(decades / count), found = [];
    for (let p = Math.floor(Math.log10(from)); p <= Math.ceil(Math.log10(to)); p++) {
      if (p % every) continue;
      for (const k of decades < 2 ? [1, 2, 5] : [1]) found.push(k * Math.pow(10, p));
    }
    return found.filter(x => x >= from * 0.999 && x <= to * 1.001);
  }

  function range(values) {
    let low = Infinity, high = -Infinity;
    for (const x of values) {
      if (typeof x !== 'number' || !isFinite(x)) continue;
      if (x < low) low = x;
      if (x > high) high = x;
    }
    return low <= high ? [low, high] : null;
  }

  // A path through points; where a number is missing, a gap.
  function path(xs, ys, sx, sy) {
    let words = '', pen = false;
    for (let i = 0; i < xs.length; i++) {
      if (typeof xs[i] !== 'number' || typeof ys[i] !== 'number') {
        pen = false;
        continue;
      }
      words += (pen ? 'L' : 'M') + sx(xs[i]).toFixed(1) + ' ' + sy(ys[i]).toFixed(1);
      pen = true;
    }
    return words;
  }

  // Axes with ticks around the rectangle [left, top, right, bottom].
  function frame(svg, area, sx, sy, options) {
    const [left, top, right, bottom] = area;
    for (const y of sy.ticks(options.yTicks || 4)) {
      make('line', { x1: left, x2: right, y1: sy(y), y2: sy(y), class: 'grid' }, svg);
      text(svg, (options.yText || number)(y), left - 5, sy(y) + 3.5, 'tick', 'end');
    }
    for (const x of sx.ticks(options.xTicks || 6)) {
      make('line', { x1: sx(x), x2: sx(x), y1: bottom, y2: bottom + 3, class: 'axis' }, svg);
      text(svg, (options.xText || number)(x), sx(x), bottom + 14, 'tick', 'middle');
    }
    make('line', { x1: left, x2: right, y1: bottom, y2: bottom, class: 'axis' }, svg);
    if (options.xLabel) text(svg, options.xLabel, (left + right) / 2, bottom + 29, 'label', 'middle');
    if (options.yLabel) text(svg, options.yLabel, left - 5, top - 8, 'label', 'start').setAttribute('x', Math.max(2, left - 40));
  }

  return { make, html, picture, text, number, percent, linear, logarithmic, range, path, frame };
})();
