"""Random trees with everything that a tree may have."""

import numpy as np

from excitor.robots.inertia import from_center_of_mass
from excitor.robots.parameters import layout_of
from excitor.robots.robot import DriveTrain, Frame, FrictionTerm, Limits, Robot, RotorInertia
from excitor.robots.tree import Tree

N_RANDOM_TREES = 32


def make_random_robot(seed):
    """A random tree of 1 to 9 links: branching, sliding, arbitrary axes, shifted link frames, coupling."""
    rng = np.random.default_rng(1000 + seed)
    n = int(rng.integers(1, 10))
    sliding = rng.random(n) < 0.3
    parents = np.array([rng.integers(-1, j) if rng.random() < 0.4 else j - 1 for j in range(n)])
    n_joints = n if n < 3 or seed % 2 else n - 1
    coupling = np.eye(n, n_joints)
    if n_joints < n:
        coupling[-1] = rng.normal(size=n_joints)
    elif seed % 3 == 0:
        coupling += np.tril(rng.normal(scale=0.3, size=(n, n)) * (rng.random((n, n)) < 0.2), -1)
    axis = rng.normal(size=(n, 3))
    tree = Tree(
        joint_names=tuple(f"q{i}" for i in range(n_joints)),
        link_names=tuple(f"link{j}" for j in range(n)),
        parents=parents,
        before=np.array([random_pose(rng) for _ in range(n)]),
        axis=axis / np.linalg.norm(axis, axis=1, keepdims=True),
        after=np.array([random_pose(rng) if rng.random() < 0.5 else np.eye(4) for _ in range(n)]),
        sliding=sliding,
        coupling=coupling,
        offset=rng.normal(size=n),
        gravity=rng.normal(scale=6.0, size=3),
    )
    return with_drive(tree, rng)


def with_drive(tree, rng):
    n = tree.n_joints
    rows = [*np.eye(n), rng.normal(size=n)]
    friction = []
    for k, row in enumerate(rows):
        friction += [
            FrictionTerm(f"Fv{k}", "viscous", row, row),
            FrictionTerm(f"Fc{k}", "coulomb", row, row, width=0.2 * (k % 2)),
        ]
    first = rows[0]
    friction += [
        FrictionTerm("off", "offset", first, first),
        FrictionTerm("Fq", "sqrt", first, rows[-1], width=0.1),
        FrictionTerm("Fst", "stribeck", first, first, width=0.1, scale=0.4),
        FrictionTerm("Rs", "ripple-sin", rows[-1], first, scale=3.0),
        FrictionTerm("Rc", "ripple-cos", rows[-1], first, scale=3.0),
        FrictionTerm("Fv0", "viscous", rows[-1], first),  # tied to the first joint's
        FrictionTerm("Fz", "maxwell-slip", first, first, scale=0.3, warm_up=1),
        FrictionTerm("Fl", "load", first, first, width=0.1),
    ]
    rotors = [RotorInertia(f"Ia{k}", row, row) for k, row in enumerate(rows)]
    drive = DriveTrain(np.eye(n), np.full((n, 4), np.nan), np.ones(n), tuple(rotors), tuple(friction))
    params = layout_of(tree.n_links, tree.prismatic, drive)
    chi = np.abs(rng.normal(size=len(params))) * 0.1
    for j in range(tree.n_links):
        chi[params.link(j)] = random_body(rng)
    free = np.full(n, np.inf)
    limits = Limits(np.column_stack([-free, free]), free, free, free, free)
    everything = np.ones(len(params), dtype=bool)
    tool = Frame("tool", tree.n_links - 1, random_pose(rng))
    return Robot("random", tree, drive, limits, tool, None, chi, everything, ~everything)


def random_pose(rng):
    T = np.eye(4)
    q, _ = np.linalg.qr(rng.normal(size=(3, 3)))
    T[:3, :3] = q * np.sign(np.linalg.det(q))
    T[:3, 3] = rng.normal(scale=0.4, size=3)
    return T


def random_body(rng):
    """A body that could exist: point masses in a random box."""
    points, masses = rng.normal(scale=0.2, size=(8, 3)), rng.uniform(0.1, 1.0, size=8)
    center = masses @ points / masses.sum()
    r = points - center
    inertia = np.einsum(
        "k,kij->ij", masses, np.einsum("kl,kl,ij->kij", r, r, np.eye(3)) - r[:, :, None] * r[:, None, :]
    )
    return from_center_of_mass(float(masses.sum()), center, inertia)
