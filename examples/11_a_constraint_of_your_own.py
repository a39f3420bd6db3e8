"""A constraint of your own: the tool stays above a height, in search, certificate, way from home and explanation."""

from dataclasses import dataclass

import numpy as np

import excitor as ex
from excitor.design.certify.bounds import body_point_rates
from excitor.design.constraints.constraint import Row
from excitor.robots.dynamics import frame_pose


@dataclass(frozen=True, eq=False)
class ToolHeight(ex.Constraint):
    """Least height of the tool point above the base, m."""

    least: float
    order = 0  # values depend on positions alone,
    everywhere = True  # so they count on the way from home, too

    def rows(self, robot):
        return (Row("tool height", "m", self.least, lower=True, kind="tool height", group="tool height"),)

    def values(self, trace):
        return frame_pose(trace.robot, trace.motion.q)[:, 2, 3:]  # (n_samples, n_rows)

    def violations(self, robot, values, reserve=None):
        return (self.least + 0.001 - values) / 0.1

    def bound(self, robot, part):  # between samples: z >= z at the ends - h^2 / 8 max |z''|
        z = frame_pose(robot, part.jets[0])[:, 2, 3:]
        rates = body_point_rates(robot.mechanism, robot.tool.link, robot.tool.T_link_frame[:3, 3], part)
        return part.enclose(z, rates[2][:, None])[0], z


robot = ex.load_robot("rotradi")
problem = ex.build_problem(robot, ex.Series(5, 3), [ToolHeight(-0.05)], home=np.radians([0.0, 100.0, 0.0]))
design = ex.solve(problem, evaluations=600, seed=0)
print(design)
print([(item.name, round(item.worst, 3), item.holds) for item in design.certificate.items if "height" in item.name])
