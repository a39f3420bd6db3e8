"""The clients' own evaluation of a run, against the library's."""

import json

import numpy as np
import pytest

from excitor.design.programs.clients.run_motion import Run
from excitor.design.programs.plan import Stretches, marks
from excitor.design.programs.run_json import run_json
from excitor.design.programs.target import Target, to_axes

TARGET = Target("t", "a controller", "A", "streams", "deg", None, 6, 64)


@pytest.mark.parametrize(
    "given", [{}, {"moves": True}, {"robot": "iiwa", "way": 3}, {"ramp": 3.2, "warm_up": 0}], ids=str
)
@pytest.mark.parametrize("order", [0, 1, 2])
def test_clients_evaluate_what_was_planned(plan_of, given, order):
    plan = plan_of(**given)
    run = Run(json.loads(run_json(plan, TARGET)))
    for stretch in Stretches:
        T = plan.stretch(stretch).duration
        assert run.duration(stretch) == pytest.approx(T)
        t = np.linspace(0.0, T, 1001)
        wanted = to_axes(plan.robot, TARGET, plan.stretch(stretch).at(t, order), order)
        assert np.array([run.at(stretch, x, order) for x in t]) == pytest.approx(wanted, abs=1e-9), stretch
    for t, mark in marks(plan):
        assert run.mark(t + 1e-3) == mark


def test_plans_begin_and_end_at_rest_and_at_home(plan_of):
    for plan in (plan_of(way=3), plan_of(moves=True, way=2)):
        for stretch in Stretches:
            ends = np.array([0.0, plan.stretch(stretch).duration])
            for order in (1, 2):
                assert plan.stretch(stretch).at(ends, order) == pytest.approx(0.0, abs=1e-9)
        assert plan.out.at(np.zeros(1))[0] == pytest.approx(plan.home)
        assert plan.back.at(np.array([plan.back.duration]))[0] == pytest.approx(plan.home)
        for order in (0, 1):
            t = np.linspace(0.01, plan.body.duration - 0.01, 300)
            steps = (plan.body.at(t + 1e-6, order) - plan.body.at(t - 1e-6, order)) / 2e-6
            assert plan.body.at(t, order + 1) == pytest.approx(steps, abs=1e-6)
