"""Mutations of KRL programs with a spline block."""

import re
from collections.abc import Callable, Iterator, Mapping

_POINT = re.compile(r"  SPTP \{A1 (\S+),A2 (\S+),A3 (\S+),A4 (\S+),A5 (\S+),A6 (\S+)\}")
_REFUSAL = r"  IF {}.*?  ENDIF\r\n"
Edit = Callable[[str], str]


def mutations(files: Mapping[str, str], name: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield a label and the changed files; every one changes what the program does."""
    file = f"{name}.src"
    for label, edit in (*COMMON, *_EDITS):
        changed = edit(files[file])
        if changed != files[file]:
            yield label, {**files, file: changed}


def without(pattern: str, count: int = 1) -> Edit:
    """Drop the first places of a pattern."""
    return lambda text: re.sub(pattern, "", text, count=count, flags=re.DOTALL)


def instead(pattern: str, by: str, count: int = 1) -> Edit:
    """Replace the first places of a pattern."""
    return lambda text: re.sub(pattern, by, text, count=count)


def _middle(change: Callable[[list[float]], list[float]]) -> Edit:
    """Change the point in the middle of the block."""

    def edit(text: str) -> str:
        points = list(_POINT.finditer(text))
        point = points[len(points) // 2]
        return text[: point.start()] + _written(change([float(x) for x in point.groups()])) + text[point.end() :]

    return edit


def _every(change: Callable[[list[float]], list[float]]) -> Edit:
    return lambda text: _POINT.sub(lambda point: _written(change([float(x) for x in point.groups()])), text)


def _written(values: list[float]) -> str:
    return "  SPTP {" + ",".join(f"A{k} {x:.6f}" for k, x in enumerate(values, start=1)) + "}"


def _one_point_less(text: str) -> str:
    """Drop a point in the middle, and give its share to the next one."""
    pairs = list(re.finditer(r"    SPTP [^\r]*\r\n    TIME_BLOCK PART = (\S+)\r\n", text))
    drop, keep = pairs[len(pairs) // 2 : len(pairs) // 2 + 2]
    share = f"{float(drop[1]) + float(keep[1]):.9f}"
    return text[: drop.start()] + keep[0].replace(keep[1], share) + text[keep.end() :]


def _one_period_less(text: str) -> str:
    """Leave out a twentieth of the points, and spread the rest over the same time."""
    pairs = list(re.finditer(r"    SPTP [^\r]*\r\n    TIME_BLOCK PART = (\S+)\r\n", text))
    a, b = len(pairs) // 2, len(pairs) // 2 + len(pairs) // 20 + 1
    lost = sum(float(pair[1]) for pair in pairs[a:b])
    last = pairs[-1]
    more = last[0].replace(last[1], f"{float(last[1]) + lost:.9f}")
    return text[: pairs[a].start()] + text[pairs[b].start() : last.start()] + more + text[last.end() :]


def _swapped_parts(text: str) -> str:
    """Make one share longer and the next one shorter."""
    parts = list(re.finditer(r"TIME_BLOCK PART = (\S+)", text))
    a, b = parts[5], parts[6]
    by = 0.4 * float(b[1])
    text = text[: b.start(1)] + f"{float(b[1]) - by:.9f}" + text[b.end(1) :]
    return text[: a.start(1)] + f"{float(a[1]) + by:.9f}" + text[a.end(1) :]


COMMON: tuple[tuple[str, Edit], ...] = (
    ("override check removed", without(_REFUSAL.format(r"\$OV_PRO"))),
    ("override of 10 % is enough", instead(r"\$OV_PRO<100", "$OV_PRO<10")),
    ("mode check removed", without(_REFUSAL.format(r"\$MODE_OP"))),
    ("home check removed", without(_REFUSAL.format(r"ABS\(\$AXIS_ACT"), count=6)),
    ("home may be 50 degrees away", instead(r">0\.5 THEN", ">50.0 THEN", count=6)),
    ("payload check removed", without(_REFUSAL.format(r"ABS\(\$LOAD"))),
    ("refusal goes on when start is pressed", without(r"    LOOP\r\n(?=      HALT)|    ENDLOOP\r\n", count=2)),
    ("refusal does not halt", instead(r"      HALT\r\n", "      EXIT\r\n")),
    ("END missing", without(r"END\r\n\Z")),
    ("ENDIF missing", without(r"  ENDIF\r\n")),
    ("DEF missing", without(r"DEF \w+ \( \)\r\n")),
    ("tool not chosen", without(r"  BAS \(#TOOL,1\)\r\n")),
    ("way without a speed", without(r"  BAS \(#VEL_PTP,\d+\)\r\n  BAS \(#ACC_PTP,\d+\)\r\n", count=9)),
    ("decimal comma", instead(r"PTP \{A1 (-?\d+)\.", r"PTP {A1 \1,")),
    ("module of another name", instead(r"DEF \w+", "DEF OTHER")),
)
_EDITS: tuple[tuple[str, Edit], ...] = (
    ("a point dropped with its share", without(r"    SPTP [^\r]*\r\n    TIME_BLOCK PART[^\r]*\r\n")),
    ("a point dropped", _one_point_less),
    ("points of a part of the run dropped", _one_period_less),
    ("a share dropped", without(r"    TIME_BLOCK PART[^\r]*\r\n")),
    ("shares sum to less than 100", instead(r"(TIME_BLOCK PART = \d+\.\d*?)[1-9](\d*)", r"\g<1>0\2")),
    ("two shares unequal", _swapped_parts),
    ("two joints swapped", _every(lambda q: [q[1], q[0], *q[2:]])),
    ("two joints swapped at one point", _middle(lambda q: [*q[:4], q[5], q[4]])),
    ("radians for degrees", _every(lambda q: [0.017453292519943295 * x for x in q])),
    ("a sign flipped", _middle(lambda q: [q[0], q[1], -q[2], *q[3:]])),
    ("an axis 1 % larger", _every(lambda q: [*q[:3], 1.01 * q[3], *q[4:]])),
    ("a point off by 10 millionths of a degree more than rounding", _middle(lambda q: [q[0] + 3e-5, *q[1:]])),
    ("an axis missing", instead(r"(    SPTP \{[^\r]*),A6 [^}]*\}", r"\1}")),
    ("a variable in the block", instead(r"(    SPTP )\{[^\r]*\}", r"\1$AXIS_ACT")),
    ("decimal comma in the block", instead(r"SPTP \{A1 (-?\d+)\.", r"SPTP {A1 \1,")),
    ("the run takes 1 % longer", lambda text: _longer(text)),
    ("settling shorter", instead(r"(  WAIT SEC )\d+(\.\d+\r\n  PTP_SPLINE)", r"\g<1>7\2")),
    ("TIME_BLOCK START missing", without(r"    TIME_BLOCK START\r\n")),
    ("TIME_BLOCK END missing", without(r"    TIME_BLOCK END[^\r]*\r\n")),
    ("ENDSPLINE missing", without(r"  ENDSPLINE\r\n")),
    ("trace not started", without(r"  \$TRACE\.MODE=#T_START\r\n")),
    ("trace not stopped", without(r"  \$TRACE\.MODE=#T_STOP\r\n")),
    ("a long name of the trace", instead(r'(\$TRACE\.NAME\[\]=")', r"\1EXCITATION")),
    ("trace's state misread", without(r" AND \(\$TRACE\.STATE<>#TRIGGERED\)(?= THEN)")),
    ("trace without a name", without(r"  \$TRACE\.NAME[^\r]*\r\n")),
    ("no rest before the trace", without(r"  WAIT SEC 1\.0\r\n")),
    ("no rest after the trace", lambda text: "".join(text.rsplit("  WAIT SEC 1.0\r\n", 1))),
    ("the block is slowed down", without(r"  BAS \(#VEL_PTP,100\)\r\n")),
    ("a way at full speed", lambda text: re.sub(r"(BAS \(#VEL_PTP,)\d+(\)(?:\r\n[^\r]*){2}END)?", r"\g<1>90\2", text)),
    ("a way rounded off", instead(r"(  PTP \{[^\r]*\})(?=\r\n  WAIT SEC)", r"\1 C_PTP")),
    (
        "way back missing",
        lambda text: re.sub(r"(T_STOP\r\n  WAIT SEC 1\.0\r\n).*END\r\n", r"\1END\r\n", text, flags=re.S),
    ),
)


def _longer(text: str) -> str:
    return re.sub(r"(TIME_BLOCK END = )(\S+)", lambda end: f"{end[1]}{1.01 * float(end[2]):.6f}", text)
