"""Base parameters: identifiable combinations of the standard parameters, and those lost when joints are locked.

τ = Y χ = Y_b β: only combinations β of the standard parameters χ show in the torques ([Gautier1990]). They are found
numerically, on random states: columns of the regressor are taken in an order of preference, and one that depends on
those taken before regroups into them. Columns a tolerance below the largest count as 0; the others are normalised.

Regroupings are also written as text: `ZZ1 + Ia1 + YY2 + 2 r3 MZ3 + (d3^2 + r3^2) (M3 + M4 + M5 + M6)`.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations, combinations_with_replacement, product
from typing import TYPE_CHECKING

import numpy as np
import scipy.linalg

from excitor.robots.arrays import FloatArray, IntArray, shaped
from excitor.robots.closed_chain import ClosedLoop
from excitor.robots.dynamics import regressor
from excitor.robots.errors import ExcitorError, RankDeficient
from excitor.robots.friction import friction_model
from excitor.robots.gram import stack
from excitor.robots.parameters import LINK_COMPONENTS, Layout, layout
from excitor.robots.robot import CanBeSingular, Motion, Robot
from excitor.robots.tree import Tree, chain

if TYPE_CHECKING:
    from pandas import DataFrame

_CLEAR = 0.1  # distance to any singularity that random positions keep
_MOST_DRAWS = 200
TOLERANCE = 1e-7  # a truncated π is off by 1e-5 … 1e-12 and must not make parameters of its own
_DEGREE = {"kg m2": 2, "kg m": 1, "kg": 0}
_AGREEMENT = 1e-9  # relative; the numbers come from a QR of random states
_FACTORS = {1.0: "", 2.0: "2 ", 0.5: "0.5 ", 4.0: "4 ", 1.5: "1.5 ", 3.0: "3 "}


@dataclass(frozen=True, eq=False, slots=True)
@shaped(kept="int: n_base", regrouping="n_base n_params")
class Base:
    """Base parameters: β = regrouping @ χ, and W_b = W[:, kept]."""

    names: tuple[str, ...]  # ZZ1R where others regroup into ZZ1
    units: tuple[str, ...]
    kept: IntArray  # (n_base,): columns of the layout
    regrouping: FloatArray  # (n_base, n_params)
    without_effect: tuple[str, ...]  # parameters that no torque shows
    only_combined: tuple[str, ...]  # parameters seen only as parts of base parameters
    gap: tuple[float, float]  # smallest residual of a kept column, largest of a dropped one
    tolerance: float
    robot: Robot | None = None

    def __len__(self) -> int:
        return len(self.names)

    def __repr__(self) -> str:
        of = f" of {self.robot.name}" if self.robot is not None else ""
        return f"<Base: {len(self)} base parameters{of}, {len(self.without_effect)} parameters without effect>"

    def to_frame(self) -> "DataFrame":
        """Write the parameters as a pandas DataFrame: name, regrouping, unit."""
        import pandas as pd

        forms = self.names if self.robot is None else regroupings(self.robot, self)
        return pd.DataFrame({"name": self.names, "regrouping": forms, "unit": self.units})

    def to_latex(self) -> str:
        """Write the parameters as a LaTeX table (package booktabs)."""
        return str(self.to_frame().to_latex(index=False, escape=True))

    def _repr_html_(self) -> str:
        return str(self.to_frame().to_html(index=False))

    def values(self, chi: FloatArray) -> FloatArray:
        """Evaluate β from standard parameters."""
        return self.regrouping @ chi

    def standard(self, beta: FloatArray) -> FloatArray:
        """Write β as standard parameters that give the same torques: β at the kept ones, 0 elsewhere."""
        chi = np.zeros(self.regrouping.shape[1])
        chi[self.kept] = beta
        return chi


def base_parameters(
    robot: Robot, *, locked: Mapping[int, float] | None = None, tolerance: float = TOLERANCE, seed: int = 0
) -> Base:
    """Find the base parameters: the combinations of inertial parameters that joint torques depend on.

    Args:
        locked: joints held (index -> position) besides those the robot itself locks.
        tolerance: relative, of the rank.
        seed: of the random motion that the columns are taken along.

    RankDeficient where the rank depends on how it is looked for: then no tolerance separates the columns.

    >>> import excitor as ex
    >>> len(ex.base_parameters(ex.load_robot("tx40")))
    60
    """
    held = tuple(sorted({**robot.locked, **(locked or {})}.items()))
    for i, _ in held:
        if not 0 <= i < robot.n_joints:
            raise ValueError(f"joint {i} is to be locked, expected an index from 0 to {robot.n_joints - 1}")
    return _base_parameters(robot, held, tolerance, seed)


@lru_cache(maxsize=32)
def _base_parameters(robot: Robot, held: tuple[tuple[int, float], ...], tolerance: float, seed: int) -> Base:
    params = layout(robot)
    W = observation(robot, dict(held), seed)
    norms = np.linalg.norm(W, axis=0)
    links = norms[: params.n_link_params]  # compared with links only: drives may turn thousands of times as fast
    above = np.append(links > tolerance * links.max(initial=0.0), norms[params.n_link_params :] > 0.0)
    visible = above & ~robot.assumed_zero
    order = [k for k in preference(robot) if visible[k]]
    if not order:
        none, nothing = np.zeros(0, dtype=np.int64), np.zeros((0, len(params)))
        return Base((), (), none, nothing, tuple(params.names), (), (np.inf, 0.0), tolerance, robot)
    kept, dropped, coefficients, gap = independent_columns(W / np.where(visible, norms, 1.0), order, tolerance)
    _confirm_rank(W[:, order] / norms[order], len(kept), tolerance, robot.name)
    regrouping = np.zeros((len(kept), len(params)))
    regrouping[np.arange(len(kept)), kept] = 1.0
    regrouping[:, dropped] = coefficients * (norms[dropped][None, :] / norms[kept][:, None])
    rows = np.argsort(kept)
    regrouping = regrouping[rows]
    kept = kept[rows]
    names = tuple(
        params.names[column] + ("R" if np.count_nonzero(row) > 1 else "")
        for column, row in zip(kept, regrouping, strict=True)
    )
    return Base(
        names=names,
        units=tuple(params.units[column] for column in kept),
        kept=kept,
        regrouping=regrouping,
        without_effect=tuple(params.names[k] for k in np.flatnonzero(~visible & ~robot.assumed_zero)),
        only_combined=tuple(params.names[k] for k in sorted(dropped)),
        gap=gap,
        tolerance=tolerance,
        robot=robot,
    )


def observation(robot: Robot, held: Mapping[int, float], seed: int = 0) -> FloatArray:
    """Stack regressors of random states, rows of the joints that move, (n_rows, n_params)."""
    params = layout(robot)
    n_samples = max(100, 4 * len(params) // max(1, robot.n_joints - len(held)))
    motion = random_motion(robot, n_samples, held, seed)
    rng = np.random.default_rng(seed + 1)
    Y = regressor(robot, motion, rng.normal(size=motion.q.shape)).copy()
    for term, column in zip(robot.drive.friction, params.friction_columns, strict=True):
        row = friction_model(term)
        if row.memory and np.isfinite(row.bounds).all():  # random positions would only ever saturate it
            Y[:, :, column] = rng.uniform(*row.bounds, size=(n_samples, 1)) * term.acts
    moving = [i for i in range(robot.n_joints) if i not in held]
    return stack(Y[:, moving, :])


def random_motion(robot: Robot, n_samples: int, held: Mapping[int, float] | None = None, seed: int = 0) -> Motion:
    """Draw states within the joint limits, away from singularities; joints that are held stand still."""
    rng = np.random.default_rng(seed)
    q = random_positions(robot, n_samples, held or {}, rng)
    dq, ddq = rng.normal(scale=(1.0, 2.0), size=(n_samples, robot.n_joints, 2)).transpose(2, 0, 1).copy()
    for i in held or {}:
        dq[:, i], ddq[:, i] = 0.0, 0.0
    return Motion(q, dq, ddq)


def random_positions(robot: Robot, n_samples: int, held: Mapping[int, float], rng: np.random.Generator) -> FloatArray:
    """Draw positions within the joint limits; of a chain that can be singular, only those away from singularities."""
    reach = np.where(robot.mechanism.prismatic, 1.0, np.pi)
    middle = np.clip(0.0, *robot.limits.position.T)
    low, high = np.maximum(robot.limits.position[:, 0], middle - reach), middle + reach
    high = np.minimum(robot.limits.position[:, 1], high)
    found = np.empty((0, robot.n_joints))
    for _ in range(_MOST_DRAWS):
        q = rng.uniform(low, high, size=(n_samples, robot.n_joints))
        for i, position in held.items():
            q[:, i] = position
        if not isinstance(robot.mechanism, CanBeSingular):
            return q
        clear = (robot.mechanism.singularity_distances(q) > _CLEAR).all(axis=1)
        found = np.concatenate([found, q[clear]])
        if len(found) >= n_samples:
            return found[:n_samples]
    raise ExcitorError(
        f"{robot.name}: of {_MOST_DRAWS * n_samples} random positions within the joint limits, {len(found)} can be "
        "assembled and are no singularity; state position limits that lie in the workspace"
    )


def preference(robot: Robot) -> list[int]:
    """Order columns by preference for being kept.

    The usual choice ([Khalil2002]): of a link that turns about its axis a, with b before c the two others, keep
    I_aa, I_bb, the products and the first moments along b and c; let I_cc, the first moment along a and the mass
    regroup. Rotors and friction come between. A sliding link keeps its mass and lets its inertia regroup.
    A free platform comes before all: payloads add to it.
    """
    params = layout(robot)
    first: list[int] = []
    glad: list[int] = []
    reluctant: list[int] = []
    for j, (axis, sliding) in enumerate(_joint_axes(robot)):
        c = 1 if axis == 2 else 2
        letters = "XYZ"
        if sliding:
            give_up = {"XX", "XY", "XZ", "YY", "YZ", "ZZ", f"M{letters[axis]}"}
        else:
            give_up = {letters[c] * 2, f"M{letters[axis]}", "M"}
        for k, component in enumerate(LINK_COMPONENTS):
            own = not sliding and component == letters[axis] * 2
            (first if own else reluctant if component in give_up else glad).append(10 * j + k)
    ordered = [*first, *glad, *range(params.n_link_params, len(params)), *reluctant]
    if isinstance(robot.mechanism, ClosedLoop):
        carried = [k for b in robot.mechanism.platform_bodies for k in range(10 * b, 10 * b + 10)]
        ordered = [*reversed(carried), *(k for k in ordered if k not in carried)]
    return ordered


def _joint_axes(robot: Robot) -> list[tuple[int, bool]]:
    """Find which axis of each link's frame its joint turns about or slides along, most nearly."""
    mechanism = robot.mechanism
    if isinstance(mechanism, ClosedLoop):
        axes = _tree_axes(mechanism.tree)
        return [axes[j] for j in mechanism.bodies]
    return _tree_axes(mechanism) if isinstance(mechanism, Tree) else [(2, False)] * mechanism.n_links


def _tree_axes(tree: Tree) -> list[tuple[int, bool]]:
    screws = chain(tree).constants[:, 39:45]
    return [
        (int(np.argmax(np.abs(screw[3:] if sliding else screw[:3]))), bool(sliding))
        for screw, sliding in zip(screws, tree.sliding, strict=True)
    ]


def independent_columns(
    W: FloatArray, order: Iterable[int] | None = None, tolerance: float = TOLERANCE
) -> tuple[IntArray, IntArray, FloatArray, tuple[float, float]]:
    """Select independent columns in order; dropped ones depend on earlier ones: W_dropped ≈ W_kept @ coefficients.

    Columns of W have length 1, or 0.
    """
    basis = np.empty((len(W), 0))
    kept: list[int] = []
    dropped: list[int] = []
    residuals: dict[int, float] = {}
    for column in range(W.shape[1]) if order is None else order:
        rest = W[:, column]
        for _ in range(2):  # once is not orthogonal enough
            rest = rest - basis @ (basis.T @ rest)
        residuals[column] = float(np.linalg.norm(rest))
        if residuals[column] > tolerance:
            kept.append(column)
            basis = np.column_stack([basis, rest / residuals[column]])
        else:
            dropped.append(column)
    coefficients = scipy.linalg.lstsq(W[:, kept], W[:, dropped])[0] if dropped else np.zeros((len(kept), 0))
    coefficients[np.abs(coefficients) < tolerance] = 0.0
    gap = min((residuals[k] for k in kept), default=0.0), max((residuals[k] for k in dropped), default=0.0)
    return np.array(kept, dtype=np.int64), np.array(dropped, dtype=np.int64), coefficients, gap


def _confirm_rank(W: FloatArray, count: int, tolerance: float, name: str) -> None:
    """Compare the count with a pivoted QR of the same columns."""
    diagonal = np.abs(np.diag(scipy.linalg.qr(W, mode="r", pivoting=True)[0]))
    rank = int(np.count_nonzero(diagonal > tolerance * diagonal[0]))
    if rank != count:
        pivots = diagonal[min(rank, count) - 1 : max(rank, count) + 1]
        raise RankDeficient(
            f"{name}: {count} base parameters one way, {rank} another, at tolerance {tolerance:g}; the columns are not "
            f"cleanly separated (pivots {np.array2string(pivots, precision=2)}); "
            "check the geometry for angles or lengths that are nearly, but not quite, special"
        )


@dataclass(frozen=True, eq=False, slots=True)
class LockedLoss:
    """Base parameters that a run with some joints locked does not determine."""

    base: Base  # of the robot so held
    lost: tuple[str, ...]  # base parameters of the free robot that such a run does not determine


def lost_when_locked(robot: Robot, joints: Mapping[int, float]) -> LockedLoss:
    """Find base parameters of the free robot that are not identifiable with joints locked at given positions."""
    free, held = base_parameters(robot), base_parameters(robot, locked=joints)
    determined = [_within(row, held.regrouping) for row in free.regrouping]
    return LockedLoss(held, tuple(name for name, fixed in zip(free.names, determined, strict=True) if not fixed))


def declared_transform(robot: Robot, base: Base) -> FloatArray:
    """Write a robot's declared base set as β_declared = T β; RankDeficient names the rows outside the span."""
    declared = robot.declared_base
    if declared is None:
        raise ValueError(f"{robot.name} declares no base set")
    rows = np.where(robot.assumed_zero, 0.0, declared.combination)
    outside = [name for name, row in zip(declared.names, rows, strict=True) if not _within(row, base.regrouping)]
    if outside:
        raise RankDeficient(f"{robot.name}: declared parameters are not identifiable: {', '.join(outside)}", outside)
    T = rows[:, base.kept]
    missing = [name for name, row in zip(base.names, base.regrouping, strict=True) if not _within(row, rows)]
    if missing:
        raise RankDeficient(f"{robot.name}: the declared set leaves out {', '.join(missing)}", missing)
    if len(T) != len(base):
        raise RankDeficient(f"{robot.name}: {len(T)} parameters are declared, of which {len(base)} are independent")
    return T


def declared_names(robot: Robot) -> dict[str, str]:
    """Name base parameters as the robot's declared set does, where each of both sets is one of the other."""
    declared, base, names = robot.declared_base, base_parameters(robot), layout(robot).names
    try:
        T = np.zeros((0, 0)) if declared is None else declared_transform(robot, base)
    except RankDeficient:
        return {}
    if declared is None or any((np.count_nonzero(T, axis=k) != 1).any() for k in (0, 1)):
        return {}
    return {names[base.kept[np.argmax(row != 0.0)]]: name for row, name in zip(T, declared.names, strict=True)}


def _within(row: FloatArray, rows: FloatArray) -> bool:
    """Return True if a row is a linear combination of rows."""
    if not row.any():
        return True
    if not len(rows):
        return False
    rest = row - np.linalg.lstsq(rows.T, row, rcond=None)[0] @ rows
    return bool(np.linalg.norm(rest) < 1e-6 * np.linalg.norm(row))


@dataclass(frozen=True)
class Factor:
    """A factor as text: its sign, and its size ("" for one)."""

    negative: bool
    size: str


def regroupings(robot: Robot, base: Base, stretched: Robot | None = None) -> tuple[str, ...]:
    """Write each base parameter as a sum of standard ones; with a twin of other lengths, in named lengths."""
    params = layout(robot)
    other = None if stretched is None else base_parameters(stretched, tolerance=base.tolerance)
    twin = other.regrouping if other is not None and np.array_equal(other.kept, base.kept) else None
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
