"""FANUC TP programs as ASCII (.ls): way-points with speeds in percent."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from excitor.design.programs.plan import BACK, END, HOLD, MEASURED, OUT, RAMP_IN, RAMP_OUT, SETTLE, WARM_UP, Plan
from excitor.design.programs.target import (
    AT_HOME,
    CannotDrive,
    comment,
    fixed,
    in_axes,
    no_go_lines,
    site_numbers,
    stated,
)
from excitor.design.programs.way_points import Leg, Part, Rest, Speeds, rounds, series_legs, top_speeds, way

TARGET = stated("fanuc/targets.toml", "fanuc")

_LOOP, _COUNT, _PARTS, _MARK = "R[196]", "R[197]", "R[198]", "R[199:EX MARK]"
_LOG, _HERE = "F[99:EX LOG]", "PR[99]"
_CLOSEST = 0.05  # s between way-points
_REFUSED = {901: "OVERRIDE NOT 100%", 902: "NOT IN AUTO MODE", 903: "NOT AT HOME", 904: "NOT AT START"}


def emit(plan: Plan, name: str, spacing: float | None) -> dict[str, str]:
    """Write the program."""
    if plan.poses:
        return first_run(plan, name)
    spacing = spacing or TARGET.spacing or 0.1
    if spacing < _CLOSEST:
        raise CannotDrive(
            f"{TARGET.name}: way-points every {spacing:g} s are too close for the controller; choose {_CLOSEST:g} s"
        )
    table: list[np.ndarray] = []
    code = list(_code(plan, spacing, table))
    if TARGET.most_lines is not None and len(code) > TARGET.most_lines:
        need = spacing * len(code) / TARGET.most_lines
        raise CannotDrive(
            f"{TARGET.name}: run {plan.run!r} takes {len(code)} lines, a program has {TARGET.most_lines} at most; "
            f"choose way-points every {np.ceil(100.0 * need) / 100.0:g} s"
        )
    return {f"{name}.ls": program_text(name, code, table, plan.site)}


def first_run(plan: Plan, name: str) -> dict[str, str]:
    """Write the program of a first run, whose speeds are shares of the axes' own."""
    table: list[np.ndarray] = []
    top = top_speeds(plan.robot, TARGET)
    code = [*header(plan), *_tops(top), *preflight(plan), *_at_home(plan, table), f"{_MARK}={OUT}"]
    for move in in_axes(plan, TARGET).out.moves:
        share = float((np.abs(move.goal - move.origin) / top).max()) / (move.duration - move.blend)
        table.append(move.goal)
        code.append(f"J P[{len(table)}] {max(1, int(100.0 * share))}% FINE")
    return {f"{name}.ls": program_text(name, [*code, f"{_MARK}={END}", *refusals(903)], table, plan.site)}


def program_text(name: str, code: list[str], table: list[np.ndarray], site: Mapping[str, Any]) -> str:
    """Write the file of a program, with the site's registers and flag."""
    lines = site_numbers("".join(f"{k:4d}:  {line} ;\n" for k, line in enumerate(code, 1)), site)
    return (
        f"/PROG  {name.upper()}\n/ATTR\nDEFAULT_GROUP = 1,*,*,*,*;\n/MN\n{lines}/POS\n"
        f"{''.join(_position(k, pose, site) for k, pose in enumerate(table, 1))}/END\n"
    )


def header(plan: Plan) -> Iterator[str]:
    """Write remarks that describe the program."""
    yield f"!CAMPAIGN {comment(plan.campaign, 60)}"
    yield f"!RUN {comment(plan.run, 60)}"
    yield f"!ROBOT {comment(plan.robot.name, 60)}"
    yield from no_go_lines(plan, "!")
    if plan.dry:
        yield "!POSES AT REDUCED SPEED" if plan.poses else "!DRY RUN AT 15% AMPLITUDE"


def preflight(plan: Plan) -> Iterator[str]:
    """Refuse another speed or mode; request the operator's confirmation of the payload, which no program can read."""
    yield "!PREFLIGHT"
    if plan.payload is not None:
        yield f"MESSAGE[{fixed(plan.payload, 2)} KG SET?]"
        yield "PAUSE"
    if not plan.poses:
        yield from _full_speed()


def _tops(top: np.ndarray) -> Iterator[str]:
    yield from (f"!J{k} AT 100%: {fixed(float(x), 6)} DEG/S" for k, x in enumerate(top, 1))


def _full_speed() -> Iterator[str]:
    yield f"{_LOOP}=$MCR.$GENOVERRIDE"
    yield f"IF {_LOOP}<>100,JMP LBL[901]"
    yield "IF UO[8]=ON,JMP LBL[902]"


def refusals(*labels: int) -> Iterator[str]:
    """End the program with the reason why it did not start."""
    yield "END"
    for label in labels:
        yield from (f"LBL[{label}]", f"MESSAGE[{_REFUSED[label]}]", "ABORT")


def _at_home(plan: Plan, table: list[np.ndarray]) -> Iterator[str]:
    home, base, tool = in_axes(plan, TARGET).home, plan.site.get("base", 0), plan.site.get("tool", 1)
    yield from _near(home, 903)
    table.append(home)
    yield from (f"UFRAME_NUM={base}", f"UTOOL_NUM={tool}", "J P[1] 2% FINE")


def _near(pose: np.ndarray, label: int) -> Iterator[str]:
    """Jump to a label unless every axis is near a pose."""
    yield f"{_HERE}=JPOS"
    margin = AT_HOME[0]
    for k, angle in enumerate(pose, 1):
        yield f"{_LOOP}=PR[99,{k}]"
        yield f"IF {_LOOP}<{_signed(angle - margin)},JMP LBL[{label}]"
        yield f"IF {_LOOP}>{_signed(angle + margin)},JMP LBL[{label}]"


def _code(plan: Plan, spacing: float, table: list[np.ndarray]) -> Iterator[str]:
    top = top_speeds(plan.robot, TARGET)
    speeds = Speeds(top, TARGET.decimals, 0, 1.0)
    yield from header(plan)
    yield from ("!TIMES ARE APPROXIMATE: USE", "!MEASURED POSITIONS ONLY")
    yield from (*_tops(top), *preflight(plan), *_at_home(plan, table), f"{_MARK}={OUT}")
    for body in way(plan, TARGET, speeds, back=False):
        yield from _ride(body, [], table)
    yield from ("WAIT 1.00(sec)", "MESSAGE[START THE RECORDER]", "PAUSE", "!AGAIN: A PAUSE IS LONG")
    yield from (*_full_speed(), *_near(in_axes(plan, TARGET).start, 904), f"{_LOG}=(ON)")
    if plan.body.series is not None:
        yield from _series(plan, speeds, spacing, table)
    else:
        yield from _rounds(rounds(plan, TARGET, speeds, spacing), plan.body.repeats()[1], table)
    yield from (f"{_LOG}=(OFF)", "WAIT 1.00(sec)", f"{_MARK}={BACK}")
    for body in way(plan, TARGET, speeds, back=True):
        yield from _ride(body, [], table)
    yield f"{_MARK}={END}"
    yield from refusals(*_REFUSED)


def _series(plan: Plan, speeds: Speeds, spacing: float, table: list[np.ndarray]) -> Iterator[str]:
    e = plan.body.excitation
    into, one, out = series_legs(plan, TARGET, speeds, spacing)
    if e.settle > 0.0:
        yield from _ride(Rest(e.settle), [f"{_MARK}={SETTLE}"], table)
    if into is not None:
        yield from _ride(into, [f"{_MARK}={RAMP_IN}"], table)
    yield from ("!PERIODS", f"{_LOOP}=0", "LBL[10]", f"{_LOOP}={_LOOP}+1", f"{_COUNT}={_LOOP}+{WARM_UP}")
    yield from (f"IF {_LOOP}<={e.warm_up},JMP LBL[11]", f"{_COUNT}={_LOOP}-{e.warm_up}+{MEASURED}", "LBL[11]")
    yield from _ride(one, [f"{_MARK}={_COUNT}"], table)
    yield f"IF {_LOOP}<{e.warm_up + e.measured},JMP LBL[10]"
    if out is not None:
        yield from _ride(out, [f"{_MARK}={RAMP_OUT}"], table)
    if e.hold > 0.0:
        yield from _ride(Rest(e.hold), [f"{_MARK}={HOLD}"], table)


def _rounds(parts: tuple[Part, ...], repeats: int, table: list[np.ndarray]) -> Iterator[str]:
    yield from (f"{_LOOP}=0", f"{_PARTS}=0", "LBL[10]", f"{_LOOP}={_LOOP}+1")
    for part in parts:
        counted = [f"{_PARTS}={_PARTS}+1", f"{_MARK}={_PARTS}+{part.mark}"]
        yield from _ride(part.body, counted if part.counted else [f"{_MARK}={part.mark}"], table)
    yield f"IF {_LOOP}<{repeats},JMP LBL[10]"


def _ride(body: Leg | Rest, mark: list[str], table: list[np.ndarray]) -> Iterator[str]:
    """Write a leg's moves, or a rest; remarks state the planned times, as speeds and waits are whole numbers."""
    yield from mark
    if isinstance(body, Rest):
        yield from (f"!REST OF {fixed(body.seconds, 9)} S", f"WAIT {fixed(body.seconds, 2)}(sec)")
        return
    yield f"!WAYS OF {fixed(body.step, 9)} S"
    yield from _wait(body.pause)
    for k, (pose, percent) in enumerate(zip(body.poses, body.percents, strict=True), 1):
        table.append(pose)
        stop = body.stops and k == len(body.poses)
        yield f"J P[{len(table)}] {percent:.0f}% {'FINE' if stop else 'CNT100'}"
    if body.stops:
        yield from _wait(body.idle)
    yield "!END OF WAYS"


def _wait(seconds: float) -> Iterator[str]:
    if seconds >= 0.005:  # the clock of TP programs counts hundredths
        yield f"WAIT {fixed(seconds, 2)}(sec)"


def _position(number: int, pose: np.ndarray, site: Mapping[str, Any]) -> str:
    a = [f"J{k} = {fixed(float(x), TARGET.decimals)} deg" for k, x in enumerate(pose, 1)]
    base, tool = site.get("base", 0), site.get("tool", 1)
    frames = f"   UF : {base}, UT : {tool},\n"
    return f"P[{number}]{{\n   GP1:\n{frames}   {a[0]}, {a[1]}, {a[2]},\n   {a[3]}, {a[4]}, {a[5]}\n}};\n"


def _signed(value: float) -> str:
    """Write a number as the controller does: negative ones in brackets."""
    text = fixed(float(value), 3)
    return f"({text})" if text.startswith("-") else text
