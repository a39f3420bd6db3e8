"""Parts of robots: joints that are held, against pinocchio's reduced models; grippers; branches; what is refused."""

import numpy as np
import pinocchio as pin
import pytest

from excitor.robots.base import base_parameters
from excitor.robots.dynamics import inverse_dynamics, mass_matrix
from excitor.robots.files.urdf import robot_from_urdf
from excitor.robots.load import load
from excitor.robots.robot import Motion
from tests.robots.test_urdf import random_urdf

SAME = 1e-12  # of the largest torque


def held_file(folder, text, held, extra=""):
    """Write a URDF, and a robot file over it that holds joints (name -> rad or m)."""
    (folder / "arm.urdf").write_text(text)
    lines = ['base = "arm.urdf"', extra]
    for name, position in held.items():
        slides = f'name="{name}" type="prismatic"' in text
        key, value = ("held_m", position) if slides else ("held_deg", float(np.degrees(position)))
        lines += ["[[joint]]", f'name = "{name}"', f"{key} = {value!r}"]
    path = folder / "part.toml"
    path.write_text("\n".join(lines))
    return path


def reduced(text, held):
    """Build pinocchio's reduced model, its continuous joints as revolute ones."""
    model = pin.buildModelFromXML(text.replace('"continuous"', '"revolute"'))
    q = pin.neutral(model)
    for name, position in held.items():
        q[model.joints[model.getJointId(name)].idx_q] = position
    return pin.buildReducedModel(model, [model.getJointId(name) for name in held], q)


def chosen(text, seed):
    names = robot_from_urdf(text, "f").joint_names
    rng = np.random.default_rng(seed)
    return {name: float(rng.uniform(-2, 2)) for name in names if len(names) > 1 and rng.random() < 0.45}


@pytest.mark.parametrize("seed", range(40))
def test_held_joints_are_those_of_pinocchios_reduced_model(tmp_path, seed):
    text = random_urdf(seed)
    held = dict(list(chosen(text, seed).items())[: robot_from_urdf(text, "f").n_joints - 1])
    robot, model = load(held_file(tmp_path, text, held)), reduced(text, held)
    data = model.createData()
    assert robot.n_joints == model.nv
    assert robot.held.keys() == held.keys()
    motion = Motion(*np.random.default_rng(seed).uniform(-2, 2, size=(3, 12, robot.n_joints)))
    tau, M = inverse_dynamics(robot, motion), mass_matrix(robot, motion.q)
    order = [model.joints[model.getJointId(name)].idx_v for name in robot.joint_names]
    back = np.argsort(order)
    for k in range(len(motion)):
        q, v, a = (x[k, back] for x in (motion.q, motion.dq, motion.ddq))
        theirs = pin.rnea(model, data, q, v, a)[order]
        np.testing.assert_allclose(tau[k], theirs, rtol=0.0, atol=SAME * max(1.0, np.abs(theirs).max()))
        upper = np.triu(pin.crba(model, data, q))
        inertia = (upper + np.triu(upper, 1).T)[np.ix_(order, order)]
        np.testing.assert_allclose(M[k], inertia, rtol=0.0, atol=SAME * max(1.0, np.abs(inertia).max()))


@pytest.mark.parametrize("seed", range(0, 40, 5))
def test_base_parameters_are_as_many_as_pinocchios(tmp_path, seed):
    text = random_urdf(seed)
    held = dict(list(chosen(text, seed).items())[: robot_from_urdf(text, "f").n_joints - 1])
    over = 'friction = []\n[drive]\nrotors = "none"\n'
    robot, model = load(held_file(tmp_path, text, held, over)), reduced(text, held)
    data = model.createData()
    states = np.random.default_rng(seed).uniform(-2, 2, size=(200, 3, model.nv))
    rows = np.vstack([pin.computeJointTorqueRegressor(model, data, *state) for state in states])
    values = np.linalg.svd(rows, compute_uv=False)
    assert len(base_parameters(robot)) == int((values > 1e-8 * values[0]).sum())
