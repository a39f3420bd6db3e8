"""Text shared by all emitted RAPID modules: reserved names, a header, and refusals before anything moves."""

from collections.abc import Iterator, Sequence

from excitor.design.programs.plan import Plan, Stretches
from excitor.design.programs.rapid.parse import PREDECLARED, WORDS
from excitor.design.programs.target import Target, axes_of, comment, fixed, no_go_lines, precise, stated
from excitor.robots.arrays import FloatArray

_STATED = stated("rapid")
DECIMALS = _STATED.decimals  # of a degree
AT_HOME = 0.5  # deg
LOAD_SLACK = 0.05  # kg, between what is planned and what the controller has been told
ENTRY = "_run"  # of the procedure's name, after the module's
NO_LOAD = "[0.001,[0,0,0.001],[1,0,0,0],0,0,0]"
NOWHERE = "[9E9,9E9,9E9,9E9,9E9,9E9]"

_TABLES = [f"{table}{j}" for table in ("exin", "experiod", "exout") for j in range(1, 7)]
RESERVED = frozenset(
    [*(word.lower() for word in WORDS), *_STATED.reserved, *_TABLES]
    + [f"exmove{k}_{j}" for k in range(1, 100) for j in range(1, 7)]
    + [name for name in PREDECLARED if name[1:].isdigit()]  # v5 and z10, say
)


def main(name: str) -> list[str]:
    """Write the main procedure, which automatic mode starts."""
    return ["    PROC main()", f"        {name}{ENTRY};", "    ENDPROC", ""]


def on_error(first: Sequence[str] = ()) -> list[str]:
    """Write an error handler that ends the program for good: nothing may continue after it."""
    return [
        "    ERROR",
        *first,
        '        TPWrite "Stopped by error " \\Num:=ERRNO;',
        '        TPWrite "Jog home, begin again.";',
        "        EXIT;",
    ]


def jointtarget(axes: FloatArray) -> str:
    """Write a pose, deg."""
    return f"[[{','.join(fixed(x, DECIMALS) for x in axes)}],{NOWHERE}]"


def header(plan: Plan, target: Target) -> list[str]:
    """Write comments that describe a module."""
    series = plan.body.series
    kind = (
        f"slow moves, made {plan.body.repeats()[1]} times"
        if series is None
        else f"a series of period {series.period:g} s, {series.periods} periods measured"
    )
    seconds = ", ".join(f"{name} {plan.stretch(name).duration:g} s" for name in Stretches)
    said = [f"campaign {comment(plan.campaign)}, run {comment(plan.run)}, robot {comment(plan.robot.name)}"]
    said += [f"{kind}; {seconds}", f"axes: {', '.join(comment(name) for name in axes_of(plan.robot, target).names)}"]
    if plan.dry:
        said.insert(0, "DRY RUN at 15 percent amplitude, to be tried before the run itself")
    said = [*no_go_lines(plan), "Written by Excitor. No check away from the robot replaces a dry run.", *said]
    return [f"    ! {line}" for line in said]


def declarations(axes: Plan) -> list[str]:
    """Declare the home pose, and variables for the current pose, tool and load."""
    return [
        f"    LOCAL CONST jointtarget exHome := {jointtarget(axes.home)};",
        "    LOCAL VAR jointtarget exHere;",
        f"    LOCAL PERS tooldata exTool := [TRUE,[[0,0,0],[1,0,0,0]],{NO_LOAD}];",
        *([f"    LOCAL PERS loaddata exLoad := {NO_LOAD};"] if axes.payload is not None else []),
    ]


def preflight(axes: Plan, first: str) -> Iterator[str]:
    """Refuse to start at a wrong speed, in a wrong mode, away from home or with another load; then go to `first`."""
    yield from _refusal(["CSpeedOverride() < 100"], ["Set the speed override to 100 percent", "and start again."])
    yield from _refusal(["OpMode() <> OP_AUTO"], ["Switch to automatic mode", "and start again."])
    yield "        GetSysData exTool;"
    if axes.payload is not None:
        yield "        GetSysData exLoad;"
        mass = precise(round(axes.payload, 4), 9)
        yield from _refusal(
            [f"Abs(exTool.tload.mass + exLoad.mass - {mass}) > {LOAD_SLACK:g}"],
            ["Tool and payload must weigh", f"{axes.payload:.3f} kg in all."],
        )
    yield "        exHere := CJointT();"
    away = [f"Abs(exHere.robax.rax_{k} - exHome.robax.rax_{k}) > {AT_HOME:g}" for k in range(1, len(axes.home) + 1)]
    yield from _refusal(away, ["The robot does not stand at home:", f"each axis within {AT_HOME:g} degrees."])
    yield "        ! a fine point to begin with, and the tool that is in use"
    yield f"        MoveAbsJ {first} \\NoEOffs, v10 \\T:=1, fine, exTool;"


def _refusal(conditions: Sequence[str], lines: Sequence[str]) -> Iterator[str]:
    joined = [f"{condition} OR" for condition in conditions[:-1]] + [f"{conditions[-1]} THEN"]
    yield f"        IF {joined[0]}"
    yield from (f"            {condition}" for condition in joined[1:])
    yield from (f'            TPWrite "{line}";' for line in lines)
    yield "            EXIT;"
    yield "        ENDIF"
