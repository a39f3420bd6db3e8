// Ellipsoids drawn pixel by pixel as Raster draws capsules: in coordinates where each is the unit ball.
const Ellipsoids = (() => {
  const GRID = 1e-4;
  const COLORS = { 'data-determined': [64, 132, 245], other: [172, 142, 200] };
  const LIGHT = unit([-0.45, 0.75, -0.6]);

  // Bodies of links between two frames, in base coordinates: centre, axes as columns, half axes.
  function placed(links, frames, t) {
    if (!links.length || !frames.time.length) return [];
    const [i, s] = Scene.between(frames.time, t);
    const a = frames.ellipsoids[i], b = frames.ellipsoids[Math.min(i + 1, frames.time.length - 1)];
    return links.map((link, k) => {
      const x = Array.from({ length: 12 }, (_, m) => GRID * (a[12 * k + m] + s * (b[12 * k + m] - a[12 * k + m])));
      return {
        center: x.slice(0, 3), half: link.half_axes, name: link.link,
        axes: [0, 1, 2].map(m => unit([x[3 + m], x[6 + m], x[9 + m]])),
        color: COLORS[link.mass_label] || COLORS.other,
      };
    });
  }

  // A picture like Raster's; null where nothing is to be seen.
  function draw(bodies, view, scale) {
    const width = Math.ceil(view.width * scale), height = Math.ceil(view.height * scale);
    const frame = {
      image: new ImageData(width, height), left: 0, top: 0, width, height, scale,
      depth: new Float32Array(width * height).fill(Infinity),
      focal: view.focal * scale, cx: width / 2, cy: height / 2, sky: [view.right[2], view.up[2], view.forward[2]],
    };
    bodies.forEach(body => fill(frame, body, view));
    return bodies.length ? frame : null;
  }

  function fill(frame, body, view) {
    const c = Camera.toEye(view, body.center), least = 0.004; // a rod must be seen too
    const half = body.half.map(h => Math.max(h, least)), size = Math.max(...half);
    if (!(c[2] - size > view.near)) return;
    const turn = p => [Camera.dot(p, view.right), Camera.dot(p, view.up), Camera.dot(p, view.forward)];
    const rows = body.axes.map((axis, k) => turn(axis).map(x => x / half[k])); // eye coordinates to those of the unit ball
    const apply = p => rows.map(row => Camera.dot(row, p));
    const o = apply(c), oo = Camera.dot(o, o) - 1;
    const r = 1.15 * frame.focal * size / (c[2] - size) + 1, x0 = frame.cx + frame.focal * c[0] / c[2], y0 = frame.cy - frame.focal * c[1] / c[2];
    const [i0, i1] = [Math.max(0, Math.floor(x0 - r)), Math.min(frame.width - 1, Math.ceil(x0 + r))];
    const [j0, j1] = [Math.max(0, Math.floor(y0 - r)), Math.min(frame.height - 1, Math.ceil(y0 + r))];
    for (let j = j0; j <= j1; j++) {
      for (let i = i0; i <= i1; i++) {
        const ray = [(i + 0.5 - frame.cx) / frame.focal, (frame.cy - j - 0.5) / frame.focal, 1], d = apply(ray);
        const dd = Camera.dot(d, d), od = Camera.dot(o, d), h = od * od - dd * oo;
        if (h < 0) continue;
        const t = (od - Math.sqrt(h)) / dd, k = j * frame.width + i;
        if (!(t > 0) || t >= frame.depth[k]) continue;
        frame.depth[k] = t;
        const p = d.map((x, m) => t * x - o[m]);
        shade(frame, k, body.color, unit([0, 1, 2].map(m => rows[0][m] * p[0] + rows[1][m] * p[1] + rows[2][m] * p[2])));
      }
    }
  }

  function shade(frame, k, color, normal) {
    const lit = Math.max(0, Camera.dot(normal, LIGHT)), sky = Camera.dot(normal, frame.sky);
    const light = 0.6 + 0.14 * sky + 0.5 * lit, data = frame.image.data;
    for (let m = 0; m < 3; m++) data[4 * k + m] = color[m] * light;
    data[4 * k + 3] = 255;
  }

  function unit(v) {
    const n = Math.hypot(...v) || 1;
    return v.map(x => x / n);
  }

  return { placed, draw };
})();
