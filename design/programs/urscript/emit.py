"""Universal Robots: a script that evaluates the run itself, and gives the drives one set point per control step."""

from collections.abc import Iterable

import numpy as np

from excitor.design.motion import Excitation, Move, Series
from excitor.design.programs.plan import (
    BACK,
    END,
    HOLD,
    MEASURED,
    OUT,
    RAMP_IN,
    RAMP_OUT,
    SETTLE,
    WARM_UP,
    Plan,
    Stretches,
)
from excitor.design.programs.target import CannotDrive, comment, fitting_steps, fixed, in_axes, no_go_lines, stated
from excitor.robots.arrays import FloatArray

LOOK_AHEAD, GAIN = 0.03, 1000
HOME = 0.0087  # rad, that the robot may be away from home: half a degree
ABORTED = -1  # register 24 of a program that gave up
BRAKING = (3.0, 40.0)  # rad/s2, between which a stop is as hard as the motion itself
SLOW = "2.0 + 0.004"  # control steps that may be lost in a part of the run, and the share of its steps
MOST_MOVES = 900  # in one program; controllers run no more than 1000 to 2500 targets

TARGET = stated("urscript")


def emit(plan: Plan, name: str, spacing: float | None) -> dict[str, str]:
    """Write the script; `spacing` is not used, as there is no table."""
    axes = in_axes(plan, TARGET)
    written = len(axes.out.moves) * 2 + len(_round(axes)[0])
    if written > MOST_MOVES:
        raise CannotDrive(
            f"urscript: run {plan.run!r} consists of {written} moves, a script holds {MOST_MOVES}; split the run"
        )
    lines = [
        *_header(plan),
        "def ex_run():",
        *_indented([*_preflight(axes, max(fitting_steps(plan, TARGET))), *_phases(axes)]),
        "end",
        "ex_run()",
    ]
    return {f"{name}.script": "\n".join(lines) + "\n"}


def _header(plan: Plan) -> list[str]:
    lines = [f"# {comment(plan.campaign, 50)}: {comment(plan.run, 50)}, written by Excitor"]
    return [*lines, *no_go_lines(plan, "# "), *(["# DRY RUN at 15 % amplitude"] if plan.dry else [])]


def deceleration(axes: Plan) -> float:
    """Choose the deceleration of a stop, rad/s2: the motion's own peak, so that a stop leaves the path by little."""
    spans = [(name, np.linspace(0.0, axes.stretch(name).duration, 10_000)) for name in Stretches]
    peak = max(float(np.abs(axes.stretch(name).at(t, 2)).max()) for name, t in spans)
    return float(np.clip(np.ceil(10.0 * peak) / 10.0, *BRAKING))


def _preflight(axes: Plan, unit: float) -> list[str]:
    """Declare, and refuse to start."""
    away = " or ".join(f"norm(ex_q[{j}] - ex_h[{j}]) > {HOME}" for j in range(len(axes.home)))
    payload = []
    if axes.payload is not None:
        payload = [
            f"if norm(get_target_payload() - {_real(axes.payload)}) > 0.05:",
            f' ex_stop("Payload is not {axes.payload:g} kg")',
            "end",
        ]
    return [
        "global ex_dt = get_steptime()",
        "global ex_n = 0",
        "global ex_t = 0",
        "global ex_q = get_actual_joint_positions()",
        *_functions(deceleration(axes)),
        *_profiles(axes),
        *(_wave(axes.body.series) if axes.body.series is not None else []),
        f"ex_h = {_list(axes.home)}",
        "ex_mark(0)",
        f"ex_u = {unit} / ex_dt",
        "if norm(ex_u - floor(ex_u + 0.5)) > 0.000001:",
        ' ex_stop("Control step does not fit")',
        "end",
        f"if {away}:",
        ' ex_stop("Robot is not at home")',
        "end",
        *payload,
        "ex_q = get_target_joint_positions()",
        "ex_c = run ex_clock()",
        "ex_rest(3.0)",
        f"ex_move(ex_h, 1.0{_no_blend(axes)})",
    ]


def _functions(braking: float) -> list[str]:
    return [line.replace("ex_a", _real(braking)) for line in _FUNCTIONS]


_FUNCTIONS = [
    "def ex_stop(ex_s):",
    f" write_output_integer_register(24, {ABORTED})",
    ' popup(ex_s, "Excitor", False, True, True)',
    " halt",
    "end",
    "thread ex_clock():",
    " while True:",
    "  ex_t = ex_t + 1",
    "  sync()",
    " end",
    "end",
    "def ex_mark(ex_m):",
    " write_output_integer_register(24, ex_m)",
    " ex_n = 0",
    " ex_t = 0",
    "end",
    "def ex_go():",
    f" servoj(ex_q, 0, 0, ex_dt, {LOOK_AHEAD}, {GAIN})",
    " ex_n = ex_n + 1",
    f" if ex_t - ex_n > {SLOW} * ex_n:",
    "  stopj(ex_a)",
    '  ex_stop("Speed below 100 %, or steps took too long")',
    " end",
    "end",
    "def ex_steps(ex_s):",
    " return floor(ex_s / ex_dt + 0.5)",
    "end",
    "def ex_rest(ex_s):",
    " local ex_i = ex_steps(ex_s)",
    " while ex_i > 0:",
    "  ex_go()",
    "  ex_i = ex_i - 1",
    " end",
    "end",
    "def ex_rise(ex_x):",
    " return ex_x * ex_x * ex_x * ex_x * (35.0 - ex_x * (84.0 - ex_x * (70.0 - 20.0 * ex_x)))",
    "end",
]


_RIDE = [
    "def ex_ramp(ex_x):",
    " return ex_x * ex_x * ex_x * ex_x * ex_x * (7.0 - ex_x * (14.0 - ex_x * (10.0 - 2.5 * ex_x)))",
    "end",
    "def ex_ride(ex_x, ex_s, ex_b):",
    " if ex_x < ex_b and ex_x < ex_s - ex_b:",
    "  return ex_b / (ex_s - ex_b) * ex_ramp(ex_x / ex_b)",
    " end",
    " if ex_x < ex_s - ex_b:",
    "  return (ex_x - 0.5 * ex_b) / (ex_s - ex_b)",
    " end",
    " return 1.0 - ex_b / (ex_s - ex_b) * ex_ramp((ex_s - ex_x) / ex_b)",
    "end",
]


def _blends(axes: Plan) -> bool:
    return any(move.blend > 0.0 for move in (*axes.out.moves, *_round(axes)[0]))


def _round(axes: Plan) -> tuple[tuple[Move, ...], int]:
    """Return the moves of one round, and their number of rounds; none of a series."""
    return axes.body.repeats() if axes.body.series is None else ((), 1)


def _no_blend(axes: Plan) -> str:
    return ", 0.0" if _blends(axes) else ""


def _profiles(axes: Plan) -> list[str]:
    """Write the moves from rest to rest: with blends only where a move has one."""
    n = len(axes.home)

    def each(formula: str) -> str:
        return "[" + ", ".join(formula.format(j=j) for j in range(n)) + "]"

    blends = _blends(axes)
    return [
        *(_RIDE if blends else []),
        f"def ex_move(ex_to, ex_s{', ex_b' if blends else ''}):",
        f" local ex_f = {each('ex_q[{j}]')}",
        f" local ex_d = {each('ex_to[{j}] - ex_q[{j}]')}",
        " local ex_m = ex_steps(ex_s)",
        " local ex_i = 0",
        " while ex_i < ex_m:",
        "  ex_i = ex_i + 1",
        "  local ex_e = ex_rise(1.0 * ex_i / ex_m)",
        *(["  if ex_b > 0.0:", "   ex_e = ex_ride(1.0 * ex_i * ex_dt, ex_s, ex_b)", "  end"] if blends else []),
        f"  ex_q = {each('ex_f[{j}] + ex_e * ex_d[{j}]')}",
        "  ex_go()",
        " end",
        "end",
    ]


def _wave(body: Series) -> list[str]:
    """Write the series: steps from `ex_i` to `ex_m`, the envelope rises (ex_g > 0), falls (ex_g < 0) or stays at 1."""
    used = [k for k, a in enumerate(body.harmonics) if _is_written(body.sines[:, k], body.cosines[:, k])]
    highest = max((body.harmonics[k] for k in used), default=0)
    recurrence = [
        line
        for k in range(2, highest + 1)
        for line in (
            f"  local ex_s{k} = ex_s{k - 1} * ex_c1 + ex_c{k - 1} * ex_s1",
            f"  local ex_c{k} = ex_c{k - 1} * ex_c1 - ex_s{k - 1} * ex_s1",
        )
    ]
    return [
        f"global ex_p = ex_steps({_real(body.period)})",
        "global ex_w = 6.283185307179586 / ex_p",
        "def ex_wave(ex_i, ex_m, ex_g):",
        " while ex_i < ex_m:",
        "  ex_i = ex_i + 1",
        "  local ex_e = ex_rise(1.0 + ex_g * ex_i)",
        "  local ex_s1 = sin(ex_w * ex_i)",
        "  local ex_c1 = cos(ex_w * ex_i)",
        *recurrence,
        *(f"  ex_q[{j}] = {_joint(body, j, used)}" for j in range(len(body.center))),
        "  ex_go()",
        " end",
        "end",
        "def ex_turns(ex_m, ex_all):",
        " local ex_i = 0",
        " while ex_i < ex_all:",
        "  ex_i = ex_i + 1",
        "  ex_mark(ex_m + ex_i)",
        "  ex_wave(0, ex_p, 0.0)",
        " end",
        "end",
    ]


def _is_written(*coefficients: FloatArray) -> bool:
    return any(_real(x) != "0.0" for values in coefficients for x in values)


def _joint(body: Series, j: int, used: Iterable[int]) -> str:
    terms = ""
    for k in used:
        harmonic = body.harmonics[k]
        for wave, value in (("s", body.sines[j, k]), ("c", body.cosines[j, k])):
            text = _real(abs(value))
            if text != "0.0":
                sign = "-" if value < 0.0 else "+"
                terms += f" {sign} {text} * ex_{wave}{harmonic}"
    return _real(body.center[j]) + (f" + ex_e * (0.0{terms})" if terms else "")


def _phases(axes: Plan) -> list[str]:
    out = [_move(axes, move) for move in axes.out.moves]
    back = [_move(axes, move) for move in axes.back.moves]
    main = _rounds(axes) if axes.body.series is None else _series(axes.body.excitation)
    return [
        *([f"ex_mark({OUT})", *out, "ex_mark(0)"] if out else []),
        "ex_rest(1.0)",
        "stopj(3.0)",
        'popup("Start the recorder, then continue", "Excitor", False, False, True)',
        *main,
        "ex_mark(0)",
        "ex_rest(1.0)",
        *([f"ex_mark({BACK})", *back] if back else []),
        "stopj(3.0)",
        f"ex_mark({END})",
        "halt",
    ]


def _move(axes: Plan, move: Move) -> str:
    blend = f", {_real(move.blend)}" if _blends(axes) else ""
    to = "ex_h" if np.array_equal(move.goal, axes.home) else _list(move.goal)
    return f"ex_move({to}, {_real(move.duration)}{blend})"


def _series(e: Excitation) -> list[str]:
    ramp = f"ex_steps({_real(e.ramp)})"
    return [
        *([f"ex_mark({SETTLE})", f"ex_rest({_real(e.settle)})"] if e.settle > 0.0 else []),
        *([f"ex_mark({RAMP_IN})", f"ex_r = {ramp}", "ex_wave(-ex_r, 0, 1.0 / ex_r)"] if e.ramp > 0.0 else []),
        *([f"ex_turns({WARM_UP}, {e.warm_up})"] if e.warm_up else []),
        f"ex_turns({MEASURED}, {e.measured})",
        *([f"ex_mark({RAMP_OUT})", "ex_wave(0, ex_r, -1.0 / ex_r)"] if e.ramp > 0.0 else []),
        *([f"ex_mark({HOLD})", f"ex_rest({_real(e.hold)})"] if e.hold > 0.0 else []),
    ]


def _rounds(axes: Plan) -> list[str]:
    lines: list[str] = []
    moves, repeats = _round(axes)
    for move in moves:
        if move.measured:
            lines += [" ex_k = ex_k + 1", f" ex_mark({MEASURED} + ex_k)"]
        else:
            lines.append(f" ex_mark({SETTLE})")
        lines.append(" " + _move(axes, move))
    return ["ex_k = 0", "ex_j = 0", f"while ex_j < {repeats}:", " ex_j = ex_j + 1", *lines, "end"]


def _indented(lines: Iterable[str]) -> list[str]:
    return [" " + line for line in lines]


def _list(values: FloatArray) -> str:
    return "[" + ", ".join(_real(x) for x in values) + "]"


def _real(value: float) -> str:
    """Write a number with its decimals, without zeros behind them; exponents are not documented."""
    head, _, tail = fixed(float(value), TARGET.decimals).partition(".")
    return f"{head}.{tail.rstrip('0') or '0'}"
