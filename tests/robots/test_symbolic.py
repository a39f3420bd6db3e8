"""Closed forms against the Rotradi fact sheet, and against the compiled kernel."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
import sympy

from excitor.robots.arrays import FloatArray
from excitor.robots.dynamics import inverse_dynamics, mass_matrix
from excitor.robots.errors import ExcitorError
from excitor.robots.parameters import layout
from excitor.robots.robot import DriveTrain, Frame, FrictionTerm, Limits, Motion, Robot, RotorInertia
from excitor.robots.symbolic import ClosedForm, closed_form, text
from excitor.robots.tree import Tree

L2, G = 0.45, 9.81
BASE = ("ZZ1", "XX2", "XY2", "XZ2", "YZ2", "ZZ2", "XX3", "XY3", "XZ3", "YZ3", "ZZ3", "MX3", "MY3", "MX2", "MY2")
FRICTION = ("Fv1", "Fv2", "Fv3", "Fs1", "Fs2", "Fs3")
# Both sides are a few dozen operations; 1e-12 of the largest is far above their rounding.
ROUNDING = 1e-12


def robot_of(tree: Tree, friction: tuple[FrictionTerm, ...] = (), rotors: tuple[RotorInertia, ...] = ()) -> Robot:
    n = tree.n_joints
    free = np.full(n, np.inf)
    n_params = 10 * tree.n_links + len({element.parameter for element in (*rotors, *friction)})
    return Robot(
        name="small arm",
        mechanism=tree,
        drive=DriveTrain(np.eye(n), np.full((n, 4), np.nan), np.ones(n), rotors, friction),
        limits=Limits(np.stack([-free, free], axis=1), free, free, free, free),
        tool=Frame("tool", tree.n_links - 1, np.eye(4)),
        payload=None,
        chi=np.random.default_rng(5).normal(size=n_params),
        known=np.ones(n_params, dtype=bool),
        assumed_zero=np.zeros(n_params, dtype=bool),
        lengths={"L2": L2},
    )


def tree_of(before: list[FloatArray], **changes: object) -> Tree:
    n = len(before)
    fields: dict[str, object] = {
        "joint_names": tuple(f"j{i}" for i in range(n)),
        "link_names": tuple(f"l{i}" for i in range(n)),
        "parents": np.arange(n) - 1,
        "before": before,
        "axis": np.tile([0.0, 0.0, 1.0], (n, 1)),
        "after": np.tile(np.eye(4), (n, 1, 1)),
        "sliding": np.zeros(n, dtype=bool),
        "coupling": np.eye(n),
        "offset": np.zeros(n),
        "gravity": [0.0, 0.0, -G],
    }
    return Tree(**{**fields, **changes})  # type: ignore[arg-type]


def rot_x(angle: float, *shift: float) -> FloatArray:
    c, s = np.cos(angle), np.sin(angle)
    x, y, z = shift or (0.0, 0.0, 0.0)
    return np.array([[1, 0, 0, x], [0, c, -s, y], [0, s, c, z], [0, 0, 0, 1]])


def rotradi() -> Robot:
    e = np.eye(3)
    friction = [FrictionTerm(f"Fv{i + 1}", "viscous", e[i], e[i]) for i in range(3)]
    friction += [FrictionTerm(f"Fs{i + 1}", "coulomb", e[i], e[i]) for i in range(3)]
    before = [np.eye(4), rot_x(np.pi / 2), rot_x(0.0, L2, 0.0, 0.0)]
    return robot_of(tree_of(before, offset=[0.0, -np.pi / 2, 0.0]), tuple(friction))


def branching() -> Robot:
    """A slide, free axes, constants behind the joints, a dependent joint, tilted gravity, and a skew rotor."""
    tree = tree_of(
        [rot_x(0.3, 0.1, 0.2, 0.0), rot_x(0.0, 0.3, 0.0, 0.0), rot_x(np.pi / 2, 0.0, 0.0, 0.4), np.eye(4)],
        joint_names=("turn", "slide", "arm"),
        parents=[-1, 0, 0, 2],
        axis=[[0, 0, 1], [0.6, 0, 0.8], [0, 1, 0], [1, 0, 0]],
        after=[np.eye(4), np.eye(4), rot_x(np.pi / 2, L2, 0.0, 0.1), np.eye(4)],
        sliding=[False, True, False, False],
        coupling=[[1, 0, 0], [0, 1, 0], [0, 0, 1], [0, 0.5, -1]],
        offset=[0.4, 0.2, np.pi, 0.0],
        gravity=[1.0, 2.0, -9.0],
    )
    rotor = RotorInertia("Ia", np.array([1.0, 30.0, 0.0]), np.array([1.0, 20.0, 0.0]))
    v = np.array([0.0, 1.0, 2.0])
    friction = (
        FrictionTerm("Fs", "coulomb", v, v, width=0.1),
        FrictionTerm("Fr", "sqrt", v, v),
        FrictionTerm("Ft", "stribeck", v, v, scale=0.3),
        FrictionTerm("Rs", "ripple-sin", v, v, scale=3.0),
        FrictionTerm("Rc", "ripple-cos", v, v, scale=7.0),
        FrictionTerm("off", "offset", v, v),
    )
    return robot_of(tree, friction, (rotor,))


def two_joints() -> Robot:
    return robot_of(tree_of([np.eye(4), rot_x(0.7, L2, -L2, 0.0)], gravity=[0.0, -G, 0.0]))


def evaluated(model: ClosedForm, state: FloatArray, values: Mapping[str, float]) -> list[FloatArray]:
    """M, c, g and friction at (q, dq)."""
    symbols = [*model.q, *model.dq, *model.parameters.values(), *model.constants]
    numbers = [*state.ravel(), *(values[name] for name in model.parameters), *model.constants.values()]
    parts = (model.M, model.c, model.g, model.friction)
    return [np.array(part, dtype=float) for part in sympy.lambdify(symbols, parts, "numpy")(*numbers)]


def fact_sheet(theta: FloatArray, q: FloatArray, dq: FloatArray) -> list[FloatArray]:
    """Section 2 of the fact sheet, word by word; theta[0] is not used."""
    s2, c2, s23, c23 = -np.cos(q[1]), np.sin(q[1]), -np.cos(q[1] + q[2]), np.sin(q[1] + q[2])
    s3, c3 = np.sin(q[2]), np.cos(q[2])
    t, d2, d3, d23 = theta, dq[1], dq[2], dq[1] + dq[2]
    kappa = L2 * (t[12] * c3 - t[13] * s3)
    M11 = t[1] + t[2] * s2**2 + 2 * t[3] * s2 * c2 + t[7] * s23**2 + 2 * t[8] * s23 * c23
    M11 += 2 * L2 * c2 * (t[12] * c23 - t[13] * s23)
    M13 = t[9] * s23 + t[10] * c23
    M12 = t[4] * s2 + t[5] * c2 + M13
    M22, M23, M33 = t[6] + t[11] + 2 * kappa, t[11] + kappa, t[11]
    A3 = 2 * t[7] * s23 * c23 + 2 * t[8] * (c23**2 - s23**2) - 2 * L2 * c2 * (t[12] * s23 + t[13] * c23)
    A2 = 2 * t[2] * s2 * c2 + 2 * t[3] * (c2**2 - s2**2) + 2 * t[7] * s23 * c23 + 2 * t[8] * (c23**2 - s23**2)
    A2 += -2 * L2 * t[12] * (s2 * c23 + c2 * s23) + 2 * L2 * t[13] * (s2 * s23 - c2 * c23)
    kp = -L2 * (t[12] * s3 + t[13] * c3)
    h1 = (A2 * d2 + A3 * d3) * dq[0] + (t[4] * c2 - t[5] * s2) * d2**2 + (t[9] * c23 - t[10] * s23) * d23**2
    h2 = kp * (2 * d2 * d3 + d3**2) - A2 * dq[0] ** 2 / 2
    h3 = -kp * d2**2 - A3 * dq[0] ** 2 / 2
    g3 = G * (t[12] * c23 - t[13] * s23)
    g2 = t[14] * c2 - t[15] * s2 + g3
    M = np.array([[M11, M12, M13], [M12, M22, M23], [M13, M23, M33]])
    friction = t[16:19] * dq + t[19:22] * np.sign(dq)
    return [M, np.array([[h1], [h2], [h3]]), np.array([[0.0], [g2], [g3]]), friction[:, None]]


def test_rotradi_is_the_fact_sheets() -> None:
    rng = np.random.default_rng(0)
    model = closed_form(rotradi(), kept=BASE + FRICTION)
    for _ in range(5):
        values = dict(zip(BASE + FRICTION, rng.normal(size=21), strict=True))
        theta = np.array([np.nan, *values.values()])
        theta[14:16] *= G
        state = rng.normal(size=(2, 3))
        for ours, theirs in zip(evaluated(model, state, values), fact_sheet(theta, *state), strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=0.0, atol=ROUNDING * np.abs(theta[1:]).max())


@pytest.mark.parametrize("build", [rotradi, branching, two_joints])
def test_closed_form_is_the_compiled_kernel(build: object) -> None:
    robot: Robot = build()  # type: ignore[operator]
    model = closed_form(robot)
    values = dict(zip(layout(robot).names, robot.chi, strict=True))
    rng = np.random.default_rng(1)
    for _ in range(5):
        q, dq = state = rng.normal(size=(2, robot.n_joints))
        M, c, g, f = evaluated(model, state, values)
        np.testing.assert_allclose(M, mass_matrix(robot, q[None])[0], rtol=0.0, atol=ROUNDING * np.abs(M).max())
        bias = inverse_dynamics(robot, Motion(q[None], dq[None], 0.0 * q[None]))[0]
        at_rest = robot_of(robot.mechanism, (), robot.drive.rotors)  # type: ignore[arg-type]
        chi = robot.chi[: len(at_rest.chi)]
        weight = inverse_dynamics(at_rest, Motion(q[None], 0.0 * q[None], 0.0 * q[None]), chi)[0]
        np.testing.assert_allclose((c + g + f)[:, 0], bias, rtol=0.0, atol=ROUNDING * np.abs(bias).max() * 10)
        np.testing.assert_allclose(g[:, 0], weight, rtol=0.0, atol=ROUNDING * np.abs(bias).max() * 10)


def test_parameters_that_do_nothing_do_not_appear() -> None:
    model = closed_form(rotradi())
    assert {"XX1", "MX1", "M1", "MZ2"}.isdisjoint(model.parameters)
    assert {"ZZ1", "YY2", "M3"} <= set(model.parameters)


def test_the_print_reads_as_written_by_hand() -> None:
    lines = text(closed_form(rotradi(), kept=("XX2", "MX3", "ZZ3", "XZ3", "Fv1", "Fs1"))).splitlines()
    assert "with g = 9.81, L2 = 0.45" in lines
    assert "M11 = 2*L2*MX3*sin(q2)*sin(q2 + q3) + XX2*cos(q2)**2" in lines
    assert "M33 = ZZ3" in lines
    assert "g1 = 0" in lines
    assert "g3 = MX3*g*sin(q2 + q3)" in lines
    assert "f1 = Fs1*sign(dq1) + Fv1*dq1" in lines
    assert any(line.startswith("c1 = ") and "XZ3*(dq2 + dq3)**2*sin(q2 + q3)" in line for line in lines)
    assert not any(line.startswith("M21") for line in lines)


def test_an_unnamed_length_is_a_decimal_and_an_equal_ratio_no_length() -> None:
    robot = replace(two_joints(), lengths={"half": 0.5, "L": L2})
    assert "L**2" in text(closed_form(robot, kept=("M2",)))
    assert "L2" not in text(closed_form(robot, kept=("M2",)))
    assert "M11 = 0.405*M2" in text(closed_form(replace(robot, lengths={}), kept=("M2",)))
    geared = replace(branching(), lengths={"half": 0.5})
    assert "half" not in text(closed_form(geared, kept=("XX4", "M4")))


def test_rounding_of_a_general_twist_leaves_no_dust() -> None:
    """cos² 0.7 + sin² 0.7 is 1 but for rounding, and what should cancel leaves nothing of 1e-17 to print."""
    printed = text(closed_form(two_joints(), kept=("ZZ1", "XX2", "YY2", "ZZ2", "M2")))
    assert "M11 = 2*L2**2*M2 + " in printed
    assert "e-" not in printed


def test_a_skew_rotor_prints_all_of_M() -> None:
    printed = text(closed_form(branching(), kept=("Ia",)))
    assert "M12 = 30*Ia" in printed
    assert "M21 = 20*Ia" in printed


def test_what_has_no_closed_form_is_refused_in_a_sentence() -> None:
    with pytest.raises(ExcitorError, match="small arm has 5 joints, and closed forms of more than 4"):
        closed_form(robot_of(tree_of([np.eye(4)] * 5)))
    e = np.eye(2)[0]
    loaded = robot_of(two_joints().mechanism, (FrictionTerm("Fl", "load", e, e),))  # type: ignore[arg-type]
    with pytest.raises(ExcitorError, match=r"'Fl' is load.*leave it out of `kept`"):
        closed_form(loaded)
    assert "Fl" not in text(closed_form(loaded, kept=("ZZ1",)))
    with pytest.raises(ValueError, match="'ZZ7' is not one"):
        closed_form(two_joints(), kept=["ZZ7"])
