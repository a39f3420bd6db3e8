"""Write a controller's programs of a motion: each is executed on a virtual clock first, and refused if it fails."""

from pathlib import Path
from tempfile import TemporaryDirectory

import excitor as ex

robot = ex.load_robot("ur10")
problem = ex.build_problem(robot, ex.Series(period=5, harmonics=3, measured=1))
design = ex.solve(problem, evaluations=400)
with TemporaryDirectory() as place:
    folder = ex.emit(design.run, robot, "urscript", place, allow={"no-go", "motion-only"})
    print("written:", ", ".join(sorted(path.name for path in Path(folder).iterdir())))
    print("verified again:", ex.verify(folder, design.run).good)
