// What happens on the page: tables sort, pictures are as wide as there is room.
(() => {
  const compared = JSON.parse(document.getElementById('compared').textContent), FIRST = 12;
  const all = selector => [...document.querySelectorAll(selector)], chart = name => document.querySelector(`[data-chart="${name}"]`);
  const ranked = [...compared.parameters].sort((a, b) => b.contradictions - a.contradictions);
  let width = 0;

  function start() {
    all('table.sortable').forEach(table => Tables.sortable(table));
    all('details').forEach(details => details.addEventListener('toggle', () => details.open && rest()));
    everything();
    new ResizeObserver(() => requestAnimationFrame(everything)).observe(document.body);
  }

  function everything() {
    if (width === document.body.clientWidth) return;
    width = document.body.clientWidth;
    drawn('errors', box => ErrorBars.build(box, compared, box.clientWidth));
    drawn('forest', box => Forest.build(box, ranked.length > FIRST ? ranked.slice(0, FIRST) : compared.parameters, compared.chosen));
    drawn('recursion', box => Recursion.values(box, compared.recursions, ranked.length > FIRST ? ranked.slice(0, FIRST) : compared.parameters));
    drawn('eigenvalues', box => Recursion.eigenvalues(box, compared.recursions));
    rest();
  }

  // Folded parts have no width until they are opened.
  function rest() {
    drawn('forest-rest', box => box.clientWidth && Forest.build(box, compared.parameters, compared.chosen));
    drawn('recursion-rest', box => box.clientWidth && Recursion.values(box, compared.recursions, compared.parameters));
  }

  // One picture that cannot be drawn must not take the page with it; the reason goes to the console.
  function drawn(name, draw) {
    const box = chart(name);
    if (!box) return;
    try {
      draw(box);
    } catch (error) {
      box.replaceChildren();
      Svg.html('p', 'hint failed', 'This picture could not be drawn from the numbers in this comparison.', box);
      console.error(error);
    }
  }

  start();
})();
