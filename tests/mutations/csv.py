"""Wrong neutral tables made from a right one."""

from collections.abc import Callable, Iterator, Mapping

Cells = list[list[str]]


def mutations(files: Mapping[str, str], name: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Change the table of the run, its columns or its rows; in each the times still look right or the file is torn."""
    file = f"{name}.csv"
    rows = files[file].split("\n")
    n = (rows[0].count(",") - 2) // 3
    for label, change in _changes(n).items():
        cells = [row.split(",") for row in rows[1:-1]]
        change(cells)
        yield label, {**files, file: "\n".join([rows[0], *(",".join(row) for row in cells), ""])}
    yield "a decimal comma", {**files, file: files[file].replace(".", ",")}
    yield "the last row cut short", {**files, file: files[file][:-20]}
    yield "two headings swapped", {**files, file: files[file].replace("q1,q2", "q2,q1", 1)}
    yield "the way out missing", {key: text for key, text in files.items() if key != f"{name}_out.csv"}
    yield "the way back is the way out", {**files, f"{name}_back.csv": files[f"{name}_out.csv"]}


def _changes(n: int) -> dict[str, Callable[[Cells], object]]:
    positions = range(3, 3 + n)
    return {
        "a row dropped": lambda cells: cells.pop(len(cells) // 2),
        "a row twice": lambda cells: cells.insert(len(cells) // 2, cells[len(cells) // 2]),
        "two joints swapped": lambda cells: _each(cells, lambda row: _swap(row, 3, 4)),
        "two velocities swapped": lambda cells: _each(cells, lambda row: _swap(row, 3 + n, 4 + n)),
        "two accelerations swapped": lambda cells: _each(cells, lambda row: _swap(row, 3 + 2 * n, 4 + 2 * n)),
        "degrees for radians": lambda cells: _each(cells, lambda row: _scale(row, positions, 57.29577951308232)),
        "a sign flipped": lambda cells: _each(cells, lambda row: _scale(row, [4], -1.0)),
        "one number wrong": lambda cells: _scale(cells[len(cells) // 3], [3], 1.0 + 1e-6),
        "amplitudes 1 % larger": lambda cells: _swing(cells, positions, 1.01),
        "velocities 1 % larger": lambda cells: _each(cells, lambda row: _scale(row, range(3 + n, 3 + 2 * n), 1.01)),
        "time 0.1 % slower": lambda cells: _each(cells, lambda row: _scale(row, [0], 1.001)),
        "a period lost": lambda cells: _cut(cells, "measured", "2"),
        "periods counted from 0": lambda cells: _each(cells, _earlier),
        "a part's name changed": lambda cells: _each(cells, lambda row: _rename(row, "warm-up", "measured")),
        "milliseconds for seconds": lambda cells: _each(cells, lambda row: _scale(row, [0], 1e3)),
    }


def _each(cells: Cells, change: Callable[[list[str]], object]) -> None:
    for row in cells:
        change(row)


def _swap(row: list[str], a: int, b: int) -> None:
    row[a], row[b] = row[b], row[a]


def _scale(row: list[str], columns: "range | list[int]", factor: float) -> None:
    for k in columns:
        row[k] = f"{factor * float(row[k]):.12g}"


def _swing(cells: Cells, columns: range, factor: float) -> None:
    begin = {k: float(cells[0][k]) for k in columns}
    for row in cells:
        for k in columns:
            row[k] = f"{begin[k] + factor * (float(row[k]) - begin[k]):.12g}"


def _cut(cells: Cells, phase: str, period: str) -> None:
    cells[:] = [row for row in cells if (row[1], row[2]) != (phase, period)]


def _earlier(row: list[str]) -> None:
    if row[1] == "measured":
        row[2] = str(int(row[2]) - 1)


def _rename(row: list[str], old: str, new: str) -> None:
    if row[1] == old:
        row[1] = new
