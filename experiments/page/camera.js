// Where the eye is and how it sees: an orbit around a target, z up, perspective.
const Camera = (() => {
  const FIELD = 34 * Math.PI / 180; // vertical field of view
  const VIEWS = { '3d': [-0.95, 0.38], front: [0, 0.02], side: [-Math.PI / 2, 0.02], top: [-Math.PI / 2, 1.55] };

  function create(target, radius) {
    return { target, radius, corners: [], yaw: VIEWS['3d'][0], pitch: VIEWS['3d'][1], zoom: 1, distance: null, shape: null };
  }

  function look(camera, view) {
    [camera.yaw, camera.pitch] = VIEWS[view];
    camera.zoom = 1;
    camera.distance = null;
  }

  // The eye's axes in base coordinates, and where it stands: so far that all corners of the scene fit in at zoom 1.
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
      eye: camera.target.map((x, k) => x - distance * axes.forward[k]),
      focal: height / 2 / Math.tan(FIELD / 2),
      near: 0.02 * camera.radius,
    };
  }

  function fit(camera, axes) {
    const tan = 0.95 * Math.tan(FIELD / 2);
    return camera.corners.reduce((distance, corner) => {
      const d = corner.map((x, k) => x - camera.target[k]), away = dot(d, axes.forward);
      return Math.max(distance, Math.abs(dot(d, axes.up)) / tan - away, Math.abs(dot(d, axes.right)) / (tan * camera.shape) - away);
    }, camera.radius);
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
