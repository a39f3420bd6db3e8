"""FANUC Stream Motion (J519): a small TP program hands the motion to a client beside the controller."""

from collections.abc import Iterator

from excitor.design.programs.plan import Plan
from excitor.design.programs.run_file import run_json
from excitor.design.programs.target import Target
from excitor.design.programs.targets.fanuc import header, preflight, program_text, refusals

TARGET = Target(
    name="fanuc-j519",
    title="FANUC Stream Motion (J519)",
    timing="A",
    scheme="a Python client evaluates the series and streams a joint command for every period of 8 ms",
    angle_unit="deg",
    sine_unit=None,
    decimals=15,  # of 17 significant digits
    float_bits=64,
    encoding="ascii",
    longest_name=24,
    reserved=frozenset(("main", "con", "aux", "nul", "prn")),
    joints=6,
    steps=(0.008,),
    refuses=("override", "mode", "home"),
    marks=True,
    controller="fanuc",
    clients=("run_motion.py", "j519_client.py"),
    needs=(
        "an R-30iB Plus controller or later with the option Stream Motion (J519), protocol version 3, "
        "$STMO.$COM_INT = 8",
        "the option ASCII upload, or a vendor's compiler for .ls files",
        "a computer with Python 3.10 on a cable of its own to the controller's port; nothing else running on it",
        "a payload schedule with the right load selected: no program and no packet can check it",
    ),
    loading=(
        "Load the .ls file; it overwrites R[196].",
        "AUTO mode, override 100 %, robot at the home pose; start the TP program: it waits at IBGN start. The client "
        "looks whether the robot is at home.",
        "On the computer: python j519_client.py RUN.json ROBOT_ADDRESS. It reads the controller's limits of velocity, "
        "acceleration and jerk, and refuses a run that breaks one.",
        "If it refuses and the tool is slow or the load light, say so: --tool-speed MM_S, --full-payload KG.",
        "Ctrl-C stops the robot within 0.3 s of the run's time; so do lost packets. It never goes on by itself.",
    ),
    logging=("The client writes RUN_log.csv: time stamps, commands, joint angles and motor currents, and the mark.",),
    advice="Pair measured joint angles with measured currents; time stamps have a resolution of 2 ms.",
    assumed="the controller takes one command a period, numbers them as it numbers its status packets, and sends the "
    "status as soon as it is asked to",
)


def emit(plan: Plan, name: str, spacing: float | None) -> dict[str, str]:
    """Write the TP program and the run's data."""
    return {f"{name}.ls": program_text(name, list(_code(plan)), []), f"{name}.json": run_json(plan, TARGET)}


def _code(plan: Plan) -> Iterator[str]:
    yield from header(plan)
    yield from preflight(plan)
    yield from ("!START THE CLIENT NOW", "IBGN start[1]", "IBGN end[1]")
    yield from refusals(901, 902)
