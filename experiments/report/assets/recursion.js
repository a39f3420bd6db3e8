// Recursive estimates over time: a picture of each parameter by all schemes, and of each scheme's eigenvalues of P.
const Recursion = (() => {
  const LEFT = 50, TOP = 8, BOTTOM = 22, HEIGHT = 120, SETTLING = 0.15; // of the time, in which values may leave the picture

  function values(box, recursions, parameters) {
    const width = begin(box);
    for (const parameter of parameters) {
      const curves = recursions.map(({ scheme, names, time, values }, k) => {
        const column = names.indexOf(parameter.name);
        return { k, scheme, time, y: column < 0 ? [] : values.map(row => row[column]) };
      }).filter(curve => curve.y.length);
      const late = curves.flatMap(({ y }) => y.slice(Math.floor(SETTLING * y.length)));
      panel(box, parameter.name, parameter.unit, curves, Svg.range(late), width, false);
    }
  }

  function eigenvalues(box, recursions) {
    const width = begin(box);
    recursions.forEach(({ scheme, time, eigenvalues }, k) => {
      const curves = (eigenvalues[0] || []).map((_, i) => ({ k, scheme, time, y: eigenvalues.map(row => row[i] > 0 ? row[i] : null) }));
      panel(box, scheme, 'eigenvalues of P', curves, Svg.range(curves.flatMap(curve => curve.y)), width, true);
    });
  }

  function begin(box) {
    box.replaceChildren();
    const columns = getComputedStyle(box).gridTemplateColumns.split(' ').length || 1;
    return Math.max(220, Math.floor((box.clientWidth - 22 * (columns - 1)) / columns));
  }

  function panel(box, title, what, curves, range, width, log) {
    const figure = Svg.html('figure', 'panel', null, box), caption = Svg.html('figcaption', '', null, figure);
    Svg.html('b', '', title, caption);
    Svg.html('span', 'what', what, caption);
    const svg = Svg.picture(figure, width, TOP + HEIGHT + BOTTOM, `${title} over time`);
    const times = Svg.range(curves.flatMap(curve => curve.time));
    if (!range || !times) return Svg.text(svg, 'no number', width / 2, HEIGHT / 2, 'label', 'middle');
    const bottom = TOP + HEIGHT, room = 0.08 * (range[1] - range[0]) || 0.1 * Math.abs(range[1]) || 1;
    const sx = Svg.linear(times[0], times[1] > times[0] ? times[1] : times[0] + 1, LEFT, width - 8);
    const sy = log ? Svg.logarithmic(0.7 * range[0], 1.4 * range[1], bottom, TOP) : Svg.linear(range[0] - room, range[1] + room, bottom, TOP);
    const xTicks = 4, first = sx.ticks(xTicks)[0];
    Svg.frame(svg, [LEFT, TOP, width - 8, bottom], sx, sy, { xTicks, yTicks: 4, yText: y => Svg.number(y, 3), xText: t => Svg.number(t, 4) + (t === first ? ' s' : '') });
    const size = { x: LEFT, y: TOP, width: width - 8 - LEFT, height: HEIGHT };
    const window_ = Svg.make('svg', { ...size, viewBox: `${LEFT} ${TOP} ${size.width} ${size.height}`, class: 'window' }, svg);
    for (const { k, scheme, time, y } of curves) {
      const line = Svg.make('path', { d: Svg.path(time, y, sx, sy), class: `recursion scheme-${k}` }, window_);
      Svg.make('title', {}, line).textContent = scheme;
    }
  }

  return { values, eigenvalues };
})();
