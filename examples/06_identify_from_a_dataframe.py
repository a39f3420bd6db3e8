"""Identify from a pandas DataFrame: name the columns; a wrong cell is refused with its column and row."""

import numpy as np
import pandas as pd

import excitor as ex

robot = ex.load_robot("rotradi")
rng = np.random.default_rng(0)
t = np.arange(0.0, 30.0, 0.005)
w = np.array([0.9, 1.7, 2.6])
q, dq, ddq = np.sin(w * t[:, None]), w * np.cos(w * t[:, None]), -(w**2) * np.sin(w * t[:, None])
tau = ex.inverse_dynamics(robot, ex.Motion(q, dq, ddq)) + 0.2 * rng.normal(size=q.shape)
table = pd.DataFrame(np.degrees(q), columns=["j1", "j2", "j3"]).assign(t=t, m1=tau[:, 0], m2=tau[:, 1], m3=tau[:, 2])

columns = {"time": "t", "position": {"columns": ["j1", "j2", "j3"], "unit": "deg"}, "torque": ["m1", "m2", "m3"]}
model = ex.fit(ex.samples(ex.Log.from_frame(table, columns), robot, lowpass_hz=10.0), consistent=False)
print(model.to_frame().head(5).to_string(index=False))

table.loc[17, "m2"] = np.nan
try:
    ex.Log.from_frame(table, columns)
except ex.ExcitorError as error:
    print("refused:", error)
