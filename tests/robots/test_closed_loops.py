"""Closed chains against independent mechanics: multipliers on pinocchio's tree, MuJoCo, closed forms, differences."""

import numpy as np
import pinocchio as pin
import pytest
import scipy.optimize

from excitor.robots.base import random_motion
from excitor.robots.closed_chain import (
    all_positions,
    find_legs,
    forward_geometry,
    inverse_geometry,
    opened,
    size,
    solve,
)
from excitor.robots.dynamics import (
    energy,
    forward_dynamics,
    inverse_dynamics,
    mass_matrix,
    power_regressor,
    regressor,
    rigid_torque,
)
from excitor.robots.load import load
from excitor.robots.parameters import layout, prior
from excitor.robots.robot import CanBeSingular, Mechanism, Motion, posture
from excitor.robots.simulate import Steps, simulate, with_friction_width

PARALLEL = ("five-bar", "five-bar-vertical", "orthoglide-rod", "orthoglide", "delta", "delta-full", "3-rrr")
STEP = 1e-4  # s, of MuJoCo

# ours: XX XY XZ YY YZ ZZ MX MY MZ M; pinocchio: m mx my mz Ixx Ixy Iyy Ixz Iyz Izz
ORDER = [9, 6, 7, 8, 0, 1, 3, 2, 4, 5]


class OpenedOracle:
    """A closed chain solved without our kernel: pinocchio's open tree, constraints, Lagrange multipliers.

    Joints geared together in the tree are free here, and their gearing is one more constraint.
    """

    def __init__(self, loop, phi):
        self.loop, tree = loop, loop.tree
        model = pin.Model()
        model.gravity = pin.Motion(tree.gravity.copy(), np.zeros(3))
        self.frames = []
        for j in range(tree.n_links):
            kind = pin.JointModelPrismaticUnaligned if tree.sliding[j] else pin.JointModelRevoluteUnaligned
            parent = int(tree.parents[j])
            assert np.array_equal(tree.after[j], np.eye(4))
            place = pin.SE3(tree.before[j, :3, :3].copy(), tree.before[j, :3, 3].copy())
            model.addJoint(parent + 1, kind(tree.axis[j].copy()), place, f"j{j}")
        for row, j in zip(loop.tree_parameters(phi)[loop.bodies], loop.bodies, strict=True):
            model.appendBodyToJoint(int(j) + 1, pin.Inertia.FromDynamicParameters(row[ORDER]), pin.SE3.Identity())
        for closure in loop.closures:
            ends = []
            for link, point in zip(closure.links, closure.points, strict=True):
                name = f"end{model.nframes}"
                place = pin.SE3(np.eye(3), point.copy())
                ends.append(model.addFrame(pin.Frame(name, int(link) + 1, 0, place, pin.FrameType.OP_FRAME)))
            self.frames.append(ends)
        self.model, self.data = model, model.createData()
        C = tree.coupling  # rows of gearing: N θ = N offset, N C = 0
        self.gearing = np.linalg.svd(C)[0][:, C.shape[1] :].T if C.shape[0] > C.shape[1] else np.zeros((0, len(C)))
        self.own = [int(np.argmax((C[:, i] == 1.0) & ((C != 0.0).sum(axis=1) == 1))) for i in loop.actuated]

    def angles(self, q_all):
        return self.loop.tree.coupling @ q_all + self.loop.tree.offset

    def gaps(self, theta):
        pin.framesForwardKinematics(self.model, self.data, theta)
        parts = [self.gearing @ (theta - self.loop.tree.offset)]
        for closure, (a, b) in zip(self.loop.closures, self.frames, strict=True):
            A, B = self.data.oMf[a], self.data.oMf[b]
            d = A.translation - B.translation
            if closure.kind == "point":
                parts.append(closure.directions @ d)
            elif closure.kind == "rod":
                parts.append([np.linalg.norm(d) - closure.length])
            else:
                parts.append(closure.directions @ pin.log3(A.rotation @ closure.turn @ B.rotation.T))
        return np.concatenate(parts)

    def rows(self, theta, v=None):
        """Constraint Jacobian G, and with velocities the accelerations that they cause alone."""
        v = np.zeros(self.model.nv) if v is None else v
        pin.forwardKinematics(self.model, self.data, theta, v, np.zeros_like(v))
        pin.computeJointJacobians(self.model, self.data, theta)
        pin.updateFramePlacements(self.model, self.data)
        world = pin.ReferenceFrame.LOCAL_WORLD_ALIGNED
        G, drift = [self.gearing], [np.zeros(len(self.gearing))]
        for closure, (a, b) in zip(self.loop.closures, self.frames, strict=True):
            J = pin.getFrameJacobian(self.model, self.data, a, world) - pin.getFrameJacobian(
                self.model, self.data, b, world
            )
            acc = [pin.getFrameClassicalAcceleration(self.model, self.data, f, world) for f in (a, b)]
            if closure.kind == "turn":
                G.append(closure.directions @ J[3:])
                drift.append(closure.directions @ (acc[0].angular - acc[1].angular))
                continue
            da = acc[0].linear - acc[1].linear
            if closure.kind == "point":
                G.append(closure.directions @ J[:3])
                drift.append(closure.directions @ da)
            else:
                d = self.data.oMf[a].translation - self.data.oMf[b].translation
                dv = J[:3] @ v
                G.append((d @ J[:3])[None])
                drift.append([d @ da + dv @ dv])
        return np.concatenate(G), np.concatenate(drift)

    def solve(self, q, dq, ddq):
        """Find torques of the actuated joints by multipliers, (n,), and all joints' positions and accelerations."""
        start = self.angles(self.loop.home)
        for share in np.linspace(0.0, 1.0, 6)[1:]:
            target = self.loop.home[self.loop.actuated] + share * (q - self.loop.home[self.loop.actuated])
            aim = target + self.loop.tree.offset[self.own]
            start = scipy.optimize.root(
                lambda th, aim=aim: np.concatenate([self.gaps(th), th[self.own] - aim]), start, tol=1e-13
            ).x
        theta = start
        S = np.zeros((len(q), self.model.nv))
        S[np.arange(len(q)), self.own] = 1.0
        G, _ = self.rows(theta)
        v = np.linalg.solve(np.concatenate([G, S]), np.concatenate([np.zeros(len(G)), dq]))
        G, drift = self.rows(theta, v)
        a = np.linalg.solve(np.concatenate([G, S]), np.concatenate([-drift, ddq]))
        need = pin.rnea(self.model, self.data, theta, v, a)  # = Sᵀ τ + Gᵀ λ
        tau = np.linalg.solve(np.concatenate([S, G]).T, need)[: len(q)]
        return tau, theta, v, a


@pytest.fixture(params=PARALLEL)
def closed(request):
    return load(request.param)


def test_torques_are_those_of_lagrange_multipliers_on_an_independent_tree(closed):
    """[Briot2012] eq. (5) against eq. (6); positions, velocities and accelerations are solved apart."""
    motion = random_motion(closed, 4, seed=5)
    chi = prior(closed)
    phi = chi[: layout(closed).n_link_params].reshape(-1, 10)
    oracle = OpenedOracle(closed.mechanism, phi)
    whole = opened(closed.mechanism, motion)
    tau = closed.mechanism.inverse_dynamics(motion, phi)
    scale = np.abs(tau).max()
    C, offset = closed.mechanism.tree.coupling, closed.mechanism.tree.offset
    for k in range(len(motion)):
        expected, theta, v, a = oracle.solve(motion.q[k], motion.dq[k], motion.ddq[k])
        np.testing.assert_allclose(C @ whole.motion.q[k] + offset, theta, atol=1e-10)
        np.testing.assert_allclose(C @ whole.motion.dq[k], v, atol=1e-9 * max(1.0, np.abs(v).max()))
        np.testing.assert_allclose(C @ whole.motion.ddq[k], a, atol=1e-9 * max(1.0, np.abs(a).max()))
        np.testing.assert_allclose(tau[k], expected, atol=1e-9 * scale)


def test_a_free_motion_is_that_of_mujocos_equality_constraints(closed):
    """From rest at home, under constant torques that weight alone would not balance, for a tenth of a second."""
    mujoco = pytest.importorskip("mujoco", reason="mujoco is not installed: pip install excitor[mujoco]")
    loop, params = closed.mechanism, layout(closed)
    chi = np.where(np.arange(len(params)) < params.n_link_params, prior(closed), 0.0)
    q = loop.home[loop.actuated]
    ddq = (2.0 if loop.tree.prismatic[loop.actuated].all() else 20.0) * np.cos(np.arange(len(q)))
    tau = inverse_dynamics(closed, Motion(q[None], 0 * q[None], ddq[None]), chi)
    robot = with_friction_width(closed, 0.3)  # of friction that is 0
    found = simulate(robot, lambda *_: tau, start=posture(q[None]), steps=Steps(0.01, 11, substeps=20), chi=chi)
    model, own = mujoco_model(mujoco, loop, chi[: params.n_link_params].reshape(-1, 10))
    data, driven = mujoco.MjData(model), own[loop.actuated]
    data.qpos[:] = loop.tree.coupling @ loop.home + loop.tree.offset
    data.qfrc_applied[driven] = tau[0]
    for _ in range(round(0.1 / STEP)):
        mujoco.mj_step(model, data)
    expected = data.qpos[driven] - loop.tree.offset[driven]
    moved = np.abs(expected - q).max()
    assert moved > 0.009
    np.testing.assert_allclose(found.q[0, :, -1], expected, atol=1e-6 * moved)  # 2e-8 is measured


def mujoco_model(mujoco, loop, phi):
    """Write the opened tree as MuJoCo's bodies; gearing becomes joint equalities, each closure a `connect`."""

    def words(values):
        return " ".join(repr(float(x)) for x in values)

    def inner(j):
        T, (xx, xy, xz, yy, yz, zz, *moment, mass) = loop.tree.before[j], body[j]
        c = np.array(moment) / max(mass, 1e-12)
        about = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]]) - mass * (c @ c * np.eye(3) - np.outer(c, c))
        inertia = about + 1e-10 * np.eye(3)  # bodies that only carry others have nothing of their own
        full = words(inertia[[0, 1, 2, 0, 0, 1], [0, 1, 2, 1, 2, 2]])
        kind = "slide" if loop.tree.sliding[j] else "hinge"
        return (
            f'<body name="b{j}" pos="{words(T[:3, 3])}" xyaxes="{words(T[:3, :2].T.ravel())}">'
            f'<inertial pos="{words(c)}" mass="{max(mass, 1e-8)!r}" fullinertia="{full}"/>'
            f'<joint name="j{j}" type="{kind}" axis="{words(loop.tree.axis[j])}"/>'
            + "".join(f'<site name="{name}" pos="{words(p)}"/>' for name, link, p in sites if link == j)
            + "".join(inner(k) for k in np.flatnonzero(loop.tree.parents == j))
            + "</body>"
        )

    body = loop.tree_parameters(phi).tolist()
    assert {closure.kind for closure in loop.closures} == {"point"}
    sites = [(f"s{k}{e}", c.links[e], c.points[e]) for k, c in enumerate(loop.closures) for e in range(2)]
    equal = "".join(f'<connect site1="s{k}0" site2="s{k}1"/>' for k in range(len(loop.closures)))
    own = np.argmax(loop.tree.coupling != 0.0, axis=0)  # the link that a coordinate moves first
    for j, row in enumerate(loop.tree.coupling):
        i = int(np.argmax(row != 0.0))
        assert np.count_nonzero(row) == 1
        if own[i] != j:
            cubic = words([loop.tree.offset[j] - row[i] * loop.tree.offset[own[i]], row[i], 0, 0, 0])
            equal += f'<joint joint1="j{j}" joint2="j{own[i]}" polycoef="{cubic}"/>'
    outer = "".join(f'<site name="{name}" pos="{words(p)}"/>' for name, link, p in sites if link < 0)
    outer += "".join(inner(j) for j in np.flatnonzero(loop.tree.parents < 0))
    model = mujoco.MjModel.from_xml_string(
        f'<mujoco><compiler angle="radian" boundmass="0"/><option timestep="{STEP}" integrator="RK4" '
        f'gravity="{words(loop.tree.gravity)}" iterations="200" tolerance="1e-14"/><default><equality '
        f'solref="{2 * STEP} 1" solimp="0.99999 0.99999 0.001"/></default>'
        f"<worldbody>{outer}</worldbody><equality>{equal}</equality></mujoco>"
    )
    return model, own


def test_closures_close(closed):
    motion = random_motion(closed, 300, seed=2)
    oracle = OpenedOracle(closed.mechanism, np.zeros((closed.mechanism.n_links, 10)))
    for q_all in all_positions(closed.mechanism, motion.q)[::10]:
        assert np.abs(oracle.gaps(oracle.angles(q_all))).max() < 1e-13


def test_power_balances_the_energy(closed):
    """Along a smooth motion of the platform, to second differences of its inverse geometry; bar 1e-8 relative."""
    t = np.linspace(0.0, 1.0, 13)[:, None]
    loop = closed.mechanism
    home = loop.home[loop.platform]
    swing = 0.08 * size(loop) * np.ones(len(home))

    def joints(t):
        phase = np.arange(len(home))
        return inverse_geometry(loop, home + swing * np.sin(2.0 * t + phase))

    h = 2e-3
    q = {k: joints(t + k * h) for k in range(-4, 5)}
    first = (np.array([1, -8, 0, 8, -1]) / (12 * h))[:, None, None]

    def slope(values, k=0):
        return (first * np.array([values[k + j] for j in range(-2, 3)])).sum(axis=0)

    dq = {k: slope(q, k) for k in range(-2, 3)}
    H = {k: energy(closed, Motion(q[k], dq[k], np.zeros_like(q[k]))) for k in range(-2, 3)}
    dH = (first[:, :, 0] * np.array([H[k] for k in range(-2, 3)])).sum(axis=0)
    motion = Motion(q[0], dq[0], slope(dq))
    power = np.einsum("sj,sj->s", motion.dq, rigid_torque(closed, motion))
    assert np.abs(power - dH).max() < 1e-8 * np.abs(power).max()


def test_regressors_agree_with_torques_energy_and_power(closed):
    motion, chi = random_motion(closed, 150, seed=1), prior(closed)
    tau = inverse_dynamics(closed, motion)
    np.testing.assert_allclose(regressor(closed, motion) @ chi, tau, atol=1e-12 * np.abs(tau).max())
    power = np.einsum("sj,sj->s", motion.dq, tau)
    np.testing.assert_allclose(power_regressor(closed, motion) @ chi, power, atol=1e-12 * np.abs(power).max())
    M = mass_matrix(closed, motion.q)
    still = Motion(motion.q, np.zeros_like(motion.q), motion.ddq)
    inertial = rigid_torque(closed, still) - rigid_torque(closed, posture(motion.q))
    np.testing.assert_allclose(np.einsum("sij,sj->si", M, motion.ddq), inertial, atol=1e-11 * np.abs(tau).max())
    kinetic = energy(closed, motion) - energy(closed, posture(motion.q))
    assert np.allclose(0.5 * np.einsum("si,sij,sj->s", motion.dq, M, motion.dq), kinetic, rtol=1e-11)


def test_forward_dynamics_inverts_inverse_dynamics(closed):
    motion = random_motion(closed, 30, seed=4)
    ddq = forward_dynamics(closed, motion.q, dq=motion.dq, tau=inverse_dynamics(closed, motion))
    np.testing.assert_allclose(ddq, motion.ddq, atol=1e-10)


def test_jacobians_differentiate_poses(closed):
    q = random_motion(closed, 5, seed=7).q
    loop, h = closed.mechanism, 1e-6
    J, poses = loop.jacobians(q), loop.poses(q)
    for i in range(loop.n_joints):
        step = h * np.eye(loop.n_joints)[i]
        dT = (loop.poses(q + step) - loop.poses(q - step)) / (2 * h)
        np.testing.assert_allclose(J[:, :, :3, i], dT[:, :, :3, 3], atol=1e-7)
        spin = dT[:, :, :3, :3] @ poses[:, :, :3, :3].swapaxes(2, 3)
        turn = np.stack([spin[:, :, 2, 1], spin[:, :, 0, 2], spin[:, :, 1, 0]], axis=-1)
        np.testing.assert_allclose(J[:, :, 3:, i], turn, atol=1e-7)


def test_geometry_there_and_back(closed):
    q = random_motion(closed, 200, seed=3).q
    x = forward_geometry(closed.mechanism, q)
    assert (closed.mechanism.singularity_distances(q) > 0.1).all()
    np.testing.assert_allclose(inverse_geometry(closed.mechanism, x), q, atol=1e-11)


def test_legs_in_closed_form_are_where_newton_leads(closed):
    """Every leg of the catalogue has a closed form; Newton's method from home finds the same working mode."""
    loop = closed.mechanism
    assert find_legs(loop) is not None
    x = forward_geometry(loop, random_motion(closed, 50, seed=6).q)
    led, residual = solve(loop, loop.platform, x)
    assert residual.max() < 1e-9
    np.testing.assert_allclose(inverse_geometry(loop, x), led[loop.actuated].T, atol=1e-12)


def test_protocols(closed):
    mechanism: Mechanism = closed.mechanism
    assert isinstance(mechanism, CanBeSingular)
    assert not isinstance(load("rotradi").mechanism, CanBeSingular)
    assert len(mechanism.singularity_names) == mechanism.singularity_distances(random_motion(closed, 2).q).shape[1]


# Geometry and energy as the textbook has them, in closed form.


def five_bar_inverse(x, a=0.1375, L1=0.20, L2=0.25):
    out = []
    for side in (1.0, -1.0):
        dx, dy = x[:, 0] + side * a, x[:, 1]
        r = np.hypot(dx, dy)
        q = np.arctan2(dy, dx) + side * np.arccos((L1**2 + r**2 - L2**2) / (2 * L1 * r))
        out.append((q, np.arctan2(dy - L1 * np.sin(q), dx - L1 * np.cos(q))))
    return np.array(out)  # leg, (q, psi), sample


def test_five_bar_geometry():
    x = np.random.default_rng(0).uniform([-0.07, 0.24], [0.07, 0.36], size=(100, 2))
    q, psi = five_bar_inverse(x).transpose(1, 2, 0)
    loop = load("five-bar").mechanism
    np.testing.assert_allclose(inverse_geometry(loop, x), q, atol=1e-13)
    names = loop.tree.joint_names
    at = all_positions(loop, q)
    passive = at[:, [names.index("p1"), names.index("p2")]]
    np.testing.assert_allclose(np.angle(np.exp(1j * (passive + q - psi))), 0.0, atol=1e-13)


@pytest.mark.parametrize("name", ["orthoglide", "orthoglide-rod"])
def test_orthoglide_geometry(name):
    L = 0.31058
    x = np.random.default_rng(0).uniform(-0.1, 0.1, size=(100, 3))
    q = np.column_stack([x[:, k] + L - np.sqrt(L**2 - (x**2).sum(axis=1) + x[:, k] ** 2) for k in range(3)])
    np.testing.assert_allclose(inverse_geometry(load(name).mechanism, x), q, atol=1e-14)


@pytest.mark.parametrize("name", ["delta", "delta-full"])
def test_delta_geometry(name):
    rb, L1, L, rp = 0.330, 0.420, 1.055, 0.125
    x = np.random.default_rng(0).uniform([-0.2, -0.2, -1.0], [0.2, 0.2, -0.8], size=(100, 3))
    q = []
    for k in range(3):
        e = np.array([np.cos(2 * np.pi * k / 3), np.sin(2 * np.pi * k / 3), 0.0])
        p = x + (rp - rb) * e
        radial, down, across = p @ e, -p[:, 2], p @ np.cross([0.0, 0.0, 1.0], e)
        r = np.hypot(radial, down)
        reach = L**2 - across**2
        q.append(np.arctan2(down, radial) - np.arccos((L1**2 + r**2 - reach) / (2 * L1 * r)))
    np.testing.assert_allclose(inverse_geometry(load(name).mechanism, x), np.transpose(q), atol=1e-13)


@pytest.mark.slow
def test_five_bar_torques_are_those_of_its_lagrangian():
    """Sympy: L in the platform's coordinates, τ = J_pᵀ (d/dt ∂L/∂ẋ - ∂L/∂x)."""
    import sympy as sp

    robot = load("five-bar-vertical")
    chi = prior(robot)
    value = dict(zip(layout(robot).names, chi, strict=True))
    a, L1, L2, g = 0.1375, 0.20, 0.25, 9.81
    x, y, vx, vy, ax, ay = sp.symbols("x y vx vy ax ay")
    K, U, legs = value["M5"] * (vx**2 + vy**2) / 2, g * value["M5"] * y, []

    def rate(f):
        return sp.diff(f, x) * vx + sp.diff(f, y) * vy

    for k, side in ((0, 1), (1, -1)):
        dx = x + side * a
        r2 = dx**2 + y**2
        q = sp.atan2(y, dx) + side * sp.acos((L1**2 + r2 - L2**2) / (2 * L1 * sp.sqrt(r2)))
        psi = sp.atan2(y - L1 * sp.sin(q), dx - L1 * sp.cos(q))
        legs.append(q)
        p, d = 2 * k + 1, 2 * k + 2  # proximal and distal body
        dq, dpsi = rate(q), rate(psi)
        v = (-L1 * sp.sin(q), L1 * sp.cos(q))
        along = v[0] * -sp.sin(psi) + v[1] * sp.cos(psi)
        across = v[0] * sp.cos(psi) + v[1] * sp.sin(psi)
        K += (value[f"ZZ{p}"] + value[f"Ia{k + 1}"] + value[f"M{d}"] * L1**2) * dq**2 / 2
        K += value[f"ZZ{d}"] * dpsi**2 / 2 + dpsi * dq * (value[f"MX{d}"] * along - value[f"MY{d}"] * across)
        U += g * (value[f"MX{p}"] * sp.sin(q) + value[f"MY{p}"] * sp.cos(q) + value[f"M{d}"] * L1 * sp.sin(q))
        U += g * (value[f"MX{d}"] * sp.sin(psi) + value[f"MY{d}"] * sp.cos(psi))
    momentum = [sp.diff(K, vx), sp.diff(K, vy)]
    forces = [
        rate(p) + sp.diff(p, vx) * ax + sp.diff(p, vy) * ay - sp.diff(K - U, s)
        for p, s in zip(momentum, (x, y), strict=True)
    ]
    J = sp.Matrix(legs).jacobian([x, y])
    state = (x, y, vx, vy, ax, ay)
    function = sp.lambdify(state, [*forces, *J, *legs, *(rate(q) for q in legs), *_second(legs, state)], cse=True)
    rng = np.random.default_rng(1)
    for _ in range(5):
        at = [*rng.uniform([-0.06, 0.25], [0.06, 0.35]), *rng.normal(size=2), *rng.normal(scale=5.0, size=2)]
        out = np.array(function(*at))
        force, inverse, (q, dq, ddq) = out[:2], out[2:6].reshape(2, 2), out[6:].reshape(3, 2)
        tau = np.linalg.solve(inverse.T, force)
        motion = Motion(q[None], dq[None], ddq[None])
        np.testing.assert_allclose(rigid_torque(robot, motion)[0], tau, rtol=1e-10, atol=1e-10)


def _second(legs, state):
    import sympy as sp

    x, y, vx, vy, ax, ay = state
    for q in legs:
        qx, qy = sp.diff(q, x), sp.diff(q, y)
        yield (qx * ax + qy * ay + sp.diff(qx, x) * vx**2 + 2 * sp.diff(qx, y) * vx * vy + sp.diff(qy, y) * vy**2)


def test_orthoglide_rod_model_in_closed_form():
    """τ_k = M_kR q̈_k + K_k z_kᵀ P̈ - weight, and J_pᵀ of the platform's M_pR P̈ + Σ K_k z_k q̈_k - (M_pR + ΣK) g."""
    robot = load("orthoglide-rod")
    value = dict(zip(layout(robot).names, prior(robot), strict=True))
    L, g = 0.31058, np.array([0.0, 0.0, -9.81])
    motion = random_motion(robot, 40, seed=8)
    whole = opened(robot.mechanism, motion)
    P, ddP = (array[:, robot.mechanism.platform] for array in (whole.motion.q, whole.motion.ddq))
    m = [value[f"M{2 * k + 2}"] for k in range(3)]
    MX = [value[f"MX{2 * k + 2}"] for k in range(3)]
    inertia = [value[f"ZZ{2 * k + 2}"] for k in range(3)]
    K = np.array([MX[k] / L - inertia[k] / L**2 for k in range(3)])
    platform = value["M7"] + sum(inertia) / L**2
    wrench = platform * ddP + motion.ddq * K - (platform + K.sum()) * g
    tau = np.empty_like(motion.q)
    w = P[:, None, :] - (motion.q - L)[:, :, None] * np.eye(3)
    J_p = np.linalg.solve(w, np.einsum("skk->sk", w)[:, :, None] * np.eye(3))
    for k in range(3):
        own = value[f"M{2 * k + 1}"] + value[f"Ia{k + 1}"] + m[k] - 2 * MX[k] / L + inertia[k] / L**2
        weight = (value[f"M{2 * k + 1}"] + m[k] - MX[k] / L) * g[k]
        tau[:, k] = own * motion.ddq[:, k] + K[k] * ddP[:, k] - weight
    tau += np.einsum("sik,si->sk", J_p, wrench)
    np.testing.assert_allclose(rigid_torque(robot, motion), tau, atol=1e-10 * np.abs(tau).max())
