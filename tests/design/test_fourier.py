import numpy as np
import pytest

from excitor.design.motion import Excitation, periodic_run


def excitation(**changed):
    settings = {
        "period": 10.0, "sample_time": 0.004, "harmonics": (1, 2, 5), "moving": np.array([True, False, True]),
        "ramp": 4.0, "settle": 1.0, "hold": 0.5, "warm_up": 1, "measured": 2,
    }  # fmt: skip
    return Excitation(**(settings | changed))


def random_trajectory(seed=0, **changed):
    random = np.random.default_rng(seed)
    chosen = excitation(**changed)
    shape = (3, len(chosen.harmonics))
    still = chosen.moving[:, None]
    return periodic_run(
        chosen, random.normal(size=3), still * random.normal(size=shape), still * random.normal(size=shape)
    )


def test_series_is_the_papers_equation_with_amplitudes_in_rad():
    trajectory = random_trajectory()
    t = np.linspace(0.0, 20.0, 57)
    w = 2 * np.pi / 10.0
    q = np.array([
        trajectory.series.center + sum(
            trajectory.series.sines[:, i] * np.sin(k * w * s) + trajectory.series.cosines[:, i] * np.cos(k * w * s)
            for i, k in enumerate((1, 2, 5))
        )
        for s in t
    ])  # fmt: skip
    assert np.allclose(trajectory.periodic.at(t), q, atol=1e-14)


@pytest.mark.parametrize("order", [0, 1, 2, 3])
def test_derivatives_of_the_whole_run_are_those_of_differences(order):
    trajectory = random_trajectory()
    t, step = np.linspace(0.0, trajectory.duration, 400_001, retstep=True)
    below, above = trajectory.at(t, order), trajectory.at(t, order + 1)
    differences = (below[2:] - below[:-2]) / (2.0 * step)
    off = np.abs(differences - above[1:-1]).max(axis=1) / np.abs(above).max()
    edges = [phase.start for phase in trajectory.phases][1:]
    inside = np.all([np.abs(t[1:-1] - edge) > 2 * step for edge in edges], axis=0)
    assert off[inside].max() < 1e-5
    if order < 3:  # the envelope's third derivative is continuous, its fourth is not
        assert off.max() < 1e-3


def test_a_run_starts_and_ends_at_rest_at_its_centre():
    trajectory = random_trajectory()
    ends = np.array([0.0, 0.5, 1.0, trajectory.duration - 0.25, trajectory.duration])
    assert np.array_equal(trajectory.at(ends), np.tile(trajectory.series.center, (5, 1)))
    for order in (1, 2, 3):
        assert np.abs(trajectory.at(ends, order)).max() < 1e-12


def test_measured_periods_start_at_phase_zero():
    trajectory = random_trajectory()
    start = {phase.name: phase.start for phase in trajectory.phases}["measured"]
    assert start == 1.0 + 4.0 + 10.0
    t = np.linspace(0.0, 20.0, 101)
    run = trajectory.motion(start + t)
    assert np.allclose(run.q, trajectory.periodic.at(t), atol=1e-12)
    assert np.allclose(run.ddq, trajectory.periodic.motion(t).ddq, atol=1e-11)


def test_a_smaller_run_keeps_its_centre():
    trajectory = random_trajectory()
    t = np.linspace(0.0, trajectory.duration, 999)
    small = trajectory.scaled(0.15).at(t) - trajectory.series.center
    assert np.allclose(small, 0.15 * (trajectory.at(t) - trajectory.series.center), atol=1e-14)


def test_joints_that_stand_still_do():
    trajectory = random_trajectory()
    q = trajectory.periodic.at(trajectory.periodic.grid(64))
    assert np.ptp(q[:, 1]) == 0.0
    assert np.ptp(q[:, [0, 2]], axis=0).min() > 0.1


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"period": 10.001}, "period is 10.001 s, which is no whole number of controller samples of 0.004 s; 10 s"),
        ({"ramp": 4.001}, "ramp is 4.001 s"),
        ({"harmonics": ()}, "expected rising numbers from 1"),
        ({"harmonics": (2, 1)}, "expected rising numbers from 1"),
        ({"harmonics": (1, 126)}, "carries 125 harmonics at most"),
        ({"measured": 0}, "expected at least 0 \\+ 1"),
        ({"moving": np.zeros(3, bool)}, "no joint moves"),
        ({"period": -1.0}, "positive time"),
        ({"settle": -0.004}, "settle is -0.004"),
    ],
)
def test_what_cannot_be_executed_is_refused(changed, sentence):
    with pytest.raises(ValueError, match=sentence):
        excitation(**changed)
