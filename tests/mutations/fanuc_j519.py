"""Mistakes in a run for FANUC Stream Motion, each of which its check must find."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tests.mutations.run_file import full, short

_Run = dict[str, Any]


def mutations(files: Mapping[str, str], name: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Change the program and the data called `name` in one way after another; a label, and all files."""
    program, data = f"{name}.ls", f"{name}.json"
    for label, pattern, text in _LINES:
        changed = re.sub(pattern, text, files[program], count=1, flags=re.MULTILINE)
        if changed != files[program]:
            yield label, {**files, program: changed}
    comma = re.sub(r"(\d)\.(\d)", r"\1,\2", files[data], count=1)
    yield "a decimal comma", {**files, data: comma}
    yield "the end of the data missing", {**files, data: files[data].rstrip()[:-1]}
    yield "the TP program missing", {data: files[data]}
    for label, change in _CHANGES:
        run = short(json.loads(files[data]))
        try:
            change(run)
        except (KeyError, IndexError):
            continue  # a change of series, and this run is made of moves, or the other way round
        if run != short(json.loads(files[data])):
            yield label, {**files, data: json.dumps(full(run))}


def _line(pattern: str) -> str:
    return rf"^ *\d+:  {pattern} ;\n"


_LINES = (
    ("override check removed", _line(r"IF [^\n]*JMP LBL\[901\]"), ""),
    ("override check weakened", r"<>100,", "<10,"),
    ("mode check removed", _line(r"IF [^\n]*JMP LBL\[902\]"), ""),
    ("IBGN start missing", _line(r"IBGN start\[1\]"), ""),
    ("IBGN end missing", _line(r"IBGN end\[1\]"), ""),
    ("/END missing", r"^/END\n", ""),
    ("a label missing", _line(r"LBL\[901\]"), ""),
    ("an instruction misspelt", r"IBGN start", "IBEGIN start"),
)


def _home(run: _Run) -> None:
    run["home"][0] += 0.01


def _drop_marks(run: _Run) -> None:
    run["marks"] = run["marks"][:2]


def _late_mark(run: _Run) -> None:
    run["marks"][1][0] += 0.1


def _swap(run: _Run) -> None:
    sines = run["main"]["series"]["sines"]
    sines[0], sines[1] = sines[1], sines[0]


def _other_harmonic(run: _Run) -> None:
    run["main"]["series"]["harmonics"][-1] += 1


def _radians(run: _Run) -> None:
    run["main"]["series"]["center"][0] /= 57.29577951308232


def _flip(run: _Run) -> None:
    run["main"]["series"]["cosines"][0][0] *= -1.0


def _larger(run: _Run) -> None:
    run["main"]["series"]["sines"][0][0] *= 1.01


def _axis_lost(run: _Run) -> None:
    for key in ("center", "sines", "cosines"):
        run["main"]["series"][key].pop()


def _set(key: str, change: Callable[[Any], Any]) -> Callable[[_Run], None]:
    def act(run: _Run) -> None:
        run["main"]["series"][key] = change(run["main"]["series"][key])

    return act


def _moved(run: _Run) -> None:
    run["main"]["moves"][0]["to"][1] += 0.5


def _blended(run: _Run) -> None:
    run["main"]["moves"][0]["blend"] *= 0.9


def _repeated(run: _Run) -> None:
    run["main"]["repeats"] += 1


def _quick(run: _Run) -> None:
    run["out"][0]["duration"] *= 0.5


def _no_way_home(run: _Run) -> None:
    run["back"] = run["back"][:0]


def _elsewhere(run: _Run) -> None:
    run["back"][-1]["to"][2] += 1.0


def _units(run: _Run) -> None:
    run["units"][0] = "rad"


def _no_home(run: _Run) -> None:
    del run["marks"]


_CHANGES: tuple[tuple[str, Callable[[_Run], None]], ...] = (
    ("home moved", _home),
    ("no home", _no_home),
    ("marks removed", _drop_marks),
    ("a mark too late", _late_mark),
    ("two joints swapped", _swap),
    ("a harmonic swapped", _other_harmonic),
    ("radians for degrees", _radians),
    ("a sign flipped", _flip),
    ("a coefficient 1 % larger", _larger),
    ("an axis lost", _axis_lost),
    ("one period more", _set("measured", lambda n: n + 1)),
    ("one period less", _set("measured", lambda n: n - 1)),
    ("ramp shortened", _set("ramp", lambda x: 0.5 * x)),
    ("period 1 % longer", _set("period", lambda x: 1.01 * x)),
    ("settling shortened", _set("settle", lambda x: 0.5 * x)),
    ("hold left out", _set("hold", lambda x: 0.0)),
    ("a pose moved", _moved),
    ("a blend shortened", _blended),
    ("one round more", _repeated),
    ("the way out too fast", _quick),
    ("the way home left out", _no_way_home),
    ("the way home ends elsewhere", _elsewhere),
    ("units mixed up", _units),
)
