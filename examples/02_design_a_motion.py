"""Design an exciting motion in memory: within limits, around an obstacle, certified between the samples too."""

import excitor as ex

robot = ex.load_robot("ur10")
pillar = ex.Sphere(center=(0.0, 1.6, 0.3), radius=0.2)
problem = ex.build_problem(
    robot,
    ex.Series(period=10, harmonics=5),
    constraints=[ex.ToolSpeed(1.5), ex.VelocityLimit(0.8), ex.KeepOut(pillar, clearance=0.05, name="pillar")],
    criterion="condition",
)
print(problem)

design = ex.solve(problem, evaluations=600, seed=0)
print(design)
for item in sorted(design.certificate.items, key=lambda item: item.margin / abs(item.limit or 1.0))[:3]:
    print(f"  {item.name}: worst {item.worst:.3g} of {item.limit:.3g} {item.unit}")
for reason in design.reasons:
    print("no-go:", reason)
