"""What trees need that differ in their parameters, each in a state of its own: for populations of simulated robots."""

from typing import Any

import numpy as np

from excitor.robots.arrays import FloatArray
from excitor.robots.kernel.chain import Chain
from excitor.robots.kernel.columns import link_wrench, screw_momentum
from excitor.robots.kernel.compile import LANES, LINK_ROWS, SCREW_ROWS, compiled, inner
from excitor.robots.kernel.recursion import recursion, start_at_base


@compiled
def fill_each(chain: Chain, motion: Any, phi: FloatArray, bias: FloatArray, mass: FloatArray) -> None:
    """Write torques bias (n_runs, n_joints) and mass matrices of runs whose links are phi (n_runs, n_links, 10).

    `motion` is (q, dq, ddq), each (n_joints, n_runs), a sample a run.
    """
    n_links = chain.coupling.shape[0]
    n_runs = bias.shape[0]
    links = np.empty((n_links + 1) * LINK_ROWS)
    screws = np.empty(chain.pair_joint.size * SCREW_ROWS)
    wrench = np.empty(6 * LANES)
    start_at_base(chain, links)
    bias[:, :] = 0.0
    mass[:, :, :] = 0.0
    for first in range(0, n_runs, LANES):
        m = min(LANES, n_runs - first)
        recursion(chain, motion, first, m, links, screws)
        for j in range(n_links):
            begin, end = chain.pair_start[j], chain.pair_start[j + 1]
            for lane in range(m):
                link_wrench(wrench, links[(j + 1) * LINK_ROWS + lane : (j + 2) * LINK_ROWS], phi[first + lane, j], 1)
                for pair in range(begin, end):
                    bias[first + lane, chain.pair_joint[pair]] += along(screws, pair, lane, wrench)
            for pair in range(begin, end):
                k = chain.pair_joint[pair]
                for lane in range(m):
                    screw = screws[pair * SCREW_ROWS + lane : (pair + 1) * SCREW_ROWS]
                    screw_momentum(wrench, screw, phi[first + lane, j], 1)
                    for other in range(begin, end):
                        i = chain.pair_joint[other]
                        mass[first + lane, i, k] += along(screws, other, lane, wrench)


@inner
def along(screws: FloatArray, pair: int, lane: int, wrench: FloatArray) -> float:
    """Project the wrench in lane 0 on a pair's screw in another lane."""
    power = 0.0
    for row in range(6):
        power += screws[pair * SCREW_ROWS + row * LANES + lane] * wrench[row * LANES]
    return power
