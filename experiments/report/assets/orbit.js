// Turning and zooming the picture with pointer, wheel and double click.
const Orbit = (() => {
  // told: {redraw, dragging(on), turned()}; plain wheels zoom unless withKey asks for Ctrl, so that a page can be scrolled
  function attach(canvas, camera, told, withKey = false) {
    let dragging = false;
    canvas.addEventListener('pointerdown', event => {
      canvas.setPointerCapture(event.pointerId);
      dragging = true;
      told.dragging(true);
    });
    canvas.addEventListener('pointermove', event => {
      if (!dragging) return;
      camera.yaw -= 0.008 * event.movementX;
      camera.pitch = Math.min(1.55, Math.max(-1.2, camera.pitch + 0.008 * event.movementY));
      told.turned();
      requestAnimationFrame(told.redraw);
    });
    const end = () => {
      dragging = false;
      told.dragging(false);
      told.redraw();
    };
    canvas.addEventListener('pointerup', end);
    canvas.addEventListener('pointercancel', end);
    canvas.addEventListener('wheel', event => {
      if (withKey && !event.ctrlKey) return;
      event.preventDefault();
      camera.zoom = Math.min(5, Math.max(0.15, camera.zoom * Math.exp(0.0012 * event.deltaY)));
      requestAnimationFrame(told.redraw);
    }, { passive: false });
  }

  return { attach };
})();
