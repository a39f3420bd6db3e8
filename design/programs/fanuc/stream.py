"""FANUC Stream Motion (J519): a small TP program hands the motion over to a client on another computer."""

from collections.abc import Iterator

from excitor.design.programs.fanuc.tp import header, preflight, program_text, refusals
from excitor.design.programs.plan import Plan
from excitor.design.programs.run_json import run_json
from excitor.design.programs.target import CannotDrive, Target

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
    clients=("run_motion.py", "j519_packets.py", "j519_client.py", "addresses.py"),
    needs=(
        "an R-30iB Plus controller or later with the option Stream Motion (J519), protocol version 3, "
        "$STMO.$COM_INT = 8; $STMO.$PHYS_PORT names the Ethernet port that the cable is in",
        "$STMO_GRP[1].$FLTR_LN noted down with the log: a filter of that length delays and smooths the commands",
        "the option ASCII upload, or a vendor's compiler for .ls files",
        "a computer with Python 3.10 on a cable of its own to the controller's port; nothing else running on it",
        "UFRAME_NUM, UTOOL_NUM and a PAYLOAD schedule with the right load selected before the start: the TP program "
        "selects none, and no packet can check them",
    ),
    loading=(
        "Load the .ls file; it overwrites R[196].",
        "The stream's J3 may differ from the pendant's by J2: stream J3 = pendant J3 + J2 where the controller couples "
        "them. The run is in the stream's angles ([controllers.fanuc-j519] in the robot's file). Before the first run "
        "go to a pose with J2 not 0, compare the angles that the client prints with the pendant's and with the "
        "robot's file, and do not run if they disagree.",
        "AUTO mode, teach pendant off, override 100 %, robot at the home pose; start the TP program: it waits at IBGN "
        "start. The client prints the stream's angles, and looks whether every one is within 0.5 deg of home.",
        "On the computer: python j519_client.py RUN.json --listen COMPUTER_ADDRESS --controller CONTROLLER_ADDRESS, "
        "the addresses of both ends of the cable; packets of any other sender are ignored. It reads the controller's "
        "limits of velocity, acceleration and jerk, and refuses a run that breaks one.",
        "If it refuses and the tool is slow or the load light, say so: --tool-speed MM_S, --full-payload KG.",
        "Ctrl-C stops the robot within 0.3 s of the run's time; so do lost packets, an error, an axis 5 deg from its "
        "commands. It never goes on by itself: after any stop ABORT ALL, and begin again from home.",
    ),
    logs=("j519",),
    logging=("The client writes RUN_log.csv: time stamps, commands, joint angles and motor currents, and the mark.",),
    advice="Pair measured joint angles with measured currents; time stamps have a resolution of 2 ms.",
    assumed="the controller takes one command a period, numbers them as it numbers its status packets, and sends the "
    "status as soon as it is asked to",
)


def emit(plan: Plan, name: str, spacing: float | None) -> dict[str, str]:
    """Write the TP program and the run's data."""
    if "fanuc" in plan.robot.controllers and TARGET.name not in plan.robot.controllers:
        raise CannotDrive(
            f"{TARGET.name}: {plan.robot.name} states the pendant's axes, and the stream's J3 may differ from them by "
            f"J2; add [controllers.{TARGET.name}] to the robot's file"
        )
    return {f"{name}.ls": program_text(name, list(_code(plan)), []), f"{name}.json": run_json(plan, TARGET)}


def _code(plan: Plan) -> Iterator[str]:
    yield from header(plan)
    yield from preflight(plan)
    yield from ("!START THE CLIENT NOW", "IBGN start[1]", "IBGN end[1]")
    yield from refusals(901, 902)
