"""What controllers make of points: against the fact sheet's table, polynomials, and finite differences."""

from dataclasses import replace

import numpy as np
import pytest

from excitor.design.programs.csv import execute
from excitor.design.programs.interpolate import (
    SHARES,
    blended,
    evaluate,
    followed,
    joined,
    plausible_blends,
    plausible_splines,
)
from excitor.design.programs.package import package
from excitor.design.programs.registry import emitter
from excitor.design.programs.target import Machine

PERIOD = 20.0


def signal(t, order=0):
    """10 harmonics, T = 20 s, amplitudes 1 / k: facts/controllers.md 1.1."""
    k = np.arange(1, 11)
    w = 2.0 * np.pi * k / PERIOD
    phase = np.random.default_rng(0).uniform(0.0, 2.0 * np.pi, k.size) + 0.5 * np.pi * order
    return (np.sin(np.asarray(t)[:, None] * w + phase) * w**order / k).sum(axis=1)[:, None]


def courses_through(t, q, dq, ddq):
    return [
        joined(t, q, "quintic", dq, ddq), joined(t, q, "cubic", dq), joined(t, q, "cubic spline"),
        joined(t, q, "quintic spline"), joined(t, q, "catmull-rom"), joined(t, q, "lines"),
        *(blended(t, q, share, smooth=smooth) for share in SHARES for smooth in (False, True)),
    ]  # fmt: skip


@pytest.fixture(scope="module")
def resting():
    """Points of a smooth move of two joints from rest to rest, unevenly spaced."""
    t = np.cumsum(np.concatenate([[0.0], np.random.default_rng(1).uniform(0.05, 0.15, 30)]))
    s = t / t[-1]
    rise = (35 * s**4 - 84 * s**5 + 70 * s**6 - 20 * s**7)[:, None] * np.array([1.0, -0.5])
    rate = ((140 * s**3 - 420 * s**4 + 420 * s**5 - 140 * s**6) / t[-1])[:, None] * np.array([1.0, -0.5])
    bend = ((420 * s**2 - 1680 * s**3 + 2100 * s**4 - 840 * s**5) / t[-1] ** 2)[:, None] * np.array([1.0, -0.5])
    return t, rise, rate, bend


@pytest.mark.parametrize(
    ("spacing", "linear", "cubic_errors", "quintic_errors"),
    [
        (0.2, 9.4e-3, (5e-5, 1.8e-2), (1e-7, 4e-5)),
        (0.1, 2.4e-3, (3e-6, 4.5e-3), (2e-9, 2e-6)),
        (0.05, 6e-4, (2e-7, 1.1e-3), (3e-11, 1e-7)),
        (0.01, 2.4e-5, (3e-10, 5e-5), (4e-15, 3e-10)),
    ],
)
def test_the_table_of_the_fact_sheet_is_reproduced(spacing, linear, cubic_errors, quintic_errors):
    t = np.arange(round(-PERIOD / spacing), round(2 * PERIOD / spacing) + 1) * spacing  # ends matter to splines
    at = np.linspace(0.0, PERIOD, 20_001) + 0.123 * spacing
    q, dq, ddq = (signal(t, order) for order in range(3))

    def errors(course):
        return [np.abs(evaluate(course, at, m) - signal(at, m)).max() / np.abs(signal(at, m)).max() for m in (0, 2)]

    factor = 2.0  # the fact sheet does not tell the phases of its harmonics
    assert linear / factor < errors(joined(t, q, "lines"))[0] < linear * factor
    for course in (joined(t, q, "cubic", dq), joined(t, q, "cubic spline")):
        for found, printed in zip(errors(course), cubic_errors, strict=True):
            assert printed / factor < found < printed * factor
    for found, printed in zip(errors(joined(t, q, "quintic", dq, ddq)), quintic_errors, strict=True):
        assert printed / 3.0 < found < printed * 3.0  # the last is rounding


def test_points_are_passed_but_by_blends(resting):
    t, q, dq, ddq = resting
    for course in courses_through(t, q, dq, ddq):
        off = np.abs(evaluate(course, t) - q).max()
        assert (off > 1e-4) if "blends" in course.name else (off < 1e-12)


def test_derivatives_agree_with_finite_differences(resting):
    t, q, dq, ddq = resting
    step = 1e-6
    at = np.random.default_rng(2).uniform(t[0], t[-1], 300)
    for course in courses_through(t, q, dq, ddq):
        for order in (1, 2, 3):
            values = evaluate(course, at, order)
            slope = (evaluate(course, at + step, order - 1) - evaluate(course, at - step, order - 1)) / (2.0 * step)
            peak = max(1.0, np.abs(values).max())
            smooth = (
                np.abs(evaluate(course, at + step, order) - evaluate(course, at - step, order)).max(axis=1)
                < 1e-3 * peak
            )
            assert smooth.mean() > 0.98  # the others have two pieces within the step
            np.testing.assert_allclose(values[smooth], slope[smooth], atol=1e-3 * peak)


def test_courses_rest_before_and_after(resting):
    t, q, dq, ddq = resting
    outside = np.array([t[0] - 1.0, t[-1] + 1.0])
    for course in courses_through(t, q, dq, ddq):
        np.testing.assert_allclose(evaluate(course, outside), q[[0, -1]], atol=1e-12)
        for order in (1, 2, 3):
            np.testing.assert_array_equal(evaluate(course, outside, order), 0.0)
    ends = t[[0, -1]]
    for course in (
        joined(t, q, "cubic spline"),
        joined(t, q, "quintic spline"),
        joined(t, q, "catmull-rom"),
        joined(t, q, "quintic", dq, ddq),
    ):
        np.testing.assert_allclose(evaluate(course, ends, 1), 0.0, atol=1e-12)
    np.testing.assert_allclose(evaluate(joined(t, q, "quintic spline"), ends, 2), 0.0, atol=1e-10)


def test_each_reproduces_its_own_polynomials():
    t = np.array([0.0, 0.3, 0.5, 1.1, 1.4])
    at = np.linspace(0.0, 1.4, 57)
    for degree, name in ((5, "quintic"), (3, "cubic"), (1, "lines")):
        p = np.polynomial.Polynomial(np.random.default_rng(3).normal(size=degree + 1))
        values = [(p.deriv(m) if m else p)(t)[:, None] for m in range(3)]
        course = joined(t, values[0], name, *values[1 : 1 + degree // 2])
        for order in range(3):
            wanted = (p.deriv(order) if order else p)(at)
            np.testing.assert_allclose(evaluate(course, at, order)[:, 0], wanted, atol=1e-11)


@pytest.mark.parametrize("smooth", [False, True])
@pytest.mark.parametrize("share", [0.1, 0.5, 1.0])
def test_blends_leave_their_lines_smoothly(share, smooth):
    t, q = np.array([0.0, 1.0, 1.6, 3.0]), np.array([[0.0], [1.0], [0.4], [0.4]])
    course = blended(t, q, share, smooth=smooth)
    half = 0.5 * share * np.array([1.0, 0.6, 0.6, 1.4])
    rates = np.array([0.0, 1.0, -1.0, 0.0, 0.0])
    for k in range(4):
        edges = t[k] + half[k] * np.array([-1.0, 1.0])
        for side in (-1e-9, 1e-9):
            np.testing.assert_allclose(evaluate(course, edges + side, 1)[:, 0], rates[k : k + 2], atol=1e-6)
            line = q[k, 0] + rates[k : k + 2] * half[k] * np.array([-1.0, 1.0])
            np.testing.assert_allclose(evaluate(course, edges + side)[:, 0], line, atol=1e-8)
    cut = (rates[2] - rates[1]) * half[1]
    if smooth:
        np.testing.assert_allclose(evaluate(course, t[1:2], 2)[0, 0], 2.1875 * cut / half[1] / (2 * half[1]))
    else:
        np.testing.assert_allclose(evaluate(course, t[1:2])[0, 0], 1.0 + cut / 4.0)
        np.testing.assert_allclose(evaluate(course, t[1:2], 2)[0, 0], cut / half[1] / (2 * half[1]))


def test_an_acceleration_that_jumps_is_averaged_between_points():
    t = np.arange(-200, 401) * 0.1
    at = np.linspace(0.0, PERIOD, 5001) + 0.0123
    true = signal(at, 2)
    for course in (
        joined(t, signal(t), "catmull-rom"),
        blended(t, signal(t), 0.1),
        blended(t, signal(t), 0.5, smooth=True),
    ):
        raw = np.abs(evaluate(course, at, 2) - true).max() / np.abs(true).max()
        mean = np.abs(followed(course, at).ddq - true).max() / np.abs(true).max()
        assert raw > 0.2  # 20 points a cycle of the highest harmonic
        assert mean < 0.12  # which is the sine's own change from point to point
    smooth = joined(t, signal(t), "cubic spline")
    np.testing.assert_array_equal(followed(smooth, at).ddq, evaluate(smooth, at, 2))


def test_a_point_too_close_to_another_makes_no_peak():
    """A program may list a pose again 1 ms later, where a part of the run begins."""
    t = np.arange(0.0, 2.01, 0.05)
    q = 1.0 - np.cos(np.pi * t / 2.0)
    t, q = np.insert(t, 21, 1.001), np.insert(q, 21, q[20])[:, None]
    course, at = blended(t, q, 0.1), np.linspace(0.0, 2.0, 20_001)
    assert np.abs(evaluate(course, at, 2)).max() > 1000.0
    assert np.abs(followed(course, at).ddq).max() < 40.0  # the stop is there, but no longer than 1 ms
    near = np.abs(at - 1.0005) < 0.0005
    assert np.abs(followed(course, at[near]).ddq).max() < 3.0  # π² / 4 is the peak


def test_plausible_courses_bracket_the_truth(resting):
    t, q, *_ = resting
    assert [course.jumps for course in plausible_splines(t, q)] == [False, False, True]
    blends = plausible_blends(t, q)
    assert len({course.name for course in blends}) == len(blends) == 6


@pytest.mark.parametrize("share", [1.0, 0.15])
def test_rows_of_the_neutral_table_are_as_far_apart_as_the_motion_allows(plan_of, share):
    plan = plan_of("tx40", period=10.0, ramp=5.0, step=0.004)
    plan = replace(plan, body=plan.body.scaled(share))
    made = package(emitter("csv"), [plan])
    (main,) = execute(made.texts, "excitation", Machine(plan.home, 0.004)).stretches[1:2]
    fine = np.linspace(0.0, main.t[-1], 20_000)
    wanted = plan.body.at(fine)
    lines = np.stack([np.interp(fine, main.t, q) for q in main.axes.T], axis=1)
    assert 1e-5 < np.abs(lines - wanted).max() <= 3e-4
    quintics = joined(main.t, main.axes, "quintic", main.rates, main.accelerations).run.at(fine)
    assert np.abs(quintics - wanted).max() < 1e-9
    assert len(main.t) < 10.0 + main.t[-1] / (0.01 if share == 1.0 else 0.02)
