"""How the Gram matrix changes with a motion, of mechanisms that no adjoint recursion knows: by differences.

Y is affine in ddq and quadratic in dq, so differences with steps of 1 are exact; positions take a small step.
What drives add is differentiated exactly.
"""

import numpy as np

from excitor.robots.arrays import FloatArray, IntArray
from excitor.robots.drive import drive_elements
from excitor.robots.dynamics import friction_load, regressor
from excitor.robots.kernel.drive import LOAD, OFFSET, STATE, element_slopes, signal
from excitor.robots.parameters import layout
from excitor.robots.robot import Motion, Robot
from excitor.robots.tree import samples

_STEP = 1e-5  # rad or m: errors of 1e-10 from the third derivative, 1e-11 from rounding
Gradient = tuple[FloatArray, FloatArray, FloatArray]


def gram_gradient_by_differences(
    robot: Robot, motion: Motion, columns: IntArray, weights: FloatArray, gram_bar: FloatArray
) -> Gradient:
    """Gradient of J(gram(...)) by q, dq and ddq, each (n_samples, n_joints), given a symmetric gram_bar = ∂J/∂G."""
    Y = regressor(robot, motion)
    bar = np.zeros_like(Y)  # ∂J/∂Y = 2 w² Y ∂J/∂G
    bar[:, :, columns] = 2.0 * (Y[:, :, columns] * weights[None, :, None] ** 2) @ gram_bar
    n = layout(robot).n_link_params
    links = _of_links(robot, motion, bar[:, :, :n])
    drives = _of_drives(robot, motion, bar[:, :, n:])
    return links[0] + drives[0], links[1] + drives[1], links[2] + drives[2]


def _of_links(robot: Robot, motion: Motion, bar: FloatArray) -> Gradient:
    bar = np.ascontiguousarray(bar.transpose(2, 1, 0))
    out = (np.empty_like(motion.q), np.empty_like(motion.q), np.empty_like(motion.q))

    def value(kind: int, joint: int, step: float) -> FloatArray:
        parts = [motion.q, motion.dq, motion.ddq]
        parts[kind] = parts[kind].copy()
        parts[kind][:, joint] += step
        Y = np.empty(bar.shape)
        robot.mechanism.regressor(Motion(*parts), Y)
        return np.asarray(np.einsum("kis,kis->s", bar, Y))

    for joint in range(robot.n_joints):
        for kind, step in enumerate((_STEP, 1.0, 1.0)):
            out[kind][:, joint] = (value(kind, joint, step) - value(kind, joint, -step)) / (2.0 * step)
    return out


def _of_drives(robot: Robot, motion: Motion, bar: FloatArray) -> Gradient:
    out = (np.zeros_like(motion.q), np.zeros_like(motion.q), np.zeros_like(motion.q))
    elements, load = drive_elements(robot), friction_load(robot, motion)
    slope = np.empty(len(motion))
    for e, column in enumerate(elements.column):
        if elements.model[e] in (OFFSET, STATE):
            continue
        element_slopes(elements, e, samples(motion, robot.n_joints), 0, slope)
        if len(load) and elements.model[e] == LOAD:
            slope *= np.abs(load @ elements.acts[e])
        push = (bar[:, :, column] @ elements.acts[e]) * slope
        out[signal(elements, e)][:] += push[:, None] * elements.senses[e]
    return out
