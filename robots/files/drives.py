"""From what a robot file says about drives and friction to a drive train."""

import numpy as np

from excitor.robots.arrays import FloatArray
from excitor.robots.files import schema
from excitor.robots.files.skeleton import Reading
from excitor.robots.mechanism import Mechanism
from excitor.robots.robot import DriveTrain, FrictionModel, FrictionTerm, RotorInertia

# How parameters of whole-robot terms are called: Fv1, Fc1, off1, …
_NAMES: dict[str, str] = {"viscous": "Fv", "coulomb": "Fc", "offset": "off", "sqrt": "Fq"}


def build_drive(mechanism: Mechanism, reading: Reading) -> DriveTrain:
    """Build the drive train."""
    drive = reading.description.drive
    motor_from_joint = motor_matrix(drive, mechanism.n_joints, reading)
    train = DriveTrain(
        motor_from_joint=motor_from_joint,
        torque_from_current=current_law(drive, mechanism.n_joints, reading),
        efficiency=per_joint(drive.efficiency, mechanism.n_joints, "drive.efficiency", reading),
        rotors=(*common_rotors(mechanism, motor_from_joint, reading), *own_rotors(mechanism, reading)),
        friction=(*common_friction(mechanism, motor_from_joint, reading), *own_friction(mechanism, reading)),
    )
    check_names(mechanism, train, reading)
    return train


def motor_matrix(drive: schema.Drive, n: int, reading: Reading) -> FloatArray:
    """Read q_motor = N q in whichever way it is given; the identity where it is not."""
    given = [key for key in ("ratios", "motor_from_joint", "joint_from_motor") if getattr(drive, key) is not None]
    if len(given) > 1:
        reading.note("drive", f"gives {' and '.join(given)}; keep one")
    if drive.ratios is not None:
        ratios = reading.vector(drive.ratios, "drive.ratios")
        if len(ratios) != n or (np.abs(ratios) < 1e-9).any():
            reading.note("drive.ratios", f"is {ratios.tolist()}, expected {n} numbers other than 0, one for each joint")
            return np.eye(n)
        return np.diag(ratios)
    if drive.joint_from_motor is not None:
        return np.asarray(np.linalg.inv(square_matrix(drive.joint_from_motor, n, "drive.joint_from_motor", reading)))
    return square_matrix(drive.motor_from_joint, n, "drive.motor_from_joint", reading)


def square_matrix(rows: list[list[float | str]] | None, n: int, path: str, reading: Reading) -> FloatArray:
    """Read an invertible n x n matrix; the identity where not given."""
    if rows is None:
        return np.eye(n)
    if len(rows) != n or any(len(row) != n for row in rows):
        reading.note(path, f"has rows of {[len(row) for row in rows]} entries, expected {n} rows of {n}")
        return np.eye(n)
    matrix = np.array([reading.vector(row, path) for row in rows])
    values = np.linalg.svd(matrix, compute_uv=False)
    if values[-1] <= 1e-12 * max(values[0], 1e-300):
        reading.note(path, f"is singular (singular values {values[0]:.3g} … {values[-1]:.3g}); it must be invertible")
        return np.eye(n)
    return matrix


def current_law(drive: schema.Drive, n: int, reading: Reading) -> FloatArray:
    """Read each motor's torque law: a gain, or up to four coefficients c0, c1, c2, c3; NaN where not given."""
    law = np.full((n, 4), np.nan)
    if drive.torque_from_current is None:
        return law
    if len(drive.torque_from_current) != n:
        count = len(drive.torque_from_current)
        reading.note("drive.torque_from_current", f"has {count} entries, expected one for each of the {n} motors")
        return law
    for k, entry in enumerate(drive.torque_from_current):
        coefficients = entry if isinstance(entry, list) else [0.0, entry]
        if not 1 <= len(coefficients) <= 4:
            path = f"drive.torque_from_current[{k + 1}]"
            reading.note(path, f"has {len(coefficients)} coefficients, expected a gain or up to four: c0, c1, c2, c3")
            continue
        law[k] = [*coefficients, *[0.0] * (4 - len(coefficients))]
    return law


def per_joint(values: list[float] | None, n: int, path: str, reading: Reading) -> FloatArray:
    """Read one number a joint; ones where not given."""
    if values is None or len(values) != n:
        if values is not None:
            reading.note(path, f"has {len(values)} entries, expected one for each of the {n} joints")
        return np.ones(n)
    return np.array(values)


def motor_senses(motor_from_joint: FloatArray) -> FloatArray:
    """Joint-side velocity of each motor, (n_joints, n_joints): rows of N divided by their own joint's ratio."""
    own = np.diag(motor_from_joint)
    coupled_only = np.abs(own) <= 1e-9 * np.abs(motor_from_joint).max(axis=1)
    return motor_from_joint / np.where(coupled_only, 1.0, own)[:, None]


def common_rotors(mechanism: Mechanism, motor_from_joint: FloatArray, reading: Reading) -> list[RotorInertia]:
    """Expand `rotors`: one a motor or one a joint, or those of the joints named."""
    rotors = reading.description.drive.rotors
    if rotors == "none":
        return []
    rows = np.eye(mechanism.n_joints) if rotors == "joints" else motor_senses(motor_from_joint)
    chosen = mechanism.joint_names if isinstance(rotors, str) else tuple(rotors)
    for name in chosen:
        if name not in mechanism.joint_names:
            reading.note("drive.rotors", f"no joint is named {name!r}; expected 'motors', 'joints' or joint names")
    return [
        RotorInertia(f"Ia{i + 1}", rows[i], rows[i]) for i, name in enumerate(mechanism.joint_names) if name in chosen
    ]


def own_rotors(mechanism: Mechanism, reading: Reading) -> list[RotorInertia]:
    """Read rotors with senses of their own."""
    return [
        RotorInertia(entry.parameter, *sense_and_act(entry, mechanism, f"drive.rotor[{k + 1}]", reading))
        for k, entry in enumerate(reading.description.drive.rotor)
    ]


def common_friction(mechanism: Mechanism, motor_from_joint: FloatArray, reading: Reading) -> list[FrictionTerm]:
    """Expand `terms`: each of them at every joint, joint by joint."""
    friction = reading.description.friction
    if len(set(friction.terms)) < len(friction.terms):
        reading.note("friction.terms", f"is {friction.terms}, which says one twice; keep each once")
    rows = motor_senses(motor_from_joint) if friction.at == "motors" else np.eye(mechanism.n_joints)
    return [
        FrictionTerm(f"{_NAMES[model]}{i + 1}", model, rows[i], rows[i], width=friction.sign_width)
        for i in range(mechanism.n_joints)
        for model in friction.terms
    ]


def own_friction(mechanism: Mechanism, reading: Reading) -> list[FrictionTerm]:
    """Read friction elements with senses of their own; a ripple becomes a sine and a cosine."""
    friction = reading.description.friction
    terms = []
    for k, entry in enumerate(friction.element):
        path = f"friction.element[{k + 1}]"
        senses, acts = sense_and_act(entry, mechanism, path, reading)
        if entry.model in ("stribeck", "maxwell-slip", "ripple") and entry.scale is None:
            reading.note(f"{path}.scale", f"is missing; {entry.model} needs it")
        models: dict[str, FrictionModel]
        if entry.model == "ripple":
            models = {f"{entry.parameter}s": "ripple-sin", f"{entry.parameter}c": "ripple-cos"}
        else:
            models = {entry.parameter: entry.model}
        width = friction.sign_width if entry.sign_width is None else entry.sign_width
        terms += [
            FrictionTerm(name, model, senses, acts, width=width, scale=entry.scale or 1.0, warm_up=entry.warm_up)
            for name, model in models.items()
        ]
    return terms


def sense_and_act(
    entry: schema.Element, mechanism: Mechanism, path: str, reading: Reading
) -> tuple[FloatArray, FloatArray]:
    """Read the joints an element senses, and those it acts on: the same unless said otherwise."""
    senses = joint_row(entry.senses, mechanism, f"{path}.senses", reading)
    acts = senses if entry.acts is None else joint_row(entry.acts, mechanism, f"{path}.acts", reading)
    return senses, acts


def joint_row(entry: schema.Combination, mechanism: Mechanism, path: str, reading: Reading) -> FloatArray:
    """Read a combination of joints as a row."""
    row = np.zeros(mechanism.n_joints)
    for name, share in entry.items():
        if name in mechanism.joint_names:
            row[mechanism.joint_names.index(name)] = reading.number(share, f"{path}.{name}")
        else:
            reading.note(path, f"no joint is named {name!r}; expected some of {list(mechanism.joint_names)}")
    if not row.any():
        reading.note(path, "is 0 for every joint; name the joints that it turns with")
    return row


def check_names(mechanism: Mechanism, train: DriveTrain, reading: Reading) -> None:
    """Refuse parameters that would be taken for another kind's."""
    from excitor.robots.parameters import link_parameter_names

    kinds: dict[str, str] = dict.fromkeys(link_parameter_names(mechanism.n_links), "a link")
    for rotor in train.rotors:
        if kinds.setdefault(rotor.parameter, "a rotor") != "a rotor":
            reading.note("drive.rotor", f"{rotor.parameter!r} is already a parameter of {kinds[rotor.parameter]}")
    for term in train.friction:
        if kinds.setdefault(term.parameter, "friction") != "friction":
            reading.note("friction", f"{term.parameter!r} is already a parameter of {kinds[term.parameter]}")
