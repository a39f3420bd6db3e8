"""A friction law of your own: drag |v| v of a joint that stirs oil, named by a robot file like a built-in one."""

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

import excitor as ex
from excitor.robots.load import robot_text

ex.register(
    ex.FrictionLaw(
        "drag",
        lambda dq, q, term: (np.abs(dq) * dq)[:, None],  # (n_samples, n_columns)
        units=(("N m s2/rad2", "N s2/m2"),),
        signs=("positive",),
        dissipates=True,
        rising=True,
    )
)
element = """
[[friction.element]]
parameter = "Fd1"
model = "drag"
senses = { base_joint = 1.0 }
"""
with TemporaryDirectory() as place:
    path = Path(place) / "robot.toml"
    path.write_text(robot_text("rotradi") + element, "utf-8")
    robot = ex.load_robot(path)

t, w = np.arange(0.0, 30.0, 0.01)[:, None], np.array([0.9, 1.7, 2.6])
motion = ex.Motion(np.sin(w * t), w * np.cos(w * t), -(w**2) * np.sin(w * t))
tau = ex.inverse_dynamics(robot, motion) + 0.1 * np.random.default_rng(0).normal(size=motion.q.shape)
tau[:, 0] += 0.8 * np.abs(motion.dq[:, 0]) * motion.dq[:, 0]
model = ex.fit(ex.Samples("run", motion, tau, 100.0, robot=robot), consistent=False)
print(model)
print(model.to_frame().set_index("name").loc[["Fd1"], ["value", "lower", "upper", "unit"]])
