"""Text shared by both KUKA targets: the module's frame, the checks before anything moves, and the slow ways."""

import numpy as np

from excitor.design.motion import Move
from excitor.design.programs.plan import Plan, StretchName
from excitor.design.programs.target import Target, comment, fixed, in_axes, no_go_lines, to_axes
from excitor.robots.arrays import FloatArray

END = ("END",)
NEAR = 0.5  # deg: from home
LIGHT = 0.1  # kg: by which the payload may differ
DEFAULT_SPEED, SLOWEST, FASTEST = 10, 1, 20  # %
_PEAK, _BEND = 2.1875, 7.5132  # largest slope and curvature of the envelope that a planned move follows


class Lines:
    """Lines of a module, with the language's line ends."""

    def __init__(self) -> None:
        self.all: list[str] = []
        self.margin = ""

    def __iadd__(self, lines: list[str]) -> "Lines":
        self.all += [self.margin + line for line in lines]
        return self

    def text(self, end: tuple[str, ...]) -> str:
        """Join everything, and the last lines."""
        return "".join(line + "\r\n" for line in (*self.all, *end))


def header(lines: Lines, plan: Plan, name: str, declarations: tuple[str, ...]) -> None:
    """Begin the module."""
    lines += ["&ACCESS RVP", "&REL 1", f"DEF {name} ( )"]
    lines.margin = "  "
    kind = "DRY RUN, 15 percent amplitude" if plan.dry else "real run"
    lines += [
        *no_go_lines(plan, "; "),
        f"; {kind} of {comment(plan.run, 60)}",
        f"; Campaign {comment(plan.campaign, 60)}, robot {comment(plan.robot.name, 60)}.",
        "; Made by Excitor and run by it on a virtual clock. The first run on hardware is the dry run.",
        *declarations,
        ";FOLD INI",
        "  GLOBAL INTERRUPT DECL 3 WHEN $STOPMESS==TRUE DO IR_STOPM ( )",
        "  INTERRUPT ON 3",
        "  BAS (#INITMOV,0 )",
        ";ENDFOLD (INI)",
        "BAS (#TOOL,1)",
        "BAS (#BASE,0)",
    ]


def preflight(lines: Lines, plan: Plan, target: Target, name: str) -> None:
    """Write the checks before the run: the program stays halted, whatever is pressed, unless they hold."""
    lines += ["; Nothing moves before these checks. Their loops end only when the program is deselected."]
    refuse(lines, "$OV_PRO<100", "the program override must be 100 percent", name)
    refuse(lines, "$MODE_OP==#T1", "T1 limits the speed, choose automatic mode or T2", name)
    home = in_axes(plan, target).home
    for k, value in enumerate(home, start=1):
        text = f"axis A{k} is not within {NEAR:g} degrees of the home pose"
        refuse(lines, f"ABS($AXIS_ACT.A{k}-({fixed(float(value), target.decimals)}))>{NEAR:.1f}", text, name)
    if plan.payload is not None:
        text = f"the load data of tool 1 must say {plan.payload:.3f} kg"
        refuse(lines, f"ABS($LOAD.M-({plan.payload:.6f}))>{LIGHT:.1f}", text, name)
    lines += [f"BAS (#VEL_PTP,{DEFAULT_SPEED})", f"BAS (#ACC_PTP,{DEFAULT_SPEED})"]


def refuse(lines: Lines, condition: str, text: str, name: str) -> None:
    """Show a message and stay halted where a condition holds."""
    lines += [
        f"IF {condition} THEN",
        f'  MsgNotify("Excitor: {text}","{name}")',
        "  LOOP",
        "    HALT",
        "  ENDLOOP",
        "ENDIF",
    ]


def way(lines: Lines, plan: Plan, target: Target, stretch: StretchName) -> None:
    """Write the slow moves out or back, each no faster than it was certified."""
    for move in plan.stretch(stretch).moves:
        if not move.still:
            speed, acceleration = _percentages(plan, move)
            lines += [f"BAS (#VEL_PTP,{speed})", f"BAS (#ACC_PTP,{acceleration})"]
            lines += [f"PTP {pose(to_axes(plan.robot, target, move.goal))}"]


def pose(axes: FloatArray) -> str:
    """Write axis values."""
    return "{" + ",".join(f"A{k} {fixed(float(x), 6)}" for k, x in enumerate(axes, start=1)) + "}"


def _percentages(plan: Plan, move: Move) -> tuple[int, int]:
    """Choose per cent of speed and acceleration: a move takes no less time, and bends no harder, than planned.

    All axes travel together: the one with the longest way for its limit sets the pace. Limits are the robot file's.
    """
    limits, way = plan.robot.limits, np.abs(move.goal - move.origin)
    speed = float(np.max(way / limits.velocity)) / move.duration  # a robot that runs at this share takes the time
    bend = (_BEND if move.blend == 0.0 else _PEAK) / move.duration**2
    if move.blend > 0.0:
        bend = _PEAK / (move.blend * (move.duration - move.blend))
    acceleration = bend * float(np.max(way / limits.acceleration))
    return _percent(speed), _percent(acceleration)


def _percent(share: float) -> int:
    """Round down; 10 % where the robot's limit is not known."""
    if share <= 0.0:
        return DEFAULT_SPEED
    return int(np.clip(np.floor(100.0 * share + 1e-9), SLOWEST, FASTEST))
