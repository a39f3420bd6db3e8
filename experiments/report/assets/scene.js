// Vectors of three numbers.
const Space = {
  dot: (a, b) => a[0] * b[0] + a[1] * b[1] + a[2] * b[2],
  cross: (u, v) => [u[1] * v[2] - u[2] * v[1], u[2] * v[0] - u[0] * v[2], u[0] * v[1] - u[1] * v[0]],
  minus: (a, b) => a.map((x, k) => x - b[k]),
  along: (p, s, v) => p.map((x, k) => x + s * v[k]), // from p by s times v
  mix: (a, b, s) => a.map((x, k) => x + s * (b[k] - x)), // of the way from a to b the share s
  unit(v) {
    const n = Math.hypot(...v) || 1;
    return v.map(x => x / n);
  },
};

// Where the eye is and how it sees: an orbit around a target, z up, perspective.
const Camera = (() => {
  const FIELD = 34 * Math.PI / 180; // vertical field of view
  const VIEWS = { '3d': [-0.95, 0.38], front: [0, 0.02], side: [-Math.PI / 2, 0.02], top: [-Math.PI / 2, 1.55] };
  const { dot, minus, along } = Space;

  function create() {
    const camera = { target: [0, 0, 0.5], radius: 1, corners: [], shift: [0, 0, 0], shape: null };
    look(camera, '3d');
    return camera;
  }

  function look(camera, view) {
    const [yaw, pitch] = VIEWS[view];
    Object.assign(camera, { yaw, pitch, zoom: 1, moved: [0, 0, 0], distance: null });
  }

  const middle = camera => along(camera.target, 1, camera.shift);

  // The eye's axes in base coordinates, and where it stands: so far that all corners of the scene fit in at zoom 1,
  // in the middle of the picture.
  function pose(camera, width, height) {
    const [cy, sy, cp, sp] = [Math.cos(camera.yaw), Math.sin(camera.yaw), Math.cos(camera.pitch), Math.sin(camera.pitch)];
    const axes = { forward: [-cy * cp, -sy * cp, -sp], right: [-sy, cy, 0], up: [-cy * sp, -sy * sp, cp] };
    if (camera.distance === null || camera.shape !== width / height) {
      camera.shape = width / height;
      camera.distance = fit(camera, axes);
    }
    const eye = along(along(middle(camera), 1, camera.moved), -camera.zoom * camera.distance, axes.forward);
    return { ...axes, width, height, eye, focal: height / 2 / Math.tan(FIELD / 2), near: 0.02 * camera.radius };
  }

  function fit(camera, axes) {
    camera.shift = [0, 0, 0];
    let distance = far(camera, axes);
    for (let round = 0; round < 4 && camera.corners.length; round++) {
      for (const axis of [axes.up, axes.right]) {
        const ways = camera.corners.map(corner => minus(corner, middle(camera)));
        const [low, high] = Svg.range(ways.map(d => dot(d, axis) / (distance + dot(d, axes.forward))));
        camera.shift = along(camera.shift, distance * (low + high) / 2, axis);
      }
      distance = far(camera, axes);
    }
    return distance;
  }

  // How far away the eye has to be for all corners to fit in.
  function far(camera, axes) {
    const tan = 0.94 * Math.tan(FIELD / 2);
    return camera.corners.reduce((distance, corner) => {
      const d = minus(corner, middle(camera)), away = dot(d, axes.forward);
      return Math.max(distance, Math.abs(dot(d, axes.up)) / tan - away, Math.abs(dot(d, axes.right)) / (tan * camera.shape) - away);
    }, 0.5 * camera.radius);
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
    camera.moved = along(along(camera.moved, -size * right, view.right), -size * up, view.up);
  }

  // Turn by dragging, move by dragging with Shift or the right button, two fingers move and zoom; arrows turn, with Shift move.
  function attach(canvas, camera, { redraw, dragging, turned, reset }) {
    const soon = () => (turned(), requestAnimationFrame(redraw)), tall = () => canvas.clientHeight || 1;
    const shifted = (x, y) => move(camera, x / tall(), -y / tall());
    canvas.addEventListener('contextmenu', event => event.preventDefault());
    Gestures.attach(canvas, {
      near: 0.8, all: reset, press: () => dragging(true), move: shifted,
      zoom(factor) {
        camera.zoom = Math.min(5, Math.max(0.1, camera.zoom * factor));
        requestAnimationFrame(redraw);
      },
      drag(event, x, y) {
        if (event.shiftKey || event.buttons & 2) shifted(x, y);
        else turn(camera, 0.008 * x, 0.008 * y);
        soon();
      },
      lift(event, left) {
        dragging(left > 0);
        redraw();
      },
      arrow(right, up, shift) {
        if (shift) move(camera, 0.06 * right, 0.06 * up);
        else turn(camera, 0.12 * right, -0.12 * up);
        soon();
        return true;
      },
    });
  }

  return { create, look, pose, toEye, toScreen, attach };
})();

// Bodies drawn pixel by pixel, the nearest to the eye: capsules, ellipsoids, meshes of triangles.
// No WebGL: this works everywhere, and the depths determine which part of a line is behind the robot.
const Raster = (() => {
  const { dot, cross, unit, minus, along } = Space;
  const LIGHT = unit([-0.45, 0.75, -0.6]);
  const GLANCE = unit([-0.45, 0.75, -1.6]); // half way between the light and the eye

  // Bodies in the eye's coordinates: {points, faces, normals where it is round, color}; view: of the main picture;
  // scale: pixels here per pixel there.
  function draw(bodies, view, scale) {
    const shown = bodies.filter(body => body.points.every(e => e[2] > view.near));
    const seen = shown.map(body => body.points.map(e => Camera.toScreen(view, e))), all = seen.flat();
    if (!all.length) return null;
    const [[left, width], [top, height]] = [view.width, view.height].map((most, axis) => {
      const [from, to] = Svg.range(all.map(p => p[axis])).map(x => Math.min(most, Math.max(0, x)) * scale);
      return [Math.floor(from), Math.ceil(to) - Math.floor(from)];
    });
    if (width < 1 || height < 1) return null;
    const frame = {
      image: new ImageData(width, height), depth: new Float32Array(width * height).fill(Infinity), left, top, width, height, scale,
      focal: view.focal * scale, cx: view.width * scale / 2 - left, cy: view.height * scale / 2 - top,
      sky: [view.right[2], view.up[2], view.forward[2]],
    };
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
    const way = unit(minus(a, b)), pole = Math.hypot(...way) ? way : [0, 0, 1];
    const side = unit(cross(pole, Math.abs(pole[0]) < 0.8 ? [1, 0, 0] : [0, 1, 0])), other = cross(pole, side);
    return round(color, (n, first) => {
      const normal = [0, 1, 2].map(k => n[0] * side[k] + n[1] * other[k] + n[2] * pole[k]);
      return [along(first ? a : b, radius, normal), normal];
    });
  }

  function ellipsoid({ c, axes, half, color }) {
    const sum = (n, scale) => [0, 1, 2].map(k => n.reduce((x, m, i) => x + m * scale(half[i]) * axes[i][k], 0));
    return round(color, n => [along(c, 1, sum(n, h => h)), unit(sum(n, h => 1 / h))]);
  }

  // 1/z is linear on the picture; flat triangles have one shade each.
  function triangles(frame, { points, faces, normals, color }, seen) {
    for (let f = 0; f < faces.length; f += 3) {
      const [i, j, k] = faces.slice(f, f + 3), [p, q, r] = [seen[i], seen[j], seen[k]];
      const area = (q[0] - p[0]) * (r[1] - p[1]) - (q[1] - p[1]) * (r[0] - p[0]);
      if (!area || normals && [i, j, k].every(n => dot(normals[n], points[n]) > 0)) continue; // the far side
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
          shade(frame, at, color, normal, [(x + 0.5 - frame.cx) / frame.focal, (frame.cy - y - 0.5) / frame.focal, 1]);
        }
      }
    }
  }

  // The normal of a triangle at the side that is seen, so that meshes may wind either way.
  function facing(a, b, c) {
    const n = unit(cross(minus(b, a), minus(c, a)));
    return dot(n, a) > 0 ? n.map(x => -x) : n;
  }

  function shade(frame, k, color, normal, ray) {
    const lit = Math.max(0, dot(normal, LIGHT)), sky = dot(normal, frame.sky), front = -dot(normal, ray) / Math.sqrt(dot(ray, ray));
    const light = (0.56 + 0.12 * sky + 0.46 * lit) * (0.7 + 0.3 * Math.min(1, 1.8 * front));
    const shine = 60 * Math.pow(Math.max(0, dot(normal, GLANCE)), 40);
    for (let c = 0; c < 3; c++) frame.image.data[4 * k + c] = color[c] * light + shine;
    frame.image.data[4 * k + 3] = 255;
  }

  return { draw, capsule, ellipsoid, depthAt };
})();

// Lines and faces of a cell: the floor's grid, zones as wireframes that know what lies behind the robot, axes, names.
// A stage is what one picture is drawn with: {context, view, scene, colors, frame: the robot's, once it is drawn}.
const Zones = (() => {
  const { dot, minus, along, mix } = Space;
  const RING = Array.from({ length: 49 }, (_, k) => [Math.cos(k * Math.PI / 24), Math.sin(k * Math.PI / 24)]);
  const SIGNS = [[-1, -1, -1], [1, -1, -1], [1, 1, -1], [-1, 1, -1], [-1, -1, 1], [1, -1, 1], [1, 1, 1], [-1, 1, 1]];
  const BOX_EDGES = [[0, 1], [1, 2], [2, 3], [3, 0], [4, 5], [5, 6], [6, 7], [7, 4], [0, 4], [1, 5], [2, 6], [3, 7]];
  const BOX_FACES = [[0, 1, 2, 3], [4, 5, 6, 7], [0, 1, 5, 4], [2, 3, 7, 6], [1, 2, 6, 5], [3, 0, 4, 7]];

  const CIRCLES = [([x, y]) => [x, y, 0], ([x, y]) => [x, 0, y], ([x, y]) => [0, x, y]].map(ring => RING.map(ring));
  const ENDS = [-1, 1].map(z => RING.map(([x, y]) => [x, y, z])), SIDES = [0, 6, 12, 18, 24, 30, 36, 42].map(k => ENDS.map(ring => ring[k]));

  // Wires and faces of each bounded kind in the box from -1 to 1, and half the size of the box around a zone.
  const KINDS = {
    box: { half: size => size, wires: BOX_EDGES.map(edge => edge.map(k => SIGNS[k])), faces: BOX_FACES.map(face => face.map(k => SIGNS[k])) },
    sphere: { half: ([a]) => [a, a, a], wires: CIRCLES, faces: [CIRCLES[0]] },
    cylinder: { half: ([a, b]) => [a, a, b], wires: [...ENDS, ...SIDES], faces: ENDS },
  };
  const kind = zone => Object.hasOwn(KINDS, zone.kind) ? KINDS[zone.kind] : KINDS.box;
  const tint = (zone, colors) => colors[zone.keep === 'in' ? 'in' : 'out'];

  // Points of the box from -1 to 1 where a zone has them: unless told which, its corners, or those of the box around it.
  function placed(zone, points = SIGNS) {
    const half = kind(zone).half([0, 1, 2].map(k => (zone.size || [])[k] || 0));
    return points.map(p => p.map((x, k) => x * half[k])).map(p => zone.T.slice(0, 3).map(row => dot(row, p) + row[3]));
  }

  // The wires or faces of a zone in base coordinates. A half-space has no end: show the patch of its plane beside the
  // robot, in the plane's axes nearest to ours.
  function parts(zone, { camera: { target, radius } }, key) {
    if (zone.kind !== 'half-space') return kind(zone)[key].map(points => placed(zone, points));
    const [u, v, normal, at] = [0, 1, 2, 3].map(m => [0, 1, 2].map(k => zone.T[k][m])), r = 0.95 * radius;
    const middle = along(target, -dot(normal, minus(target, at)), normal);
    const on = (s, t) => along(along(middle, r * s, u), r * t, v);
    if (key === 'faces') return [[on(-1, -1), on(1, -1), on(1, 1), on(-1, 1)]];
    return [-1, -0.5, 0, 0.5, 1].flatMap(s => [[on(s, -1), on(s, 1)], [on(-1, s), on(1, s)]]);
  }

  function faces({ context, view, scene, colors }, zone) {
    context.fillStyle = tint(zone, colors);
    context.globalAlpha = zone.keep === 'in' ? 0.035 : 0.075;
    for (const face of parts(zone, scene, 'faces')) {
      const shown = clip(face.map(p => Camera.toEye(view, p)), view.near);
      if (shown.length > 2) context.fill(outline(shown.map(e => Camera.toScreen(view, e))));
    }
    context.globalAlpha = 1;
  }

  // Keep the part of a polygon that lies before the eye.
  function clip(points, near) {
    return points.flatMap((p, i) => {
      const q = points[(i + 1) % points.length], kept = p[2] > near ? [p] : [];
      return (p[2] > near) === (q[2] > near) ? kept : [...kept, mix(p, q, (near - p[2]) / (q[2] - p[2]))];
    });
  }

  function edges(stage, zone) {
    const style = { color: tint(zone, stage.colors), width: 1.4, alpha: zone.kind === 'half-space' ? 0.45 : 0.9 };
    parts(zone, stage.scene, 'wires').forEach(wire => line(stage, wire, style));
  }

  // A line in space; where the robot hides it, it stays as a shade.
  function line({ context, view, frame }, points, style) {
    const seen = new Path2D(), hidden = new Path2D(), eyed = points.map(p => Camera.toEye(view, p));
    for (let i = 0; i + 1 < eyed.length; i++) {
      const [a, b] = eyed.slice(i, i + 2), length = Math.hypot(...minus(b, a));
      const pieces = frame ? Math.min(80, Math.max(1, Math.ceil(length / Math.max(view.near, 1e-8)))) : 1;
      for (let k = 0; k < pieces; k++) {
        const p = mix(a, b, k / pieces), q = mix(a, b, (k + 1) / pieces);
        if (!(p[2] > view.near && q[2] > view.near)) continue;
        const s = Camera.toScreen(view, p), e = Camera.toScreen(view, q);
        const depth = Raster.depthAt(frame, (s[0] + e[0]) / 2, (s[1] + e[1]) / 2);
        const path = (p[2] + q[2]) / 2 > depth + 0.003 ? hidden : seen;
        path.moveTo(...s);
        path.lineTo(...e);
      }
    }
    stroke(context, seen, style);
    stroke(context, hidden, { ...style, alpha: 0.22 * style.alpha });
  }

  // Grid lines every 1, 2 or 5 · 10ⁿ m on z = 0.
  function floor(stage) {
    const { scene, colors } = stage, rough = scene.camera.radius / 6, power = Math.pow(10, Math.floor(Math.log10(rough)));
    const step = power * [1, 2, 5, 10].find(k => k * power >= rough), style = { color: colors.grid, width: 1, alpha: 1 };
    const [x0, y0] = scene.low.map(x => step * Math.floor(x / step - 0.5));
    const [x1, y1] = scene.high.map(x => step * Math.ceil(x / step + 0.5));
    for (let x = x0; x <= x1 + step / 2; x += step) line(stage, [[x, y0, 0], [x, y1, 0]], style);
    for (let y = y0; y <= y1 + step / 2; y += step) line(stage, [[x0, y, 0], [x1, y, 0]], style);
    scene.step = step;
  }

  function axes(stage) {
    const { context, view, scene, frame } = stage, length = 0.28 * scene.camera.radius;
    [['x', '#e0443e', [1, 0, 0]], ['y', '#2f9e44', [0, 1, 0]], ['z', '#3b7ddd', [0, 0, 1]]].forEach(([name, color, way]) => {
      line(stage, [[0, 0, 0], way.map(x => length * x)], { color, width: 2, alpha: 1 });
      const e = Camera.toEye(view, way.map(x => 1.12 * length * x)), at = Camera.toScreen(view, e);
      if (e[2] > view.near && Raster.depthAt(frame, ...at) > e[2]) text(context, name, at, color);
    });
  }

  // Names of zones at their highest edge.
  function labels({ context, view, scene, colors }) {
    const taken = [], held = (x, room, most) => Math.min(most - room, Math.max(room, x));
    for (const zone of scene.zones) {
      const points = zone.kind === 'half-space' ? parts(zone, scene, 'faces')[0] : placed(zone);
      const shown = points.map(p => Camera.toEye(view, p)).filter(e => e[2] > view.near).map(e => Camera.toScreen(view, e));
      if (!shown.length) continue;
      const top = shown.reduce((best, p) => p[1] < best[1] ? p : best), name = String(zone.name ?? '').slice(0, 30);
      const wide = context.measureText(name).width, left = held(top[0], wide / 2 + 4, view.width) - wide / 2;
      text(context, name, free([left], held(top[1] - 9, 12, view.height), wide, taken, view.width), tint(zone, colors), colors.back);
    }
  }

  // The nearest place for words off those that are taken: at one of some left ends, on this height, higher or lower.
  function free(lefts, y, wide, taken, width) {
    const heights = Array.from({ length: 12 }, (_, step) => y + (step % 2 ? 1 : -1) * 15 * Math.ceil(step / 2));
    const places = heights.flatMap(at => lefts.filter(left => left > 2 && left + wide < width - 2).map(left => [left, at]));
    const off = ([left, at]) => taken.every(([x, y, w]) => left > x + w + 3 || left + wide < x - 3 || Math.abs(at - y) > 15);
    const [left, at] = places.find(off) ?? [lefts[0], y];
    taken.push([left, at, wide]);
    return [left + wide / 2, at];
  }

  // Words around a place, with a halo that parts them from what is behind.
  function text(context, words, [x, y], color, halo) {
    Object.assign(context, { textAlign: 'center', textBaseline: 'middle', lineWidth: 3, lineJoin: 'round', strokeStyle: halo, fillStyle: color });
    if (halo) context.strokeText(words, x, y);
    context.fillText(words, x, y);
  }

  function stroke(context, path, { color, width, alpha }) {
    Object.assign(context, { strokeStyle: color, lineWidth: width, lineCap: 'round', globalAlpha: alpha });
    context.stroke(path);
    context.globalAlpha = 1;
  }

  function outline(points) {
    const path = new Path2D();
    points.forEach(([x, y]) => path.lineTo(x, y));
    return path;
  }

  return { placed, faces, edges, line, floor, axes, labels, free, text, stroke, outline };
})();

// The robot in its cell: floor, zones, capsules, the tool's path, what is inside. The picture of one moment.
const Scene = (() => {
  const { dot, mix } = Space;
  const GRID = 1e-4; // positions arrive in tenths of a millimetre
  const BODY = [[240, 158, 56], [226, 229, 233]];
  const BASE = [112, 121, 133], KNOWN = [64, 132, 245], BELIEVED = [172, 142, 200];
  const ASSUMED = [255, 205, 0]; // volumes of links whose shape is not known
  const GLASS = 0.36; // how much is seen of the robot where something inside it is shown
  const HERE = [GRID, 0, 0, 0, 0, GRID, 0, 0, 0, 0, GRID, 0]; // the pose of what stands still
  const FONT = '600 12px system-ui, "DejaVu Sans", sans-serif';
  const pose = T => Array.isArray(T) && T.length === 4 && T.every(row => row.length === 4 && row.every(x => typeof x === 'number'));

  function create(canvas, plan) {
    const scene = {
      canvas, context: canvas.getContext('2d'), zones: plan.zones.filter(zone => pose(zone.T)), links: plan.links || [],
      base: plan.base_capsules, hulls: plan.hulls || [], looks: true, camera: Camera.create(), path: [], quality: 1, cost: 0,
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
    scene.order = new Map([...new Set(scene.capsules.map(c => c.link))].map((link, i) => [link, i]));
  }

  // How far all of it reaches; the camera looks at that box.
  function frameView(scene, shown) {
    const ends = (c, a, b) => [a, b].map(p => [p, c.radius]), meters = row => row.map(x => x * GRID);
    const balls = [[[0, 0, 0], 0], ...scene.base.flatMap(c => ends(c, c.start, c.end))];
    for (const [frames, capsules] of shown) {
      const within = frames.time.filter((_, k) => k % 10 === 0).flatMap(t => inside({ ...scene, frames }, t));
      balls.push(...within.map(({ center, half }) => [center, Math.max(...half)]), ...frames.tool.map(p => [meters(p), 0.02]));
      for (const frame of frames.capsules.map(meters)) {
        balls.push(...capsules.flatMap((c, i) => ends(c, frame.slice(6 * i, 6 * i + 3), frame.slice(6 * i + 3, 6 * i + 6))));
      }
    }
    const known = balls.filter(([p]) => p.every(Number.isFinite));
    const robot = [0, 1, 2].map(k => Svg.range(known.flatMap(([p, r]) => [p[k] - r, p[k] + r])));
    const across = box => Math.hypot(...box.map(([low, high]) => high - low)), room = 0.5 * across(robot); // a cell may be far larger
    const zones = scene.zones.filter(zone => zone.kind !== 'half-space').flatMap(zone => Zones.placed(zone));
    const box = robot.map(([low, high], k) => Svg.range([low, high, ...zones.map(p => Math.min(high + room, Math.max(low - room, p[k])))]));
    const radius = 0.5 * across(box) || 1, [low, high] = [0, 1].map(side => box.map(ends => ends[side]));
    const seen = [low, high.map(x => Math.max(x, 0.32 * radius))]; // with the names of the axes
    const corners = Array.from({ length: 8 }, (_, n) => [0, 1, 2].map(k => seen[n >> k & 1][k]));
    Object.assign(scene.camera, { target: mix(low, high, 0.5), radius, corners, distance: null });
    Object.assign(scene, { low, high });
  }

  // A row of the frames at time t, between two frames: straight.
  function rowAt(frames, key, t) {
    const [i, s] = between(frames.time, t), rows = frames[key], row = rows[i] || [];
    return mix(row, rows[Math.min(i + 1, frames.time.length - 1)] || row, s).map(x => GRID * x);
  }

  // Capsules at time t.
  function bodies(scene, t, looks) {
    const still = scene.base.filter(c => !(looks && c.points));
    const found = still.map(c => ({ start: c.start, end: c.end, radius: c.radius, color: c.assumed ? ASSUMED : BASE }));
    const ends = scene.frames.time.length ? rowAt(scene.frames, 'capsules', t) : [];
    scene.capsules.forEach((c, k) => {
      if (!ends.length || looks && hullsOf(scene)[k]) return;
      const color = c.assumed ? ASSUMED : c.link === -1 || c.link === 'base' ? BASE : BODY[scene.order.get(c.link) % 2];
      found.push({ start: ends.slice(6 * k, 6 * k + 3), end: ends.slice(6 * k + 3, 6 * k + 6), radius: c.radius, color });
    });
    return found;
  }

  // Hulls of the meshes' parts, in the order of the capsules that contain them.
  function hullsOf({ hulls, capsules, frames }) {
    return frames.poses && hulls.length === capsules.length ? hulls : [];
  }

  // Where they are at time t in the eye's coordinates; a frame has 12 numbers for each pose, its rows.
  function shapes(scene, view, t) {
    if (!scene.looks) return [];
    const fixed = scene.base.filter(c => c.points).map(body => placed(view, body, HERE, BASE));
    const poses = scene.frames.time.length && hullsOf(scene).length ? rowAt(scene.frames, 'poses', t) : null;
    const color = k => BODY[scene.order.get(scene.capsules[k].link) % 2], rows = n => poses.slice(12 * n, 12 * n + 12);
    return [...fixed, ...(poses ? hullsOf(scene) : []).flatMap((hull, k) => hull ? [placed(view, hull, rows(hull.pose), color(k))] : [])];
  }

  function placed(view, { points: v, faces }, T, color) {
    const points = Array.from({ length: v.length / 3 }, (_, n) => {
      const p = [GRID * v[3 * n], GRID * v[3 * n + 1], GRID * v[3 * n + 2]];
      return Camera.toEye(view, [0, 4, 8].map(r => T[r] * p[0] + T[r + 1] * p[1] + T[r + 2] * p[2] + T[r + 3]));
    });
    return { points, faces, color };
  }

  // Ellipsoids of the links' inertia at time t, in base coordinates.
  function inside({ links, frames }, t) {
    const row = links.length && frames.time.length ? rowAt(frames, 'ellipsoids', t) : [];
    return (row.length ? links : []).map((link, k) => {
      const x = row.slice(12 * k, 12 * k + 12), axes = [0, 1, 2].map(m => [x[3 + m], x[6 + m], x[9 + m]]);
      const color = link.mass_label === 'data-determined' ? KNOWN : BELIEVED;
      return { center: x.slice(0, 3), axes, half: link.half_axes.map(h => Math.max(h, 0.004)), name: link.link, color };
    });
  }

  function eyed(view, { center, axes, half, color }) {
    const turned = axis => [view.right, view.up, view.forward].map(own => dot(axis, own) / Math.hypot(...axis));
    return Raster.ellipsoid({ c: Camera.toEye(view, center), axes: axes.map(turned), half, color });
  }

  // Each link's name beside its centre of mass; a thin line leads to one that had to go far.
  function names({ context, view, colors }, found) {
    const taken = [];
    for (const body of found) {
      const e = Camera.toEye(view, body.center), words = body.name.length > 24 ? `${body.name.slice(0, 23)}…` : body.name;
      if (!(e[2] > view.near)) continue;
      const [x, y] = Camera.toScreen(view, e), wide = context.measureText(words).width;
      const at = Zones.free([x + 8, x - 8 - wide], y - 10, wide, taken, view.width), end = wide / 2 + 2;
      const leader = Zones.outline([[x, y], [at[0] + (x < at[0] ? -end : end), at[1]]]);
      if (Math.abs(at[1] + 4 - y) > 20) Zones.stroke(context, leader, { color: colors.text, width: 1, alpha: 0.5 });
      Zones.text(context, words, at, colors.text, colors.back);
    }
  }

  // The frame before time t, and the share of the way to the next that is done.
  function between(time, t) {
    const i = Math.max(0, Math.min(Marks.place(time, t), time.length - 1) - 1), length = time[i + 1] - time[i];
    return [i, length > 0 ? Math.min(1, Math.max(0, (t - time[i]) / length)) : 0];
  }

  function draw(scene, t, moving) {
    const { canvas, context } = scene, [width, height] = [canvas.clientWidth, canvas.clientHeight];
    if (!width || !height) return;
    const ratio = Math.min(window.devicePixelRatio || 1, 2);
    if (canvas.width !== Math.round(width * ratio)) canvas.width = Math.round(width * ratio);
    if (canvas.height !== Math.round(height * ratio)) canvas.height = Math.round(height * ratio);
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, height);
    context.font = FONT;
    const view = Camera.pose(scene.camera, width, height), stage = { context, view, scene, colors: theme(canvas), frame: null };
    Zones.floor(stage);
    bodies(scene, t, false).forEach(capsule => shadow(stage, capsule));
    scene.zones.forEach(zone => Zones.faces(stage, zone));
    const began = performance.now(), fine = moving ? scene.quality * ratio : Math.max(2, ratio), hidden = inside(scene, t);
    const capsules = bodies(scene, t, scene.looks).map(c => Raster.capsule({ ...c, a: Camera.toEye(view, c.start), b: Camera.toEye(view, c.end) }));
    stage.frame = Raster.draw([...capsules, ...shapes(scene, view, t)], view, fine);
    const within = Raster.draw(hidden.map(body => eyed(view, body)), view, fine);
    if (within) paint(context, within, 1);
    if (stage.frame) paint(context, stage.frame, within ? GLASS : 1);
    if (moving) adapt(scene, performance.now() - began);
    scene.zones.forEach(zone => Zones.edges(stage, zone));
    trace(stage, t);
    Zones.axes(stage);
    Zones.labels(stage);
    names(stage, hidden);
  }

  // Draw coarser while the machine is too slow for a smooth motion.
  function adapt(scene, cost) {
    scene.cost = 0.8 * scene.cost + 0.2 * cost;
    if (scene.cost > 28 && scene.quality > 0.4) scene.quality *= 0.85;
    if (scene.cost < 10 && scene.quality < 1) scene.quality = Math.min(1, scene.quality * 1.1);
  }

  function paint(context, { image, left, top, width, height, scale }, alpha) {
    const sheet = Object.assign(document.createElement('canvas'), { width, height });
    sheet.getContext('2d').putImageData(image, 0, 0);
    Object.assign(context, { imageSmoothingEnabled: true, imageSmoothingQuality: 'high', globalAlpha: alpha });
    context.drawImage(sheet, left / scale, top / scale, width / scale, height / scale);
    context.globalAlpha = 1;
  }

  // What a capsule darkens on the floor z = 0, under light from above.
  function shadow({ context, view, colors }, { start: a, end: b, radius }) {
    if (Math.max(a[2], b[2]) < 0) return;
    const away = Math.atan2(b[1] - a[1], b[0] - a[0]);
    const points = [[b, away - Math.PI / 2], [a, away + Math.PI / 2]].flatMap(([p, from]) => Array.from({ length: 13 }, (_, k) => {
      const angle = from + Math.PI * k / 12;
      return Camera.toEye(view, [p[0] + radius * Math.cos(angle), p[1] + radius * Math.sin(angle), 0]);
    }));
    if (points.some(e => !(e[2] > view.near))) return;
    context.fillStyle = colors.shadow;
    context.fill(Zones.outline(points.map(e => Camera.toScreen(view, e))));
  }

  // The tool's path: all of it thin, what is done thick, and the tool itself.
  function trace(stage, t) {
    const { context, view, scene: { path, frames: { time } }, colors } = stage;
    if (path.length < 2) return;
    const [i, share] = between(time, t), here = mix(path[i], path[Math.min(i + 1, path.length - 1)], share);
    Zones.line(stage, path, { color: colors.path, width: 1, alpha: 0.55 });
    Zones.line(stage, [...path.slice(0, i + 1), here], { color: colors.done, width: 2.2, alpha: 1 });
    const e = Camera.toEye(view, here), tool = new Path2D();
    if (!(e[2] > view.near)) return;
    tool.arc(...Camera.toScreen(view, e), 4, 0, 2 * Math.PI);
    context.fillStyle = colors.done;
    context.fill(tool);
    Zones.stroke(context, tool, { color: colors.back, width: 1.5, alpha: 1 });
  }

  function theme(canvas) {
    const style = getComputedStyle(canvas), read = name => style.getPropertyValue(name).trim();
    return {
      grid: read('--grid'), text: read('--text'), back: read('--card'), shadow: read('--shadow'),
      path: read('--path'), done: read('--accent'), in: read('--keep-in'), out: read('--keep-out'),
    };
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
