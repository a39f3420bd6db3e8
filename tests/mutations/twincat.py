"""Ways in which an emitted TwinCAT block may be wrong, one at a time."""

import re
from collections.abc import Callable, Iterator, Mapping

Edit = tuple[str, str, str | Callable[[re.Match[str]], str]]


def _scaled(factor: float) -> Callable[[re.Match[str]], str]:
    return lambda match: f"{match[1]}{float(match[2]) * factor:.17g}"


def _more(count: int) -> Callable[[re.Match[str]], str]:
    return lambda match: f"{match[1]}{int(match[2]) + count}"


_NUMBER = r"(-?\d+\.\d+(?:e[-+]?\d+)?)"
_AFTER = r"[^\n]*\n\s*"
EDITS: tuple[Edit, ...] = (
    ("a line dropped", r"    aPos\[iAxis\] := aCenter[^\n]*\n", ""),
    ("two joints swapped", rf"(aCenter :.*?\[{_AFTER}){_NUMBER}, {_NUMBER}", r"\1\3, \2"),
    ("degrees for radians", r"SIN\(fAngle\)", "SIN(fAngle * 57.29577951308232)"),
    ("a sign flipped in the waves", r"(\* aCosine\[1\]) - (aSine)", r"\1 + \2"),
    ("a sign flipped in a coefficient", rf"(aCoefficient :.*?\[{_AFTER}){_NUMBER}", _scaled(-1.0)),
    ("a decimal comma", r"(aCenter :[^\n]*\n\s*-?\d+)\.", r"\1,"),
    ("a missing END_IF", r"    END_IF;\n  END_FOR;\n", "  END_FOR;\n"),
    ("a missing END_FUNCTION_BLOCK", r"END_FUNCTION_BLOCK\n", ""),
    ("a period too many", r"(nPeriods : DINT := )(\d+)", _more(1)),
    ("a warm-up period too many", r"(nWarmUp : DINT := )(\d+)", _more(1)),
    ("a ramp that ends a step off phase 0", r"(nLead : DINT := )(\d+)", _more(1)),
    ("another step time", rf"(fTick : LREAL := ){_NUMBER}", _scaled(1.25)),
    ("another task cycle", r"(nCycle : UDINT := )(\d+)", _more(10000)),
    ("override not checked", r"PlcToNc\.Override <> 1000000", "PlcToNc.Override = 0"),
    ("home not checked", r"> aNear\[iAxis\] THEN", "> 1.0e9 THEN"),
    ("payload not checked", r"(ABS\(nPayloadGrams - \d+\)) > 10", r"\1 > 100000000"),
    ("status not read", r"  stAxes\[iAxis\]\.ReadStatus\(\);\n", "  ;\n"),
    ("markers removed", r"  nMark := aMark\[iPart\];\n", ""),
    ("periods not marked", r"    nMark := 1000 \+ nPeriod - nWarmUp;\n", ""),
    ("the way out not marked", r"  nMark := 1;\n", ""),
    ("the Scope not started", r"  bLog := nStep >= nRest;", "  bLog := FALSE;"),
    ("the Scope not waited for", r"bLog AND bLoggerRunning;", "bLog;"),
    ("the Scope not stopped", r"  bLog := FALSE;\n", ""),
    ("a coefficient 1 % larger", rf"(aCoefficient :.*?\[{_AFTER}){_NUMBER}", _scaled(1.01)),
    ("the ramp's time shorter", rf"(fRamp : LREAL := ){_NUMBER}", _scaled(0.9)),
    ("a wrong envelope", r"\(35\.0 - fX", "(34.0 - fX"),
    ("harmonics swapped", r"(aHarmonic :.*?\n\s*)(\d+), (\d+)", r"\1\3, \2"),
    ("a part shorter", r"(aLength :.*?\n\s*)(\d+)", _more(-1)),
    ("velocity not fed", r"Velocity := aVel\[iAxis\]", "Velocity := 0.0"),
    ("acceleration not fed", r"Acceleration := aAcc\[iAxis\]", "Acceleration := 0.0"),
    ("direction not fed", r"      nDirection := -1;", "      nDirection := 1;"),
    ("one axis fed for all", r"(Direction := nDirection,\n      Axis := stAxes\[)iAxis", r"\g<1>1"),
    ("external set points not switched on", r"Execute := nStep >= 5, Position", "Execute := FALSE, Position"),
    ("external set points not switched off", r"(fbDisable\[iAxis\]\(Execute := )nStep >= 5", r"\1FALSE"),
    ("feeding ends too early", r"bOver := nCount >= 10 OR [^;]*;", "bOver := nStep >= 5;"),
    ("a move of a step less", r"(aSteps :.*?\n\s*\d+, )(\d+)", _more(-1)),
    ("a whole number times a real", r"DINT_TO_LREAL\(nStep\) \* fTick", "nStep * fTick"),
    ("a name misspelt", r"aWay\[iAxis\] := aTo", "aWy[iAxis] := aTo"),
    ("too many indices", r"aWave\[iWave\];", "aWave[iWave, 1];"),
)


def mutations(files: Mapping[str, str], name: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Make each change that the text has a place for."""
    yield from edited(files, f"{name}.st", EDITS)


def edited(files: Mapping[str, str], file: str, edits: tuple[Edit, ...]) -> Iterator[tuple[str, dict[str, str]]]:
    """Apply regular expressions, one at a time; those that find nothing, or change nothing, are left out."""
    for label, pattern, change in edits:
        everywhere = label.endswith((" not checked", " not read", " not stopped"))
        text = re.sub(pattern, change, files[file], count=0 if everywhere else 1, flags=re.DOTALL)
        if text != files[file]:
            yield label, {**files, file: text}
