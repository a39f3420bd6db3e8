"""Load a robot of the catalogue: its joints, its base parameters, and the torques of a motion."""

import numpy as np

import excitor as ex

robot = ex.load_robot("tx40")
print(robot.title, "with joints", ", ".join(robot.joint_names))

base = ex.base_parameters(robot)
print(len(base), "base parameters, among them", ", ".join(base.names[:5]))

motion = ex.Motion(np.full((1, 6), 0.5), np.full((1, 6), 1.0), np.zeros((1, 6)))
print("torques at 1 rad/s, N m:", ex.inverse_dynamics(robot, motion).round(1)[0])
print("regressor of one sample:", ex.regressor(robot, motion).shape)
