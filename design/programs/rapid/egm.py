"""ABB RAPID with Externally Guided Motion: a module that hands over to a client, and the run that it streams."""

import math

import numpy as np

from excitor.design.programs.plan import Plan, Stretches
from excitor.design.programs.rapid.text import ENTRY, RESERVED, declarations, header, main, on_error, preflight
from excitor.design.programs.run_json import run_json
from excitor.design.programs.target import in_axes, stated
from excitor.robots.arrays import FloatArray

TARGET = stated("rapid", reserved=RESERVED)
_STEP = TARGET.steps[0]  # s
_NEAR = 0.01  # deg: joints this near to their commands count as arrived
_CREEP = _NEAR / _STEP  # deg/s: slower motion may count as standing still
_PAUSE = 5.0  # s that the joints must stand still for longer than in any pause of the run


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
