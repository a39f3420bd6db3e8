"""Code of every catalogue robot, on its base parameters: compiles without a warning and gives the kernel's torques."""

import ctypes
import shutil
import subprocess

import numpy as np
import pytest

from excitor.robots.base import base_parameters
from excitor.robots.codegen import SIGN_WIDTH, inverse_dynamics_code
from excitor.robots.dynamics import inverse_dynamics
from excitor.robots.parameters import prior
from excitor.robots.robot import Motion
from excitor.robots.simulate import with_friction_width

STRICT = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-O1", "-shared", "-fPIC"]


@pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed, so generated C cannot be compiled")
def test_generated_c_of_the_catalogue(catalogue_robot, tmp_path):
    robot = catalogue_robot
    base = base_parameters(robot)
    chi = base.standard(base.values(np.where(robot.assumed_zero, 0.0, prior(robot))))
    source, library = tmp_path / "model.c", tmp_path / "model.so"
    source.write_text(inverse_dynamics_code(robot, "c", chi=chi, name="torques"))
    subprocess.run(["gcc", *STRICT, str(source), "-o", str(library), "-lm"], check=True)
    function = ctypes.CDLL(str(library)).torques
    rng = np.random.default_rng(0)
    motion = Motion(*rng.normal(size=(3, 50, robot.n_joints)))
    expected = inverse_dynamics(with_friction_width(robot, SIGN_WIDTH), motion, chi)
    vector = ctypes.c_double * robot.n_joints
    for q, dq, ddq, tau in zip(motion.q, motion.dq, motion.ddq, expected, strict=True):
        out = vector()
        function(vector(*q), vector(*dq), vector(*ddq), out)
        np.testing.assert_allclose(np.array(out), tau, rtol=1e-10, atol=1e-10 * np.abs(expected).max())
