"""The numbers that papers and data sheets print: poses, torques, energies, counts and regroupings."""

import tomllib

import numpy as np
import pytest

from excitor.robots import dynamics
from excitor.robots.base import base_parameters, declared_transform, regroupings
from excitor.robots.files.toml import robot_from_data
from excitor.robots.load import load, robot_text, with_random_lengths
from excitor.robots.parameters import layout
from excitor.robots.robot import FrictionTerm, Motion

DQ = np.array([[0.3, -0.2, 0.5, 0.7, -0.4, 0.9]])
DDQ = np.array([[1.0, -2.0, 3.0, 0.5, -1.5, 2.5]])

# Gautier & Briot 2013, parameters of one identification in the frictional form (a); the others are 0.
TX40 = {
    "ZZ1R": 1.2969, "Fv1": 7.9921, "Fs1": 7.3410, "XX2R": -0.46646, "XZ2R": -0.14764, "ZZ2R": 1.0695, "MX2R": 2.1734,
    "Fv2": 5.4351, "Fs2": 8.4289, "ZZ3R": 0.12306, "MY3R": -0.62994, "Ia3": 0.082948, "Fv3": 1.9514, "Fs3": 6.4539,
    "Ia4": 0.033377, "Fv4": 1.0986, "Fs4": 2.5540, "MY5R": -0.03099, "Ia5": 0.049294, "Fv5": 1.8503, "Fs5": 3.0246,
    "Ia6": 0.011643, "Fv6": 0.66741, "Fvm6": 0.61016, "Fsm6": 2.1210,
}  # fmt: skip

# Volkmann et al. 2020, model A.
QRC350 = [
    19.763138, 23.798451, -0.85018383, 17.161696, 37.95733, 11.684415, 0.76812433, 1.7845695, 8.6659432, 0.26599616,
    5.9132985, 12.163486, 4.2494194, 0.10799731, 0.16188124, -0.05775615, 0.20025966, 0.22506201, 1.2538748,
    0.07418319, 0.042507494, 0.036510584, 0.13456886, 76.809232, 117.25767, 47.676667, 4.1250474, 1.4542316,
    0.83373892, 62.855792, 36.422635, 17.902913, 1.0393758, 0.43365437, 0.42597544,
]  # fmt: skip


def tx40_state():
    theta = np.array([[0.1, -0.2, 0.3, 0.4, 0.5, 0.6]])
    return Motion(theta - [0.0, -np.pi / 2, np.pi / 2, 0.0, 0.0, 0.0], DQ, DDQ)


def declared_chi(robot, values):
    base = base_parameters(robot)
    return base.standard(np.linalg.solve(declared_transform(robot, base), values))


def tx40_chi(robot):
    return declared_chi(robot, [TX40.get(name, 0.0) for name in robot.declared_base.names])


def parts(robot, motion, chi):
    """Gravity, inertia with rotors, Coriolis, friction."""
    zero = np.zeros_like(motion.q)
    rigid = dynamics.rigid_torque(robot, motion, chi)
    gravity = dynamics.rigid_torque(robot, Motion(motion.q, zero, zero), chi)
    without_acceleration = dynamics.rigid_torque(robot, Motion(motion.q, motion.dq, zero), chi)
    friction = dynamics.inverse_dynamics(robot, motion, chi) - rigid
    return gravity[0], (rigid - without_acceleration)[0], (without_acceleration - gravity)[0], friction[0]


def test_tx40_torque_of_the_published_parameters():
    robot = load("tx40")
    gravity, inertia, coriolis, friction = parts(robot, tx40_state(), tx40_chi(robot))
    printed = 1e-6  # six decimals, half a unit and the parameters' own rounding do not add up to more
    np.testing.assert_allclose(gravity, [0, -21.673204, -0.777152, 0.005666, -0.169555, 0], atol=printed)
    np.testing.assert_allclose(inertia, [1.348748, -2.120646, 0.257633, 0.019683, -0.047163, 0.011643], atol=printed)
    np.testing.assert_allclose(coriolis, [0.015238, -0.016371, -0.019526, 0.000611, -0.000051, 0], atol=printed)
    np.testing.assert_allclose(friction, [9.738630, -9.515920, 7.429600, 3.323020, -1.094576, 2.477605], atol=printed)


def test_tx40_energy_of_the_published_parameters():
    robot = load("tx40")
    chi, motion = tx40_chi(robot), tx40_state()
    params = layout(robot)
    stored = np.zeros(len(params), dtype=bool)
    stored[: params.n_link_params] = True
    stored[list(params.rotor_columns)] = True
    assert dynamics.energy(robot, motion, chi)[0] == pytest.approx(10.743214, abs=1e-6)
    power = dynamics.power_regressor(robot, motion)[0]
    assert power[stored] @ chi[stored] == pytest.approx(5.017076, abs=1e-6)
    assert power @ chi == pytest.approx(18.550438, abs=1e-6)


def test_tx40_poses():
    robot = load("tx40")
    wrist = dynamics.link_poses(robot, tx40_state().q)[0, 5, :3, 3] - [0, 0, 0.320]
    np.testing.assert_allclose(wrist, [0.238269, 0.059082, 0.268577], atol=1e-6)
    home = np.array([[0.0, np.pi / 2, -np.pi / 2, 0.0, 0.0, 0.0]])
    T = dynamics.link_poses(robot, home)[0, 5]
    np.testing.assert_allclose(T[:3, 3], [0.225, 0.035, 0.545], atol=1e-12)
    np.testing.assert_allclose(T[:3, :3], np.eye(3), atol=1e-12)
    gravity = parts(robot, Motion(home, 0 * home, 0 * home), tx40_chi(robot))[0]
    np.testing.assert_allclose(gravity, [0, -21.321054, 0, 0, 0, 0], atol=1e-6)


def test_tx40_friction_as_printed_needs_no_code():
    """Form (b): Fsm6 s(dq6) on joint 5, Fsm6 [s(dq5 + dq6) - s(dq6)] on joint 6 — two tied elements."""
    from dataclasses import replace

    robot = load("tx40")
    e = np.eye(6)
    kept = tuple(term for term in robot.drive.friction if term.parameter != "Fsm6")
    printed = (FrictionTerm("Fsm6", "coulomb", e[5], e[4] - e[5]), FrictionTerm("Fsm6", "coulomb", e[4] + e[5], e[5]))
    other = replace(robot, drive=replace(robot.drive, friction=(*kept, *printed)))
    values = {
        "Fv1": 7.9922, "Fs1": 7.3409, "Fv2": 5.4347, "Fs2": 8.4293, "Fv3": 1.9513, "Fs3": 6.4546, "Fv4": 1.0985,
        "Fs4": 2.5546, "Fv5": 1.8393, "Fs5": 3.0877, "Fv6": 0.65419, "Fs6": 2.2067, "Fvm6": 0.62146, "Fsm6": 1.9489,
    }  # fmt: skip
    chi = declared_chi(other, [values.get(name, 0.0) for name in other.declared_base.names])
    friction = parts(other, tx40_state(), chi)[3]
    np.testing.assert_allclose(friction, [9.738560, -9.516240, 7.430250, 3.323550, -1.315206, 2.546887], atol=1e-6)


def test_qrc350_flange_poses():
    robot = load("qrc350")
    T = dynamics.frame_pose(robot, np.zeros((1, 6)))[0]
    np.testing.assert_allclose(T[:3, 3], [1.155, 0, 1.466], atol=1e-12)
    np.testing.assert_allclose(T[:3, :3], [[0, 0, 1], [0, 1, 0], [-1, 0, 0]], atol=1e-12)
    T = dynamics.frame_pose(robot, np.array([[0.1, 0.2, -0.3, 0.4, 0.5, 0.6]]))[0]
    np.testing.assert_allclose(T[:3, 3], [1.243929, -0.106046, 1.497652], atol=1e-6)
    rotation = [[-0.289405, 0.221026, 0.931339], [0.777749, 0.621478, 0.094189], [-0.557988, 0.751607, -0.351762]]
    np.testing.assert_allclose(T[:3, :3], rotation, atol=1e-6)


def qrc350_state():
    return Motion(np.array([[0.1, 0.2, -0.3, 0.4, 0.5, 0.6]]), DQ, DDQ)


def test_qrc350_torque_of_model_a():
    robot = load("qrc350")
    gravity, inertia, coriolis, friction = parts(robot, qrc350_state(), declared_chi(robot, QRC350))
    np.testing.assert_allclose(gravity, [0, -198.1962, -124.2194, 2.2850, -10.4817, 0], atol=6e-5)
    np.testing.assert_allclose(inertia, [70.8007, -122.2457, 13.5676, -0.6834, 0.2015, 0.4737], atol=6e-5)
    np.testing.assert_allclose(coriolis, [-0.8319, -2.4248, -0.0187, -0.0327, 0.0846, 0.0037], atol=6e-5)
    np.testing.assert_allclose(friction, [95.6660, -124.5422, 56.6281, 4.8526, -1.6277, 1.2171], atol=6e-5)


def test_qrc350_regressor_rows():
    """Columns 1 to 23 of the declared set: X = Y_b T⁻¹."""
    robot = load("qrc350")
    base = base_parameters(robot)
    X = dynamics.regressor(robot, qrc350_state())[0][:, base.kept] @ np.linalg.inv(declared_transform(robot, base))
    rows = [
        "1 0.983896 1.96808 0 0.090224 1.007914 1.003989 0.022257 0 0.010283 -0.003421 0.675231 0 1.21161 0.151121 0 "
        "1.126044 0.638787 2.935243 0 0.311043 1.024963 0",
        "0 0.017524 -0.980067 -2 -4.513078 -0.00894 0.995004 0.088206 1 0.099833 0.754269 -10.053213 0 0.797171 "
        "-0.200011 0 0.470692 -1.08333 -8.060878 0 0.143674 0.545909 0",
        "0 0 0 0 0 -0.00894 0.995004 0.088206 1 0.099833 0.130103 -10.129931 3 0.797171 -0.200011 0 0.470692 -1.08333 "
        "-8.304497 0 0.143674 0.545909 0",
        "0 0 0 0 0 0 0 0 0 0 0 0 0 -0.062712 0.489717 0.5 -0.631528 -0.093993 1.235837 0 -0.201931 3.61373 0",
        "0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0.017507 -1.244145 -7.800169 -1.5 0.022517 -0.775051 0",
        "0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 -0.021295 3.888251 2.5",
    ]
    np.testing.assert_allclose(X[:, :23], [[float(x) for x in row.split()] for row in rows], atol=6e-7)


def variant(name, change):
    data = tomllib.loads(robot_text(name))
    change(data)
    data.pop("declared_base", None)
    return robot_from_data(data, name)


def as_it_is(data):
    pass


def without_drive(data):
    data["drive"].pop("rotors", None)
    data.pop("friction", None)
    data["parameters"] = {k: v for k, v in data.get("parameters", {}).items() if k[0] not in "FIo"}


def without_friction(data):
    data.pop("friction", None)
    data["parameters"] = {k: v for k, v in data["parameters"].items() if k[0] not in "Fo"}


def without_wrist_coupling(data):
    data["friction"].pop("element")
    data["parameters"] = {k: v for k, v in data["parameters"].items() if "m6" not in k}


def with_free_wrist_coupling(data):
    """A rotor of its own at joint 6 unties the coupling inertia from Ia6."""
    data["drive"]["rotor"] = [{"parameter": "Iam6", "senses": {"j6": 1}}]


def without_zeros(data):
    data.pop("assumed_zero")


@pytest.mark.parametrize(
    ("name", "change", "count"),
    [
        ("tx40", without_drive, 36),
        ("tx40", without_friction, 40),
        ("tx40", without_wrist_coupling, 58),
        ("tx40", as_it_is, 60),
        ("tx40", with_free_wrist_coupling, 61),
        ("qrc350", lambda data: (without_friction(data), without_zeros(data)), 40),
        ("qrc350", without_friction, 23),
        ("qrc350", as_it_is, 35),
        ("rotradi", without_friction, 15),
        ("rotradi", as_it_is, 21),
    ],
)
def test_base_counts(name, change, count):
    base = base_parameters(variant(name, change))
    assert len(base) == count
    assert base.gap[0] > 1e3 * base.tolerance > base.gap[1], "the count must not rest on the tolerance"


TX40_REGROUPINGS = {
    "ZZ1R": "ZZ1 + Ia1 + YY2 + YY3 + 2 r3 MZ3 + (d3^2 + r3^2) (M3 + M4 + M5 + M6)",
    "XX2R": "XX2 - YY2 - d3^2 (M3 + M4 + M5 + M6)",
    "XZ2R": "XZ2 - d3 MZ3 - d3 r3 (M3 + M4 + M5 + M6)",
    "ZZ2R": "ZZ2 + Ia2 + d3^2 (M3 + M4 + M5 + M6)",
    "MX2R": "MX2 + d3 (M3 + M4 + M5 + M6)",
    "XX3R": "XX3 - YY3 + YY4 + 2 r4 MZ4 + r4^2 (M4 + M5 + M6)",
    "ZZ3R": "ZZ3 + YY4 + 2 r4 MZ4 + r4^2 (M4 + M5 + M6)",
    "MY3R": "MY3 - MZ4 - r4 (M4 + M5 + M6)",
    "XX4R": "XX4 - YY4 + YY5",
    "ZZ4R": "ZZ4 + YY5",
    "MY4R": "MY4 + MZ5",
    "XX5R": "XX5 - YY5 + YY6",
    "ZZ5R": "ZZ5 + YY6",
    "MY5R": "MY5 - MZ6",
    "XX6R": "XX6 - YY6",
}


def test_tx40_regroupings_are_the_published_ones():
    robot = load("tx40")
    base = base_parameters(robot)
    texts = dict(zip(base.names, regroupings(robot, base, with_random_lengths("tx40")), strict=True))
    assert {name: text for name, text in texts.items() if name.endswith("R")} == TX40_REGROUPINGS
    numbers = dict(zip(base.names, regroupings(robot, base), strict=True))
    assert numbers["ZZ1R"] == "ZZ1 + Ia1 + YY2 + YY3 + 0.07 MZ3 + 0.05185 (M3 + M4 + M5 + M6)"


def test_qrc350_regroupings_are_the_declared_ones_term_by_term():
    """The paper's 35 are our 35, each kept parameter with the very same factors."""
    robot = load("qrc350")
    base = base_parameters(robot)
    declared = np.where(robot.assumed_zero, 0.0, robot.declared_base.combination)
    T = declared_transform(robot, base)
    assert (np.abs(T).sum(axis=0) == 1.0).all()
    assert (np.abs(T).sum(axis=1) == 1.0).all()
    np.testing.assert_allclose(declared, T @ base.regrouping, atol=1e-12)


@pytest.mark.parametrize("name", ["tx40", "qrc350", "rotradi"])
def test_base_parameters_give_the_same_torques(name, random_motion):
    robot = load(name)
    base = base_parameters(robot)
    motion = random_motion(robot, 50)
    chi = np.where(robot.assumed_zero, 0.0, np.random.default_rng(3).normal(size=len(robot.chi)))
    Y = dynamics.regressor(robot, motion)
    np.testing.assert_allclose(Y[:, :, base.kept] @ base.values(chi), Y @ chi, atol=1e-10)
