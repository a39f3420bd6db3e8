// Where the eye is and how it sees: an orbit around a target, z up, perspective.
const Camera = (() => {
  const FIELD = 34 * Math.PI / 180; // vertical field of view
  const VIEWS = { '3d': [-0.95, 0.38], front: [0, 0.02], side: [-Math.PI / 2, 0.02], top: [-Math.PI / 2, 1.55] };

  function create(target, radius) {
    return { target, radius, corners: [], shift: [0, 0, 0], yaw: VIEWS['3d'][0], pitch: VIEWS['3d'][1], zoom: 1, distance: null, shape: null };
  }

  function look(camera, view) {
    [camera.yaw, camera.pitch] = VIEWS[view];
    camera.zoom = 1;
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
      eye: camera.target.map((x, k) => x + camera.shift[k] - distance * axes.forward[k]),
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

  function dot(a, b) {
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
  }

  return { create, look, pose, toEye, toScreen, dot };
})();
