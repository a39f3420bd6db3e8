// Lines and faces of a cell: the floor's grid, zones as wireframes that know what lies behind the robot, axes, names.
const Zones = (() => {
  const RING = Array.from({ length: 49 }, (_, k) => [Math.cos(k * Math.PI / 24), Math.sin(k * Math.PI / 24)]);
  const SIGNS = [[-1, -1, -1], [1, -1, -1], [1, 1, -1], [-1, 1, -1], [-1, -1, 1], [1, -1, 1], [1, 1, 1], [-1, 1, 1]];
  const BOX_EDGES = [[0, 1], [1, 2], [2, 3], [3, 0], [4, 5], [5, 6], [6, 7], [7, 4], [0, 4], [1, 5], [2, 6], [3, 7]];
  const BOX_FACES = [[0, 1, 2, 3], [4, 5, 6, 7], [0, 1, 5, 4], [2, 3, 7, 6], [1, 2, 6, 5], [3, 0, 4, 7]];

  function place(T, p) {
    return [0, 1, 2].map(k => T[k][0] * p[0] + T[k][1] * p[1] + T[k][2] * p[2] + T[k][3]);
  }

  function size(zone) {
    return [0, 1, 2].map(k => (zone.size || [])[k] || 0);
  }

  // Points that span a bounded zone: of its box, or of the box around it.
  function corners(zone) {
    const [a, b, c] = size(zone);
    const half = zone.kind === 'sphere' ? [a, a, a] : zone.kind === 'cylinder' ? [a, a, b] : [a, b, c];
    return SIGNS.map(sign => place(zone.T, sign.map((s, k) => s * half[k])));
  }

  // A half-space has no end: show the patch of its plane beside the robot, in the plane's axes nearest to ours.
  function patch(zone, scene) {
    const normal = [0, 1, 2].map(k => zone.T[k][2]), at = [0, 1, 2].map(k => zone.T[k][3]);
    const c = scene.camera.target, r = scene.camera.radius * 0.95;
    const off = normal.reduce((sum, n, k) => sum + n * (c[k] - at[k]), 0);
    const middle = c.map((x, k) => x - off * normal[k]);
    const [u, v] = [0, 1].map(m => [0, 1, 2].map(k => zone.T[k][m]));
    return (s, t) => middle.map((x, k) => x + r * (s * u[k] + t * v[k]));
  }

  function wires(zone, scene) {
    const [a, b] = size(zone), at = p => place(zone.T, p);
    if (zone.kind === 'half-space') {
      const on = patch(zone, scene), steps = [-1, -0.5, 0, 0.5, 1];
      return steps.flatMap(s => [[on(s, -1), on(s, 1)], [on(-1, s), on(1, s)]]);
    }
    if (zone.kind === 'sphere') {
      return [([x, y]) => [x, y, 0], ([x, y]) => [x, 0, y], ([x, y]) => [0, x, y]].map(ring => RING.map(p => at(ring(p).map(q => a * q))));
    }
    if (zone.kind === 'cylinder') {
      const rings = [-b, b].map(z => RING.map(([x, y]) => at([a * x, a * y, z])));
      const sides = [0, 6, 12, 18, 24, 30, 36, 42].map(k => [rings[0][k], rings[1][k]]);
      return [...rings, ...sides];
    }
    const points = corners(zone);
    return BOX_EDGES.map(edge => edge.map(k => points[k]));
  }

  function surfaces(zone, scene) {
    if (zone.kind === 'half-space') {
      const on = patch(zone, scene);
      return [[on(-1, -1), on(1, -1), on(1, 1), on(-1, 1)]];
    }
    if (zone.kind === 'box') {
      const points = corners(zone);
      return BOX_FACES.map(face => face.map(k => points[k]));
    }
    const rings = wires(zone, scene).filter(wire => wire.length > 2);
    return zone.kind === 'cylinder' ? rings : rings.slice(0, 1);
  }

  function faces(context, view, zone, scene, colors) {
    context.fillStyle = colors[zone.keep === 'in' ? 'in' : 'out'];
    context.globalAlpha = zone.keep === 'in' ? 0.035 : 0.075;
    for (const face of surfaces(zone, scene)) {
      const shown = clip(face.map(p => Camera.toEye(view, p)), view.near);
      if (shown.length < 3) continue;
      polygon(context, shown.map(e => Camera.toScreen(view, e)));
      context.fill();
    }
    context.globalAlpha = 1;
  }

  // Keep the part of a polygon that lies before the eye.
  function clip(points, near) {
    return points.flatMap((p, i) => {
      const q = points[(i + 1) % points.length], kept = p[2] > near ? [p] : [];
      if ((p[2] > near) === (q[2] > near)) return kept;
      const s = (near - p[2]) / (q[2] - p[2]);
      return [...kept, p.map((x, k) => x + s * (q[k] - x))];
    });
  }

  function edges(context, view, zone, scene, colors, frame) {
    const style = { color: colors[zone.keep === 'in' ? 'in' : 'out'], width: 1.4, alpha: 0.9 };
    if (zone.kind === 'half-space') style.alpha = 0.45;
    wires(zone, scene).forEach(wire => line(context, view, wire, frame, style));
  }

  // A line in space; where the robot hides it, it stays as a shade.
  function line(context, view, points, frame, style) {
    const seen = new Path2D(), hidden = new Path2D(), step = 0.02 * Math.max(view.near * 50, 1e-6);
    for (let i = 0; i + 1 < points.length; i++) {
      const a = Camera.toEye(view, points[i]), b = Camera.toEye(view, points[i + 1]);
      const pieces = frame ? Math.min(80, Math.max(1, Math.ceil(Math.hypot(b[0] - a[0], b[1] - a[1], b[2] - a[2]) / step))) : 1;
      for (let k = 0; k < pieces; k++) {
        const p = a.map((x, m) => x + (b[m] - x) * k / pieces), q = a.map((x, m) => x + (b[m] - x) * (k + 1) / pieces);
        if (!(p[2] > view.near && q[2] > view.near)) continue;
        const s = Camera.toScreen(view, p), e = Camera.toScreen(view, q);
        const depth = Raster.depthAt(frame, (s[0] + e[0]) / 2, (s[1] + e[1]) / 2);
        const path = (p[2] + q[2]) / 2 > depth + 0.003 ? hidden : seen;
        path.moveTo(...s);
        path.lineTo(...e);
      }
    }
    context.strokeStyle = style.color;
    context.lineWidth = style.width;
    context.lineCap = 'round';
    context.globalAlpha = style.alpha;
    context.stroke(seen);
    context.globalAlpha = 0.22 * style.alpha;
    context.stroke(hidden);
    context.globalAlpha = 1;
  }

  // Grid lines every 1, 2 or 5 · 10ⁿ m on z = 0.
  function floor(context, view, scene, colors) {
    const rough = scene.camera.radius / 6, power = Math.pow(10, Math.floor(Math.log10(rough)));
    const step = power * [1, 2, 5, 10].find(k => k * power >= rough);
    const [x0, y0] = [0, 1].map(k => step * Math.floor(scene.low[k] / step - 0.5));
    const [x1, y1] = [0, 1].map(k => step * Math.ceil(scene.high[k] / step + 0.5));
    const style = { color: colors.grid, width: 1, alpha: 1 };
    for (let x = x0; x <= x1 + step / 2; x += step) line(context, view, [[x, y0, 0], [x, y1, 0]], null, style);
    for (let y = y0; y <= y1 + step / 2; y += step) line(context, view, [[x0, y, 0], [x1, y, 0]], null, style);
    scene.step = step;
  }

  function axes(context, view, scene, frame) {
    const length = 0.28 * scene.camera.radius;
    [['x', '#e0443e'], ['y', '#2f9e44'], ['z', '#3b7ddd']].forEach(([name, color], k) => {
      const tip = [0, 0, 0];
      tip[k] = length;
      line(context, view, [[0, 0, 0], tip], frame, { color, width: 2, alpha: 1 });
      const e = Camera.toEye(view, tip.map(x => 1.12 * x));
      if (!(e[2] > view.near)) return;
      const at = Camera.toScreen(view, e);
      if (Raster.depthAt(frame, ...at) > e[2]) text(context, name, at, color, null);
    });
  }

  // Names of zones at their highest edge, none on top of another.
  function labels(context, view, scene, colors) {
    const taken = [];
    for (const zone of scene.zones) {
      const points = zone.kind === 'half-space' ? surfaces(zone, scene)[0] : corners(zone);
      const shown = points.map(p => Camera.toEye(view, p)).filter(e => e[2] > view.near).map(e => Camera.toScreen(view, e));
      if (!shown.length) continue;
      const top = shown.reduce((best, p) => p[1] < best[1] ? p : best);
      const name = String(zone.name ?? '').slice(0, 30), half = 3.4 * name.length + 4;
      const x = Math.min(view.width - half, Math.max(half, top[0]));
      let y = Math.min(view.height - 12, Math.max(12, top[1] - 9));
      while (taken.some(([p, q, h]) => Math.abs(p - x) < h + half && Math.abs(q - y) < 15) && y < view.height - 12) y += 15;
      taken.push([x, y, half]);
      text(context, name, [x, y], colors[zone.keep === 'in' ? 'in' : 'out'], colors.back);
    }
  }

  function text(context, words, [x, y], color, halo) {
    context.font = '600 12px system-ui, sans-serif';
    context.textAlign = 'center';
    context.textBaseline = 'middle';
    if (halo) {
      context.lineWidth = 3;
      context.lineJoin = 'round';
      context.strokeStyle = halo;
      context.strokeText(words, x, y);
    }
    context.fillStyle = color;
    context.fillText(words, x, y);
  }

  function polygon(context, points) {
    context.beginPath();
    points.forEach(([x, y], i) => i ? context.lineTo(x, y) : context.moveTo(x, y));
    context.closePath();
  }

  return { corners, faces, edges, line, floor, axes, labels, polygon };
})();
