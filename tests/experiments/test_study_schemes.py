"""Five schemes on other robots: cut-offs from the motion, rankings on virtual robots, the recording's figures."""

from pathlib import Path

import numpy as np
import pytest

from excitor.experiments.studies import schemes
from excitor.identify.samples import Samples
from excitor.identify.schemes import KINDS, Scheme, scheme_regression
from excitor.robots.load import load
from excitor.robots.robot import Motion

DATA = Path(__file__).parents[3] / "shared" / "data" / "tx40"
needs_data = pytest.mark.skipif(not DATA.is_dir(), reason=f"the TX-40 recording is not at {DATA}")


def test_standing_before_and_after_is_cut_off():
    robot = load("tx40")
    dq = np.zeros((100, 6))
    dq[20:30, 2] = dq[60:81, 5] = 1.0
    cut = schemes.while_moving(robot, Samples("run", Motion(0.0 * dq, dq, 0.0 * dq), dq + 1.0, 100.0))
    assert np.array_equal(cut.motion.dq, dq[20:81])
    assert np.array_equal(cut.tau, dq[20:81] + 1.0)


def test_virtual_runs_obey_their_truth():
    """The Delta's equations hold with the true parameters but for noise: 1.5 N m white, thinned to about 0.3."""
    case = schemes.delta_case(0)
    regression = scheme_regression(case.robot, case.runs, Scheme("dynamic"), rows=case.rows)
    residual = regression.y - regression.W @ np.linalg.solve(case.T, case.truth)
    assert 0.1 < np.std(residual) < 0.5


@pytest.mark.slow
@pytest.mark.parametrize(("name", "case_of"), [("tx40", "tx40_case"), ("delta", "delta_case")])
def test_rows_of_each_joint_beat_rows_of_all_together(name, case_of):
    """Medians of two seeds: both dynamic models before both power models, the energy's integrals last."""
    context = {}
    figures = schemes.virtual_figures(name, getattr(schemes, case_of), range(2), context)
    percent = {f.name.rsplit(".", 1)[1]: f.ours for f in figures}
    order = [percent[f"{schemes.NAMES[kind]}_percent"] for kind in KINDS]
    dynamic, filtered, energy, power, filtered_power = order
    assert max(dynamic, filtered) < min(power, filtered_power)
    assert max(power, filtered_power) < energy
    assert "rad/s" in context[f"schemes.{name}"]["cutoff"]


@needs_data
@pytest.mark.slow
def test_recording_gives_the_references_figures():
    context = {}
    figures = {f.name: f for f in schemes.recorded_figures(DATA, context)}
    asked = [f for f in figures.values() if f.target is not None]
    assert len(asked) == 5
    assert all(f.holds for f in asked), {f.name: f.ours for f in asked if not f.holds}
    power, filtered = (figures[f"schemes.tx40_real.{name}_error"].ours for name in ("power", "filtered_power"))
    assert figures["schemes.tx40_real.filtered_dynamic_error"].ours < 0.06 < filtered < power
