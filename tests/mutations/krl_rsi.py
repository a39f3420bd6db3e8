"""Mutations of KRL programs that hand the robot to RSI: of program, signal flow and streamed run."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tests.mutations.krl import COMMON, Edit, instead, without
from tests.mutations.run_file import full, short

Change = Callable[[dict[str, Any]], None]


def mutations(files: Mapping[str, str], name: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield a label and the changed files; every one changes what the program does."""
    listed = ((f"{name}.src", (*COMMON, *_PROGRAM)), (f"{name}.rsi.xml", _FLOW), (f"{name}_eth.xml", _ETHERNET))
    for file, edits in listed:
        for label, edit in edits:
            changed = edit(files[file])
            if changed != files[file]:
                yield label, {**files, file: changed}
    text = files[f"{name}.json"]
    for label, change in (*_RUN, *(_SERIES if "series" in short(json.loads(text))["main"] else _MOVES)):
        run = short(json.loads(text))
        change(run)
        yield label, {**files, f"{name}.json": json.dumps(full(run))}


def _swapped(values: list[Any]) -> None:
    values[0], values[1] = values[1], values[0]


def _radians(run: dict[str, Any]) -> None:
    run["home"] = [0.017453292519943295 * x for x in run["home"]]


def _series(change: Callable[[dict[str, Any]], None]) -> Change:
    return lambda run: change(run["main"]["series"])


def _sign(series: dict[str, Any]) -> None:
    series["sines"][2] = [-x for x in series["sines"][2]]


def _larger(series: dict[str, Any]) -> None:
    series["cosines"][3] = [1.01 * x for x in series["cosines"][3]]


def _harmonics_swapped(series: dict[str, Any]) -> None:
    for row in series["sines"]:
        row[0], row[-1] = row[-1], row[0]


_PROGRAM: tuple[tuple[str, Edit], ...] = (
    ("RSI not created", without(r"  EX_RET=RSI_CREATE[^\r]*\r\n")),
    ("RSI not switched on", without(r"  EX_RET=RSI_ON[^\r]*\r\n")),
    ("relative corrections", instead("#ABSOLUTE", "#RELATIVE")),
    ("RSI_MOVECORR missing", without(r"  RSI_MOVECORR\(\)\r\n")),
    ("RSI_OFF missing", without(r"  EX_RET=RSI_OFF\(\)\r\n  EX_RET=RSI_DELETE\(EX_ID\)\r\n")),
    ("signal flow of another name", instead(r'RSI_CREATE\("\w+', 'RSI_CREATE("other')),
    ("number of the flow not declared", without(r"  DECL INT EX_RET,EX_ID\r\n")),
    ("program moves away from home", instead(r"PTP \{A1 -?\d+", "PTP {A1 77")),
)
_FLOW: tuple[tuple[str, Edit], ...] = (
    (
        "inputs of two axes swapped",
        lambda text: _exchanged(text, 'InIdx="1" OutObjID="ETHERNET1" OutIdx="1"', "1", "2"),
    ),
    ("an axis not connected", without(r'      <Input InIdx="3"[^\r]*\r\n')),
    ("an upper limit too narrow", lambda text: _narrowed(text)),
    ("a lower limit much too wide", instead(r'("LowerLimA3"[^>]*ParamValue=")[^"]*', r"\g<1>-170.0")),
    ("the monitor at its default", instead(r'("MaxA1"[^>]*ParamValue=")[^"]*', r"\g<1>0.9")),
    ("the monitor switched off in effect", instead(r'("MaxA4"[^>]*ParamValue=")[^"]*', r"\g<1>360.0")),
    ("STOP does not end the motion", instead(r'("Mode"[^>]*ParamValue=")4', r"\g<1>1")),
    ("a flag of the controller is driven", instead(r'("Flag"[^>]*ParamValue=")-1', r"\g<1>1")),
    ("STOP not connected", instead(r'OutIdx="7"', 'OutIdx="8"')),
    ("an object dropped", without(r'  <RSIObject ObjType="AXISCORRMON".*?</RSIObject>\r\n')),
    ("no end of the file", without(r"</RSIObjects>\r\n")),
    ("decimal comma in a limit", instead(r'("UpperLimA1"[^>]*ParamValue="\d+)\.', r"\g<1>,")),
)
_ETHERNET: tuple[tuple[str, Edit], ...] = (
    (
        "tags of two axes swapped",
        lambda text: text.replace("AK.A1", "AK.X").replace("AK.A2", "AK.A1").replace("AK.X", "AK.A2"),
    ),
    ("an axis not received", without(r'      <ELEMENT TAG="AK.A5"[^\r]*\r\n')),
    ("measured axes not sent", without(r'      <ELEMENT TAG="DEF_AIPos"[^\r]*\r\n')),
    ("only sending", instead("<ONLYSEND>FALSE", "<ONLYSEND>TRUE")),
    ("another sender", instead("<SENTYPE>Excitor", "<SENTYPE>ImFree")),
    ("a late answer throws an axis back", instead('HOLDON="1"', 'HOLDON="0"')),
    ("Stop not received", without(r'      <ELEMENT TAG="Stop"[^\r]*\r\n')),
)
_RUN: tuple[tuple[str, Change], ...] = (
    ("home of two axes swapped", lambda run: _swapped(run["home"])),
    ("home in radians", _radians),
    ("a move on the way out longer", lambda run: run["out"][0].update(duration=run["out"][0]["duration"] + 0.4)),
    ("way back missing", lambda run: run.update(back=[])),
    ("a mark missing", lambda run: run["marks"].pop(1)),
    (
        "marks late",
        lambda run: run.update(marks=[[t + 0.1 * (k > 0), mark] for k, (t, mark) in enumerate(run["marks"])]),
    ),
)
_SERIES: tuple[tuple[str, Change], ...] = (
    ("one period more", _series(lambda s: s.update(measured=s["measured"] + 1))),
    ("warm-up missing", _series(lambda s: s.update(warm_up=s["warm_up"] + 1))),
    ("ramp shorter", _series(lambda s: s.update(ramp=0.8 * s["ramp"]))),
    ("period 1 % longer", _series(lambda s: s.update(period=1.01 * s["period"]))),
    ("sines of two axes swapped", _series(lambda s: _swapped(s["sines"]))),
    ("a sign flipped", _series(_sign)),
    ("a coefficient 1 % larger", _series(_larger)),
    ("two harmonics swapped", _series(_harmonics_swapped)),
    ("no settling", _series(lambda s: s.update(settle=0.0))),
)
_MOVES: tuple[tuple[str, Change], ...] = (
    ("one round more", lambda run: run["main"].update(repeats=run["main"]["repeats"] + 1)),
    ("a move shorter", lambda run: run["main"]["moves"][2].update(duration=0.9 * run["main"]["moves"][2]["duration"])),
    ("a blend shorter", lambda run: run["main"]["moves"][2].update(blend=0.5 * run["main"]["moves"][2]["blend"])),
)


def _exchanged(text: str, place: str, one: str, other: str) -> str:
    """Exchange where two inputs come from."""
    second = place.replace(f'InIdx="{one}"', f'InIdx="{other}"').replace(f'OutIdx="{one}"', f'OutIdx="{other}"')
    crossed = place.replace(f'OutIdx="{one}"', f'OutIdx="{other}"')
    back = second.replace(f'OutIdx="{other}"', f'OutIdx="{one}"')
    return re.sub(re.escape(place), crossed, re.sub(re.escape(second), back, text, count=1), count=1)


def _narrowed(text: str) -> str:
    """Take 2 degrees from an upper limit, which is one more than its margin."""
    limit = r'("UpperLimA2"[^>]*ParamValue=")([^"]*)'
    return re.sub(limit, lambda found: f"{found[1]}{float(found[2]) - 2.0:.1f}", text)
