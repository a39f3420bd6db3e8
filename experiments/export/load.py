"""Load data on the flange: mass, centre of gravity and inertia about it, with their uncertainty.

The load is an identified payload, a link of the identified model, or the stated payload. Each controller gets a file in
its own language; values are rounded to the safe side: no lighter, no shorter, never impossible.
"""

import math
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from importlib.metadata import version
from itertools import permutations
from typing import Any

import numpy as np

from excitor.design.programs.registry import target
from excitor.design.programs.target import comment, fixed, safe_name
from excitor.experiments.campaign import OpenCampaign
from excitor.experiments.model import FILE, Model, read_model
from excitor.robots import inertia as rigid
from excitor.robots.arrays import FloatArray, freeze
from excitor.robots.errors import ExcitorError, choice
from excitor.robots.parameters import layout
from excitor.robots.robot import Frame, Robot

PAIRS = ((0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2))
NAMES = ("xx", "xy", "xz", "yy", "yz", "zz")
NORMAL_95 = 1.96
_ROUNDING = 1e-12  # relative: a covariance may miss being positive by this


@dataclass(frozen=True, eq=False, slots=True)
class Load:
    """A body on the flange; SI units, all in the flange frame."""

    name: str
    source: str  # where its data come from
    frame: str  # which frame is taken for the flange
    mass: float
    center: FloatArray  # (3,)
    inertia: FloatArray  # (3, 3), about the centre of gravity
    covariance: FloatArray | None = None  # (10, 10) of mass, centre, inertia (xx xy xz yy yz zz); None: as stated

    def __post_init__(self) -> None:
        freeze(self, center="3", inertia="3 3", covariance="10 10?")

    @property
    def sigma(self) -> FloatArray | None:
        """Standard deviations of mass, centre and inertia."""
        return None if self.covariance is None else np.sqrt(np.maximum(np.diag(self.covariance), 0.0))


@dataclass(frozen=True, eq=False, slots=True)
class Principal:
    """Principal axes of inertia, right-handed, and the moments about them."""

    moments: FloatArray  # (3,)
    axes: FloatArray  # (3, 3): columns, in the flange frame
    sigma: FloatArray | None  # (3,)


@dataclass(frozen=True, eq=False, slots=True)
class Origin:
    """Origin of a load: its name, source and frame."""

    name: str
    source: str
    frame: str
    T_flange_frame: FloatArray  # of the frame that its parameters are given in
    point: bool = False  # its inertia is dropped


def load_of(phi: FloatArray, covariance: FloatArray | None, origin: Origin) -> Load:
    """Convert ten parameters about a frame's origin to a load in the flange frame; ExcitorError if they are impossible.

    c = h / m,  I = I_o + S(h) S(h) / m,  covariances by the derivatives of both.
    """
    if origin.point and phi[9] > 0.0:
        phi = rigid.from_center_of_mass(float(phi[9]), phi[6:9] / phi[9], np.zeros((3, 3)))
    own = rigid.check_consistency(phi)
    if not own.mass > 0.0:
        raise ExcitorError(f"{origin.name}: its mass is {own.mass:.4g} kg, so that it is no load")
    if not own.holds and not origin.point:  # of a point there is no inertia but rounding
        moments = ", ".join(f"{x:.3g}" for x in own.principal_moments)
        raise ExcitorError(
            f"{origin.name}: no body can have these data: its principal inertias are {moments} kg m2, of which none "
            "may be below 0 or exceed the sum of the others; excite it more, or export its mass alone with --point-mass"
        )
    moved = rigid.change_frame(phi, origin.T_flange_frame)
    mass, center, inertia = rigid.about_center_of_mass(moved)
    inertia = np.zeros((3, 3)) if origin.point else 0.5 * (inertia + inertia.T)
    if covariance is not None:
        J = _derivative(moved) @ rigid.frame_change_matrix(origin.T_flange_frame)
        covariance = J @ covariance @ J.T
        if origin.point:
            covariance[4:] = covariance[:, 4:] = 0.0
    return Load(origin.name, origin.source, origin.frame, mass, center, inertia, covariance)


def check_known(load: Load) -> None:
    """Refuse values smaller than their uncertainty: on a controller they do more harm than none."""
    sigma = load.sigma
    if sigma is None:
        return
    if sigma[0] >= load.mass:
        raise ExcitorError(f"{load.name}: its mass is {load.mass:.4g} ± {sigma[0]:.2g} kg, which is not significant")
    found = principal(load)
    reach = float(np.linalg.norm(load.center)) + float(np.sqrt(found.moments.sum() / load.mass))
    if sigma[1:4].max() >= reach:
        center = ", ".join(f"{c:.4g} ± {s:.2g}" for c, s in zip(load.center, sigma[1:4], strict=True))
        raise ExcitorError(f"{load.name}: its centre of gravity is at {center} m, which is not significant")
    assert found.sigma is not None
    if (found.sigma >= found.moments).any() and found.moments.any():
        moments = ", ".join(f"{x:.3g} ± {s:.2g}" for x, s in zip(found.moments, found.sigma, strict=True))
        raise ExcitorError(
            f"{load.name}: its principal inertias are {moments} kg m2, not all of which are significant; excite it "
            "more, or export its mass alone with --point-mass"
        )


def principal(load: Load) -> Principal:
    """Compute the principal axes nearest to the flange's; to first order an axis' moment changes by aᵀ dI a."""
    moments, axes = np.linalg.eigh(load.inertia)
    order = list(max(permutations(range(3)), key=lambda order: sum(abs(axes[k, j]) for k, j in enumerate(order))))
    axes = axes[:, order]
    axes = axes * np.where(np.diag(axes) < 0.0, -1.0, 1.0)
    if np.linalg.det(axes) < 0.0:
        axes[:, np.argmin(np.abs(np.diag(axes)))] *= -1.0
    moments = np.maximum(moments[order], 0.0)
    if load.covariance is None:
        return Principal(moments, axes, None)
    rows = np.array([[(1.0 if a == b else 2.0) * x[a] * x[b] for a, b in PAIRS] for x in axes.T])
    variance = np.einsum("ka,ab,kb->k", rows, load.covariance[4:, 4:], rows)
    return Principal(moments, axes, np.sqrt(np.maximum(variance, 0.0)))


def check_covariance(covariance: FloatArray, where: str) -> None:
    """Refuse an invalid covariance."""
    size = float(np.abs(covariance).max())
    if not np.allclose(covariance, covariance.T, rtol=0.0, atol=1e-9 * size):
        raise ExcitorError(f"{where}: is not symmetric, as a covariance is")
    scale = np.sqrt(np.maximum(np.diag(covariance), 0.0))
    scaled = covariance / np.outer(*(np.where(scale > 0.0, scale, 1.0),) * 2)
    if (np.diag(covariance) < 0.0).any() or np.linalg.eigvalsh(scaled)[0] < -1e-6:
        raise ExcitorError(f"{where}: has a negative variance, which no covariance has")


def _derivative(phi: FloatArray) -> FloatArray:
    """Compute the derivative of mass, centre and inertia about it by phi: (10, 10)."""
    m, h = phi[9], phi[6:9]
    J = np.zeros((10, 10))
    J[0, 9] = 1.0
    J[1:4, 6:9] = np.eye(3) / m
    J[1:4, 9] = -h / m**2
    J[4:, :6] = np.eye(6)
    for k in range(3):
        e = np.eye(3)[k]
        J[4:, 6 + k] = _entries(-(2.0 * h[k] * np.eye(3) - np.outer(e, h) - np.outer(h, e)) / m)
    J[4:, 9] = _entries((h @ h * np.eye(3) - np.outer(h, h)) / m**2)
    return J


def _entries(matrix: FloatArray) -> FloatArray:
    return np.array([matrix[a, b] for a, b in PAIRS])


LONGEST_NAME = 20
KGF_CM_S2 = 9.80665 * 0.01  # kg m2 in one kgf cm s2
UR_LARGEST = 133.0  # kg m2 in any component, by the script manual


@dataclass(frozen=True, slots=True)
class LoadFile:
    """A file for a controller."""

    name: str
    content: bytes


def load_file(load: Load, controller: str) -> LoadFile:
    """Write a load as a controller declares it: kuka, abb, fanuc or ur."""
    return WRITERS[controller](load, numbers_of(load))


def kuka_angles(axes: FloatArray) -> FloatArray:
    """Compute A, B, C in degrees with axes = Rz(A) Ry(B) Rx(C)."""
    sine = float(np.clip(-axes[2, 0], -1.0, 1.0))
    if abs(sine) > 1.0 - 1e-12:  # A and C turn about the same line: C is taken as 0
        A, C = np.arctan2(-axes[0, 1], axes[1, 1]), 0.0
    else:
        A, C = np.arctan2(axes[1, 0], axes[0, 0]), np.arctan2(axes[2, 1], axes[2, 2])
    return np.degrees([A, np.arcsin(sine), C])


def quaternion(R: FloatArray) -> FloatArray:
    """Write a rotation matrix as (w, x, y, z) with w ≥ 0."""
    K = np.array(
        [
            [R[0, 0] + R[1, 1] + R[2, 2], 0.0, 0.0, 0.0],
            [R[2, 1] - R[1, 2], R[0, 0] - R[1, 1] - R[2, 2], 0.0, 0.0],
            [R[0, 2] - R[2, 0], R[1, 0] + R[0, 1], R[1, 1] - R[0, 0] - R[2, 2], 0.0],
            [R[1, 0] - R[0, 1], R[2, 0] + R[0, 2], R[2, 1] + R[1, 2], R[2, 2] - R[0, 0] - R[1, 1]],
        ]
    )
    q = np.linalg.eigh(K)[1][:, -1]  # eigh reads the lower triangle
    return q if q[0] >= 0.0 else -q


@dataclass(frozen=True, eq=False, slots=True)
class Numbers:
    """A load as it is written: SI units, rounded."""

    mass: float
    center: FloatArray  # (3,)
    moments: FloatArray  # (3,), about the principal axes
    axes: FloatArray  # (3, 3)
    tensor: FloatArray  # (3, 3), about the centre in the flange's axes
    notes: tuple[str, ...]  # what it rests on, a line each


def _kuka(load: Load, numbers: Numbers) -> LoadFile:
    """KRL: CM is the centre of gravity in the flange frame with the principal axes' angles, J about those axes."""
    name = _name(load, target("krl").reserved)
    x, y, z = (fixed(v, CENTER - 3) for v in 1e3 * numbers.center)
    a, b, c = (fixed(v, 4) for v in kuka_angles(numbers.axes))
    j = [fixed(v, INERTIA) for v in numbers.moments]
    value = (
        f"{{M {fixed(numbers.mass, MASS)},CM {{X {x},Y {y},Z {z},A {a},B {b},C {c}}},J {{X {j[0]},Y {j[1]},Z {j[2]}}}}}"
    )
    means = (
        "M kg; CM: X Y Z mm from the flange, A B C degrees to the principal axes: about Z, then Y, then X",
        "J kg m2 about the principal axes through the centre of gravity",
        "Use it as $LOAD=" + name + ", or as the LOAD_DATA of a tool in $CONFIG.DAT",
    )
    module = name.upper()
    lines = [
        f"DEFDAT {module} PUBLIC",
        *(f"; {line}" for line in (*numbers.notes, *means)),
        f"DECL GLOBAL LOAD {name}={value}",
        "ENDDAT",
    ]
    return LoadFile(f"{name}.dat", _encoded(lines, "\r\n"))


def _abb(load: Load, numbers: Numbers) -> LoadFile:
    """RAPID: loaddata [mass, cog, aom, ix, iy, iz]; aom turns the flange's axes to the principal ones."""
    name = _name(load, target("rapid").reserved)
    cog = ",".join(fixed(v, CENTER - 3) for v in 1e3 * numbers.center)
    aom = ",".join(fixed(v, 8) for v in quaternion(numbers.axes))
    inertia = ",".join(fixed(v, INERTIA) for v in numbers.moments)
    means = (
        "mass kg; cog mm; aom: quaternion q1 q2 q3 q4 to the principal axes; ix iy iz kg m2 about them through the cog",
        "Given in the wrist frame tool0: for GripLoad with tool0, or as the tload of a tooldata",
        "With another tool, loaddata count in that tool's frame: turn and shift them first",
    )
    lines = [
        f"MODULE {name}_data",
        *(f"    ! {line}" for line in (*numbers.notes, *means)),
        f"    PERS loaddata {name}:=[{fixed(numbers.mass, MASS)},[{cog}],[{aom}],{inertia}];",
        "ENDMODULE",
    ]
    return LoadFile(f"{name}.mod", _encoded(lines, "\n"))


def _fanuc(load: Load, numbers: Numbers) -> LoadFile:
    """Sheet of the payload schedule's screen: kg, cm, kgf cm s2 about axes through the centre of gravity."""
    center = [fixed(v, CENTER - 2) for v in 1e2 * numbers.center]
    step = 10.0 ** -(INERTIA - 2)
    moments = [fixed(np.ceil(v / KGF_CM_S2 / step - 1e-6) * step, INERTIA - 2) for v in np.diag(numbers.tensor)]
    products = ", ".join(
        f"{pair} {fixed(numbers.tensor[a, b] / KGF_CM_S2, INERTIA - 2)}"
        for pair, a, b in (("xy", 0, 1), ("xz", 0, 2), ("yz", 1, 2))
    )
    rows = [("PAYLOAD", "kg", fixed(numbers.mass, MASS))]
    rows += [(f"PAYLOAD CENTER {axis}", "cm", value) for axis, value in zip("XYZ", center, strict=True)]
    rows += [(f"PAYLOAD INERTIA {axis}", "kgfcms^2", value) for axis, value in zip("XYZ", moments, strict=True)]
    means = (
        "Type these into MENU, SYSTEM, MOTION, PAYLOAD SET of the schedule in use; then PAYLOAD[n] in the program.",
        "Definition taken: inertias about axes through the centre of gravity, parallel to those of the face plate;",
        "1 kgf cm s2 = 0.0980665 kg m2. No system variables are written, for their unit of inertia is not confirmed.",
        "The schedule has no place for products of inertia, which are left out:",
        f"{products} kgf cm s2.",
    )
    lines = [
        "FANUC payload schedule",
        *(f"{what:<18} [{unit}]".ljust(32) + value for what, unit, value in rows),
        "",
        *means,
        "",
        *numbers.notes,
    ]
    return LoadFile(f"{_name(load)}_fanuc.txt", _encoded(lines, "\n"))


def _ur(load: Load, numbers: Numbers) -> LoadFile:
    """URScript: set_target_payload(m, cog, [Ixx, Iyy, Izz, Ixy, Ixz, Iyz]) about the centre, in the flange's axes."""
    t = numbers.tensor
    largest = float(np.abs(t).max())
    if largest > UR_LARGEST:
        raise ExcitorError(
            f"{load.name}: its inertia reaches {largest:.4g} kg m2, more than the {UR_LARGEST:g} that "
            "set_target_payload takes; export it as a point mass with --point-mass, if the robot may carry it at all"
        )
    name = _name(load)
    center = ", ".join(fixed(v, CENTER) for v in numbers.center)
    inertia = ", ".join(fixed(v, INERTIA) for v in (t[0, 0], t[1, 1], t[2, 2], t[0, 1], t[0, 2], t[1, 2]))
    means = (
        "mass kg; centre of gravity m from the tool flange; inertia kg m2 about the centre in the flange's axes,",
        "Ixx Iyy Izz Ixy Ixz Iyz, the entries of the tensor (products with the sign of minus the sum of m x y)",
        "Call it once the load is held; older PolyScope takes mass and centre by set_payload instead",
    )
    lines = [
        *(f"# {line}" for line in (*numbers.notes, *means)),
        f"def {name}():",
        f"  set_target_payload({fixed(numbers.mass, MASS)}, [{center}], [{inertia}])",
        "end",
    ]
    return LoadFile(f"{name}.script", _encoded(lines, "\n"))


def _name(load: Load, reserved: Collection[str] = ()) -> str:
    own = safe_name(load.name, LONGEST_NAME - 5)
    return safe_name(f"load_{own}", LONGEST_NAME, reserved)


def _encoded(lines: list[str], end: str) -> bytes:
    for line in lines:
        if not line.isascii() or not (line.isprintable() or not line):
            raise ExcitorError(f"{line!r} cannot be written for a controller; give the load a plain name")
    return "".join(line + end for line in lines).encode("ascii")


WRITERS: Mapping[str, Callable[[Load, Numbers], LoadFile]] = {"kuka": _kuka, "abb": _abb, "fanuc": _fanuc, "ur": _ur}
MASS, CENTER, INERTIA = 3, 5, 6  # decimals of kg, m, kg m2: what a controller can use
_SHARE = 0.1  # of a standard deviation: finer digits say nothing


def numbers_of(load: Load) -> Numbers:
    """Round a load: masses, inertias and distances up, by no more than a tenth of a standard deviation."""
    found = principal(load)
    sigma = np.zeros(10) if load.sigma is None else load.sigma
    inner = np.zeros(3) if found.sigma is None else found.sigma
    moments = np.array([_up(x, _decimals(s, INERTIA)) for x, s in zip(found.moments, inner, strict=True)])
    if load.inertia.any():
        moments = _possible(moments, 10.0 ** -_decimals(float(inner.max()), INERTIA))
    return Numbers(
        mass=_up(load.mass, _decimals(sigma[0], MASS)),
        center=np.array([_up(x, _decimals(s, CENTER)) for x, s in zip(load.center, sigma[1:4], strict=True)]),
        moments=moments,
        axes=found.axes,
        tensor=_tensor(load, sigma[4:]),
        notes=tuple(_notes(load, found)),
    )


def _decimals(sigma: float, most: int) -> int:
    """Count the decimals to write: as many as are significant, and no more than can be used."""
    if sigma <= 0.0:
        return most
    return max(0, min(most, math.ceil(-math.log10(_SHARE * sigma))))


def _up(value: float, decimals: int) -> float:
    """Round away from 0; what is 0 but for rounding errors stays 0."""
    steps = abs(value) * 10.0**decimals
    return math.copysign(round(math.ceil(steps - 1e-6) / 10.0**decimals, decimals), value) + 0.0


def _possible(moments: FloatArray, step: float) -> FloatArray:
    """Raise the smaller moments until the largest does not exceed their sum."""
    lack = moments.max() - (moments.sum() - moments.max())
    if lack > 0.0:
        small = np.argsort(moments)[:2]
        moments = moments.copy()
        moments[small] += math.ceil(0.5 * lack / step - 1e-6) * step
    return np.round(moments, INERTIA)


def _tensor(load: Load, sigma: FloatArray) -> FloatArray:
    """Round the diagonal up and the products to the nearest; then up again until it is physically possible."""
    if not load.inertia.any():
        return np.zeros((3, 3))
    decimals = _decimals(float(sigma.max()), INERTIA)
    tensor = np.round(load.inertia, decimals)
    for k in range(3):
        tensor[k, k] = _up(load.inertia[k, k], decimals)
    while np.linalg.eigvalsh(0.5 * np.trace(tensor) * np.eye(3) - tensor)[0] < 0.0:
        tensor = tensor + 10.0**-decimals * np.eye(3)
    return np.round(tensor, decimals) + 0.0


def _notes(load: Load, found: Principal) -> Iterator[str]:
    """List the origin of a load, and the intervals of its values."""
    yield f"Written by Excitor {version('excitor')}: {comment(load.name)}, {comment(load.source)}"
    yield f"In the frame {comment(load.frame)}; compare its axes with the controller's flange before use"
    if load.sigma is None:
        yield "As stated, without uncertainty; rounded up"
        return
    sides = NORMAL_95 * load.sigma
    yield "95 percent intervals, before rounding up:"
    yield _interval("mass", load.mass, sides[0], "kg")
    for k, axis in enumerate("xyz"):
        yield _interval(f"centre {axis}", 1e3 * load.center[k], 1e3 * sides[1 + k], "mm")
    if not load.inertia.any():
        yield "a point mass: its inertia was not asked for"
        return
    assert found.sigma is not None
    for k, axis in enumerate("xyz"):
        yield _interval(f"principal inertia {axis}", found.moments[k], NORMAL_95 * found.sigma[k], "kg m2")
    for k, (a, b) in enumerate(PAIRS):
        yield _interval(f"inertia {NAMES[k]}", load.inertia[a, b], sides[4 + k], "kg m2")


def _interval(what: str, value: float, side: float, unit: str) -> str:
    return f"{what} {value:.5g}, from {value - side:.5g} to {value + side:.5g} {unit}"


LINK = "link"
_FLANGES = ("flange", "tool0")
Found = tuple[FloatArray, FloatArray | None, Origin]


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """Selection of the load."""

    from_link: str | None = None  # what moves with this link, else the payload
    flange: str | None = None  # name of the frame that is the flange
    point: bool = False  # without inertia


def find_load(campaign: OpenCampaign, options: LoadOptions) -> Load:
    """Return the requested link's load, else the identified payload, else the stated one; check that it is known."""
    robot = campaign.robot
    place = flange_of(robot, options.flange)
    if options.from_link is not None:
        phi, covariance, origin = _of_link(read_model(campaign.folder / FILE, robot), options.from_link, place)
    elif (campaign.folder / FILE).exists() and (model := read_model(campaign.folder / FILE, campaign.robot)).payload:
        phi, covariance, origin = _identified(model, place)
    elif campaign.content.payload is not None and campaign.content.task == "arm":
        phi, covariance, origin = _stated(campaign, place)
    elif robot.payload is not None:
        T = _to(place, robot.payload.link)
        phi, covariance = robot.payload.phi, None
        origin = Origin("payload", f"stated in the file of {robot.name}", place.name, T)
    else:
        raise ExcitorError(
            f"{campaign.folder}: has no load: {FILE} holds no identified payload and campaign.toml states none "
            "in [payload]; or name a link of the model with --from-link"
        )
    load = load_of(phi, covariance, replace(origin, point=options.point))
    check_known(load)
    return load


def flange_of(robot: Robot, name: str | None) -> Frame:
    """Find the flange: the frame of that name, else one called flange or tool0, else the tool's."""
    frames = {frame.name: frame for frame in (*robot.frames, robot.tool)}
    if name is not None and name not in frames:
        raise ExcitorError(f"--flange: no frame of {robot.name} is named {name!r}; it has {', '.join(frames)}")
    chosen = [frames[candidate] for candidate in (name, *_FLANGES) if candidate in frames]
    return chosen[0] if chosen else robot.tool


def _to(place: Frame, link: int, T_link_frame: FloatArray | None = None) -> FloatArray:
    """Compute T_flange_frame of a frame on a link."""
    if place.link != link:
        raise ExcitorError(f"the frame {place.name} does not ride on the link that carries the load; name the flange")
    own = np.eye(4) if T_link_frame is None else T_link_frame
    return np.asarray(rigid.inverse(place.T_link_frame) @ own)


def _stated(campaign: OpenCampaign, place: Frame) -> Found:
    robot, body = campaign.robot, campaign.content.payload
    assert body is not None
    xx, xy, xz, yy, yz, zz = body.inertia
    tensor = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
    phi = rigid.from_center_of_mass(body.mass, np.array(body.center), tensor)
    T = _to(place, robot.tool.link, robot.tool.T_link_frame)
    return phi, None, Origin("payload", "stated in campaign.toml", place.name, T)


def _of_link(model: Model, name: str, place: Frame) -> Found:
    """Return the parameters of all bodies that move with a link: the link, its tool and its payload."""
    robot, chi = model.own_robot(), model.consistent()
    names = robot.mechanism.link_names
    if name not in names:
        raise ExcitorError(f"--from-link: no link is named {name!r}; expected one of {choice(name, names)}")
    j = names.index(name)
    columns = layout(robot).link(j)
    guessed = model.labels()[columns].count("prior")
    source = f"all that moves with link {name}, from model.json" + (
        f"; {guessed} of its 10 parameters are the prior's, not the data's" if guessed else ""
    )
    covariance = None if model.standard is None else model.standard.covariances.get(name)
    if covariance is not None:
        check_covariance(covariance, f"{model.where}: standard.link_covariances.{name}")
    return chi[columns], covariance, Origin(name, source, place.name, _to(place, j))


def _identified(model: Model, place: Frame) -> Found:
    """Read the block payload: link, frame, phi (10), covariance (10 x 10); frame is "link", or a frame on that link."""
    robot, path, block = model.own_robot(), model.where, model.payload
    if not isinstance(block, dict):
        raise ExcitorError(f"{path}: payload is {str(block)[:80]!r}, expected link, frame, phi and covariance")
    missing = [key for key in ("link", "frame", "phi", "covariance") if key not in block]
    if missing:
        raise ExcitorError(f"{path}: payload lacks {', '.join(missing)}; identify again")
    if block["link"] not in robot.mechanism.link_names:
        raise ExcitorError(f"{path}: payload.link is {str(block['link'])[:80]!r}, which is no link of {robot.name}")
    link = robot.mechanism.link_names.index(block["link"])
    phi = _numbers(block["phi"], (10,), f"{path}: payload.phi")
    covariance = _square(block["covariance"], f"{path}: payload.covariance")
    T = _to(place, link, _own(robot, link, block, path))
    return phi, covariance, Origin("payload", "identified, from model.json", place.name, T)


def _own(robot: Robot, link: int, block: dict[str, Any], path: str) -> FloatArray:
    if block["frame"] == LINK:
        return np.eye(4)
    for frame in (robot.tool, *robot.frames):
        if frame.name == block["frame"] and frame.link == link:
            return frame.T_link_frame
    raise ExcitorError(
        f"{path}: payload.frame is {str(block['frame'])[:80]!r}, expected {LINK!r} or a frame that rides on "
        f"{block['link']}"
    )


def _square(value: Any, where: str) -> FloatArray:
    covariance = _numbers(value, (10, 10), where)
    check_covariance(covariance, where)
    return covariance


def _numbers(value: Any, shape: tuple[int, ...], where: str) -> FloatArray:
    try:
        array = np.array(value, dtype=float)
    except (TypeError, ValueError, OverflowError):
        array = np.empty(0)
    if array.shape != shape or not np.isfinite(array).all():
        raise ExcitorError(f"{where}: expected {' x '.join(map(str, shape))} numbers")
    return array
