"""Conformance of all segments: derivatives, bounds, joints, maps and the one form in which files hold a run."""

import json
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from excitor.design.motion import (
    Excitation,
    Interpolation,
    Move,
    Run,
    Series,
    Table,
    checked,
    hold,
    line_run,
    periodic_run,
    read_run,
    run_data,
)

JOINTS = ("a", "b", "c")
H = 0.01
_random = np.random.default_rng(5)
A, B = _random.uniform(-1.0, 1.0, (2, 3))
T = np.array([0.0, 0.3, 0.5, 0.9, 1.2])
Q, DQ, DDQ = _random.uniform(-1.0, 1.0, (3, 5, 3))
SERIES = Series(2.0, (1, 2, 5), A, *_random.uniform(-0.3, 0.3, (2, 3, 3)), name="measured", measured=True)


def table(interpolation):
    dq = DQ if interpolation in ("cubic", "envelope", "quintic") else None
    return Table(T, Q, interpolation, dq, DDQ if interpolation == "quintic" else None, name="table")


SEGMENTS = {
    "hold": hold(A, 0.7, name="settle"),
    "move": Move(A, B, 1.3, name="way"),
    "blended move": Move(A, B, 1.3, 0.4, name="measured", measured=True),
    "move of blends alone": Move(A, B, 1.2, 0.6, name="way"),
    "periods": replace(SERIES, periods=3),
    "ramp-in": replace(SERIES, ramp=1.5, envelope="rise"),
    "ramp-out": replace(SERIES, ramp=1.5, envelope="fall"),
    **{f"table, {name}": table(name) for name in Interpolation.__args__},
}
# how often each table is continuously differentiable; the others are smooth inside
SMOOTH = {"lines": 0, "cubic": 1, "envelope": 3, "quintic": 2, "catmull-rom": 1, "cubic spline": 2, "quintic spline": 4}


@pytest.fixture(params=SEGMENTS, ids=str)
def segment(request):
    return SEGMENTS[request.param]


def run_of(*segments, sample_time=H):
    return Run(JOINTS, sample_time, segments)


def a_run():
    """A periodic run between two ways."""
    form = Excitation(2.0, H, (1, 3), np.ones(3, bool), ramp=1.0, settle=0.5, hold=0.25, warm_up=1, measured=2)
    body = periodic_run(form, B, *_random.uniform(-0.2, 0.2, (2, 3, 2)), JOINTS)
    way = line_run(JOINTS, H, np.array([A, 0.5 * A, B]), [1.0, 2.0], blends=[0.3, 0.0])
    return way + body + way.reversed()


def test_derivatives_are_differences(segment):
    step = 1e-5
    inner = np.linspace(0.0, segment.duration, 402)[1:-1]
    edges = T if segment.name == "table" else np.zeros(0)
    t = inner[(np.abs(inner[:, None] - edges) > 2 * step).all(axis=1)]
    for order in range(1, 4):
        differences = (segment.at(t + step, order - 1) - segment.at(t - step, order - 1)) / (2.0 * step)
        exact = segment.at(t, order)
        assert np.abs(differences - exact).max() <= 1e-4 * max(1.0, np.abs(exact).max()), order


def test_bounds_hold_on_a_fine_grid(segment):
    for piece in (segment, *segment.pieces()):
        t = np.linspace(0.0, piece.duration, 20_001)
        for order in range(5):
            largest = np.abs(piece.at(t, order)).max(axis=0)
            assert (largest <= piece.bounds(order) * (1.0 + 1e-9) + 1e-9).all(), (piece.name, order)


@pytest.mark.parametrize("name", ["move", "blended move", "periods", "ramp-in"])
def test_bounds_are_of_use(name):
    segment = SEGMENTS[name]
    t = np.linspace(0.0, segment.duration, 20_001)
    for order in range(1, 4):
        assert (np.abs(segment.at(t, order)).max(axis=0) > 0.1 * segment.bounds(order)).all(), order


def test_pieces_are_the_segment(segment):
    pieces = run_of(segment).pieces()
    assert bool(pieces) == (segment is not SEGMENTS["hold"])
    for piece in pieces:
        t = np.linspace(0.0, piece.duration, 50)[1:-1]
        for order in range(4):
            there = segment.at(piece.start + t, order)
            assert np.abs(piece.at(t, order) - there).max() <= 1e-9 * max(1.0, np.abs(there).max())


@pytest.mark.parametrize("name", SMOOTH)
def test_tables_are_as_smooth_as_their_interpolation(name):
    pieces = table(name).pieces()
    for order in range(SMOOTH[name] + 1):
        for before, piece in pairwise(pieces):
            jump = before.at(np.array([before.duration]), order) - piece.at(np.zeros(1), order)
            assert np.abs(jump).max() < 1e-9 * max(1.0, piece.bounds(order).max()), order
    assert np.abs(table(name).at(T) - Q).max() < 1e-12


@pytest.mark.parametrize("name", ["hold", "move", "blended move", "move of blends alone"])
def test_backwards_is_the_same_way(name):
    run = run_of(SEGMENTS[name])
    t = np.linspace(0.0, run.duration, 101)[1:-1]
    for order in range(3):
        theirs = (-1.0) ** order * run.at(run.duration - t, order)
        assert np.abs(run.reversed().at(t, order) - theirs).max() < 1e-9 * max(1.0, np.abs(theirs).max())


def test_a_series_is_not_turned_round():
    with pytest.raises(ValueError, match="it has no moves"):
        run_of(SERIES).reversed()


def test_maps_are_those_of_the_positions(segment):
    matrix, zero = np.array([[2.0, 0.0, 1.0], [0.0, -1.0, 0.0], [0.5, 0.0, 3.0]]), np.array([1.0, 2.0, 3.0])
    mapped = segment.mapped(lambda x, order: x @ matrix.T + (0.0 if order else zero))
    t = np.linspace(0.0, segment.duration, 33)
    assert np.abs(mapped.at(t) - (segment.at(t) @ matrix.T + zero)).max() < 1e-12
    assert np.abs(mapped.at(t, 1) - segment.at(t, 1) @ matrix.T).max() < 1e-10


def test_a_file_holds_the_same_segment(segment):
    run = run_of(segment)
    read = read_run(json.loads(json.dumps(run_data(run), allow_nan=False)))
    t = np.linspace(-0.1, run.duration + 0.1, 301)
    assert all(np.array_equal(read.at(t, order), run.at(t, order)) for order in range(4))
    assert (read.segments[0].name, read.segments[0].measured) == (segment.name, segment.measured)
    assert (read.joints, read.sample_time) == (JOINTS, H)


def test_a_run_is_its_segments_one_after_the_other():
    run = a_run()
    assert [phase.name for phase in run.phases] == [
        *("way", "settle", "ramp-in", "warm-up", "measured", "ramp-out", "hold", "way")
    ]
    for segment in run.segments:
        t = np.linspace(0.0, segment.duration, 40)[:-1]
        for order in range(3):
            assert np.abs(run.at(segment.start + t, order) - segment.at(t, order)).max() < 1e-10
    for order in (0, 1, 2, 3):
        before, after = run.at(run.edges[1:-1] - 1e-9, order), run.at(run.edges[1:-1] + 1e-9, order)
        assert np.abs(before - after).max() < 1e-4, order
    outside = np.array([-5.0, run.duration + 5.0])
    assert np.abs(run.at(outside) - A).max() < 1e-12
    assert not run.at(outside, 1).any()


def test_a_run_is_bounded_and_scaled_as_a_whole():
    run = a_run()
    t = np.linspace(0.0, run.duration, 20_001)
    for order in range(4):
        assert (np.abs(run.at(t, order)).max(axis=0) <= run.bounds(order) * (1.0 + 1e-9)).all()
    assert np.abs(run.scaled(0.15).at(t) - (B + 0.15 * (run.at(t) - B))).max() < 1e-12
    assert run.excitation.measured == 2
    assert run.excitation.warm_up == 1
    assert list(run.measured_spans()) == [(run.series.start, run.series.start + 4.0)]


def test_repeated_moves_are_folded_and_certified_once():
    poses = np.array([A, B, B, A] * 3)
    durations = [1.0, 0.5, 1.0, 0.7] * 3
    run = line_run(JOINTS, H, np.concatenate([poses, A[None]]), durations, blends=0.3 * np.array(durations))
    once, repeats = run.repeats()
    assert (len(once), repeats) == (4, 3)
    assert len(run.pieces()) == 2 * 3


JUMP = {"kind": "hold", "name": "settle", "measured": False, "pose": [9.0, 0.0, 0.0], "duration": 1.0}
TABLE = {"kind": "table", "name": "x", "measured": False, "joined": "lines", "dq": None, "ddq": None}
Q3 = [[0.0, 0.0, 0.0]] * 3


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (
            lambda d: d["segments"].insert(1, JUMP),
            r"run\.segments\[2\] begins at 9 with a, segments\[1\] ends at .*jump",
        ),
        (lambda d: d["segments"][0]["to"].append(1.0), r"run\.segments\[1\]: to has 4 entries, .* each of 3 joints"),
        (lambda d: d["segments"][0].update(duration=float("nan")), r"run\.segments\[1\]\.duration: is nan"),
        (lambda d: d["segments"][0].update(duration=-1.0), r"run\.segments\[1\]\.duration: is -1\.0"),
        (lambda d: d["segments"][0].update(blend=0.9), r"run\.segments\[1\]: a move takes 1 s with blends of 0\.9 s"),
        (lambda d: d["segments"][0].update(duration=1.0013), r"run\.segments\[1\] takes 1\.0013 s, .* whole numbers"),
        (lambda d: d["segments"][0].update(speed=1.0), r"run\.segments\[1\]\.speed: is not a key"),
        (lambda d: d["segments"][0].update(kind="jump"), r"run\.segments\[1\]: .*'jump'"),
        (lambda d: d["segments"][3].update(series=4), r"run\.segments\[4\]: series is 4, expected one of the run's 1"),
        (lambda d: d["series"][0]["sines"][1].pop(), r"run\.segments\[4\]: rows have 1 to 2 entries"),
        (lambda d: d["series"][0].update(harmonics=[3, 1]), r"run\.segments\[4\]: harmonics are \(3, 1\)"),
        (lambda d: d["series"][0].update(period=0.0), r"run\.series\[1\]\.period: is 0\.0"),
        (lambda d: d.update(joints=["a", "a", "c"]), r"run\.joints: two of them have one name"),
        (lambda d: d.update(segments=[]), r"run\.segments: "),
        (lambda d: d.pop("sample_time"), r"run\.sample_time: is missing"),
        (
            lambda d: d.update(segments=[TABLE | {"t": [0.0, 2.0, 1.0], "q": Q3}]),
            r"run\.segments\[1\]: times of a table do not rise after 2 s",
        ),
        (
            lambda d: d.update(segments=[TABLE | {"t": [0.0, 1.0], "q": Q3}]),
            r"run\.segments\[1\]: Table\.q has shape \(3, 3\)",
        ),
        (
            lambda d: d.update(segments=[TABLE | {"t": [0.0, 1.0, 2.0], "q": Q3, "joined": "cubic"}]),
            r"run\.segments\[1\]: dq of a table",
        ),
    ],
)
def test_what_no_run_is_is_refused_with_its_place(change, told):
    data = json.loads(json.dumps(run_data(a_run())))
    assert read_run(data).duration == a_run().duration
    change(data)
    with pytest.raises(ValueError, match=told):
        read_run(data)


def test_runs_that_do_not_meet_are_not_joined():
    way = line_run(JOINTS, H, np.array([A, B]), [1.0])
    with pytest.raises(ValueError, match=r"segments\[2\] begins at .* expected no jump"):
        _ = way + way
    with pytest.raises(ValueError, match="a run of x, y, z cannot follow one of a, b, c"):
        _ = way + replace(way.reversed(), joints=("x", "y", "z"))
    assert checked(way + way.reversed()).duration == 2.0


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: Run(JOINTS, H, ()), "has no segments"),
        (lambda: Run(JOINTS, 0.0, (hold(A, 1.0, name="x"),)), "sample_time is 0.0"),
        (lambda: Move(A, B, 0.0, name="x"), "a move is 0.0 s"),
        (lambda: hold(A, -1.0, name="x"), "a move is -1.0 s"),
        (lambda: hold(np.array([np.nan]), 1.0, name="x"), r"Move.origin\[0\] is nan"),
        (lambda: replace(SERIES, periods=0), "periods are 0"),
        (lambda: replace(SERIES, ramp=0.0, envelope="rise"), "a ramp is 0.0 s"),
        (lambda: Table(T[::-1], Q, "lines", name="x"), "the first at 0 s"),
        (lambda: line_run(JOINTS, H, np.zeros((2, 3)), [1.0]).periodic, "it has no Fourier series"),
        (lambda: run_of(SERIES).moves, "it has no moves"),
    ],
)
def test_segments_that_cannot_be_are_refused(make, told):
    with pytest.raises(ValueError, match=told):
        make()
