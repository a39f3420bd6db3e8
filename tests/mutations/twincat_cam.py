"""Ways in which emitted TwinCAT cam tables and their block may be wrong, one at a time."""

import re
from collections.abc import Callable, Iterator, Mapping

from tests.mutations.twincat import Edit, edited

_NUMBER = r"(-?\d+\.\d+)"


def _changed(factor: float, plus: float = 0.0) -> Callable[[re.Match[str]], str]:
    return lambda match: f"{match[1]}{float(match[2]) * factor + plus:.9f}"


BLOCK: tuple[Edit, ...] = (
    ("a line dropped", r"        aPoint\[iRow\]\.SlavePos := [^\n]*\n", ""),
    ("velocities dropped", r"        aPoint\[iRow\]\.SlaveVelo := [^\n]*\n", ""),
    ("two joints swapped", r"_(\w+)\[iAxis, aFirst", r"_\1[3 - iAxis, aFirst"),
    ("a sign flipped", r"(SlaveAcc := )(aAcc)", r"\1-\2"),
    ("a missing END_CASE", r"END_CASE;\n", ""),
    ("a missing END_FOR", r"      END_FOR;\n", ""),
    ("a period too many in the marks", r"(nCycles : DINT := )(\d+)", lambda m: f"{m[1]}{int(m[2]) - 1}"),
    ("the way back's table begins late", rf"(aBegin :.*?\n[^\n]*, ){_NUMBER}(?=\n)", _changed(1.0, 0.1)),
    ("time runs faster", r"(aStop\[iStretch\], Velocity := )1\.0", r"\g<1>1.01"),
    ("the master stops early", rf"(aStop :.*?\n\s*){_NUMBER}", _changed(1.0, -0.7)),
    ("override not checked", r"PlcToNc\.Override <> 1000000", "PlcToNc.Override = 0"),
    ("home not checked", r"> aNear\[iAxis\] THEN", "> 1.0e9 THEN"),
    ("payload not checked", r"(ABS\(nPayloadGrams - \d+\)) > 10", r"\1 > 100000000"),
    ("status not read", r"st\w+(?:\[iAxis\])?\.ReadStatus\(\);", ";"),
    ("markers removed", r"      nMark := aPartMark\[nPart\];\n", ""),
    ("the Scope not started", r"      bLog := TRUE;\n", "      ;\n"),
    ("the Scope not waited for", r"bLog AND bLoggerRunning\)", "bLog)"),
    ("cubics for quintics", r"POLYNOM5_MM", "POLYNOM3"),
    ("the period not repeated", r"(aPeriodic :.*?)TRUE", r"\1FALSE"),
    ("a table of one point less", r"(aRows :.*?\n\s*)(\d+)", lambda m: f"{m[1]}{int(m[2]) - 1}"),
    ("another table", r"(CamTableID := DINT_TO_UDINT\(\(iTable - 1\))( \*)", r"\1 + 1\2"),
    ("coupled where the slave stands", r"MC_STARTMODE_ABSOLUTE", "MC_STARTMODE_RELATIVE"),
    ("the next table at once", r"MC_CAMACTIVATION_ATMASTERAXISPOS", "MC_CAMACTIVATION_INSTANTANEOUS"),
    ("uncoupling left out", r"fbOut\[iAxis\]\(Execute := nStep > 0,", "fbOut[iAxis](Execute := FALSE,"),
    ("the next table not queued", r"nQueued := nQueued \+ 1;", ";"),
    ("the master's jerk left out", r"(Deceleration := 5\.0, )Jerk := 50\.0, (Axis := stMaster\n)", r"\1\2"),
    ("a name misspelt", r"fBase := stMaster", "fBas := stMaster"),
)  # fmt: skip
POINTS: tuple[Edit, ...] = (
    ("a decimal comma", r"(aPosition_\w+ :[^\n]*\n\s*-?\d+)\.", r"\1,"),
    ("a line of points dropped", r"(aPosition_\w+ :[^\n]*\n)[^\n]*\n", r"\1"),
    ("radians for degrees", rf"(aPosition_\w+ :[^\n]*\n\s*){_NUMBER}", _changed(0.0174532925)),
    ("a velocity's sign flipped", rf"(aVelocity_\w+ :[^\n]*\n(?:[^\n]*\n)?[^\n]*, ){_NUMBER}(?=,\n)", _changed(-1.0)),
    (
        "an acceleration 1 % larger",
        rf"(aAcceleration_\w+ :[^\n]*\n(?:[^\n]*\n)?[^\n]*, ){_NUMBER}(?=,\n)",
        _changed(1.01),
    ),
    ("a missing END_VAR", r"END_VAR\n", ""),
)
CSV: tuple[Edit, ...] = (
    ("a row of the CSV dropped", r"\n1;[^\n]*", ""),
    ("a comma in the CSV", r"(\n1;-?\d+)\.", r"\1,"),
    ("a position of the CSV changed", rf"(\n1;[^;]*;){_NUMBER}", _changed(1.01, 0.01)),
)


def mutations(files: Mapping[str, str], name: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Make each change that the texts have a place for."""
    yield from edited(files, f"{name}.st", BLOCK)
    yield from edited(files, f"{name}_points.st", POINTS)
    yield from edited(files, f"{name}_axis1.csv", CSV)
    yield "a CSV file left out", {file: text for file, text in files.items() if file != f"{name}_axis2.csv"}
