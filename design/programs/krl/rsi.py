"""KUKA KRL with RSI: a computer answers every packet of the controller with the axes' offsets from home."""

import numpy as np

from excitor.design.programs.krl.text import AFTER_A_STOP, END, RESERVED, Lines, header, pose, preflight, refuse
from excitor.design.programs.plan import Plan, Stretches
from excitor.design.programs.run_json import run_json
from excitor.design.programs.target import Target, fixed, in_axes, no_go_lines
from excitor.robots.arrays import FloatArray

TARGET = Target(
    name="krl-rsi",
    title="KUKA KRL with RSI",
    timing="A",
    scheme="rsi_server.py on a computer answers every packet of the controller with the axes' distance from home",
    angle_unit="deg",
    sine_unit=None,
    decimals=6,
    float_bits=32,
    line_end="\r\n",
    encoding="cp1252",
    longest_name=24,
    reserved=RESERVED,
    joints=6,
    steps=(0.004,),  # every time that is a whole number of 12 ms is one of 4 ms as well
    refuses=("override", "mode", "home", "payload"),
    marks=True,
    controller="krl",
    clients=("rsi_server.py", "run_motion.py", "addresses.py"),
    needs=(
        "KSS 8.3 or later with the option RobotSensorInterface 3 or 4, and the message library (MsgNotify). For RSI "
        "4.1 and later rebuild the signal flow in RSI Visual as .rsix: four objects, the same numbers.",
        "A computer with Python 3.10 or later, connected directly to the controller's RSI network, with little else to "
        "do.",
        "The RSI network: log in as expert, minimize the smartHMI, open RSI-Network from the Windows start menu, give "
        "the interface for RSI an address in another subnet than the controller's Windows interface (192.168.0.x and "
        "192.168.1.x, say), then a cold start with the option Reload files. The computer's address lies in the RSI "
        "subnet; a firewall lets UDP port 59152 through.",
        "The load data of tool 1 hold what is mounted on the flange: mass, centre and inertia.",
    ),
    loading=(
        "In <program>_eth.xml set IP_NUMBER to the computer's address.",
        "Copy <program>.rsi.xml and <program>_eth.xml to C:\\KRC\\ROBOTER\\Config\\User\\Common\\SensorInterface, and "
        "<program>.src to KRC:\\R1\\Program.",
        "On the computer run: python rsi_server.py <program>.json --listen COMPUTER_ADDRESS --controller "
        "CONTROLLER_ADDRESS. COMPUTER_ADDRESS is IP_NUMBER, CONTROLLER_ADDRESS what the interface for RSI was given in "
        "RSI-Network; packets of any other sender are ignored and counted.",
        "Select automatic mode (or T2 where the cell allows it; T1 limits the speed and is refused), override 100 %.",
        "Drive the robot to the home pose, select the program, press start: it drives to its first PTP, which is home, "
        "and stops with the message Programmed path reached (BCO).",
        "Press start again: the message Sensor correction goes active comes up; confirm it.",
        "Press start again: only now the connection opens. The robot stands 1 s, then it moves.",
        AFTER_A_STOP,
        "Once the server has stopped, start it again as well; neither goes on by itself.",
    ),
    logs=("rsi",),
    logging=(
        "The server keeps every packet in memory and writes <program>_log.csv when the controller is silent again: "
        "time, mark, period, reference, measured axes, motor currents.",
        "It stops for good where a measured axis is more than 3 degrees from all that it was told in the last 0.2 s "
        "(--tracking): STOP was pressed while packets go on, or the controller cuts the corrections off.",
    ),
    advice="Pair measured positions with motor currents of the same row; the reference runs ahead of both.",
    assumed="STOP with mode 4 ends RSI_MOVECORR when the server sends Stop; where it does not, deselect the program. "
    "Without a mode RSI_ON runs at 4 ms. The late-packet "
    "counter grows by one for every answer that came too late. Motor currents are sent as MACur; their unit is the "
    "controller's.",
)
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
