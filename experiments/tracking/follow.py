"""What a virtual robot does along a reference: PD control, and torques of a model fed forward, or none."""

from dataclasses import replace

import numpy as np

from excitor.experiments.tracking.reference import Reference
from excitor.experiments.virtual.plant import controller_of, plant_of
from excitor.experiments.virtual.truth import Truth
from excitor.robots.arrays import FloatArray, one_blas_thread
from excitor.robots.dynamics import inverse_dynamics
from excitor.robots.errors import ExcitorError
from excitor.robots.robot import Robot
from excitor.robots.simulate import with_friction_width

WIDTH = 0.01  # rad/s or m/s over which the sign of fed-forward friction changes


def torques(robot: Robot, reference: Reference, chi: FloatArray) -> FloatArray:
    """Evaluate what a model feeds forward, (n_steps, n_joints): of what is commanded, not of what is measured."""
    smooth = with_friction_width(robot, WIDTH)
    return np.ascontiguousarray(inverse_dynamics(smooth, reference.motion, chi))


@one_blas_thread()
def followed(truth: Truth, robot: Robot, reference: Reference, forward: FloatArray, gains: FloatArray) -> FloatArray:
    """Simulate the closed loop; positions of the judged part, (n_judged, n_joints).

    `robot` carries what the truth carries; the controller's gains are tuned on the parameters `gains`. ExcitorError
    where the robot gets out of control.
    """
    from excitor.robots.kernel import steps as loop

    tuned = replace(robot, chi=gains, payload=None, declared_base=None)
    controller = controller_of(truth, tuned, reference.motion, forward, reference.step)
    out = np.zeros((loop.N_SIGNALS_CLOSED_LOOP, len(reference.motion), robot.n_joints))
    out[loop.TEMPERATURE, 0] = truth.temperature
    motion = reference.motion
    commanded = (np.ascontiguousarray(motion.q), np.ascontiguousarray(motion.dq), forward)
    done = loop.run_closed_loop(plant_of(truth, robot), controller, commanded, out)
    if done < len(motion):
        raise ExcitorError(f"{robot.name}: got out of control {done * reference.step:.3g} s after it had begun")
    return np.ascontiguousarray(out[loop.POSITION_CLOSED_LOOP, reference.lead :])
