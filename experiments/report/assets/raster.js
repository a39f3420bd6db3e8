// Capsules drawn pixel by pixel: a ray from the eye through each pixel, the nearest capsule it meets, its shade.
// No WebGL: this works everywhere, and the depths determine which part of a line is behind the robot.
const Raster = (() => {
  const LIGHT = unit([-0.45, 0.75, -0.6]);
  const GLANCE = unit([-0.45, 0.75, -1.6]); // half way between the light and the eye

  // capsules: {a, b} in the eye's coordinates, radius, color; view: of the main picture; scale: pixels here per pixel there
  function draw(capsules, view, scale) {
    const box = bounds(capsules, view);
    if (!box) return null;
    const left = Math.floor(box[0] * scale), top = Math.floor(box[1] * scale);
    const width = Math.ceil(box[2] * scale) - left, height = Math.ceil(box[3] * scale) - top;
    if (width < 1 || height < 1) return null;
    const image = new ImageData(width, height);
    const frame = {
      image, left, top, width, height, scale,
      depth: new Float32Array(width * height).fill(Infinity),
      focal: view.focal * scale, cx: view.width * scale / 2 - left, cy: view.height * scale / 2 - top,
      sky: [view.right[2], view.up[2], view.forward[2]],
    };
    for (const capsule of capsules) fill(frame, capsule);
    return frame;
  }

  // How deep the robot is at a pixel of the main picture; infinite beside it.
  function depthAt(frame, x, y) {
    if (!frame) return Infinity;
    const i = Math.floor(x * frame.scale) - frame.left, j = Math.floor(y * frame.scale) - frame.top;
    return i < 0 || j < 0 || i >= frame.width || j >= frame.height ? Infinity : frame.depth[j * frame.width + i];
  }

  function bounds(capsules, view) {
    const box = [Infinity, Infinity, -Infinity, -Infinity];
    for (const capsule of capsules) {
      const own = span(capsule, view.focal, view.width / 2, view.height / 2, view.near);
      if (!own) continue;
      box[0] = Math.min(box[0], own[0]);
      box[1] = Math.min(box[1], own[1]);
      box[2] = Math.max(box[2], own[2]);
      box[3] = Math.max(box[3], own[3]);
    }
    const cut = [Math.max(0, box[0]), Math.max(0, box[1]), Math.min(view.width, box[2]), Math.min(view.height, box[3])];
    return cut[2] > cut[0] && cut[3] > cut[1] ? cut : null;
  }

  // A rectangle on the picture that holds a capsule; null when it reaches behind the eye or is no number.
  function span(capsule, focal, cx, cy, near) {
    const box = [Infinity, Infinity, -Infinity, -Infinity];
    for (const e of [capsule.a, capsule.b]) {
      const z = e[2] - capsule.radius;
      if (!(z > near)) return null;
      const r = 1.1 * focal * capsule.radius / z + 1;
      const x = cx + focal * e[0] / e[2], y = cy - focal * e[1] / e[2];
      box[0] = Math.min(box[0], x - r);
      box[1] = Math.min(box[1], y - r);
      box[2] = Math.max(box[2], x + r);
      box[3] = Math.max(box[3], y + r);
    }
    return box;
  }

  function fill(frame, capsule) {
    const box = span(capsule, frame.focal, frame.cx, frame.cy, 0);
    if (!box) return;
    const [i0, i1] = [Math.max(0, Math.floor(box[0])), Math.min(frame.width - 1, Math.ceil(box[2]))];
    const [j0, j1] = [Math.max(0, Math.floor(box[1])), Math.min(frame.height - 1, Math.ceil(box[3]))];
    const { a, b, radius: r } = capsule;
    const ux = b[0] - a[0], uy = b[1] - a[1], uz = b[2] - a[2];
    const uu = ux * ux + uy * uy + uz * uz, ua = -(ux * a[0] + uy * a[1] + uz * a[2]);
    const aa = a[0] * a[0] + a[1] * a[1] + a[2] * a[2], bb = b[0] * b[0] + b[1] * b[1] + b[2] * b[2];
    for (let j = j0; j <= j1; j++) {
      const y = (frame.cy - j - 0.5) / frame.focal;
      for (let i = i0; i <= i1; i++) {
        const x = (i + 0.5 - frame.cx) / frame.focal;
        const dd = x * x + y * y + 1, ud = ux * x + uy * y + uz, ad = -(x * a[0] + y * a[1] + a[2]);
        // the infinite cylinder first: |(t d - a) × u|² = r² |u|²
        const A = uu * dd - ud * ud, B = uu * ad - ua * ud, C = uu * aa - ua * ua - r * r * uu;
        const H = B * B - A * C;
        let t = -1, along = 0;
        if (A > 1e-12 * uu * dd) {
          if (H < 0) continue;
          t = (-B - Math.sqrt(H)) / A;
          along = ua + t * ud;
        }
        if (t < 0 || along < 0 || along > uu) { // then one of the two balls at the ends, the nearer
          const first = ball(dd, ad, aa, r), second = uu > 0 ? ball(dd, -(x * b[0] + y * b[1] + b[2]), bb, r) : Infinity;
          t = Math.min(first, second);
          along = first <= second ? 0 : uu;
          if (t === Infinity) continue;
        }
        const k = j * frame.width + i;
        if (t < frame.depth[k]) {
          frame.depth[k] = t;
          const s = uu > 0 ? along / uu : 0;
          shade(frame, k, capsule, [t * x - a[0] - s * ux, t * y - a[1] - s * uy, t - a[2] - s * uz], [x, y, dd]);
        }
      }
    }
  }

  function ball(dd, half, cc, r) {
    const h = half * half - dd * (cc - r * r);
    return h < 0 ? Infinity : (-half - Math.sqrt(h)) / dd;
  }

  function shade(frame, k, capsule, normal, ray) {
    const r = capsule.radius, nx = normal[0] / r, ny = normal[1] / r, nz = normal[2] / r;
    const lit = Math.max(0, nx * LIGHT[0] + ny * LIGHT[1] + nz * LIGHT[2]);
    const glance = Math.max(0, nx * GLANCE[0] + ny * GLANCE[1] + nz * GLANCE[2]);
    const sky = nx * frame.sky[0] + ny * frame.sky[1] + nz * frame.sky[2];
    const facing = -(nx * ray[0] + ny * ray[1] + nz) / Math.sqrt(ray[2]);
    const light = (0.56 + 0.12 * sky + 0.46 * lit) * (0.7 + 0.3 * Math.min(1, 1.8 * facing));
    const shine = 60 * Math.pow(glance, 40);
    const data = frame.image.data;
    data[4 * k] = capsule.color[0] * light + shine;
    data[4 * k + 1] = capsule.color[1] * light + shine;
    data[4 * k + 2] = capsule.color[2] * light + shine;
    data[4 * k + 3] = 255;
  }

  function unit(v) {
    const n = Math.hypot(...v);
    return v.map(x => x / n);
  }

  return { draw, depthAt };
})();
