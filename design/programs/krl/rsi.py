"""KUKA KRL with RSI: a computer answers every packet of the controller with the axes' offsets from home."""

import numpy as np

from excitor.design.programs.krl.text import END, Lines, header, pose, preflight, refuse
from excitor.design.programs.plan import Plan, Stretches
from excitor.design.programs.run_json import run_json
from excitor.design.programs.target import fixed, in_axes, no_go_lines, stated
from excitor.robots.arrays import FloatArray

TARGET = stated("krl-rsi", reserved=stated("krl").reserved)
ADDRESS, PORT, SENDER = "192.168.1.100", 59152, "Excitor"
MARGIN = 1.0  # deg by which corrections may exceed what is planned
TIMEOUT = 100  # cycles without an answer, after which the controller breaks off
_SCHEMA = 'xsi:noNamespaceSchemaLocation="/Roboter/Config/System/Common/Schemes/RSIContext.xsd" '
_INSTANCE = 'xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"'


def emit(plan: Plan, name: str, spacing: float | None) -> dict[str, str]:
    """Write the program, the signal flow with its Ethernet configuration, and the run for the server."""
    return {
        f"{name}.src": _program(plan, name),
        f"{name}.rsi.xml": _text(_flow(plan, name)),
        f"{name}_eth.xml": _text(_ethernet(plan)),
        f"{name}.json": run_json(plan, TARGET),
    }


def _program(plan: Plan, name: str) -> str:
    lines = Lines()
    header(lines, plan, name, declarations=("DECL INT EX_RET,EX_ID",))
    preflight(lines, plan, TARGET, name)
    lines += [f"PTP {pose(in_axes(plan, TARGET).home)}", "WAIT SEC 1.0"]
    lines += [f'EX_RET=RSI_CREATE("{name}.rsi",EX_ID,TRUE)']
    refuse(lines, "EX_RET<>RSIOK", "RSI does not accept the signal flow", name)
    lines += ["EX_RET=RSI_ON(#ABSOLUTE)"]
    refuse(lines, "EX_RET<>RSIOK", "RSI does not start, does the server run", name)
    lines += ["RSI_MOVECORR()", "EX_RET=RSI_OFF()", "EX_RET=RSI_DELETE(EX_ID)"]
    return lines.text(END)


def _flow(plan: Plan, name: str) -> list[str]:
    """Connect received corrections with the axes, within limits as wide as the motion needs."""
    low, high = _reach(plan)
    limits = [("LowerLim", 1, low), ("UpperLim", 13, high)]
    inputs = [f'      <Input InIdx="{k}" OutObjID="ETHERNET1" OutIdx="{k}" />' for k in range(1, 7)]
    stop = '      <Input InIdx="1" OutObjID="ETHERNET1" OutIdx="7" />'
    corrections = [
        _parameter(f"{word}A{k}", first + k - 1, fixed(float(x), 1))
        for word, first, values in limits
        for k, x in enumerate(values, start=1)
    ]
    most = np.maximum(-low, high)
    return [
        '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>',
        *no_go_lines(plan, "<!-- ", " -->"),
        f"<RSIObjects {_SCHEMA}{_INSTANCE}>",
        *_object("AXISCORR", 33, inputs, corrections),
        *_object("STOP", 18, [stop], [_parameter("Mode", 1, "4")]),
        *_object("ETHERNET", 64, [], _connection(name)),
        *_object("AXISCORRMON", 82, [], [_parameter(f"MaxA{k}", k, fixed(float(x), 1)) for k, x in enumerate(most, 1)]),
        "</RSIObjects>",
    ]


def _connection(name: str) -> list[str]:
    return [
        _parameter("ConfigFile", 1, f"{name}_eth.xml", ' IsRuntime="false"'),
        _parameter("Timeout", 1, str(TIMEOUT)),
        _parameter("Flag", 4, "-1"),  # none: a number would drive that $FLAG of the controller
        _parameter("Precision", 8, "4"),
    ]


def _ethernet(plan: Plan) -> list[str]:
    internal = ("DEF_AIPos", "DEF_ASPos", "DEF_MACur", "DEF_Delay")
    received = [(f"AK.A{k}", "DOUBLE") for k in range(1, 7)] + [("Stop", "BOOL")]
    return [
        *no_go_lines(plan, "<!-- ", " -->"),
        "<ROOT>",
        "  <CONFIG>",
        f"    <IP_NUMBER>{ADDRESS}</IP_NUMBER>",
        f"    <PORT>{PORT}</PORT>",
        f"    <SENTYPE>{SENDER}</SENTYPE>",
        "    <ONLYSEND>FALSE</ONLYSEND>",
        "  </CONFIG>",
        "  <SEND>",
        "    <ELEMENTS>",
        *(f'      <ELEMENT TAG="{tag}" TYPE="{_type(tag)}" INDX="INTERNAL" />' for tag in internal),
        "    </ELEMENTS>",
        "  </SEND>",
        "  <RECEIVE>",
        "    <ELEMENTS>",
        *(
            f'      <ELEMENT TAG="{tag}" TYPE="{kind}" INDX="{k}" HOLDON="1" />'
            for k, (tag, kind) in enumerate(received, start=1)
        ),
        "    </ELEMENTS>",
        "  </RECEIVE>",
        "</ROOT>",
    ]


def _reach(plan: Plan) -> tuple[FloatArray, FloatArray]:
    """Range of the axes about home, with a margin, in tenths of a degree."""
    axes = in_axes(plan, TARGET)
    corners = [axes.stretch(name).at(np.linspace(0.0, axes.stretch(name).duration, 4001)) for name in Stretches]
    away = np.concatenate(corners) - axes.home
    low, high = away.min(axis=0).clip(max=0.0) - MARGIN, away.max(axis=0).clip(min=0.0) + MARGIN
    return np.floor(10.0 * low) / 10.0, np.ceil(10.0 * high) / 10.0


def _object(kind: str, number: int, inputs: list[str], parameters: list[str]) -> list[str]:
    fed = ["    <Inputs>", *inputs, "    </Inputs>"] if inputs else []
    return [
        f'  <RSIObject ObjType="{kind}" ObjTypeID="{number}" ObjID="{kind}1">',
        *fed,
        "    <Parameters>",
        *parameters,
        "    </Parameters>",
        "  </RSIObject>",
    ]


def _parameter(name: str, number: int, value: str, more: str = "") -> str:
    return f'      <Parameter Name="{name}" ParamID="{number}" ParamValue="{value}"{more} />'


def _type(tag: str) -> str:
    return "LONG" if tag == "DEF_Delay" else "DOUBLE"


def _text(lines: list[str]) -> str:
    return "".join(line + "\r\n" for line in lines)
