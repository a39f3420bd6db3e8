"""Names, comments and numbers that are safe in any program, whatever people typed."""

import re
import unicodedata
from collections.abc import Collection, Iterable

import numpy as np

from excitor.design.programs.plan import Plan
from excitor.design.programs.target import Target
from excitor.robots.arrays import FloatArray

ENDINGS = ("_dry", "_out", "_main", "_back")  # of the files of one program: no program's name has them
PREFIX = "ex_"  # of every name in a program: none of ours is a word of the language


NO_GO = "NO-GO DESIGN EMITTED ON PURPOSE"  # short enough for the remarks of every controller


def no_go_lines(plan: Plan, mark: str = "", end: str = "") -> list[str]:
    """Comment for the head of a file that the design is a no-go; no line where it is none."""
    return [f"{mark}{NO_GO}{end}"] if plan.no_go else []


def program_names(runs: Iterable[str], target: Target) -> list[str]:
    """Make names of runs safe and different in the target's language; room is left for a suffix of four letters."""
    made: list[str] = []
    for run in runs:
        name = _unending(safe_name(run, target.longest_name - 4, target.reserved), target)
        k = 2
        while name.lower() in (other.lower() for other in made):
            tail = f"_{k}"
            name = safe_name(run, target.longest_name - 4 - len(tail), target.reserved) + tail
            k += 1
        made.append(name)
    return made


def _unending(name: str, target: Target) -> str:
    """Change a name that ends as the names of another program's files do."""
    return name[: target.longest_name - 8] + "_run" if name.endswith(ENDINGS) else name


def safe_name(text: str, longest: int, reserved: Collection[str] = ()) -> str:
    """Keep a to z, 0 to 9 and single underscores of a name, which begins with a letter and is no reserved word."""
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    name = re.sub(r"[^a-z0-9]+", "_", plain.lower()).strip("_")[: max(1, longest)].strip("_")
    if not name or not name[0].isalpha() or name in reserved:
        name = (PREFIX + name)[: max(len(PREFIX), longest)].strip("_")
    return name


def comment(text: str, longest: int = 100) -> str:
    """Keep letters, digits and harmless marks of a text: no quote, bracket, line end or escape survives."""
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    harmless = re.sub(r"[^A-Za-z0-9 .,:+=_/-]", " ", plain)
    return re.sub(r"\s+", " ", re.sub(r"--+|//+", " ", harmless)).strip()[:longest]


def fixed(value: float, decimals: int) -> str:
    """Write a number with a fixed count of decimals, never as -0."""
    text = f"{value:.{decimals}f}"
    return text[1:] if text.startswith("-") and not text.strip("-0.") else text


def precise(value: float, digits: int = 17) -> str:
    """Write a number so that it reads back; always with a decimal point, which some languages want in a real."""
    text = f"{float(value):.{digits}g}"
    if "e" in text:
        head, exponent = text.split("e")
        return f"{head if '.' in head else head + '.0'}e{int(exponent)}"
    return text if "." in text else f"{text}.0"


def rounded(values: FloatArray, decimals: int) -> FloatArray:
    """Round as `fixed` writes."""
    return np.array([float(fixed(float(x), decimals)) for x in np.ravel(values)]).reshape(np.shape(values))
