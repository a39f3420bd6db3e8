"""Friction models, motors and gears: the columns they add, and the way between currents, motors and joints.

`TABLE` holds one row for each friction column: its formula, and what may be assumed of it. Whoever needs to know
whether a term brakes, turns with the direction of motion or depends on the past asks the row. A built-in row has a
compiled column in `kernel.drive`; a law from elsewhere is added by `register_friction` and evaluated in numpy.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from excitor.robots.arrays import FloatArray, check_shape
from excitor.robots.errors import ExcitorError
from excitor.robots.kernel import drive as kernel
from excitor.robots.plugins import Members
from excitor.robots.robot import FrictionTerm, Robot

Range = tuple[FloatArray, FloatArray]  # lowest, highest
Sign = Literal["positive", "excess", "any"]
Shape = Literal["constant", "linear", "sign", "curve"]
_TORQUE = ("N m", "N")


@dataclass(frozen=True, eq=False, slots=True)
class FrictionModel:
    """One row of the friction table: g of a term whose torque is acts · F · g, and what may be assumed of g and F.

    `column` evaluates g along a run, (n_samples,), from the sensed position p = senses @ q and velocity
    v = senses @ dq, and the carried torque acts @ τ. `enclose` bounds g over ranges of the three.

    `sign` of F: "positive" where a negative F cannot be; "excess" where F is counted beside another term, so that F < 0
    may still brake; "any" where F may have either sign.
    """

    name: str
    column: Callable[[FrictionTerm, FloatArray, FloatArray, FloatArray], FloatArray]
    enclose: Callable[[FrictionTerm, Range, Range, Range], Range]
    element: str  # how robot files call it; a model of several columns has several rows
    suffix: str = ""  # of the column's parameter
    prefix: str = ""  # of the parameter of a joint where a robot file lists it for all joints: Fv1, Fv2, …
    units: tuple[str, str] = _TORQUE  # of F where the joint turns, where it slides
    sign: Sign = "any"
    dissipates: bool = False  # v g ≥ 0 in every sample; with memory, over every closed cycle
    memory: bool = False  # g depends on what came before: samples must be whole runs in order
    load: bool = False  # g grows with the torque carried
    reverses: bool = False  # g changes sign with v, steeply where the width is small
    sticks: bool = False  # |g| tends to 1 at rest, so that F holds a joint
    shape: Shape = "curve"  # of g: 1, v, s(v), or anything else
    grows: float = 0.0  # |g| ~ |v|^grows at the speeds of a robot
    needs_scale: bool = False
    bounds: tuple[float, float] = (-np.inf, np.inf)  # of g
    steepest: Callable[[FrictionTerm], float] = lambda term: 0.0  # largest |∂g/∂v|
    tried: tuple[float, ...] = ()  # scales, in a joint's rms speed, at which fits try the term beside stated ones
    compiled: int | None = None  # the kernel's column; None: numpy only


def _sign(term: FrictionTerm, p: FloatArray, v: FloatArray, carried: FloatArray) -> FloatArray:
    return smooth_sign(v, term.width)


def _slip(term: FrictionTerm, p: FloatArray, v: FloatArray, carried: FloatArray) -> FloatArray:
    z = np.empty(len(p))
    kernel.slip_state(p, term.scale, term.warm_up, z)
    return z


def _rising_within(term: FrictionTerm, p: Range, v: Range, carried: Range) -> Range:
    """Enclose a g that never falls as v rises, and depends on nothing else."""
    column = friction_model(term).column
    return column(term, v[0], v[0], v[0]), column(term, v[1], v[1], v[1])


def _falling_within(term: FrictionTerm, p: Range, v: Range, carried: Range) -> Range:
    size = _magnitude(v)
    return _product(_sign_within(term, v), (np.exp(-size[1] / term.scale), np.exp(-size[0] / term.scale)))


def _within_bounds(term: FrictionTerm, p: Range, v: Range, carried: Range) -> Range:
    low, high = friction_model(term).bounds
    return np.full(len(v[0]), low), np.full(len(v[0]), high)


def _sign_within(term: FrictionTerm, v: Range) -> Range:
    return smooth_sign(v[0], term.width), smooth_sign(v[1], term.width)


def smooth_sign(v: FloatArray, width: float) -> FloatArray:
    """Evaluate s(v) = sign v, or tanh(v / width) where a width is stated."""
    return np.asarray(np.sign(v) if width == 0.0 else np.tanh(v / width))


def _magnitude(values: Range) -> Range:
    low, high = values
    return np.maximum(0.0, np.maximum(low, -high)), np.maximum(np.abs(low), np.abs(high))


def _product(x: Range, y: Range) -> Range:
    products = np.stack([x[0] * y[0], x[0] * y[1], x[1] * y[0], x[1] * y[1]])
    return products.min(axis=0), products.max(axis=0)


def _cosine_range(low: FloatArray, high: FloatArray) -> Range:
    """Enclose cos over [low, high]: 1 where a multiple of 2π lies inside, -1 where an odd multiple of π does."""
    ends = np.cos(low), np.cos(high)
    turn = 2.0 * np.pi
    crest = np.floor(high / turn) >= np.ceil(low / turn)
    trough = np.floor((high - np.pi) / turn) >= np.ceil((low - np.pi) / turn)
    return np.where(trough, -1.0, np.minimum(*ends)), np.where(crest, 1.0, np.maximum(*ends))


def _by_width(term: FrictionTerm) -> float:
    return 1.0 / term.width if term.width > 0.0 else 0.0


def _by_root_of_width(term: FrictionTerm) -> float:
    return float(0.9 / np.sqrt(term.width)) if term.width > 0.0 else 0.0  # the steepest place of tanh(x) √x


_UNIT = (-1.0, 1.0)
_BUILT_IN = (
    FrictionModel(
        name="viscous", element="viscous", prefix="Fv", units=("N m s/rad", "N s/m"),
        column=lambda term, p, v, carried: v, enclose=_rising_within, sign="positive", dissipates=True,
        shape="linear", grows=1.0, steepest=lambda term: 1.0, tried=(0.0,), compiled=kernel.VISCOUS,
    ),
    FrictionModel(
        name="coulomb", element="coulomb", prefix="Fc", column=_sign, enclose=_rising_within, sign="positive",
        dissipates=True, reverses=True, sticks=True, shape="sign", bounds=_UNIT, steepest=_by_width, tried=(0.0,),
        compiled=kernel.COULOMB,
    ),
    FrictionModel(
        name="offset", element="offset", prefix="off", column=lambda term, p, v, carried: np.ones(len(v)),
        enclose=_within_bounds, shape="constant", bounds=(1.0, 1.0), tried=(0.0,), compiled=kernel.OFFSET,
    ),
    FrictionModel(
        name="sqrt", element="sqrt", prefix="Fq", units=("N m (s/rad)^0.5", "N (s/m)^0.5"),
        column=lambda term, p, v, carried: np.asarray(smooth_sign(v, term.width) * np.sqrt(np.abs(v))),
        enclose=_rising_within, sign="positive", dissipates=True, reverses=True, grows=0.5,
        steepest=_by_root_of_width, tried=(0.0,), compiled=kernel.SQRT,
    ),
    FrictionModel(
        name="stribeck", element="stribeck", prefix="", enclose=_falling_within, sign="excess", dissipates=True,
        column=lambda term, p, v, carried: np.asarray(smooth_sign(v, term.width) * np.exp(-np.abs(v) / term.scale)),
        reverses=True, sticks=True, needs_scale=True, bounds=_UNIT, steepest=_by_width,
        tried=(0.05, 0.15, 0.4), compiled=kernel.STRIBECK,
    ),
    FrictionModel(
        name="load", element="load", units=("1", "1"), sign="positive",
        column=lambda term, p, v, carried: np.asarray(smooth_sign(v, term.width) * np.abs(carried)),
        enclose=lambda term, p, v, carried: _product(_sign_within(term, v), _magnitude(carried)),
        dissipates=True, load=True, reverses=True, compiled=kernel.LOAD,
    ),
    FrictionModel(
        name="maxwell-slip", element="maxwell-slip", column=_slip, enclose=_within_bounds, sign="positive",
        dissipates=True, memory=True, needs_scale=True, bounds=_UNIT, compiled=kernel.STATE,
    ),
    FrictionModel(
        name="ripple-sin", element="ripple", suffix="s", needs_scale=True,
        column=lambda term, p, v, carried: np.asarray(np.sin(term.scale * p)),
        enclose=lambda term, p, v, carried: _cosine_range(*(term.scale * x - 0.5 * np.pi for x in p)),
        bounds=_UNIT, compiled=kernel.RIPPLE_SIN,
    ),
    FrictionModel(
        name="ripple-cos", element="ripple", suffix="c", needs_scale=True,
        column=lambda term, p, v, carried: np.asarray(np.cos(term.scale * p)),
        enclose=lambda term, p, v, carried: _cosine_range(*(term.scale * x for x in p)),
        bounds=_UNIT, compiled=kernel.RIPPLE_COS,
    ),
)  # fmt: skip
TABLE: dict[str, FrictionModel] = {row.name: row for row in _BUILT_IN}


@dataclass(frozen=True, eq=False, slots=True)
class FrictionLaw:
    """A friction law from elsewhere, of k columns: torque acts · Σ_k F_k g_k. Robot files name it as a model.

    `columns(dq, q, term)` gives g (n_samples, k) along a run, from the sensed velocity and position, (n_samples,) each,
    and the term, whose `width`, `scale` and `warm_up` are the robot file's. The rest is what `FrictionModel` says, an
    entry a column. `bounds` of g are what certified torques rest on where g is not `rising`.
    """

    name: str
    columns: Callable[[FloatArray, FloatArray, FrictionTerm], FloatArray]
    names: tuple[str, ...] = ("",)  # appended to the parameter's name; one column needs none
    units: tuple[tuple[str, str], ...] = (_TORQUE,)
    signs: tuple[Sign, ...] = ("any",)
    bounds: tuple[tuple[float, float], ...] = ((-np.inf, np.inf),)
    dissipates: bool = False
    memory: bool = False
    reverses: bool = False
    rising: bool = False  # every g never falls as v rises, and depends on nothing else
    needs_scale: bool = False
    prefix: str = ""

    def __post_init__(self) -> None:
        k = len(self.names)
        for key in ("units", "signs", "bounds"):
            if len(getattr(self, key)) != k:
                count = len(getattr(self, key))
                sentence = f"friction law {self.name!r}: {key} has {count} entries, expected {k}, one for each name"
                raise ValueError(sentence)
        if not self.name or k != len(set(self.names)) or not k:
            sentence = f"friction law {self.name!r} has the columns {self.names}; give it a name, and each column"
            raise ValueError(sentence)


def register_friction(law: FrictionLaw) -> None:
    """Add a law to the table. ValueError where its name is taken, or its columns are not what it claims of them."""
    taken = {row.name for row in TABLE.values()} | {row.element for row in TABLE.values()}
    clash = sorted(taken & {law.name, *(row.name for row in _rows_of(law))})
    if clash:
        raise ValueError(f"friction law {law.name!r}: {', '.join(clash)} is taken; call the law otherwise")
    LAWS.add(law.name, law)
    TABLE.update({row.name: row for row in _rows_of(law)})


def forget_friction(name: str) -> None:
    """Take a registered law out of the table."""
    rows = [row for row in TABLE.values() if row.element == name]
    if not rows or any(row.compiled is not None for row in rows):
        raise ValueError(f"no friction law {name!r} is registered")
    LAWS.remove(name)
    for row in rows:
        del TABLE[row.name]


def friction_model(term: FrictionTerm) -> FrictionModel:
    """Find a term's row of the table."""
    if term.model not in TABLE:
        for name in LAWS:  # of installed packages
            element_rows(name)
    try:
        return TABLE[term.model]
    except KeyError:
        raise ValueError(
            f"friction {term.parameter!r} is {term.model!r}, which no row of the friction table describes "
            f"({', '.join(TABLE)}); register its law before the robot is used"
        ) from None


def element_rows(element: str) -> tuple[FrictionModel, ...]:
    """List the columns of a model as robot files call it; an installed package's law is loaded when it is named."""
    rows = tuple(row for row in TABLE.values() if row.element == element)
    if rows or element not in LAWS:
        return rows
    TABLE.update({row.name: row for row in _rows_of(LAWS[element])})
    return element_rows(element)


def element_names(*, at_every_joint: bool = False) -> tuple[str, ...]:
    """List how robot files may call friction; those alone that can be listed for every joint."""
    return tuple(dict.fromkeys(row.element for row in TABLE.values() if row.prefix or not at_every_joint))


def has_true_sign(term: FrictionTerm) -> bool:
    """Tell whether a term jumps with the direction of motion."""
    return friction_model(term).reverses and term.width == 0.0


def unbounded_terms(robot: Robot) -> tuple[FrictionTerm, ...]:
    """List friction whose values nothing bounds, even where the motion is bounded."""
    ranges = (-np.ones(1), np.ones(1))
    enclosed = [friction_model(term).enclose(term, ranges, ranges, ranges) for term in robot.drive.friction]
    return tuple(term for term, ends in zip(robot.drive.friction, enclosed, strict=True) if not np.isfinite(ends).all())


def _rows_of(law: FrictionLaw) -> list[FrictionModel]:
    return [_row_of(law, k) for k in range(len(law.names))]


def _row_of(law: FrictionLaw, k: int) -> FrictionModel:
    def column(term: FrictionTerm, p: FloatArray, v: FloatArray, carried: FloatArray) -> FloatArray:
        return _law_columns(law, term, p, v)[:, k]

    def steepest(term: FrictionTerm) -> float:
        v = np.concatenate([-np.geomspace(10.0, 1e-6, 400), np.geomspace(1e-6, 10.0, 400)])
        return float(np.abs(np.diff(column(term, np.zeros(len(v)), v, v)) / np.diff(v)).max())

    return FrictionModel(
        name=f"{law.name}-{law.names[k]}" if len(law.names) > 1 else law.name,
        element=law.name,
        suffix=law.names[k],
        prefix=law.prefix,
        units=law.units[k],
        column=column,
        enclose=_rising_within if law.rising else _within_bounds,
        sign=law.signs[k],
        dissipates=law.dissipates,
        memory=law.memory,
        reverses=law.reverses,
        needs_scale=law.needs_scale,
        bounds=law.bounds[k],
        steepest=steepest,
    )


def _law_columns(law: FrictionLaw, term: FrictionTerm, p: FloatArray, v: FloatArray) -> FloatArray:
    g = np.asarray(law.columns(v, p, term), dtype=float)
    if g.shape != (len(v), len(law.names)):
        raise ExcitorError(
            f"friction law {law.name!r}: columns gave shape {g.shape}, expected {(len(v), len(law.names))}: a row for "
            "each sample, a column for each name"
        )
    if not np.isfinite(g).all():
        sentence = f"friction law {law.name!r}: columns gave numbers that are not finite; give one for every speed"
        raise ExcitorError(sentence)
    return g


def check_friction(law: FrictionLaw | FrictionModel) -> None:
    """Run the conformance suite of friction; ValueError says which claim of a law, or of a row, is not true.

    Args:
        law: a FrictionLaw, or a row of the table.

    Its columns are finite and of the stated shape, have two units each, stay within their bounds, and dissipate, turn
    with the direction, rise and forget as is claimed, along two turns of a sine at several speeds.

    >>> import excitor as ex
    >>> ex.check_friction(ex.FrictionLaw("oil", lambda dq, q, term: dq[:, None], dissipates=True, rising=True))
    """
    for row in [law] if isinstance(law, FrictionModel) else _rows_of(law):
        if len(row.units) != 2 or not all(isinstance(unit, str) and unit for unit in row.units):
            raise ValueError(f"friction {row.name!r} has the units {row.units}, expected two: turning, sliding")
        for speed in (0.01, 1.0, 10.0):
            for fails, claim, fact in _claims(row, speed):
                if fails:
                    raise ValueError(
                        f"friction {row.name!r} claims that it {claim}, and {fact} along p = -{speed:g} cos t, "
                        f"v = {speed:g} sin t; correct the law, or what it claims"
                    )


def _claims(row: FrictionModel, speed: float) -> list[tuple[bool, str, str]]:
    """Compare what a row claims with its column along a sine: whether it fails, the claim, the fact."""
    t = np.linspace(0.0, 4.0 * np.pi, 801)
    p, v = -speed * np.cos(t), speed * np.sin(t)
    one = np.ones(1)
    term = FrictionTerm("F", row.name, one, one, width=0.01, scale=1.0)
    g = np.asarray(row.column(term, p, v, np.cos(t)))
    if g.shape != t.shape:
        return [(True, f"gives a number for each of {len(t)} samples", f"gives shape {g.shape}")]
    power = v * g
    brakes = power[400:].mean() >= -1e-9 if row.memory else (power >= 0.0).all()
    order = np.argsort(v, kind="stable")
    back = row.column(term, p[::-1].copy(), v[::-1].copy(), np.cos(t[::-1]))[::-1]
    turns = (g[v > 0.5 * speed] > 0.0).any() and (g[v < -0.5 * speed] < 0.0).any()
    falls = row.enclose is _rising_within and (np.diff(g[order]) < -1e-12).any()
    return [
        (not np.isfinite(g).all(), "gives a number for every speed", "gives none"),
        (row.dissipates and not brakes, "dissipates", "drives"),
        (bool(((g < row.bounds[0]) | (g > row.bounds[1])).any()), "stays within its bounds", "leaves them"),
        (bool(falls), "is rising", "falls"),
        (row.reverses and not turns, "changes sign with the velocity", "keeps it"),
        (not row.memory and not np.allclose(g, back, rtol=1e-9, atol=1e-12), "has no memory", "remembers"),
    ]


LAWS: Members[FrictionLaw] = Members("excitor.friction", {}, check_friction)


def motor_positions(robot: Robot, q: FloatArray) -> FloatArray:
    """q_motor = N q, for positions, velocities or accelerations alike, (n_samples, n_joints)."""
    _check(robot, q=q)
    return q @ robot.drive.motor_from_joint.T


def joint_positions(robot: Robot, q_motor: FloatArray) -> FloatArray:
    """q = N⁻¹ q_motor, (n_samples, n_joints)."""
    _check(robot, q_motor=q_motor)
    return np.linalg.solve(robot.drive.motor_from_joint, q_motor.T).T


def joint_torques(robot: Robot, tau_motor: FloatArray) -> FloatArray:
    """τ = Nᵀ τ_motor of a transmission without losses, (n_samples, n_joints)."""
    _check(robot, tau_motor=tau_motor)
    return tau_motor @ robot.drive.motor_from_joint


def motor_torques(robot: Robot, tau: FloatArray, dq: FloatArray | None = None) -> FloatArray:
    """τ_motor = N⁻ᵀ τ, (n_samples, n_joints); with velocities, over the transmission's efficiency R.

    [Swevers2002] §2.5: a motor that drives must give τ / R, one that is driven only feels τ R.
    """
    _check(robot, tau=tau)
    tau_motor = np.linalg.solve(robot.drive.motor_from_joint.T, tau.T).T
    if dq is None:
        return tau_motor
    R = robot.drive.efficiency
    power = tau_motor * motor_positions(robot, dq)
    return np.where(power > 0.0, tau_motor / R, np.where(power < 0.0, tau_motor * R, tau_motor))


def torque_from_current(robot: Robot, current: FloatArray) -> FloatArray:
    """τ_motor = sgn(I) (c0 + c1 |I| + c2 I² + c3 |I|³), (n_samples, n_joints); needs every motor's law."""
    _check(robot, current=current)
    c = robot.drive.torque_from_current
    unknown = np.isnan(c).any(axis=1)
    if unknown.any():
        names = ", ".join(np.array(robot.joint_names)[unknown])
        sentence = f"{robot.name}: no torque_from_current is given for the motors of {names}; state it in [drive]"
        raise ValueError(sentence)
    size = np.abs(current)
    return np.sign(current) * (c[:, 0] + size * (c[:, 1] + size * (c[:, 2] + size * c[:, 3])))


def _check(robot: Robot, **arrays: FloatArray) -> None:
    for name, array in arrays.items():
        check_shape(np.asarray(array), "n_samples n_joints", name, {"n_joints": robot.n_joints})
