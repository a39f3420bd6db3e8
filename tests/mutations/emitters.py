"""Mistakes in emitters, in what targets state, and in the clients that are given out: a fresh emission carries them.

Each is a change of one module's constant, of a template, of the target's record, or of all text that is emitted.

Equivalent changes, which are not listed: another spacing of points that keeps the limits; guards that another one
doubles (home in the EGM client and the RSI server, after the program has looked; an axis in error is not ready either;
3 s of looking at the speed in URScript, as the way to home itself looks as well); how late a robot may follow
(`LAG` of the J519 client), as the simulated robot follows at once.
"""

import importlib
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from excitor.design.programs import registry, target

HOME = "excitor.design.programs."
Change = tuple[str, ...] | tuple[str, str, str, Any]

# Label, and where: a module and its constant; "template", its file, a pattern and what is there instead; "record", a
# field; "text", a pattern of all emitted files and what is there instead.
_STREAM = "clients.run_motion"
CHANGES: dict[str, tuple[tuple[Any, ...], ...]] = {
    "csv": (
        ("positions of four decimals", "text", r"(\.\d{4})\d+", r"\1"),
        ("a column less", "text", r",[^,\n]*\n", "\n"),
        ("phases lost", "text", r"measured", "warm-up"),
        ("times 10 s too late", "text", r"(?m)^(\d)\.", r"1\1."),
        ("marks of periods from 2", "csv", "MEASURED", 999),
        ("warm-up periods counted from 2", "csv", "WARM_UP", 99),
        ("settling under another name", "text", r"\bsettle\b", "hold"),
        ("ramp under another name", "text", r"ramp-in", "ramp-out"),
        ("times in ms", "text", r"(?m)^(\d+)\.(\d)", r"\1\2.0"),
        ("commas for points", "text", r"(\d)\.(\d)", r"\1,\2"),
        ("other heads", "text", r"qd1", "dq1"),
        ("no heads", "text", r"\At,[^\n]*\n", ""),
        ("signs lost", "text", r",-", ","),
    ),
    "urscript": (
        ("half the gain", "urscript.emit", "GAIN", 500),
        ("longer look-ahead", "urscript.emit", "LOOK_AHEAD", 0.1),
        ("home within 0.6 degrees", "urscript.emit", "HOME", "0.01047"),
        ("home within 0.4 degrees", "urscript.emit", "HOME", "0.00698"),
        ("home within 30 degrees", "urscript.emit", "HOME", "0.52"),
        ("payload within 1 kg", "urscript.emit", "LOAD_SLACK", 1.0),
        ("payload within 20 g", "urscript.emit", "LOAD_SLACK", 0.02),
        ("any speed", "urscript.emit", "SLOW", "2.0 + 4.0"),
        ("97 % of the speed will do", "urscript.emit", "SLOW", "2.0 + 0.03"),
        ("a single lost step counts", "urscript.emit", "COUNTED", 2),
        ("another mark of giving up", "urscript.emit", "ABORTED", 0),
        ("a stop in 0.1 s", "record", "stop_s", 0.1),
        ("a stop in 1 s", "record", "stop_s", 1.0),
        ("fewer decimals", "record", "decimals", 3),
        ("a weaker stop", "template", "urscript/run.script", (r"stopj\(3\.0\)", "stopj(0.5)")),
        ("a stop that goes on", "template", "urscript/run.script", (r'   ex_stop\("Speed[^\n]*\n', "   ex_y = 0.0\n")),
        ("a jump to the stop", "template", "urscript/run.script", (r"ex_y > 1\.0", "ex_y > 0.01")),
        ("a cycle that is not looked at", "template", "urscript/run.script", (r"> 0\.000001", "> 0.9")),
    ),
    "rapid": (
        ("home within 0.6 degrees", "rapid.text", "AT_HOME", (0.6, 1.0)),
        ("home within 0.4 degrees", "rapid.text", "AT_HOME", (0.4, 1.0)),
        ("payload within 1 kg", "rapid.text", "LOAD_SLACK", 1.0),
        ("payload within 20 g", "rapid.text", "LOAD_SLACK", 0.02),
        ("override of 60 % will do", "template", "rapid/module.mod", (r"< 100 THEN", "< 60 THEN")),
        ("manual mode will do", "template", "rapid/module.mod", (r"<> OP_AUTO", "= OP_AUTO")),
        ("a low-pass of 10 Hz", "template", "rapid/module.mod", (r"LpFilter:=100", "LpFilter:=10")),
        ("a time-out of 10 s", "template", "rapid/module.mod", (r"CommTimeout:=1\b", "CommTimeout:=10")),
        ("a ramp of 1 s", "template", "rapid/module.mod", (r"RampInTime:=0\.05", "RampInTime:=1")),
        ("arrived within 1 degree", "rapid.egm", "_NEAR", 1.0),
        ("it ends in the first pause", "rapid.egm", "_PAUSE", -3.0),
        ("any speed allowed", "template", "rapid/module.mod", (r"\{\{ limit \}\}", "5000")),
        ("a stop in 0.1 s", "clients.egm_client", "SLOWING", 0.1),
        ("a stop in 1 s", "clients.egm_client", "SLOWING", 1.0),
        ("one packet more may be missing", "clients.egm_client", "GAP", 6),
        ("one packet less may be missing", "clients.egm_client", "GAP", 4),
        ("joints may be off by 4 degrees", "clients.egm_client", "TRACKING", 4.0),
        ("joints may be off by 2.5 degrees", "clients.egm_client", "TRACKING", 2.5),
        ("what it was told is forgotten", "clients.egm_client", "LAG", 1),
        ("to home in a tenth of the time", "clients.egm_client", "ALIGN", 0.0),
    ),
    "twincat": (
        ("home within 0.6 degrees", "twincat.setpoints", "AT_HOME", (0.6, 1.2)),
        ("home within 0.4 degrees", "twincat.setpoints", "AT_HOME", (0.4, 0.8)),
        ("a stop in 0.1 s", "twincat.setpoints", "STOP", 0.1),
        ("a stop in 1 s", "twincat.setpoints", "STOP", 1.0),
        ("rests of 0.1 s", "twincat.setpoints", "REST", 0.1),
        ("to home in 20 ms", "twincat.setpoints", "CATCH_UP", 0.016),
        ("payload within 1 kg", "template", "twincat/block.st", (r"\) > 10 THEN", ") > 1000 THEN")),
        ("payload exactly", "template", "twincat/block.st", (r"\) > 10 THEN", ") > 9 THEN")),
        ("override of any share", "template", "twincat/block.st", (r"Override <> 1000000", "Override = 0")),
        ("bRun is not looked at", "template", "twincat/block.st", (r"IF NOT bRun THEN", "IF FALSE THEN")),
        (
            "failures are not looked at",
            "template",
            "twincat/block.st",
            (r"Status\.Error OR NOT", "Status.Homed AND NOT"),
        ),
        ("a running Scope", "template", "twincat/block.st", (r"IF bLoggerRunning THEN", "IF FALSE THEN")),
        ("any cycle", "template", "twincat/block.st", (r"CycleTime <> nCycle", "CycleTime = 0")),
        (
            "it starts again by itself",
            "template",
            "twincat/block.st",
            (r"fSlow >= 1\.0 THEN\n    nState := 80", "fSlow >= 1.0 THEN\n    bSlow := FALSE"),
        ),
        ("time jumps in the stop", "template", "twincat/block.st", (r"0\.5 \* fSlow \* fSlow", "0.9 * fSlow * fSlow")),
    ),
    "franka": (
        ("home within 0.6 degrees", "clients.franka_client", "NEAR", 0.0105),
        ("home within 0.4 degrees", "clients.franka_client", "NEAR", 0.007),
        ("payload within 1 kg", "clients.franka_client", "SAME_PAYLOAD", 1.0),
        ("payload within 20 g", "clients.franka_client", "SAME_PAYLOAD", 0.02),
        ("a gap of 6 ms will do", "clients.franka_client", "LONGEST_GAP", 6),
        ("a gap of 4 ms is too long", "clients.franka_client", "LONGEST_GAP", 4),
        ("a stop in 0.1 s", "clients.franka_client", "SLOWDOWN", 100),
        ("twice the braking", "clients.franka_client", "BRAKING", 10.0),
        ("half the braking", "clients.franka_client", "BRAKING", 2.5),
        ("rests of 0.5 s", "clients.franka_client", "REST", 0.5),
        ("no bit of home", "clients.franka_client", "HOMING", 0.0005),
        ("a stretch from elsewhere", "clients.franka_client", "FADE", 60.0),
        ("no seventh joint", "clients.franka_client", "JOINTS", 6),
        ("degrees", "record", "angle_unit", "deg"),
        ("softer thresholds", "clients.franka_client.Settings", "__init__", lambda self: _softer(self)),
    ),
    "ros2": (
        ("home within 0.6 degrees", "ros2.emit", "HOME", (0.0105, 1.2e-3)),
        ("home within 0.4 degrees", "ros2.emit", "HOME", (0.007, 0.8e-3)),
        ("a goal within 2 degrees", "ros2.emit", "GOAL", (0.035, 1e-3)),
        ("a goal within 0.1 degrees", "ros2.emit", "GOAL", (0.0017, 1e-3)),
        ("10 s to arrive", "ros2.emit", "GOAL_TIME", 10.0),
        ("rests of 0.5 s", "ros2.emit", "REST", 0.5),
        ("fewer decimals", "record", "decimals", 4),
        ("90 % of the speed will do", "clients.ros2_client", "FULL_SPEED", 0.9),
        ("payload within 1 kg", "clients.ros2_client", "SAME_PAYLOAD", 1.0),
        ("payload within 20 g", "clients.ros2_client", "SAME_PAYLOAD", 0.02),
        ("home in no time", "clients.ros2_program", "HOMING", 1),
        ("a path within 2 rad", "clients.ros2_program", "PATH", {"rad": 2.0, "m": 0.1}),
        ("degrees", "record", "angle_unit", "deg"),
    ),
    "krl": (
        ("home within 0.6 degrees", "krl.text", "AT_HOME", (0.6, 1.0)),
        ("home within 0.4 degrees", "krl.text", "AT_HOME", (0.4, 1.0)),
        ("payload within 1 kg", "krl.text", "LIGHT", 1.0),
        ("payload within a gram", "krl.text", "LIGHT", 0.001),
        ("half the time for the trace", "krl.spline", "_PASSES", 50),
        ("twice the time for the trace", "krl.spline", "_PASSES", 200),
        ("shares of fewer decimals", "krl.spline", "_SHARES", 2),
        ("override of 60 % will do", "template", "krl/program.src", (r"\$OV_PRO<100", "$OV_PRO<60")),
        ("T1 will do", "template", "krl/program.src", (r"==#T1", "==#AUT")),
        ("another tool", "template", "krl/program.src", (r"#TOOL,\{\{ tool \}\}", "#TOOL,2")),
        ("another base", "template", "krl/program.src", (r"#BASE,\{\{ base \}\}", "#BASE,1")),
        ("fast to home", "krl.text", "DEFAULT_SPEED", 50),
        ("the block slowed down", "template", "krl/program.src", (r"#VEL_PTP,100", "#VEL_PTP,90")),
        ("another trace", "template", "krl/program.src", (r"\{\{ config \}\}", "OTHER.XML")),
        ("fewer decimals", "text", r"(A\d -?\d+\.\d\d)\d+", r"\1"),
    ),
    "krl-rsi": (
        ("home within 0.6 degrees", "krl.text", "AT_HOME", (0.6, 1.0)),
        ("home within 0.4 degrees", "krl.text", "AT_HOME", (0.4, 1.0)),
        ("payload within 1 kg", "krl.text", "LIGHT", 1.0),
        ("payload within a gram", "krl.text", "LIGHT", 0.001),
        ("override of 60 % will do", "template", "krl/program.src", (r"\$OV_PRO<100", "$OV_PRO<60")),
        ("T1 will do", "template", "krl/program.src", (r"==#T1", "==#AUT")),
        ("corrections much wider", "krl.rsi", "MARGIN", 10.0),
        ("corrections too narrow", "krl.rsi", "MARGIN", -2.0),
        ("another tool", "template", "krl/program.src", (r"#TOOL,\{\{ tool \}\}", "#TOOL,2")),
        ("1000 cycles without an answer", "template", "krl/flow.xml", (r"\{\{ TIMEOUT \}\}", "50")),
        ("relative corrections", "template", "krl/program.src", (r"#ABSOLUTE", "#RELATIVE")),
        ("axes may be off by 4 degrees", "clients.rsi_server.RsiServer", "__init__", ("tracking", 4.0)),
        ("axes may be off by 2.5 degrees", "clients.rsi_server.RsiServer", "__init__", ("tracking", 2.5)),
        ("a stop in 0.1 s", "clients.rsi_server.RsiServer", "__init__", ("slowing", 0.1)),
        ("a stop in 1 s", "clients.rsi_server.RsiServer", "__init__", ("slowing", 1.0)),
        ("one packet more may be missing", "clients.rsi_server.RsiServer", "__init__", ("gap", 6)),
        ("one packet less may be missing", "clients.rsi_server.RsiServer", "__init__", ("gap", 4)),
        ("rests of 0.1 s", "clients.rsi_server", "REST", 0.1),
    ),
    "fanuc-j519": (
        ("home within 0.6 degrees", "clients.j519_client", "NEAR_HOME", 0.6),
        ("home within 0.4 degrees", "clients.j519_client", "NEAR_HOME", 0.4),
        ("override of 60 % will do", "text", r"R\[196\]<>100,", "R[196]<60,"),
        ("the wrong mode", "text", r"UO\[8\]=ON", "UO[8]=OFF"),
        ("a stop in 0.1 s", "clients.j519_client", "SLOWING", 0.1),
        ("a stop in 1 s", "clients.j519_client", "SLOWING", 1.0),
        ("one packet more may be missing", "clients.j519_client", "MOST_LOST", 6),
        ("one packet less may be missing", "clients.j519_client", "MOST_LOST", 4),
        ("axes may be off by 6 degrees", "clients.j519_client", "ASTRAY", 6.0),
        ("axes may be off by 4 degrees", "clients.j519_client", "ASTRAY", 4.0),
        ("rests of half a second", "clients.j519_client", "REST", 0.496),
        ("rests of 16 ms", "clients.j519_client", "REST", 0.016),
        ("errors are not looked at", "clients.j519_packets", "ERROR", 0),
        ("the pendant is not looked at", "clients.j519_packets", "PENDANT", 0),
        ("home in one step", "clients.j519_client", "ALIGN", 0.0),
        ("only the longest period", "clients.j519_client", "PERIODS", (0.008,)),
    ),
    "rapid-move": (
        ("home within 0.6 degrees", "rapid.text", "AT_HOME", (0.6, 1.0)),
        ("home within 0.4 degrees", "rapid.text", "AT_HOME", (0.4, 1.0)),
        ("payload within 1 kg", "rapid.text", "LOAD_SLACK", 1.0),
        ("payload within 20 g", "rapid.text", "LOAD_SLACK", 0.02),
        ("override of 60 % will do", "template", "rapid/module.mod", (r"< 100 THEN", "< 60 THEN")),
        ("manual mode will do", "template", "rapid/module.mod", (r"<> OP_AUTO", "= OP_AUTO")),
        ("larger zones", "text", r", z5,", ", z50,"),
        ("fine points everywhere", "text", r", z5,", ", fine,"),
        ("rests of 0.1 s", "template", "rapid/module.mod", (r"WaitTime \\InPos, 1;", r"WaitTime \\InPos, 0.1;")),
        ("fewer decimals", "rapid.text", "DECIMALS", 1),
        (
            "home in a tenth of a second",
            "template",
            "rapid/module.mod",
            (r"exHome \\NoEOffs, v10 \\T:=1", r"exHome \\NoEOffs, v10 \\T:=0.1"),
        ),
        ("periods counted from 2", "rapid.move", "MEASURED", 1001),
        ("warm-up counted from 2", "rapid.move", "WARM_UP", 101),
    ),
    "val3": (
        ("home within 0.6 degrees", "val3.emit", "AT_HOME", (0.6, 1.0)),
        ("home within 0.4 degrees", "val3.emit", "AT_HOME", (0.4, 1.0)),
        ("monitor speed of 60 % will do", "text", r"getMonitorSpeed\(\)!=100", "getMonitorSpeed()<60"),
        ("half the acceleration", "text", r'accel="100"', 'accel="50"'),
        ("half the deceleration", "text", r'decel="100"', 'decel="50"'),
        ("blends of 1 mm", "text", r'leave="99999"', 'leave="1"'),
        ("blends that end late", "text", r'reach="99999"', 'reach="1"'),
        ("a tool speed", "text", r'tmax="99999" rmax="99999" blend="joint"', 'tmax="100" rmax="99999" blend="joint"'),
        ("no blends", "text", r'blend="joint"', 'blend="off"'),
        ("fast to home", "text", r'vel="2"', 'vel="50"'),
        ("hard to home", "text", r'accel="20"', 'accel="100"'),
        ("periods counted from 2", "val3.emit", "MEASURED", 1001),
        ("warm-up counted from 2", "val3.emit", "WARM_UP", 101),
        ("other top speeds", "text", r'(name="nTopSpeed".*?value=")(\d)', r"\g<1>9\2"),
    ),
    "fanuc": (
        ("home within 0.6 degrees", "fanuc.tp", "AT_HOME", (0.6, 1.0)),
        ("home within 0.4 degrees", "fanuc.tp", "AT_HOME", (0.4, 1.0)),
        ("override of 60 % will do", "text", r"R\[196\]<>100,", "R[196]<60,"),
        ("the wrong mode", "text", r"UO\[8\]=ON", "UO[8]=OFF"),
        ("smaller blends", "text", r"CNT100", "CNT50"),
        ("no blends", "text", r"CNT100", "FINE"),
        ("another tool", "text", r"UTOOL_NUM=1", "UTOOL_NUM=2"),
        ("another frame", "text", r"UFRAME_NUM=0", "UFRAME_NUM=1"),
        ("rests of 0.1 s", "text", r"WAIT   1\.00\(sec\)|WAIT 1\.00\(sec\)", "WAIT 0.10(sec)"),
        ("fast to home", "text", r"J P\[1\] 2% FINE", "J P[1] 50% FINE"),
        ("periods counted from 2", "fanuc.tp", "MEASURED", 1001),
        ("warm-up counted from 2", "fanuc.tp", "WARM_UP", 101),
        ("fewer decimals", "record", "decimals", 0),
        ("other top speeds", "text", r"!J1 AT 100%: ", "!J1 AT 100%: 9"),
    ),
}


def _softer(settings: Any) -> None:
    settings.torques, settings.forces, settings.load = [20.0] * 7, [20.0] * 6, None


@contextmanager
def applied(name: str, change: tuple[Any, ...]) -> Iterator[None]:
    """Apply a change while a program is emitted and executed."""
    _, place, key, value = change
    emitter = registry.emitter(name)
    with ExitStack() as stack:
        if place == "record":
            stack.enter_context(patch.object(emitter, "TARGET", replace(emitter.TARGET, **{key: value})))
        elif place == "text":
            write = emitter.emit

            def emit(*given: Any) -> dict[str, str]:
                return {file: re.sub(key, value, text, flags=re.DOTALL) for file, text in write(*given).items()}

            stack.enter_context(patch.object(emitter, "emit", emit))
        elif place == "template":
            read = target.file_text
            pattern, by = value
            changed = re.sub(pattern, by, read(key))
            assert changed != read(key), change
            stack.enter_context(patch.object(target, "file_text", lambda file: changed if file == key else read(file)))
            target._templates.cache_clear()
            stack.callback(target._templates.cache_clear)
        else:
            stack.enter_context(_set(place, key, value))
        yield


@contextmanager
def _set(place: str, key: str, value: Any) -> Iterator[None]:
    """Set a constant wherever it was imported to, or a parameter's default."""
    parts = place.rsplit(".", 1)
    owner: Any
    if parts[-1][0].isupper():
        owner = getattr(importlib.import_module(HOME + parts[0]), parts[-1])
    else:
        owner = importlib.import_module(HOME + place)
    if key == "__init__" and isinstance(value, tuple):
        write, (parameter, default) = owner.__init__, value
        value = lambda self, *given, **named: write(self, *given, **{parameter: default, **named})  # noqa: E731
    elif key in _DEFAULTS:
        client, parameter = _DEFAULTS[key]
        begin = getattr(owner, client).__init__
        made = lambda self, *given, **named: begin(self, *given, **{parameter: value, **named})  # noqa: E731
        with patch.object(getattr(owner, client), "__init__", made):
            yield
        return
    kept = [one for one in vars(owner).values() if hasattr(one, "cache_clear")]  # without the change
    with patch.object(owner, key, value):
        for one in kept:
            one.cache_clear()
        yield
    for one in kept:
        one.cache_clear()


_DEFAULTS = {"GAP": ("EgmClient", "gap"), "TRACKING": ("EgmClient", "tracking")}  # constants that are defaults
