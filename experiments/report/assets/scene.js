// The robot in its cell: floor, zones, capsules, the tool's path, what is inside. The picture of one moment.
const Scene = (() => {
  const GRID = 1e-4; // positions arrive in tenths of a millimetre
  const BODY = [[240, 158, 56], [226, 229, 233]];
  const BASE = [112, 121, 133];
  const ASSUMED = [255, 205, 0]; // volumes of links whose shape is not known
  const SMOOTH = 4; // segments of the tool's path between two frames
  const GLASS = 0.36; // how much is seen of the robot where something inside it is shown

  function create(canvas, plan) {
    const scene = {
      canvas, context: canvas.getContext('2d'), zones: plan.zones.filter(zone => numbers(zone.T)),
      base: plan.base_capsules, camera: Camera.create([0, 0, 0.5], 1), path: [], quality: 1, cost: 0,
    };
    // one view for all runs: the picture does not jump when another is chosen
    const shown = plan.runs.flatMap(run => [run.frames, run.approach].filter(Boolean).map(frames => [frames, run.capsules || []]));
    frameView(scene, extent(scene, shown, plan.extent || []));
    return scene;
  }

  // Show the frames of a run, or of its way from home; the camera stays where it is.
  function show(scene, frames, capsules) {
    scene.frames = frames;
    scene.capsules = capsules || [];
    scene.path = smooth(frames.tool.map(p => p.map(x => x === null ? NaN : x * GRID)));
  }

  // A curve through points, each span of it a cubic in several segments.
  function smooth(points) {
    const at = i => points[Math.min(points.length - 1, Math.max(0, i))];
    return points.flatMap((p, i) => i === points.length - 1 ? [p] : Array.from({ length: SMOOTH }, (_, k) => {
      const s = k / SMOOTH, [a, b, c] = [at(i - 1), at(i + 1), at(i + 2)];
      return p.map((x, m) => x + 0.5 * s * (b[m] - a[m] + s * (2 * a[m] - 5 * x + 4 * b[m] - c[m] + s * (3 * (x - b[m]) + c[m] - a[m]))));
    }));
  }

  function frameView(scene, { low, high, balls }) {
    scene.camera.target = low.map((x, k) => (x + high[k]) / 2);
    scene.camera.radius = 0.5 * Math.hypot(...low.map((x, k) => high[k] - x)) || 1;
    const axes = [0, 1, 2].map(k => [[0, 1, 2].map(m => m === k ? 0.32 * scene.camera.radius : 0), 0]); // with their names
    scene.camera.corners = outermost([...balls, ...axes]);
    scene.camera.distance = null;
    scene.low = low;
    scene.high = high;
  }

  // How far each of many directions goes: all that is to be seen lies within these points.
  function outermost(balls) {
    return Array.from({ length: 96 }, (_, n) => {
      const z = 1 - (2 * n + 1) / 96, angle = 2.39996 * n, side = Math.sqrt(1 - z * z); // even on the sphere
      const d = [side * Math.cos(angle), side * Math.sin(angle), z];
      let best = -Infinity, found = d;
      for (const [p, r] of balls) {
        const reach = Camera.dot(p, d) + r;
        if (reach > best) [best, found] = [reach, p.map((x, k) => x + r * d[k])];
      }
      return found;
    });
  }

  function extent(scene, shown, more) {
    const low = [0, 0, 0], high = [0, 0, 0], balls = [[[0, 0, 0], 0]];
    const add = (p, r) => {
      if (!p.every(x => Number.isFinite(x))) return;
      balls.push([p, r]);
      p.forEach((x, k) => {
        if (x - r < low[k]) low[k] = x - r;
        if (x + r > high[k]) high[k] = x + r;
      });
    };
    more.forEach(([p, r]) => add(p, r));
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
    return { low, high, balls };
  }

  // Capsules at time t, between two frames: straight.
  function bodies(scene, t) {
    const frames = scene.frames, n = frames.time.length;
    const found = scene.base.map(c => ({ start: c.start, end: c.end, radius: c.radius, color: c.assumed ? ASSUMED : BASE }));
    if (!n) return found;
    const [i, s] = between(frames.time, t);
    const a = frames.capsules[i] || [], b = frames.capsules[Math.min(i + 1, n - 1)] || a;
    scene.capsules.forEach((c, k) => {
      const p = [0, 1, 2, 3, 4, 5].map(m => GRID * (a[6 * k + m] + s * (b[6 * k + m] - a[6 * k + m])));
      const color = c.assumed ? ASSUMED : c.link === -1 || c.link === 'base' ? BASE : BODY[scene.order.get(c.link) % 2];
      found.push({ start: p.slice(0, 3), end: p.slice(3), radius: c.radius, color });
    });
    return found;
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
    const solid = bodies(scene, t);
    Zones.floor(context, view, scene, colors);
    solid.forEach(c => shadow(context, view, c, colors));
    scene.zones.forEach(zone => Zones.faces(context, view, zone, scene, colors));
    const began = performance.now();
    const eyed = solid.map(c => ({ ...c, a: Camera.toEye(view, c.start), b: Camera.toEye(view, c.end) }));
    const frame = Raster.draw(eyed, view, moving ? scene.quality * ratio : Math.max(2, ratio));
    const inside = scene.inside ? scene.inside(view, t, moving ? scene.quality * ratio : Math.max(2, ratio)) : null;
    if (inside) paint(context, inside, 1);
    if (frame) paint(context, frame, inside ? GLASS : 1);
    if (moving) adapt(scene, performance.now() - began);
    scene.zones.forEach(zone => Zones.edges(context, view, zone, scene, colors, frame));
    trace(context, view, scene, t, colors, frame);
    Zones.axes(context, view, scene, frame);
    Zones.labels(context, view, scene, colors);
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
    const [k, share] = between(time, t), far = SMOOTH * (k + share), i = Math.min(path.length - 1, Math.floor(far));
    const next = path[Math.min(i + 1, path.length - 1)];
    const here = path[i].map((x, m) => x + (far - i) * (next[m] - x));
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

  return { create, show, draw, between };
})();
