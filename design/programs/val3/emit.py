"""Stäubli VAL3: an application folder whose program goes from way-point to way-point."""

from collections.abc import Iterator

import numpy as np

from excitor.design.programs.plan import BACK, END, HOLD, MEASURED, OUT, RAMP_IN, RAMP_OUT, SETTLE, WARM_UP, Plan
from excitor.design.programs.target import AT_HOME, comment, fixed, in_axes, no_go_lines, stated
from excitor.design.programs.way_points import Leg, Part, Rest, Speeds, rounds, series_legs, top_speeds, way

TARGET = stated("val3/targets.toml", "val3")

_AHEAD = 20  # moves that wait in the controller: more have overrun its buffer


def emit(plan: Plan, name: str, spacing: float | None) -> dict[str, str]:
    """Write the files of the application."""
    speeds = Speeds(top_speeds(plan.robot, TARGET), TARGET.decimals, 9, 1e-6)
    table = _Table()
    head = "".join(line + "\n" for line in no_go_lines(plan, "<!-- ", " -->"))
    code = list(_start(plan, speeds, spacing or TARGET.spacing or 0.1, table))
    return {
        f"{name}/{name}.pjx": _project(name, head),
        f"{name}/{name}.dtx": _data(plan, speeds, table, head),
        f"{name}/start.pgx": _program("start", code, head=head),
        f"{name}/ride.pgx": _program("ride", _RIDE, ("nFrom", "nTo", "nSpan", "nTell"), head),
        f"{name}/stop.pgx": _program("stop", ["resetMotion()", "nLog=0"], head=head),
    }


_RIDE = f"""// ways to way-points nFrom to nTo, of nSpan s each at the speeds nVel
// nMark becomes nTell, if that is not 0, when the way-point before them is reached
nSeam=nId
nStep=nSpan
for nIdx=nFrom to nTo
  mRide.vel=nVel[nIdx]
  nId=movej(jRide[nIdx],tNone,mRide)
  wait(nId-getMoveId()<{_AHEAD})
  if nTell>0 and nIdx==min(nFrom+2,nTo)
    wait(getMoveId()>=nSeam)
    nMark=nTell
  endIf
endFor""".splitlines()


class _Table:
    """The way-points of all legs in one array, so that a leg is a pair of indices."""

    def __init__(self) -> None:
        self.poses: list[np.ndarray] = []
        self.percents: list[float] = []

    def add(self, leg: Leg) -> tuple[int, int]:
        first = len(self.poses)
        self.poses += list(leg.poses)
        self.percents += leg.percents.tolist()
        return first, len(self.poses) - 1


def _start(plan: Plan, speeds: Speeds, spacing: float, table: _Table) -> Iterator[str]:
    yield from _header(plan)
    yield from _preflight(plan)
    yield from ("resetMotion()", "nId=0", "movej(jHome,tNone,mSlow)", "waitEndMove()", "resetMotion()", f"nMark={OUT}")
    for body in way(plan, TARGET, speeds, back=False):
        yield from _ride(body, "", table)
    if plan.poses:
        yield from (f"nMark={END}", 'putln("Finished")')
        return
    yield from ("// start the logger", "delay(1)", *_ask("Start the recorder, then press a key"))
    yield from ("// again: it may have taken long", *_full_speed(), "nLog=1")
    if plan.body.series is not None:
        yield from _series(plan, speeds, spacing, table)
    else:
        yield from _rounds(rounds(plan, TARGET, speeds, spacing), plan.body.repeats()[1], table)
    yield from ("// stop the logger", "nLog=0", "delay(1)", f"nMark={BACK}")
    for body in way(plan, TARGET, speeds, back=True):
        yield from _ride(body, "", table)
    yield from (f"nMark={END}", 'putln("Finished")')


def _header(plan: Plan) -> Iterator[str]:
    yield f"// campaign {comment(plan.campaign)}, run {comment(plan.run)}, robot {comment(plan.robot.name)}"
    yield from no_go_lines(plan, "// ")
    if plan.dry:
        yield f"// {plan.kind}"
    yield "// times are approximate: use measured positions, estimate the period again"


def _preflight(plan: Plan) -> Iterator[str]:
    yield "// preflight"
    if plan.payload is not None:
        yield from _ask(f"Is a load of {fixed(plan.payload, 3)} kg set? If not, stop; if it is, press a key")
    if not plan.poses:
        yield from _full_speed()
    yield "jHere=herej()"
    margin = AT_HOME[0]
    for k in range(1, plan.robot.n_joints + 1):
        yield from _refuse(
            f"abs(jHere.j{k}-jHome.j{k})>{margin:g}", f"Refused: axis {k} is more than {margin:g} deg from home"
        )


def _full_speed() -> Iterator[str]:
    yield from _refuse("workingMode()<3", "Refused: select local or remote mode")
    yield from _refuse("getMonitorSpeed()!=100", "Refused: monitor speed must be 100 %")


def _refuse(condition: str, message: str) -> Iterator[str]:
    yield from (f"if {condition}", f'  popUpMsg("{message}")', "  return", "endIf")


def _ask(question: str) -> Iterator[str]:
    yield from ("userPage()", f'putln("{question}")', "nKey=get()")


def _series(plan: Plan, speeds: Speeds, spacing: float, table: _Table) -> Iterator[str]:
    e = plan.body.excitation
    into, one, out = series_legs(plan, TARGET, speeds, spacing)
    if e.settle > 0.0:
        yield from _ride(Rest(e.settle), f"{SETTLE}", table)
    if into is not None:
        yield from _ride(into, f"{RAMP_IN}", table)
    yield from (
        "// warm-up periods, then measured ones",
        f"for nPer=1 to {e.warm_up + e.measured}",
        f"  if nPer<={e.warm_up}",
        f"    nNext={WARM_UP}+nPer",
        "  else",
        f"    nNext={MEASURED}+nPer-{e.warm_up}",
        "  endIf",
        f"  {_call(one, 'nNext', table)}",
        "endFor",
    )
    if out is not None:
        yield from (_call(out, f"{RAMP_OUT}", table), *_stop(out))
    else:
        yield "waitEndMove()"
    if e.hold > 0.0:
        yield from _ride(Rest(e.hold), f"{HOLD}", table)


def _rounds(parts: tuple[Part, ...], repeats: int, table: _Table) -> Iterator[str]:
    yield from ("// moves", "nPer=0", f"for nRound=1 to {repeats}")
    for part in parts:
        if part.counted:
            yield from ("  nPer=nPer+1", f"  nNext={part.mark}+nPer")
        else:
            yield f"  nNext={part.mark}"
        yield from (f"  {line}" for line in _ride(part.body, "nNext", table))
    yield "endFor"


def _ride(body: Leg | Rest, mark: str, table: _Table) -> Iterator[str]:
    """Write a leg that begins at rest, or a rest."""
    if mark:
        yield f"nMark={mark}"
    if isinstance(body, Rest):
        yield f"delay({fixed(body.seconds, 9)})"
        return
    if body.pause > 0.0:
        yield from (f"nStep={fixed(body.step, 9)}", f"delay({fixed(body.pause, 9)})")
    yield _call(body, "0", table)
    if body.stops:
        yield from _stop(body)


def _call(leg: Leg, mark: str, table: _Table) -> str:
    first, last = table.add(leg)
    return f"call ride({first},{last},{fixed(leg.step, 9)},{mark})"


def _stop(leg: Leg) -> Iterator[str]:
    yield "waitEndMove()"
    if leg.idle > 0.0:
        yield f"delay({fixed(leg.idle, 9)})"
    yield "nStep=0"


_XML = '<?xml version="1.0" encoding="utf-8"?>\n'
_VAL3 = "http://www.staubli.com/robotics/VAL3"
_XSI = 'xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"'


def _project(name: str, head: str) -> str:
    programs = "".join(f'    <Program file="{program}.pgx" />\n' for program in ("ride", "start", "stop"))
    return (
        f'{_XML}{head}<Project xmlns="{_VAL3}/Project/3">\n'
        '  <Parameters version="s7.7" stackSize="5000" millimeterUnit="true" />\n'
        f"  <Programs>\n{programs}  </Programs>\n"
        f'  <Database>\n    <Data file="{name}.dtx" />\n  </Database>\n  <Libraries />\n</Project>\n'
    )


def _program(name: str, code: list[str], parameters: tuple[str, ...] = (), head: str = "") -> str:
    given = "".join(
        f'      <Parameter name="{parameter}" type="num" use="value" xsi:type="element" dimensions="1" />\n'
        for parameter in parameters
    )
    params = f'    <Parameters xmlns="{_VAL3}/Param/1">\n{given}    </Parameters>\n' if given else ""
    lines = "\n".join(f"  {line}" for line in code)
    return (
        f'{_XML}{head}<Programs {_XSI} xmlns="{_VAL3}/Program/2">\n  <Program name="{name}" access="public">\n{params}'
        f"    <Code><![CDATA[begin\n{lines}\nend]]></Code>\n  </Program>\n</Programs>\n"
    )


def _data(plan: Plan, speeds: Speeds, table: _Table, head: str) -> str:
    axes = in_axes(plan, TARGET)
    numbers = ("nId", "nIdx", "nKey", "nLog", "nMark", "nNext", "nPer", "nRound", "nSeam", "nStep")
    data = [
        ("jHere", "jointRx", [_joint(np.zeros(6))]),
        ("jHome", "jointRx", [_joint(axes.home)]),
        ("jRide", "jointRx", [_joint(pose) for pose in table.poses]),
        ("mRide", "mdesc", ['accel="100" vel="10" decel="100" tmax="99999" rmax="99999" blend="joint" '
                            'leave="99999" reach="99999"']),
        ("mSlow", "mdesc", ['accel="20" vel="2" decel="20" tmax="99999" rmax="99999" blend="off" leave="0" reach="0"']),
        *((name, "num", ['value="0"']) for name in numbers),
        ("nTopSpeed", "num", [f'value="{fixed(float(x), 6)}"' for x in speeds.top]),
        ("nVel", "num", [f'value="{fixed(x, 9)}"' for x in table.percents]),
        ("tNone", "tool", ['fatherId="flange[0]"']),
    ]  # fmt: skip
    body = "".join(_datum(*datum) for datum in data)
    return f'{_XML}{head}<Database {_XSI} xmlns="{_VAL3}/Data/2">\n  <Datas>\n{body}  </Datas>\n</Database>\n'


def _datum(name: str, kind: str, values: list[str]) -> str:
    lines = "".join(f'      <Value key="{k}" {value} />\n' for k, value in enumerate(values))
    head = f'    <Data name="{name}" access="public" xsi:type="array" type="{kind}" size="{len(values)}">\n'
    return f"{head}{lines}    </Data>\n"


def _joint(pose: np.ndarray) -> str:
    return " ".join(f'j{k}="{fixed(float(x), TARGET.decimals)}"' for k, x in enumerate(pose, 1))
