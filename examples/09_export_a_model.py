"""Export a model: MuJoCo, code, and a form of your own."""

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

import excitor as ex

robot = ex.load_robot("rotradi")
rng = np.random.default_rng(0)
t, w = np.arange(0.0, 30.0, 0.01)[:, None], np.array([0.9, 1.7, 2.6])
q, dq, ddq = np.sin(w * t), w * np.cos(w * t), -(w**2) * np.sin(w * t)
tau = ex.inverse_dynamics(robot, ex.Motion(q, dq, ddq)) + 0.2 * rng.normal(size=q.shape)
model = ex.fit(ex.Samples("run", ex.Motion(q, dq, ddq), tau, 100.0, robot=robot))

ex.register(ex.Export("list", "model.txt", lambda model: "\n".join(f"{x:.6g}" for x in model.chi)))
with TemporaryDirectory() as place:
    for form, name in (("mjcf", "arm.xml"), ("py", "arm.py"), ("c", "arm.c"), ("list", "arm.txt")):
        notes = ex.export(model, form, Path(place) / name)
        print(f"{name:8} {(Path(place) / name).stat().st_size:6} bytes", *notes)
    print("read back:", ex.load_model(model.save(place), robot))
print(model.to_latex().splitlines()[4])
