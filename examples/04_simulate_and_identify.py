"""From a motion to a model on a virtual robot: log, samples, fit, validation."""

import excitor as ex

robot = ex.load_robot("rotradi")
series = ex.Series(period=5, harmonics=5, measured=3)
run, other = (
    ex.solve(ex.build_problem(robot, series, [ex.VelocityLimit(0.5)]), evaluations=600, seed=seed).run
    for seed in (0, 1)
)
known = ex.samples(ex.simulate(run, robot, seed=3), robot, run=run, name="known")
unseen = ex.samples(ex.simulate(other, robot, seed=3), robot, run=other, name="unseen")
print(known)

model = ex.fit(known, method="wls", consistent=True)
print(model)
found = ex.validate(model, unseen)
print(f"unseen motion: {100 * found.model.relative_total:.2f} % torque error, "
      f"prior model {100 * found.baselines['prior model'].relative_total:.0f} %")  # fmt: skip
