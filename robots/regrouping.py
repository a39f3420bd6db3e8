"""Base parameters as people read them: `ZZ1 + Ia1 + YY2 + 2 r3 MZ3 + (d3^2 + r3^2) (M3 + M4 + M5 + M6)`.

Factors are numbers, or closed forms in the robot's named lengths. A closed form is only believed if it also gives the
factor of the same robot with its lengths stretched at random: lengths that happen to be equal cannot be confused.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations, combinations_with_replacement, product

import numpy as np

from excitor.robots.arrays import FloatArray
from excitor.robots.base import Base, base_parameters
from excitor.robots.parameters import Layout, layout
from excitor.robots.robot import Robot

_DEGREE = {"kg m2": 2, "kg m": 1, "kg": 0}
_AGREEMENT = 1e-9  # relative; the numbers come from a QR of random states
_FACTORS = {1.0: "", 2.0: "2 ", 0.5: "0.5 ", 4.0: "4 ", 1.5: "1.5 ", 3.0: "3 "}


@dataclass(frozen=True)
class Factor:
    """A factor as text: its sign, and its size ("" for one)."""

    negative: bool
    size: str


def regroupings(robot: Robot, base: Base, stretched: Robot | None = None) -> tuple[str, ...]:
    """Write each base parameter as a sum of standard ones; with a stretched twin of the robot, in named lengths."""
    params = layout(robot)
    twin = None if stretched is None else _twin_regrouping(base, stretched)
    texts = []
    for k, (column, row) in enumerate(zip(base.kept, base.regrouping, strict=True)):
        factors = {}
        for c in _reading_order(int(column), row, params):
            factor = _number(row[c])
            if twin is not None and stretched is not None:
                degree = _DEGREE.get(params.units[column], 0) - _DEGREE.get(params.units[c], 0)
                values = (float(row[c]), float(twin[k, c]))
                factor = closed_form(values, (robot.lengths, stretched.lengths), degree) or factor
            factors[params.names[c]] = factor
        texts.append(_sum(factors))
    return tuple(texts)


def closed_form(
    values: tuple[float, float], lengths: tuple[Mapping[str, float], Mapping[str, float]], degree: int
) -> Factor | None:
    """Find a factor as a short sum of products of lengths, given its values for two sets of lengths.

    One or two products with small whole factors are tried, then three or four squares, then one ratio.
    """
    if not lengths[0]:
        return None
    if degree <= 0:
        return _ratio(values, lengths, degree)
    products = list(_monomials(lengths, degree))
    squares = [term for term in products if term[0].endswith("^2") and " " not in term[0]]
    for count, terms in ((1, products), (2, products), (3, squares), (4, squares)):
        for chosen in combinations(terms, count):
            if len({term[2] for term in chosen}) < count:
                continue
            for signs in product((1.0, -1.0), repeat=count):
                sums = [sum(s * term[1][k] for s, term in zip(signs, chosen, strict=True)) for k in (0, 1)]
                if _agree(sums, values):
                    return _spell(signs, [term[0] for term in chosen])
    return _ratio(values, lengths, degree)


def _agree(found: Iterable[float], values: Iterable[float]) -> bool:
    return all(abs(x - v) <= _AGREEMENT * abs(v) for x, v in zip(found, values, strict=True))


def _ratio(
    values: tuple[float, float], lengths: tuple[Mapping[str, float], Mapping[str, float]], degree: int
) -> Factor | None:
    """Find a factor as a ratio of two lengths' powers, up to 4: L1^2/L2."""
    for over, under in product(lengths[0], repeat=2):
        for power in range(max(0, degree), 5 if over != under else 1):
            ratios = [table[over] ** power / table[under] ** (power - degree) for table in lengths]
            for factor, spelled in _FACTORS.items():
                if power > degree and _agree((factor * x for x in ratios), (abs(v) for v in values)):
                    above = f"{spelled}{_power(over, power)}".strip() or "1"
                    return Factor(values[0] < 0.0, f"({above}/{_power(under, power - degree)})")
    return None


def _power(name: str, power: int) -> str:
    return {0: "", 1: name}.get(power, f"{name}^{power}")


def _spell(signs: tuple[float, ...], terms: list[str]) -> Factor:
    """Write a signed sum, positive terms first; a common minus stays outside."""
    negative = max(signs) < 0.0
    ordered = sorted(zip(signs, terms, strict=True), key=lambda pair: -pair[0])
    text = " ".join(f"{'+' if s > 0.0 or negative else '-'} {term}" for s, term in ordered).removeprefix("+ ")
    return Factor(negative, f"({text})" if len(terms) > 1 else text)


def _monomials(
    lengths: tuple[Mapping[str, float], Mapping[str, float]], degree: int
) -> Iterator[tuple[str, tuple[float, float], str]]:
    for names in combinations_with_replacement(lengths[0], degree):
        text = f"{names[0]}^2" if len(names) == 2 and names[0] == names[1] else " ".join(names)
        first, second = (float(np.prod([table[name] for name in names])) for table in lengths)
        for factor, spelled in _FACTORS.items():
            yield f"{spelled}{text}", (factor * first, factor * second), text


def _twin_regrouping(base: Base, stretched: Robot) -> FloatArray | None:
    twin = base_parameters(stretched, tolerance=base.tolerance)
    return twin.regrouping if np.array_equal(twin.kept, base.kept) else None


def _reading_order(column: int, row: FloatArray, params: Layout) -> list[int]:
    """Order terms: the kept one, rotors and friction, then links outwards."""
    others = [int(c) for c in np.flatnonzero(row) if c != column]
    return [column, *sorted(others, key=lambda c: (c < params.n_link_params, c))]


def _number(value: float) -> Factor:
    size = f"{abs(value):.10g}"
    return Factor(value < 0.0, "" if size == "1" else size)


def _sum(factors: Mapping[str, Factor]) -> str:
    """Join terms, collecting parameters that share a factor other than ±1."""
    groups: dict[Factor | str, list[str]] = {}
    for name, factor in factors.items():
        groups.setdefault(factor if factor.size else name, []).append(name)
    text = ""
    for names in groups.values():
        factor = factors[names[0]]
        members = names[0] if len(names) == 1 else f"({' + '.join(names)})"
        term = f"{factor.size} {members}".strip()
        text += f" {'-' if factor.negative else '+'} {term}"
    return text.removeprefix(" + ")
