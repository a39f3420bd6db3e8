// The robot in motion with what is inside its links: play, scrub, turn.
const Viewer = (() => {
  const find = id => document.getElementById(id), all = selector => [...document.querySelectorAll(selector)];

  function start(bodies) {
    const canvas = find('scene'), { frames, links } = bodies;
    const scene = Scene.create(canvas, { zones: [], base_capsules: bodies.base_capsules, runs: [{ frames, capsules: bodies.capsules }], extent: extent(links, frames) });
    const viewer = { scene, frames, links, t: 0, speed: 1, playing: false, dragging: false, last: null, span: Svg.range(frames.time) || [0, 1] };
    if (links.length) scene.inside = (view, t, scale) => Ellipsoids.draw(Ellipsoids.placed(links, frames, t), view, scale);
    Scene.show(scene, frames, bodies.capsules);
    controls(viewer);
    Orbit.attach(canvas, scene.camera, {
      redraw: () => picture(viewer),
      dragging: on => viewer.dragging = on,
      turned: () => all('#views button').forEach(button => button.classList.remove('on')),
    }, true);
    seek(viewer, viewer.span[0]);
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => picture(viewer));
    return () => picture(viewer);
  }

  // Where ellipsoids reach, so that the picture has room for them.
  function extent(links, frames) {
    const some = frames.time.filter((_, k) => k % 10 === 0);
    return some.flatMap(t => Ellipsoids.placed(links, frames, t).map(body => [body.center, Math.max(...body.half)]));
  }

  function picture(viewer) {
    Scene.draw(viewer.scene, viewer.t, viewer.playing || viewer.dragging);
    names(viewer);
  }

  // Each link's name beside its centre of mass, where no other name is; a thin line leads to one that had to go far.
  function names({ scene, frames, links, t }) {
    const { canvas, context, camera } = scene, style = getComputedStyle(canvas);
    const view = Camera.pose(camera, canvas.clientWidth, canvas.clientHeight);
    context.font = '600 12px system-ui, "DejaVu Sans", sans-serif';
    context.textAlign = 'left';
    const [back, text] = ['--card', '--text'].map(name => style.getPropertyValue(name)), taken = [];
    for (const body of Ellipsoids.placed(links, frames, t)) {
      const e = Camera.toEye(view, body.center);
      if (!(e[2] > view.near)) continue;
      const [x, y] = Camera.toScreen(view, e), words = body.name.length > 24 ? `${body.name.slice(0, 23)}…` : body.name;
      const wide = context.measureText(words).width;
      const [left, base] = free(x, y, wide, taken, canvas.clientWidth);
      taken.push([left, base - 12, left + wide, base + 3]);
      if (Math.abs(base - y) > 20) line(context, [x, y], [x < left ? left - 2 : left + wide + 2, base - 4], text);
      context.lineWidth = 3;
      context.strokeStyle = back;
      context.fillStyle = text;
      context.strokeText(words, left, base);
      context.fillText(words, left, base);
    }
  }

  // The nearest place for words: right or left of a point, higher or lower, off those that are taken.
  function free(x, y, wide, taken, width) {
    for (let step = 0; step < 12; step++) {
      const base = y - 6 + (step % 2 ? 1 : -1) * 15 * Math.ceil(step / 2);
      for (const left of [x + 8, x - 8 - wide]) {
        const inside = left > 2 && left + wide < width - 2;
        if (inside && taken.every(([a, b, c, d]) => left > c + 3 || left + wide < a - 3 || base - 12 > d || base + 3 < b)) return [left, base];
      }
    }
    return [x + 6, y - 6];
  }

  function line(context, from, to, color) {
    context.beginPath();
    context.moveTo(...from);
    context.lineTo(...to);
    context.lineWidth = 1;
    context.strokeStyle = color;
    context.globalAlpha = 0.5;
    context.stroke();
    context.globalAlpha = 1;
  }

  function seek(viewer, t) {
    const [from, to] = viewer.span;
    viewer.t = Math.min(to, Math.max(from, t));
    find('scrub').value = String(1000 * (viewer.t - from) / (to - from || 1));
    find('clock').textContent = `${viewer.t.toFixed(2)} s of ${to.toFixed(2)} s`;
    picture(viewer);
  }

  function play(viewer, on) {
    viewer.playing = on;
    find('play').textContent = on ? '❚❚ Pause' : '▶ Play';
    if (on && viewer.t >= viewer.span[1]) seek(viewer, viewer.span[0]);
    viewer.last = null;
    if (on) requestAnimationFrame(now => tick(viewer, now));
    else picture(viewer);
  }

  function tick(viewer, now) {
    if (!viewer.playing) return;
    const passed = viewer.last === null ? 0 : Math.min(0.1, (now - viewer.last) / 1000);
    viewer.last = now;
    seek(viewer, viewer.t + passed * viewer.speed);
    if (viewer.t >= viewer.span[1]) play(viewer, false);
    else requestAnimationFrame(later => tick(viewer, later));
  }

  function controls(viewer) {
    find('play').addEventListener('click', () => play(viewer, !viewer.playing));
    find('scrub').addEventListener('input', event => {
      const [from, to] = viewer.span;
      seek(viewer, from + (to - from) * event.target.value / 1000);
    });
    choice('#speeds button', button => viewer.speed = Number(button.dataset.speed), '1');
    choice('#views button', button => (Camera.look(viewer.scene.camera, button.dataset.view), picture(viewer)), '3d');
    find('scene').addEventListener('dblclick', () => find('views').firstElementChild.click());
    find('scene').addEventListener('keydown', event => {
      const [from, to] = viewer.span;
      if (event.key === ' ') play(viewer, !viewer.playing);
      else if (event.key === 'ArrowRight' || event.key === 'ArrowLeft') seek(viewer, viewer.t + (event.key === 'ArrowRight' ? 1 : -1) * (to - from) / 200);
      else return;
      event.preventDefault();
    });
  }

  function choice(selector, act, first) {
    const buttons = all(selector);
    buttons.forEach(button => button.addEventListener('click', () => {
      buttons.forEach(other => other.classList.toggle('on', other === button));
      act(button);
    }));
    buttons.forEach(button => button.classList.toggle('on', Object.values(button.dataset)[0] === first));
  }

  return { start };
})();
