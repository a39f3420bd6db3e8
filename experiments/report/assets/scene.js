// Where the eye is and how it sees: an orbit around a target, z up, perspective.
const Camera = (() => {
  const FIELD = 34 * Math.PI / 180; // vertical field of view
  const VIEWS = { '3d': [-0.95, 0.38], front: [0, 0.02], side: [-Math.PI / 2, 0.02], top: [-Math.PI / 2, 1.55] };

  function create(target, radius) {
    return { target, radius, corners: [], shift: [0, 0, 0], moved: [0, 0, 0], yaw: VIEWS['3d'][0], pitch: VIEWS['3d'][1], zoom: 1, distance: null, shape: null };
  }

  function look(camera, view) {
    [camera.yaw, camera.pitch] = VIEWS[view];
    camera.zoom = 1;
    camera.moved = [0, 0, 0];
    camera.distance = null;
  }

  // The eye's axes in base coordinates, and where it stands: so far that all corners of the scene fit in at zoom 1,
  // in the middle of the picture.
  function pose(camera, width, height) {
    const [cy, sy, cp, sp] = [Math.cos(camera.yaw), Math.sin(camera.yaw), Math.cos(camera.pitch), Math.sin(camera.pitch)];
    const axes = { forward: [-cy * cp, -sy * cp, -sp], right: [-sy, cy, 0], up: [-cy * sp, -sy * sp, cp] };
    if (camera.distance === null || camera.shape !== width / height) {
      camera.shape = width / height;
      camera.distance = fit(camera, axes);
    }
    const distance = camera.zoom * camera.distance;
    return {
      ...axes, width, height,
      eye: camera.target.map((x, k) => x + camera.shift[k] + camera.moved[k] - distance * axes.forward[k]),
      focal: height / 2 / Math.tan(FIELD / 2),
      near: 0.02 * camera.radius,
    };
  }

  function fit(camera, axes) {
    camera.shift = [0, 0, 0];
    let distance = far(camera, axes);
    for (let round = 0; round < 4 && camera.corners.length; round++) {
      for (const axis of [axes.up, axes.right]) {
        const seen = camera.corners.map(corner => {
          const d = from(camera, corner);
          return dot(d, axis) / (distance + dot(d, axes.forward));
        });
        const middle = distance * (Math.min(...seen) + Math.max(...seen)) / 2;
        camera.shift = camera.shift.map((x, k) => x + middle * axis[k]);
      }
      distance = far(camera, axes);
    }
    return distance;
  }

  // How far away the eye has to be for all corners to fit in.
  function far(camera, axes) {
    const tan = 0.94 * Math.tan(FIELD / 2);
    return camera.corners.reduce((distance, corner) => {
      const d = from(camera, corner), away = dot(d, axes.forward);
      return Math.max(distance, Math.abs(dot(d, axes.up)) / tan - away, Math.abs(dot(d, axes.right)) / (tan * camera.shape) - away);
    }, 0.5 * camera.radius);
  }

  function from(camera, corner) {
    return corner.map((x, k) => x - camera.target[k] - camera.shift[k]);
  }

  // A point in the eye's coordinates: right, up, depth.
  function toEye(view, p) {
    const d = [p[0] - view.eye[0], p[1] - view.eye[1], p[2] - view.eye[2]];
    return [dot(d, view.right), dot(d, view.up), dot(d, view.forward)];
  }

  function toScreen(view, e) {
    return [view.width / 2 + view.focal * e[0] / e[2], view.height / 2 - view.focal * e[1] / e[2]];
  }

  function turn(camera, right, up) {
    camera.yaw -= right;
    camera.pitch = Math.min(1.55, Math.max(-1.2, camera.pitch + up));
  }

  // Move the scene by shares of the picture's height.
  function move(camera, right, up) {
    const view = pose(camera, camera.shape, 1), size = 2 * camera.zoom * camera.distance * Math.tan(FIELD / 2);
    camera.moved = camera.moved.map((x, k) => x - size * (right * view.right[k] + up * view.up[k]));
  }

  function zoom(camera, factor) {
    camera.zoom = Math.min(5, Math.max(0.1, camera.zoom * factor));
  }

  // Turn by dragging, move by dragging with Shift or the right button, two fingers move and zoom, the wheel zooms with
  // Ctrl or once the picture was clicked; keys: arrows turn, with Shift move, + and - zoom, 0 resets.
  function attach(canvas, camera, { redraw, dragging, turned, reset }) {
    const fingers = new Map(), soon = () => (turned(), requestAnimationFrame(redraw)), tall = () => canvas.clientHeight || 1;
    canvas.addEventListener('pointerdown', event => {
      canvas.setPointerCapture(event.pointerId);
      fingers.set(event.pointerId, event);
      dragging(true);
    });
    canvas.addEventListener('pointermove', event => {
      const before = fingers.get(event.pointerId);
      if (!before) return;
      const x = event.clientX - before.clientX, y = event.clientY - before.clientY;
      if (fingers.size > 1) {
        const other = [...fingers].find(([id]) => id !== event.pointerId)[1];
        const apart = one => Math.max(10, Math.hypot(one.clientX - other.clientX, one.clientY - other.clientY));
        zoom(camera, apart(before) / apart(event));
        move(camera, x / 2 / tall(), -y / 2 / tall());
      } else if (event.shiftKey || event.buttons & 2) move(camera, x / tall(), -y / tall());
      else turn(camera, 0.008 * x, 0.008 * y);
      fingers.set(event.pointerId, event);
      soon();
    });
    for (const name of ['pointerup', 'pointercancel']) {
      canvas.addEventListener(name, event => {
        fingers.delete(event.pointerId);
        dragging(fingers.size > 0);
        redraw();
      });
    }
    canvas.addEventListener('contextmenu', event => event.preventDefault());
    canvas.addEventListener('dblclick', reset);
    canvas.addEventListener('wheel', event => {
      if (!event.ctrlKey && document.activeElement !== canvas) return;
      event.preventDefault();
      zoom(camera, Math.exp(0.0012 * event.deltaY));
      requestAnimationFrame(redraw);
    }, { passive: false });
    canvas.addEventListener('keydown', event => {
      if (event.ctrlKey || event.altKey || event.metaKey) return;
      const way = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] }[event.key];
      const factor = { '+': 0.8, '=': 0.8, '-': 1.25 }[event.key];
      if (way && event.shiftKey) move(camera, 0.06 * way[0], 0.06 * way[1]);
      else if (way) turn(camera, 0.12 * way[0], -0.12 * way[1]);
      else if (factor) zoom(camera, factor);
      else if (event.key === '0' || event.key === 'Home') return reset();
      else return;
      event.preventDefault();
      event.stopPropagation();
      soon();
    });
  }

  function dot(a, b) {
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
  }

  return { create, look, pose, toEye, toScreen, attach, dot };
})();

// Bodies drawn pixel by pixel, the nearest to the eye: capsules, ellipsoids, meshes of triangles.
// No WebGL: this works everywhere, and the depths determine which part of a line is behind the robot.
const Raster = (() => {
  const LIGHT = unit([-0.45, 0.75, -0.6]);
  const GLANCE = unit([-0.45, 0.75, -1.6]); // half way between the light and the eye

  // Bodies in the eye's coordinates: {points, faces, normals where it is round, color}; view: of the main picture;
  // scale: pixels here per pixel there.
  function draw(bodies, view, scale) {
    const shown = bodies.filter(body => body.points.every(e => e[2] > view.near));
    const place = e => [view.width / 2 + view.focal * e[0] / e[2], view.height / 2 - view.focal * e[1] / e[2]];
    const seen = shown.map(body => body.points.map(place)), all = seen.flat(), at = k => Svg.range(all.map(p => p[k]));
    if (!all.length) return null;
    const [[x0, x1], [y0, y1]] = [at(0), at(1)], held = (x, most) => Math.min(most, Math.max(0, x));
    const left = Math.floor(held(x0, view.width) * scale), top = Math.floor(held(y0, view.height) * scale);
    const width = Math.ceil(held(x1, view.width) * scale) - left, height = Math.ceil(held(y1, view.height) * scale) - top;
    if (width < 1 || height < 1) return null;
    const frame = { image: new ImageData(width, height), left, top, width, height, scale, depth: new Float32Array(width * height).fill(Infinity) };
    Object.assign(frame, { focal: view.focal * scale, cx: view.width * scale / 2 - left, cy: view.height * scale / 2 - top });
    frame.sky = [view.right[2], view.up[2], view.forward[2]];
    shown.forEach((body, k) => triangles(frame, body, seen[k].map(([x, y], n) => [x * scale - left, y * scale - top, 1 / body.points[n][2]])));
    return frame;
  }

  // How deep the robot is at a pixel of the main picture; infinite beside it.
  function depthAt(frame, x, y) {
    if (!frame) return Infinity;
    const i = Math.floor(x * frame.scale) - frame.left, j = Math.floor(y * frame.scale) - frame.top;
    return i < 0 || j < 0 || i >= frame.width || j >= frame.height ? Infinity : frame.depth[j * frame.width + i];
  }

  // A ball between two ends (a capsule), or stretched along its axes (an ellipsoid): place(n) says where the point of its
  // surface with the unit direction n is, and what its normal is there.
  const ROUND = 12, rings = [...Array(ROUND + 2).keys()].map(i => i - (i > ROUND / 2));
  const GRID = rings.flatMap((i, row) => Array.from({ length: 2 * ROUND + 1 }, (_, k) => {
    const [up, turn] = [Math.PI * i / ROUND, Math.PI * k / ROUND];
    return { n: [Math.sin(up) * Math.cos(turn), Math.sin(up) * Math.sin(turn), Math.cos(up)], first: row <= ROUND / 2 };
  }));
  const FACES = GRID.flatMap((_, k) => (k + 1) % (2 * ROUND + 1) && k + 2 * ROUND + 2 < GRID.length
    ? [k, k + 1, k + 2 * ROUND + 1, k + 1, k + 2 * ROUND + 2, k + 2 * ROUND + 1] : []);

  function round(color, place) {
    const made = GRID.map(({ n, first }) => place(n, first));
    return { points: made.map(one => one[0]), normals: made.map(one => one[1]), faces: FACES, color };
  }

  function capsule({ a, b, radius, color }) {
    const along = unit(b.map((x, k) => a[k] - x)), pole = Math.hypot(...along) ? along : [0, 0, 1];
    const side = unit(cross(pole, Math.abs(pole[0]) < 0.8 ? [1, 0, 0] : [0, 1, 0])), other = cross(pole, side);
    return round(color, (n, first) => {
      const normal = [0, 1, 2].map(k => n[0] * side[k] + n[1] * other[k] + n[2] * pole[k]);
      return [normal.map((x, k) => (first ? a : b)[k] + radius * x), normal];
    });
  }

  function ellipsoid({ c, axes, half, color }) {
    const sum = (n, scale) => [0, 1, 2].map(k => n.reduce((x, m, i) => x + m * scale(half[i]) * axes[i][k], 0));
    return round(color, n => [sum(n, h => h).map((x, k) => c[k] + x), unit(sum(n, h => 1 / h))]);
  }

  // 1/z is linear on the picture; flat triangles have one shade each.
  function triangles(frame, { points, faces, normals, color }, seen) {
    for (let f = 0; f < faces.length; f += 3) {
      const [i, j, k] = faces.slice(f, f + 3), [p, q, r] = [seen[i], seen[j], seen[k]];
      const area = (q[0] - p[0]) * (r[1] - p[1]) - (q[1] - p[1]) * (r[0] - p[0]);
      if (!area || normals && [i, j, k].every(n => Camera.dot(normals[n], points[n]) > 0)) continue; // the far side
      const reach = (axis, most) => [Math.max(0, Math.ceil(Math.min(p[axis], q[axis], r[axis]) - 0.5)), Math.min(most, Math.max(p[axis], q[axis], r[axis]) - 0.5)];
      const [x0, x1] = reach(0, frame.width - 1), [y0, y1] = reach(1, frame.height - 1), flat = normals ? null : facing(points[i], points[j], points[k]);
      for (let y = y0; y <= y1; y++) {
        for (let x = x0; x <= x1; x++) {
          const u = ((x + 0.5 - p[0]) * (r[1] - p[1]) - (y + 0.5 - p[1]) * (r[0] - p[0])) / area;
          const v = ((q[0] - p[0]) * (y + 0.5 - p[1]) - (q[1] - p[1]) * (x + 0.5 - p[0])) / area;
          if (u < 0 || v < 0 || u + v > 1) continue;
          const z = 1 / (p[2] + u * (q[2] - p[2]) + v * (r[2] - p[2])), at = y * frame.width + x;
          if (z >= frame.depth[at]) continue;
          frame.depth[at] = z;
          const normal = flat ?? unit(normals[i].map((n, m) => n + u * (normals[j][m] - n) + v * (normals[k][m] - n)));
          const ray = [(x + 0.5 - frame.cx) / frame.focal, (frame.cy - y - 0.5) / frame.focal];
          shade(frame, at, color, normal, ...ray, ray[0] ** 2 + ray[1] ** 2 + 1);
        }
      }
    }
  }

  // The normal of a triangle at the side that is seen, so that meshes may wind either way.
  function facing(a, b, c) {
    const [u, v] = [b, c].map(p => p.map((x, k) => x - a[k])), n = unit(cross(u, v));
    return Camera.dot(n, a) > 0 ? n.map(x => -x) : n;
  }

  function cross(u, v) {
    return [u[1] * v[2] - u[2] * v[1], u[2] * v[0] - u[0] * v[2], u[0] * v[1] - u[1] * v[0]];
  }

  function shade(frame, k, color, [nx, ny, nz], x, y, dd) {
    const lit = Math.max(0, nx * LIGHT[0] + ny * LIGHT[1] + nz * LIGHT[2]);
    const glance = Math.max(0, nx * GLANCE[0] + ny * GLANCE[1] + nz * GLANCE[2]);
    const sky = nx * frame.sky[0] + ny * frame.sky[1] + nz * frame.sky[2];
    const front = -(nx * x + ny * y + nz) / Math.sqrt(dd);
    const light = (0.56 + 0.12 * sky + 0.46 * lit) * (0.7 + 0.3 * Math.min(1, 1.8 * front));
    const shine = 60 * Math.pow(glance, 40);
    const data = frame.image.data;
    data[4 * k] = color[0] * light + shine;
    data[4 * k + 1] = color[1] * light + shine;
    data[4 * k + 2] = color[2] * light + shine;
    data[4 * k + 3] = 255;
  }

  function unit(v) {
    const n = Math.hypot(...v) || 1;
    return v.map(x => x / n);
  }

  return { draw, capsule, ellipsoid, depthAt };
})();

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

  function stroke(context, points, color, alpha) {
    context.beginPath();
    points.forEach(([x, y], i) => i ? context.lineTo(x, y) : context.moveTo(x, y));
    context.lineWidth = 1;
    context.strokeStyle = color;
    context.globalAlpha = alpha;
    context.stroke();
    context.globalAlpha = 1;
  }

  function polygon(context, points) {
    context.beginPath();
    points.forEach(([x, y], i) => i ? context.lineTo(x, y) : context.moveTo(x, y));
    context.closePath();
  }

  return { corners, faces, edges, line, floor, axes, labels, stroke, polygon };
})();

// The robot in its cell: floor, zones, capsules, the tool's path, what is inside. The picture of one moment.
const Scene = (() => {
  const GRID = 1e-4; // positions arrive in tenths of a millimetre
  const BODY = [[240, 158, 56], [226, 229, 233]];
  const BASE = [112, 121, 133], KNOWN = [64, 132, 245], BELIEVED = [172, 142, 200];
  const ASSUMED = [255, 205, 0]; // volumes of links whose shape is not known
  const GLASS = 0.36; // how much is seen of the robot where something inside it is shown

  function create(canvas, plan) {
    const scene = {
      canvas, context: canvas.getContext('2d'), zones: plan.zones.filter(zone => numbers(zone.T)), links: plan.links || [],
      base: plan.base_capsules, hulls: plan.hulls || [], looks: true, camera: Camera.create([0, 0, 0.5], 1), path: [], quality: 1, cost: 0,
    };
    // one view for all runs: the picture does not jump when another is chosen
    const shown = plan.runs.flatMap(run => [run.frames, run.approach].filter(Boolean).map(frames => [frames, run.capsules || []]));
    frameView(scene, shown);
    return scene;
  }

  // Show the frames of a run, or of its way from home; the camera stays where it is.
  function show(scene, frames, capsules) {
    scene.frames = frames;
    scene.capsules = capsules || [];
    scene.path = frames.tool.map(p => p.map(x => x === null ? NaN : x * GRID));
  }

  // How far all of it reaches; the camera looks at that box.
  function frameView(scene, shown) {
    const low = [0, 0, 0], high = [0, 0, 0];
    const add = (p, r) => {
      if (!p.every(x => Number.isFinite(x))) return;
      p.forEach((x, k) => {
        if (x - r < low[k]) low[k] = x - r;
        if (x + r > high[k]) high[k] = x + r;
      });
    };
    for (const [frames] of shown) {
      frames.time.forEach((t, k) => k % 10 || inside({ ...scene, frames }, t).forEach(body => add(body.center, Math.max(...body.half))));
    }
    for (const c of scene.base) {
      add(c.start, c.radius);
      add(c.end, c.radius);
    }
    for (const [frames, capsules] of shown) {
      for (const frame of frames.capsules) {
        capsules.forEach((c, i) => [0, 3].forEach(k => add(frame.slice(6 * i + k, 6 * i + k + 3).map(x => x * GRID), c.radius)));
      }
      frames.tool.forEach(p => add(p.map(x => x * GRID), 0.02));
    }
    const room = 0.5 * Math.hypot(...low.map((x, k) => high[k] - x)); // a cell may be far larger than the robot
    const [least, most] = [low.map(x => x - room), high.map(x => x + room)];
    for (const zone of scene.zones) {
      if (zone.kind === 'half-space') continue;
      Zones.corners(zone).forEach(p => add(p.map((x, k) => Math.min(most[k], Math.max(least[k], x))), 0));
    }
    const { camera } = scene, radius = 0.5 * Math.hypot(...low.map((x, k) => high[k] - x)) || 1;
    const ends = [low, high.map(x => Math.max(x, 0.32 * radius))]; // with the names of the axes
    const corners = Array.from({ length: 8 }, (_, n) => [0, 1, 2].map(k => ends[n >> k & 1][k]));
    Object.assign(camera, { target: low.map((x, k) => (x + high[k]) / 2), radius, corners, distance: null });
    Object.assign(scene, { low, high });
  }

  // Capsules at time t, between two frames: straight.
  function bodies(scene, t, looks) {
    const frames = scene.frames, n = frames.time.length;
    const still = scene.base.filter(c => !(looks && c.points));
    const found = still.map(c => ({ start: c.start, end: c.end, radius: c.radius, color: c.assumed ? ASSUMED : BASE }));
    if (!n) return found;
    const [i, s] = between(frames.time, t);
    const a = frames.capsules[i] || [], b = frames.capsules[Math.min(i + 1, n - 1)] || a;
    scene.capsules.forEach((c, k) => {
      if (looks && hullsOf(scene)[k]) return;
      const p = [0, 1, 2, 3, 4, 5].map(m => GRID * (a[6 * k + m] + s * (b[6 * k + m] - a[6 * k + m])));
      const color = c.assumed ? ASSUMED : c.link === -1 || c.link === 'base' ? BASE : BODY[scene.order.get(c.link) % 2];
      found.push({ start: p.slice(0, 3), end: p.slice(3), radius: c.radius, color });
    });
    return found;
  }

  // Hulls of the meshes' parts, in the order of the capsules that contain them.
  function hullsOf({ hulls, capsules, frames }) {
    return frames.poses && hulls.length === capsules.length ? hulls : [];
  }

  // Where they are at time t in the eye's coordinates; a frame has 12 numbers for each pose, its rows.
  function shapes(scene, view, t) {
    const { frames: { poses, time } } = scene, still = scene.base.filter(c => c.points);
    if (!scene.looks) return [];
    const fixed = still.map(({ points, faces }) => ({ points: placed(view, points, [1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0]), faces, color: BASE }));
    if (!time.length) return fixed;
    const [i, s] = between(time, t);
    return [...fixed, ...hullsOf(scene).flatMap((hull, k) => {
      if (!hull) return [];
      const at = n => poses[Math.min(n, time.length - 1)].slice(12 * hull.pose, 12 * hull.pose + 12), [a, b] = [at(i), at(i + 1)];
      const color = BODY[scene.order.get(scene.capsules[k].link) % 2];
      return [{ points: placed(view, hull.points, a.map((x, m) => GRID * (x + s * (b[m] - x)))), faces: hull.faces, color }];
    })];
  }

  function placed(view, v, T) {
    return Array.from({ length: v.length / 3 }, (_, n) => {
      const [x, y, z] = [GRID * v[3 * n], GRID * v[3 * n + 1], GRID * v[3 * n + 2]];
      return Camera.toEye(view, [0, 4, 8].map(r => T[r] * x + T[r + 1] * y + T[r + 2] * z + T[r + 3]));
    });
  }

  // Ellipsoids of the links' inertia at time t, in base coordinates.
  function inside({ links, frames }, t) {
    if (!links.length || !frames.time.length) return [];
    const [i, s] = between(frames.time, t), a = frames.ellipsoids[i], b = frames.ellipsoids[Math.min(i + 1, frames.time.length - 1)];
    return links.map((link, k) => {
      const x = Array.from({ length: 12 }, (_, m) => GRID * (a[12 * k + m] + s * (b[12 * k + m] - a[12 * k + m])));
      const axes = [0, 1, 2].map(m => [x[3 + m], x[6 + m], x[9 + m]]), color = link.mass_label === 'data-determined' ? KNOWN : BELIEVED;
      return { center: x.slice(0, 3), axes, half: link.half_axes.map(h => Math.max(h, 0.004)), name: link.link, color };
    });
  }

  function eyed(view, { center, axes, half, color }) {
    const turned = axis => [view.right, view.up, view.forward].map(own => Camera.dot(axis, own) / Math.hypot(...axis));
    return Raster.ellipsoid({ c: Camera.toEye(view, center), axes: axes.map(turned), half, color });
  }

  // Each link's name beside its centre of mass, where no other name is; a thin line leads to one that had to go far.
  function names(scene, view, found, colors) {
    const { context, canvas } = scene, taken = [];
    context.font = '600 12px system-ui, "DejaVu Sans", sans-serif';
    context.textAlign = 'left';
    context.textBaseline = 'alphabetic';
    for (const body of found) {
      const e = Camera.toEye(view, body.center), words = body.name.length > 24 ? `${body.name.slice(0, 23)}…` : body.name;
      if (!(e[2] > view.near)) continue;
      const [x, y] = Camera.toScreen(view, e), wide = context.measureText(words).width;
      const [left, base] = free(x, y, wide, taken, canvas.clientWidth);
      taken.push([left, base - 12, left + wide, base + 3]);
      if (Math.abs(base - y) > 20) Zones.stroke(context, [[x, y], [x < left ? left - 2 : left + wide + 2, base - 4]], colors.text, 0.5);
      context.lineWidth = 3;
      context.strokeStyle = colors.back;
      context.fillStyle = colors.text;
      context.strokeText(words, left, base);
      context.fillText(words, left, base);
    }
  }

  // The nearest place for words: right or left of a point, higher or lower, off those that are taken.
  function free(x, y, wide, taken, width) {
    for (let step = 0; step < 12; step++) {
      const base = y - 6 + (step % 2 ? 1 : -1) * 15 * Math.ceil(step / 2);
      for (const left of [x + 8, x - 8 - wide]) {
        const fits = left > 2 && left + wide < width - 2;
        if (fits && taken.every(([a, b, c, d]) => left > c + 3 || left + wide < a - 3 || base - 12 > d || base + 3 < b)) return [left, base];
      }
    }
    return [x + 6, y - 6];
  }

  function between(time, t) {
    let i = 0, j = time.length - 1;
    while (j - i > 1) {
      const middle = (i + j) >> 1;
      if (time[middle] <= t) i = middle;
      else j = middle;
    }
    const length = time[i + 1] - time[i];
    return [i, length > 0 ? Math.min(1, Math.max(0, (t - time[i]) / length)) : 0];
  }

  function draw(scene, t, moving) {
    const { canvas, context } = scene;
    const width = canvas.clientWidth, height = canvas.clientHeight;
    if (!width || !height) return;
    const ratio = Math.min(window.devicePixelRatio || 1, 2);
    if (canvas.width !== Math.round(width * ratio)) canvas.width = Math.round(width * ratio);
    if (canvas.height !== Math.round(height * ratio)) canvas.height = Math.round(height * ratio);
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, height);
    scene.order = new Map([...new Set(scene.capsules.map(c => c.link))].map((link, i) => [link, i]));
    const view = Camera.pose(scene.camera, width, height), colors = theme(canvas);
    const solid = bodies(scene, t, scene.looks);
    Zones.floor(context, view, scene, colors);
    bodies(scene, t, false).forEach(c => shadow(context, view, c, colors));
    scene.zones.forEach(zone => Zones.faces(context, view, zone, scene, colors));
    const began = performance.now(), fine = moving ? scene.quality * ratio : Math.max(2, ratio), hidden = inside(scene, t);
    const capsules = solid.map(c => Raster.capsule({ ...c, a: Camera.toEye(view, c.start), b: Camera.toEye(view, c.end) }));
    const frame = Raster.draw([...capsules, ...shapes(scene, view, t)], view, fine);
    const within = Raster.draw(hidden.map(body => eyed(view, body)), view, fine);
    if (within) paint(context, within, 1);
    if (frame) paint(context, frame, within ? GLASS : 1);
    if (moving) adapt(scene, performance.now() - began);
    scene.zones.forEach(zone => Zones.edges(context, view, zone, scene, colors, frame));
    trace(context, view, scene, t, colors, frame);
    Zones.axes(context, view, scene, frame);
    Zones.labels(context, view, scene, colors);
    names(scene, view, hidden, colors);
  }

  // Draw coarser while the machine is too slow for a smooth motion.
  function adapt(scene, cost) {
    scene.cost = 0.8 * scene.cost + 0.2 * cost;
    if (scene.cost > 28 && scene.quality > 0.4) scene.quality *= 0.85;
    if (scene.cost < 10 && scene.quality < 1) scene.quality = Math.min(1, scene.quality * 1.1);
  }

  function paint(context, frame, alpha) {
    const sheet = document.createElement('canvas');
    sheet.width = frame.width;
    sheet.height = frame.height;
    sheet.getContext('2d').putImageData(frame.image, 0, 0);
    context.imageSmoothingEnabled = true;
    context.imageSmoothingQuality = 'high';
    context.globalAlpha = alpha;
    const s = frame.scale;
    context.drawImage(sheet, frame.left / s, frame.top / s, frame.width / s, frame.height / s);
    context.globalAlpha = 1;
  }

  // What a capsule darkens on the floor z = 0, under light from above.
  function shadow(context, view, capsule, colors) {
    if (Math.max(capsule.start[2], capsule.end[2]) < 0) return;
    const [a, b, r] = [capsule.start, capsule.end, capsule.radius];
    const away = Math.atan2(b[1] - a[1], b[0] - a[0]);
    const outline = [];
    for (let k = 0; k <= 12; k++) outline.push([b, away - Math.PI / 2 + Math.PI * k / 12]);
    for (let k = 0; k <= 12; k++) outline.push([a, away + Math.PI / 2 + Math.PI * k / 12]);
    const points = outline.map(([p, angle]) => Camera.toEye(view, [p[0] + r * Math.cos(angle), p[1] + r * Math.sin(angle), 0]));
    if (points.some(e => !(e[2] > view.near))) return;
    Zones.polygon(context, points.map(e => Camera.toScreen(view, e)));
    context.fillStyle = colors.shadow;
    context.fill();
  }

  // The tool's path: all of it thin, what is done thick, and the tool itself.
  function trace(context, view, scene, t, colors, frame) {
    const path = scene.path, time = scene.frames.time;
    if (path.length < 2) return;
    const [i, share] = between(time, t), next = path[Math.min(i + 1, path.length - 1)];
    const here = path[i].map((x, m) => x + share * (next[m] - x));
    Zones.line(context, view, path, frame, { color: colors.path, width: 1, alpha: 0.55 });
    Zones.line(context, view, [...path.slice(0, i + 1), here], frame, { color: colors.done, width: 2.2, alpha: 1 });
    const e = Camera.toEye(view, here);
    if (!(e[2] > view.near)) return;
    const [x, y] = Camera.toScreen(view, e);
    context.beginPath();
    context.arc(x, y, 4, 0, 2 * Math.PI);
    context.fillStyle = colors.done;
    context.fill();
    context.lineWidth = 1.5;
    context.strokeStyle = colors.back;
    context.stroke();
  }

  function theme(canvas) {
    const style = getComputedStyle(canvas), read = name => style.getPropertyValue(name).trim();
    return {
      grid: read('--grid'), text: read('--text'), faint: read('--faint'), back: read('--card'), shadow: read('--shadow'),
      path: read('--path'), done: read('--accent'), in: read('--keep-in'), out: read('--keep-out'),
    };
  }

  function numbers(T) {
    return Array.isArray(T) && T.length === 4 && T.every(row => row.length === 4 && row.every(x => typeof x === 'number'));
  }

  return { create, show, draw };
})();

// The robot in motion: play, scrub, turn, move, zoom. show(frames, capsules, span) says what; sought(t) hears of time.
const Player = (() => {
  const find = id => document.getElementById(id), all = selector => [...document.querySelectorAll(selector)];

  function create(data, sought = () => {}) {
    const canvas = find('scene'), scene = Scene.create(canvas, data);
    const player = { scene, t: 0, speed: 1, playing: false, dragging: false, last: null, span: [0, 1], sought };
    const reset = () => find('views').firstElementChild.click();
    player.picture = () => Scene.draw(scene, player.t, player.playing || player.dragging);
    player.show = (frames, capsules, span) => {
      Scene.show(scene, frames, capsules);
      find('viewer').classList.toggle('empty', !frames.time.length);
      player.span = span ?? (Svg.range(frames.time) || [0, 1]);
    };
    player.seek = t => seek(player, t);
    find('play').addEventListener('click', () => play(player, !player.playing));
    find('scrub').addEventListener('input', event => {
      const [from, to] = player.span;
      seek(player, from + (to - from) * event.target.value / 1000);
    });
    choice('#speeds button', button => player.speed = Number(button.dataset.speed), '1');
    choice('#views button', button => (Camera.look(scene.camera, button.dataset.view), player.picture()), '3d');
    choice('#looks button', button => (scene.looks = button.dataset.looks === 'robot', player.picture()), 'robot');
    Camera.attach(canvas, scene.camera, {
      redraw: player.picture, reset, dragging: on => player.dragging = on,
      turned: () => all('#views button').forEach(button => button.classList.remove('on')),
    });
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', player.picture);
    addEventListener('keydown', event => keys(player, event));
    return player;
  }

  // Space plays and pauses, arrows step, wherever no other element wants the key.
  function keys(player, event) {
    const busy = /^(INPUT|TEXTAREA|SELECT|BUTTON|SUMMARY|A)$/.test(event.target.tagName) && event.target.id !== 'scrub';
    if (event.ctrlKey || event.altKey || event.metaKey || busy || !player.scene.frames?.time.length) return;
    const [from, to] = player.span, side = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (event.key === ' ') play(player, !player.playing);
    else if (side) seek(player, player.t + side * (to - from) / 200);
    else return;
    event.preventDefault();
  }

  function seek(player, t) {
    const [from, to] = player.span;
    player.t = Math.min(to, Math.max(from, t));
    find('scrub').value = String(1000 * (player.t - from) / (to - from || 1));
    find('clock').textContent = `${player.t.toFixed(2)} s of ${to.toFixed(2)} s`;
    player.sought(player.t);
    player.picture();
  }

  function play(player, on) {
    player.playing = on;
    find('play').textContent = on ? '❚❚ Pause' : '▶ Play';
    if (on && player.t >= player.span[1]) seek(player, player.span[0]);
    player.last = null;
    if (on) requestAnimationFrame(now => tick(player, now));
    else player.picture();
  }

  function tick(player, now) {
    if (!player.playing) return;
    const passed = player.last === null ? 0 : Math.min(0.1, (now - player.last) / 1000);
    player.last = now;
    seek(player, player.t + passed * player.speed);
    if (player.t >= player.span[1]) play(player, false);
    else requestAnimationFrame(later => tick(player, later));
  }

  function choice(selector, act, first) {
    const buttons = all(selector);
    buttons.forEach(button => button.addEventListener('click', () => {
      buttons.forEach(other => other.classList.toggle('on', other === button));
      act(button);
    }));
    buttons.forEach(button => button.classList.toggle('on', Object.values(button.dataset)[0] === first));
  }

  return { create };
})();
