"""Mistakes in a script for Universal Robots, each of which its check must find."""

import re
from collections.abc import Callable, Iterator, Mapping

_NUMBER = r"-?\d+\.\d+"
_POSE = rf"\[(?:{_NUMBER}, ){{5}}{_NUMBER}\]"
_Change = Callable[[re.Match[str]], str]


def mutations(files: Mapping[str, str], name: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Change the script called `name` in one way after another; a label, and all files."""
    file = f"{name}.script"
    text = files[file]
    for label, pattern, change in _CHANGES:
        changed = re.sub(pattern, change, text, count=1, flags=re.MULTILINE)
        if changed != text:
            yield label, {**files, file: changed}


def _swapped(match: re.Match[str]) -> str:
    return f"ex_q[1]{match['first']}ex_q[0]{match['second']}"


def _in_degrees(match: re.Match[str]) -> str:
    return "sin(57.29577951308232 * "


def _scaled(share: float) -> _Change:
    return lambda match: match["before"] + repr(float(match["number"]) * share)


def _exchanged(match: re.Match[str]) -> str:
    values = match["pose"][1:-1].split(", ")
    values[0], values[1] = values[1], values[0]
    return f"{match['before']}[{', '.join(values)}]"


def _dropped(match: re.Match[str]) -> str:
    return ""


def _constant(text: str) -> _Change:
    return lambda match: text


def _one_more(match: re.Match[str]) -> str:
    return f"{match['before']}{int(match['number']) + 1}{match['after']}"


def _one_less(match: re.Match[str]) -> str:
    return f"{match['before']}{int(match['number']) - 1}{match['after']}"


def _line(pattern: str) -> str:
    return rf"^ *{pattern}.*\n"


_COEFFICIENT = r"(?P<before>[+-] )(?P<number>\d\.\d+)(?= \* ex_s1\b)"
_HOME = rf"(?P<before>ex_h = )(?P<pose>{_POSE})"
_FIRST = r"(?P<before>ex_mark\(2\)\n *ex_move\(\[.*\], "  # move of a round
_OUT = rf"(?P<before>ex_mark\(1\)\n *ex_move\()(?P<pose>{_POSE})"

_CHANGES: tuple[tuple[str, str, _Change], ...] = (
    ("first joint's line dropped", _line(r"ex_q\[0\] = "), _dropped),
    ("two joints swapped", r"ex_q\[0\](?P<first> = .*\n *)ex_q\[1\](?P<second> = .*)", _swapped),
    ("degrees for radians", r"sin\(", _in_degrees),
    ("sign of a sine flipped", r"\+(?= \d\.\d+ \* ex_s1\b)", _constant("-")),
    ("sign of a cosine flipped", r"-(?= \d\.\d+ \* ex_c1\b)", _constant("+")),
    ("decimal comma", r"(?<=\d)\.(?=\d+ \* ex_s1\b)", _constant(",")),
    ("decimal comma in a pose", r"(?<=ex_move\(\[-\d)\.|(?<=ex_move\(\[\d)\.", _constant(",")),
    ("an end missing", r"^  end\n", _dropped),
    ("the last end missing", r"^end\n", _dropped),
    ("an end too many", r"^  end\n", _constant("  end\n  end\n")),
    ("one period more", r"(?P<before>ex_turns\(1000, )(?P<number>\d+)(?P<after>\))", _one_more),
    ("one period less", r"(?P<before>ex_turns\(1000, )(?P<number>\d+)(?P<after>\))", _one_less),
    ("one round more", r"(?P<before>while ex_j < )(?P<number>\d+)(?P<after>:)", _one_more),
    ("twice the control step", r"get_steptime\(\)", _constant("2.0 * get_steptime()")),
    ("control step of another series", r"get_steptime\(\)", _constant("0.004")),
    ("steps counted from 0", r"ex_wave\(0, ex_p", _constant("ex_wave(-1, ex_p - 1")),
    ("one step less a period", r"ex_wave\(0, ex_p, ", _constant("ex_wave(0, ex_p - 1, ")),
    ("speed not looked at", r"if ex_t - ex_n > ", _constant("if ex_t - ex_t > ")),
    ("clock not started", _line(r"ex_c = run ex_clock"), _dropped),
    ("no standstill to look at the speed", _line(r"ex_rest\(3\.0\)\n *ex_move\(ex_h"), _dropped),
    ("home not looked at", r"if norm\(ex_q\[0\] - ex_h.*:", _constant("if False:")),
    ("home of one joint not looked at", r"norm\(ex_q\[2\] - ex_h\[2\]\)", _constant("norm(ex_q[1] - ex_h[1])")),
    ("payload not looked at", r"if norm\(get_target_payload\(\).*:", _constant("if False:")),
    ("no halt after a message", r"^  halt\n", _dropped),
    ("another home", _HOME, _exchanged),
    ("another start", _OUT, _exchanged),
    ("a mark removed", _line(r"ex_mark\(3\)"), _dropped),
    ("mark of the run's end removed", _line(r"ex_mark\(5\)"), _dropped),
    ("mark of the way out removed", _line(r"ex_mark\(1\)"), _dropped),
    ("end mark removed", _line(r"ex_mark\(7\)"), _dropped),
    ("marks of another register", r"register\(24(?=, ex_m\))", _constant("register(25")),
    ("giving up without a mark", _line(r"write_output_integer_register\(24, -1\)"), _dropped),
    ("giving up with the mark of the end", r"register\(24, -1\)", _constant("register(24, 0)")),
    ("recorder not started", _line(r'popup\("Start'), _dropped),
    ("recorder not stopped", r"^ *ex_mark\(0\)\n( *ex_rest\(1\.0\)\n *ex_mark\(6\))", lambda m: m[1]),
    ("a coefficient 1 % larger", _COEFFICIENT, _scaled(1.01)),
    ("a center off by a milliradian", rf"(?P<before>ex_q\[1\] = )(?P<number>{_NUMBER})(?= \+ ex_e)",
     lambda m: m["before"] + repr(float(m["number"]) + 1e-3)),
    ("an ex_e forgotten", r"ex_e \* \(", _constant("1.0 * (")),
    ("a harmonic swapped", r"\* ex_c2", _constant("* ex_c1")),
    ("a harmonic's recurrence wrong", r"(ex_c1 \* ex_c1) - ", lambda m: m[1] + " + "),
    ("ramp shortened", r"(?P<before>ex_r = ex_steps\()(?P<number>[\d.]+)", _scaled(0.5)),
    ("ramp of another kind", r"84\.0", _constant("83.0")),
    ("a rest shortened", r"(?P<before>ex_mark\(2\)\n *ex_rest\()(?P<number>[\d.]+)", _scaled(0.5)),
    ("no rest before the recorder", _line(r"ex_rest\(1\.0\)(?=\n *stopj)"), _dropped),
    ("no rest after the run", _line(r"ex_rest\(1\.0\)(?=\n *ex_mark\(6)"), _dropped),
    ("a move 1 % longer", rf"{_FIRST})(?P<number>[\d.]+)", _scaled(1.01)),
    ("blends of another length", rf"{_FIRST}[\d.]+, )(?P<number>[\d.]+)", _scaled(0.9)),
    ("a move without measurement", r" ex_k = ex_k \+ 1\n", _constant("")),
    ("gain out of range", r", 1000\)$", _constant(", 5000)")),
    ("no way back", r"(ex_mark\(6\)\n)( *ex_move.*\n)+", lambda m: m[1]),
    ("program called twice", r"^ halt\nend\nex_run\(\)\n", _constant("end\nex_run()\nex_run()\n")),
    ("no halt at the end", r"^ halt\nend\n", _constant("end\n")),
    ("program not called", r"^ex_run\(\)\n", _constant("ex_dry = 1\n")),
    ("a servo command too many", r"^(  servoj.*\n)", lambda m: m[1] + m[1]),
    ("an unknown name", r"ex_s1 \* ex_c1", _constant("ex_s0 * ex_c1")),
    ("a loop without motion", _line(r" servoj"), _dropped),
    ("the tool's pose for the joints", r"get_actual_joint_positions", _constant("get_actual_tcp_pose")),
)  # fmt: skip
