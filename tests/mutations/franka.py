"""Wrong runs for the 1 kHz client made from a right one, and wrong clients."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tests.mutations.run_file import full, short

Files = Mapping[str, str]
Data = dict[str, Any]
Change = Callable[[Data], object]


def mutations(files: Files, name: str) -> Iterator[tuple[str, dict[str, str]]]:
    """List what was changed, and the changed files."""
    text = files[f"{name}.json"]
    data: Data = short(json.loads(text))
    changes = _common(data) | (_series() if "series" in data["main"] else _moves())
    for label, change in changes.items():
        changed = short(json.loads(text))
        change(changed)
        yield label, {**files, f"{name}.json": json.dumps(full(changed))}
    for label, wrong in _texts(text).items():
        yield label, {**files, f"{name}.json": wrong}
    yield from _clients(files)


def _common(data: Data) -> dict[str, Change]:
    changes: dict[str, Change] = {
        "another home": lambda d: d["home"].__setitem__(0, d["home"][0] + 0.05),
        "home in degrees": lambda d: d.update(home=[57.29577951308232 * x for x in d["home"]]),
        "two joints of home swapped": lambda d: d["home"].__setitem__(slice(2), d["home"][1::-1]),
        "degrees announced": lambda d: d.update(units=["deg"] * len(d["units"])),
        "a joint left out of home": lambda d: d["home"].pop(),
        "a mark removed": lambda d: d["marks"].remove(next(mark for mark in d["marks"] if mark[1] > 1000)),
        "a mark changed": lambda d: d["marks"][0].__setitem__(1, 99),
        "marks half a second late": lambda d: d.update(marks=[[t + 0.5, mark] for t, mark in d["marks"]]),
        "no marks": lambda d: d.update(marks=[]),
        "an unknown version": lambda d: d.update(version=3),
    }
    if data["payload_kg"] is not None:
        changes["the payload check removed"] = lambda d: d.update(payload_kg=None)
        changes["another payload"] = lambda d: d.update(payload_kg=d["payload_kg"] + 2.0)
    if data["out"]:
        changes["the way out twice as fast"] = lambda d: d["out"][0].update(duration=0.5 * d["out"][0]["duration"])
        changes["the way out ends elsewhere"] = lambda d: d["out"][-1].update(to=[x + 1e-4 for x in d["out"][-1]["to"]])
        changes["no way out"] = lambda d: d.update(out=[])
        changes["no way back"] = lambda d: d.update(back=[])
        changes["back ends elsewhere"] = lambda d: d["back"][-1].update(to=d["back"][-1]["to"][::-1])
    return changes


def _series() -> dict[str, Change]:
    def on(change: Change) -> Change:
        return lambda d: change(d["main"]["series"])

    changes: dict[str, Change] = {
        "two joints swapped": on(lambda s: s["sines"].__setitem__(slice(2), s["sines"][1::-1])),
        "sines and cosines swapped": on(lambda s: s.update(sines=s["cosines"], cosines=s["sines"])),
        "a sign flipped": on(lambda s: s["sines"][0].__setitem__(0, -s["sines"][0][0])),
        "a coefficient 1 % larger": on(lambda s: s["sines"][-1].__setitem__(-1, 1.01 * s["sines"][-1][-1])),
        "a coefficient 1e-7 larger": on(lambda s: s["cosines"][3].__setitem__(0, s["cosines"][3][0] + 1e-7)),
        "a coefficient lost": on(lambda s: s["cosines"][2].__setitem__(0, 0.0)),
        "degrees for radians": on(lambda s: s.update(center=[57.29577951308232 * x for x in s["center"]])),
        "a harmonic changed": on(lambda s: s["harmonics"].__setitem__(-1, s["harmonics"][-1] + 1)),
        "a row too few": on(lambda s: s["sines"].pop()),
        "a period too many": on(lambda s: s.update(measured=s["measured"] + 1)),
        "a warm-up too many": on(lambda s: s.update(warm_up=s["warm_up"] + 1)),
        "more warm-ups and fewer periods": on(lambda s: s.update(warm_up=s["warm_up"] + 2, measured=s["measured"] - 1)),
        "a period 1 % longer": on(lambda s: s.update(period=1.01 * s["period"])),
        "the ramp shortened": on(lambda s: s.update(ramp=0.5 * s["ramp"])),
        "no settling": on(lambda s: s.update(settle=0.0)),
        "no hold": on(lambda s: s.update(hold=0.0)),
        "a number that is none": on(lambda s: s["center"].__setitem__(0, float("nan"))),
    }
    return changes


def _moves() -> dict[str, Change]:
    def on(change: Callable[[list[Data]], object]) -> Change:
        return lambda d: change(d["main"]["moves"])

    return {
        "a move dropped": on(lambda m: m.pop(1)),
        "the last move dropped": on(lambda m: m.pop()),
        "a move twice as fast": on(lambda m: m[0].update(duration=0.75 * m[0]["duration"])),
        "a blend shortened": on(lambda m: m[2].update(blend=0.5 * m[2]["blend"])),
        "no blend": on(lambda m: m[2].update(blend=0.0)),
        "two moves swapped": on(lambda m: m.__setitem__(slice(2, 4), m[3:1:-1])),
        "a sign flipped": on(lambda m: m[2]["to"].__setitem__(0, -m[2]["to"][0])),
        "two joints swapped": on(lambda m: m[2]["to"].__setitem__(slice(2), m[2]["to"][1::-1])),
        "degrees for radians": on(lambda m: m[2].update(to=[57.29577951308232 * x for x in m[2]["to"]])),
        "a pose 1e-7 off": on(lambda m: m[2]["to"].__setitem__(3, m[2]["to"][3] + 1e-7)),
        "a repeat too many": lambda d: d["main"].update(repeats=d["main"]["repeats"] + 1),
    }


def _texts(text: str) -> dict[str, str]:
    return {
        "a decimal comma": re.sub(r"(\d)\.(\d)", r"\1,\2", text, count=1),
        "the last brace missing": text.rstrip()[:-1],
        "a line dropped": re.sub(r"\n *\"payload_kg\".*?(?=\n)", "", text, count=1),
        "a number in quotes": re.sub(r"(-?\d+\.\d+)", r'"\1"', text, count=1),
        "a key twice": text.replace('"dry"', '"run": "x",\n "dry"', 1),
    }


def _clients(files: Files) -> Iterator[tuple[str, dict[str, str]]]:
    places = {
        "the mode check removed": ("franka_client.py", r"\n    if state\.robot_mode != .*\n.*"),
        "the home check removed": ("franka_client.py", r"\n        if not abs\(away\) <= NEAR:\n.*"),
        "the log start removed": ("franka_client.py", r"\n            log\.add\(t, state\)"),
        "a wrong step time": ("franka_client.py", r"0\.001(?= \* self\.elapsed)"),
        "the envelope of another order": ("run_motion.py", r"35\.0(?= - s)"),
    }
    for label, (client, place) in places.items():
        if re.search(place, files.get(client, "")):
            new = {"a wrong step time": "0.00101", "the envelope of another order": "36.0"}.get(label, "")
            yield label, {**files, client: re.sub(place, new, files[client], count=1)}
