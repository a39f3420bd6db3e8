"""A log without a plan falls into its cycles, whatever waits, drifts or goes wrong between."""

from itertools import pairwise

import numpy as np
import pytest

from excitor.identify.periods import average_cycles, find_cycles
from excitor.robots.arrays import FloatArray, IntArray

RATE = 100.0
NOISE = 2e-4  # rad


def pick_and_place(rng: np.random.Generator) -> FloatArray:
    """Four rest-to-rest moves of six joints, a pause of 25 samples after each: 500 samples."""
    poses = rng.uniform(-1.5, 1.5, (4, 6))
    s = np.linspace(0.0, 1.0, 100)[:, None]
    step = s**3 * (10.0 - 15.0 * s + 6.0 * s**2)
    moves = zip(poses, np.roll(poses, -1, axis=0), strict=True)
    return np.vstack([np.vstack([a + step * (b - a), np.repeat(b[None], 25, axis=0)]) for a, b in moves])


def log(
    seed: int, n_cycles: int = 15, bumped: tuple[int, ...] = (), drift: float = 0.05, longest_wait: int = 8
) -> tuple[FloatArray, IntArray]:
    """Repeat a cycle with random waits between, slow drift and noise; tell where each cycle begins."""
    rng = np.random.default_rng(seed)
    cycle, parts, begins, n = pick_and_place(rng), [], [], 0
    for k in range(n_cycles):
        one = cycle.copy()
        if k in bumped:
            one[200:260, 2] += 0.1 * np.hanning(60)
        wait = np.repeat(one[-1:], int(rng.integers(0, longest_wait + 1)), axis=0)
        begins.append(n)
        parts += [one, wait]
        n += len(one) + len(wait)
    x = np.vstack(parts)
    swing = np.sin(np.linspace(0.0, 5.0, n))[:, None]
    return x + drift * swing + rng.normal(0.0, NOISE, x.shape), np.array(begins)


def offsets(starts, begins):
    """Tell how far each start found is from the true beginning nearest to it."""
    return np.array([(start - begins)[np.argmin(np.abs(start - begins))] for start in starts])


@pytest.mark.parametrize("seed", range(10))
def test_cycles_are_aligned_to_the_sample_and_the_deviating_one_is_left_out(seed):
    x, begins = log(seed, bumped=(6,))
    cycles = find_cycles(x, sample_rate_hz=RATE, min_period_s=1.0)
    assert cycles.period == pytest.approx(np.median(np.diff(begins)) / RATE, abs=0.03)
    assert len(np.unique(offsets(cycles.starts, begins))) == 1, "all cycles begin at the same phase"
    assert len(cycles.starts) >= 13  # of 14 good ones, the first may begin before the log does
    assert offsets(cycles.left_out, begins).tolist() == [offsets(cycles.starts, begins)[0]]
    assert np.argmin(np.abs(cycles.left_out[0] - begins)) == 6
    assert np.diff(cycles.starts).min() >= cycles.n_samples >= 495
    said = [finding for finding in cycles.findings if "was left out: channel 3 is" in finding]
    assert len(said) == 1
    assert f"the cycle at {cycles.left_out[0] / RATE:.3f} s" in said[0]


@pytest.mark.parametrize("drift", [0.0, 0.1])
def test_three_deviating_cycles_of_nine_in_drift(drift):
    x, begins = log(5, n_cycles=9, bumped=(1, 4, 5), drift=drift)
    cycles = find_cycles(x, sample_rate_hz=RATE, min_period_s=1.0)
    assert len(np.unique(offsets(cycles.starts, begins))) == 1
    assert [int(np.argmin(np.abs(start - begins))) for start in cycles.left_out] == [1, 4, 5]


@pytest.mark.parametrize("seed", range(5))
def test_without_a_deviating_cycle_none_is_left_out(seed):
    x, _ = log(seed)
    cycles = find_cycles(x, sample_rate_hz=RATE, min_period_s=1.0)
    assert not len(cycles.left_out)
    assert len(cycles.starts) >= 14


def test_average_knows_its_noise():
    x, begins = log(3, n_cycles=40, bumped=(20,), drift=0.0)
    cycles = find_cycles(x, sample_rate_hz=RATE, min_period_s=1.0)
    torque = np.random.default_rng(0).normal(0.0, 2.0, (len(x), 1)) + 5.0
    both = average_cycles(np.hstack([x, torque]), cycles)
    assert both.n_repetitions == len(cycles.starts) >= 38
    assert both.mean.shape == (cycles.n_samples, 7)
    # 38 cycles of 495 samples: relative standard error of a variance 1 %
    np.testing.assert_allclose(np.sqrt(both.noise_variance), [NOISE] * 6 + [2.0], rtol=0.03)
    assert both.findings == cycles.findings
    assert begins[20] not in cycles.starts


def test_a_steady_motion_needs_no_pause():
    """Twelve whole periods from the first sample on: all of them are found."""
    t = np.arange(12 * 250) / RATE
    x = np.stack([np.sin(2 * np.pi * t / 2.5), 0.4 * np.cos(6 * np.pi * t / 2.5) + t * 0.001], axis=1)
    cycles = find_cycles(x, sample_rate_hz=RATE, min_period_s=1.0)
    assert cycles.period == pytest.approx(2.5)
    assert cycles.n_samples == 250
    assert len(cycles.starts) == 12
    assert (
        average_cycles(x - x.mean(axis=0), cycles).variance.max() < 1e-3
    )  # drift of 0.03 rad, standard deviation 0.01


@pytest.mark.parametrize("seed", range(8))
def test_cuts_lie_where_the_robot_waits(seed):
    """Waits as long as the pause itself: cut anywhere else, a cycle would not fit the next."""
    x, begins = log(seed, drift=0.0, longest_wait=24)
    cycles = find_cycles(x, sample_rate_hz=RATE, min_period_s=1.0)
    offset = np.unique(offsets(cycles.starts, begins))
    assert len(offset) == 1
    assert -30 <= offset[0] <= 5  # the pause of 25, and the slow ends of the moves beside it
    assert len(cycles.starts) >= 13


@pytest.mark.parametrize("seed", range(3))
def test_a_short_least_period_is_no_trap(seed):
    """A slow motion with noise resembles itself after any short time: that is no period."""
    x, begins = log(seed, drift=0.0)
    x = x[:: len(x) // 3000] + np.random.default_rng(seed).normal(0.0, 0.05, x[:: len(x) // 3000].shape)
    cycles = find_cycles(x, sample_rate_hz=RATE, min_period_s=0.02)
    assert cycles.period == pytest.approx(np.median(np.diff(begins)) / 2 / RATE, abs=0.05)


def test_strong_drift_hides_no_period():
    x, begins = log(0)
    x = x + np.linspace(0.0, 60.0, len(x))[:, None]
    cycles = find_cycles(x, sample_rate_hz=RATE, min_period_s=1.0)
    assert cycles.period == pytest.approx(np.median(np.diff(begins)) / RATE, abs=0.03)
    assert len(cycles.starts) >= 13


def test_an_interruption_is_reported():
    x, begins = log(1)
    stop = begins[8]
    x = np.vstack([x[:stop], np.repeat(x[stop][None], 1200, axis=0), x[stop:]])
    cycles = find_cycles(x, sample_rate_hz=RATE, min_period_s=1.0)
    assert len(cycles.starts) >= 14
    assert any("nothing like the cycle was found" in finding for finding in cycles.findings)


def wandering(kind: str, rng: np.random.Generator) -> FloatArray:
    if kind == "white":
        return rng.normal(size=(4000, 6))
    if kind == "walk":
        return rng.normal(size=(4000, 6)).cumsum(axis=0)
    if kind == "smooth":
        window = np.exp(-(np.linspace(-3.0, 3.0, 301) ** 2))
        return np.stack([np.convolve(column, window, "same") for column in rng.normal(size=(6, 4000))], axis=1)
    poses = rng.uniform(-1.5, 1.5, (21, 6))
    s = np.clip(np.linspace(0.0, 1.2, 200), 0.0, 1.0)[:, None]
    step = s**3 * (10.0 - 15.0 * s + 6.0 * s**2)
    return np.vstack([a + step * (b - a) for a, b in pairwise(poses)])


@pytest.mark.parametrize("kind", ["white", "walk", "smooth", "random poses"])
@pytest.mark.parametrize("min_period", [0.3, 2.0, 9.0])
def test_what_does_not_repeat_is_refused(kind, min_period):
    for seed in range(10):
        with pytest.raises(ValueError, match=r"x does not repeat itself: .*expected a log of a repeated process"):
            find_cycles(wandering(kind, np.random.default_rng(seed)), sample_rate_hz=RATE, min_period_s=min_period)


def test_moves_that_are_alike_but_of_different_size_are_refused():
    rng = np.random.default_rng(0)
    cycle = pick_and_place(rng)
    x = np.vstack([cycle * size for size in rng.uniform(0.6, 1.4, 12)])
    with pytest.raises(ValueError, match=r"pieces 5\.\d* s long look alike but are not the same motion"):
        find_cycles(x, sample_rate_hz=RATE, min_period_s=1.0)


def test_white_noise_has_no_period():
    with pytest.raises(ValueError, match=r"no lag from 1 s on repeats it \(at most 0\.0\d of 1\)"):
        find_cycles(wandering("white", np.random.default_rng(0)), sample_rate_hz=RATE, min_period_s=1.0)


def test_mistakes_are_reported():
    x, _ = log(0, n_cycles=5)
    with pytest.raises(ValueError, match="min_period_s is 10, expected at most a third of the log's 25"):
        find_cycles(x, sample_rate_hz=RATE, min_period_s=10.0)
    with pytest.raises(ValueError, match="no channel of x moves"):
        find_cycles(np.ones((500, 2)), sample_rate_hz=RATE, min_period_s=1.0)
    with pytest.raises(ValueError, match=r"x\[3, 0\] is inf"):
        find_cycles(np.where(np.arange(500) == 3, np.inf, 0.0)[:, None], sample_rate_hz=RATE, min_period_s=1.0)
    cycles = find_cycles(x, sample_rate_hz=RATE, min_period_s=1.0)
    with pytest.raises(ValueError, match="x has 600 samples, but cycles were found up to"):
        average_cycles(x[:600], cycles)
