"""ABB RAPID with Externally Guided Motion: a module that hands over to a client, and the run that it streams."""

import math

import numpy as np

from excitor.design.programs.plan import Plan, Stretches
from excitor.design.programs.rapid.text import (
    AFTER_A_STOP,
    DECIMALS,
    ENTRY,
    LOADING,
    RESERVED,
    declarations,
    header,
    main,
    on_error,
    preflight,
)
from excitor.design.programs.run_json import run_json
from excitor.design.programs.target import Target, in_axes
from excitor.robots.arrays import FloatArray

_STEP = 0.004  # s
_NEAR = 0.01  # deg: joints this near to their commands count as arrived
_CREEP = _NEAR / _STEP  # deg/s: slower motion may count as standing still
_PAUSE = 5.0  # s that the joints must stand still for longer than in any pause of the run

TARGET = Target(
    name="rapid",
    title="ABB RAPID with Externally Guided Motion",
    timing="A",
    scheme="a client on a computer beside the controller answers each of its packets, every 4 ms, with where the "
    "joints must be at the controller's own time",
    angle_unit="deg",
    sine_unit="rad",
    decimals=DECIMALS,
    float_bits=64,
    encoding="ascii",
    reserved=RESERVED,
    joints=6,
    steps=(_STEP,),
    refuses=("override", "mode", "home", "payload"),
    marks=True,
    clients=("egm_client.py", "egm_packets.py", "run_motion.py", "addresses.py"),
    needs=(
        "RobotWare option Externally Guided Motion (689-1).",
        "A UDP Unicast device called EXCITOR (Communication, Transmission Protocol) with the address of the client's "
        "computer and port 6510, and the external motion data called default.",
        "A computer with Python 3.10 on the same wired network as the controller, nothing else running on it.",
        "EGM bypasses several safety functions of the controller, path supervision among them. Keep everybody out of "
        "the cell.",
    ),
    loading=(
        "Put the .py files and the run's .json into one folder of the client's computer.",
        "Select the tool that is mounted, and its load, on the pendant; move the robot to the home pose.",
        "Start the client first: python egm_client.py RUN.json --listen COMPUTER_ADDRESS --controller "
        "CONTROLLER_ADDRESS. COMPUTER_ADDRESS is the one that the UDP Unicast device names, CONTROLLER_ADDRESS the "
        "controller's own on that network; packets of any other sender are ignored and counted.",
        f"{LOADING}, motors on; then start.",
        "Ctrl-C at the client slows the robot down along its path and stops it. So does a joint that is more than 3 "
        "degrees off all that it was told in the last 0.2 s (--tracking). The client never goes on by itself; start it "
        "again as well.",
        AFTER_A_STOP,
    ),
    logs=("egm", "egm_torque"),
    logging=(
        "The client logs by itself, from before the way out until after the way back, and writes a CSV file beside "
        "the run when it ends: commands, measured and planned joints, marks, test signals, and what RobotWare adds.",
        "Motor torques come as test signals, or as torqueRef with a recent RobotWare: give the number of that field "
        "of your egm.proto with --torque-field. Otherwise log signal 4002 by a second task.",
    ),
    advice="Pair measured positions (pos_) with measured torques; commands run ahead of the robot by some 10 to 60 ms.",
    assumed="That sequence numbers count the packets "
    "of 4 ms; that EGM keeps the last command through short gaps and stops by itself after CommTimeout; LpFilter "
    "100 Hz. That EXIT ends the program for good, and GetSysData tells tool and load that are in use.",
)


def emit(plan: Plan, name: str, spacing: float | None) -> dict[str, str]:
    """Write the module and the run."""
    return {f"{name}.mod": "\n".join(_module(plan, name)) + "\n", f"{name}.json": run_json(plan, TARGET)}


def _module(plan: Plan, name: str) -> list[str]:
    axes = in_axes(plan, TARGET)
    fastest, still = _speeds(axes)
    limit, wait = math.ceil(1.1 * fastest + 2.0), math.ceil(_PAUSE + still)
    near = " ".join(f"\\J{k}:=exNear" for k in range(1, 7))
    joints = " ".join(f"\\J{k}" for k in range(1, 7))
    return [
        f"MODULE {name}",
        *header(plan, TARGET),
        f"    ! the client egm_client.py streams {name}.json while EGMRunJoint waits",
        *declarations(axes),
        f"    LOCAL CONST egm_minmax exNear := [-{_NEAR:g},{_NEAR:g}];",
        "    LOCAL VAR egmident exGuide;",
        "",
        *main(name),
        f"    PROC {name}{ENTRY}()",
        *preflight(axes, "exHere"),
        "        EGMReset exGuide;",
        "        EGMGetId exGuide;",
        '        EGMSetupUC ROB_1, exGuide, "default", "EXCITOR" \\Joint \\CommTimeout:=1;',
        f"        EGMActJoint exGuide \\Tool:=exTool {near}",
        f"            \\LpFilter:=100 \\SampleRate:={1e3 * _STEP:g} \\MaxSpeedDeviation:={limit};",
        "        ! ends when the joints have stood still for longer than in any pause of the run",
        f"        EGMRunJoint exGuide, EGM_STOP_HOLD {joints} \\CondTime:={wait} \\RampInTime:=0.05;",
        "        EGMReset exGuide;",
        '        TPWrite "The run has ended.";',
        "        EXIT;",
        *on_error(
            [
                "        EGMReset exGuide;",
                "        IF ERRNO = ERR_UDPUC_COMM THEN",
                '            TPWrite "The client does not answer;";',
                '            TPWrite "it says why.";',
                "        ENDIF",
            ]
        ),
        "    ENDPROC",
        "ENDMODULE",
    ]


def _speeds(axes: Plan) -> tuple[float, float]:
    """Find the highest speed of an axis, deg/s, and the longest time for which all of them creep, s."""
    pause = np.zeros((round(1.0 / _STEP), len(axes.home)))
    rates: list[FloatArray] = [pause]
    for name in Stretches:
        t = np.arange(round(axes.stretch(name).duration / _STEP) + 1) * _STEP
        rates += [axes.stretch(name).at(t, 1), pause]
    speed = np.abs(np.concatenate(rates)).max(axis=1)
    moving = np.concatenate([[-1], np.flatnonzero(speed > _CREEP), [len(speed)]])
    return float(speed.max()), float(np.diff(moving).max() * _STEP)
