// Tables that sort when a heading is clicked: cells with a data-number by it, the missing last; others by their words.
const Tables = (() => {
  // columns: which column each button sorts, where headings span several rows
  function sortable(table, columns = null) {
    const body = table.tBodies[0], buttons = [...table.querySelectorAll('thead button')];
    buttons.forEach((button, k) => button.addEventListener('click', () => {
      const column = columns ? columns[k] : button.closest('th').cellIndex;
      const down = button.dataset.order === 'up';
      buttons.forEach(other => delete other.dataset.order);
      button.dataset.order = down ? 'down' : 'up';
      [...body.rows].sort((a, b) => compare(a.cells[column], b.cells[column], down ? -1 : 1)).forEach(row => body.appendChild(row));
    }));
  }

  function compare(a, b, sign) {
    if ('number' in a.dataset) {
      const [x, y] = [a.dataset.number, b.dataset.number];
      return x === '' || y === '' ? (x === '') - (y === '') : sign * (Number(x) - Number(y));
    }
    const words = cell => cell.dataset.key ?? cell.textContent;
    return sign * words(a).localeCompare(words(b), undefined, { numeric: true });
  }

  return { sortable };
})();
