"""What mutations of a designed campaign showed to be untested: readiness, keys, margins, zones, noise."""

import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from excitor.design.certify.certify import Certificate
from excitor.design.constraints.constraint import Row, margin_of
from excitor.design.constraints.constraints import Constraints
from excitor.design.constraints.torque import has_torque_model
from excitor.design.criteria import Criterion, DynamicModel
from excitor.design.motion import Excitation, periodic_run
from excitor.design.problem import Candidates, build_problem, evaluate, run_of
from excitor.design.schedule import gentle_first, run_constraints
from excitor.design.search import Budget, Observer, Search, empty_state
from excitor.experiments import plan as planning
from excitor.experiments.campaign import open_campaign
from excitor.experiments.design_json import design_data, summary
from excitor.experiments.plan import CampaignDesign, design, planned_runs
from excitor.experiments.setup import Settings, learned_robot, set_up
from excitor.robots.base import base_parameters
from excitor.robots.cell import Scene, Shape, Zone, clearances, required
from excitor.robots.dynamics import frame_pose, link_poses
from excitor.robots.gram import condition_number
from excitor.robots.load import load
from excitor.robots.parameters import layout, prior
from tests.plans import reformed

FAST = "harmonics = 3\nramp_s = 2.0\nwarm_up_periods = 0\nmeasured_periods = 2\n"
SMALL = 'robot = "rotradi"\n[design]\nschedule = "single"\n' + FAST
THREE = 'robot = "rotradi"\n[noise]\ntorque = [0.5, 2.0, 0.1]\n[design]\nschedule = "locked-sequence"\n' + FAST
BODY = "[payload]\nmass = 3.0\ncenter = [0.05, 0.02, 0.03]\ninertia = [0.002, 0, 0, 0.002, 0, 0.001]\n"
SLIDER = """name = "slider"
[[joint]]
name = "slide"
kind = "prismatic"
placement = { xyz = [0, 0, 0.2], axis = [1, 0, 0] }
limits = { position_m = [-0.8, 0.8], velocity_m_s = 1.5, acceleration_m_s2 = 8 }
link = { mass = 2.0, center = [0.1, 0, 0], inertia = [0.01, 0, 0, 0.02, 0, 0.02] }
"""


def setup_of(folder, text, **files):
    folder.mkdir(exist_ok=True)
    for name, content in {"campaign.toml": text, **files}.items():
        (folder / name.replace("__", ".")).write_text(content, "utf-8")
    return set_up(open_campaign(folder, "design"))


def small_problem(name="rotradi", *, harmonics=(1, 2, 3), ramp=0.0, moving=None, limits=None, **changed):
    robot = load(name)
    moving = np.ones(robot.n_joints, dtype=bool) if moving is None else moving
    settings = {"torque_rms": np.full(robot.n_joints, np.inf)} | changed
    columns = base_parameters(robot).kept
    return build_problem(
        robot,
        Excitation(10.0, 0.004, harmonics, moving, ramp=ramp),
        constraints=Constraints(limits or robot.limits, **settings),
        criterion=Criterion(),
        model=DynamicModel(robot, columns, np.ones(robot.n_joints)),
    )


def at(x, y, z):
    T = np.eye(4)
    T[:3, 3] = x, y, z
    return T


def ball(place, radius, clearance=0.0):
    zone = Zone("post", Shape("sphere", at(*place), np.array([radius, 0.0, 0.0])), "out", "tool", clearance)
    return Scene((zone,), False)


def tool_at(robot, q):
    return frame_pose(robot, np.atleast_2d(q))[:, :3, 3]


# --- one run of a campaign


def plans_of(setup):
    return planned_runs(setup)[0]


def designed_before(setup, plan, seed=0):
    """An earlier run with random coefficients."""
    random = np.random.default_rng(seed)
    swing = 0.2 * random.normal(size=(2, setup.robot.n_joints, len(setup.excitation.harmonics)))
    excitation = replace(setup.excitation, moving=plan.moving)
    run = periodic_run(excitation, np.full(setup.robot.n_joints, 0.3), *(swing * plan.moving[:, None]))
    return SimpleNamespace(plan=plan, run=run)


@pytest.mark.parametrize("criterion", ["condition", "d"])
def test_a_run_is_designed_for_what_earlier_ones_left_uncertain(tmp_path, criterion):
    """Rows of every run by their number, in units of their noise where noise counts, and none of joints that stand."""
    setup = setup_of(tmp_path, THREE + f'criterion = "{criterion}"\n')
    first, second = plans_of(setup)[:2]
    assert second.moving.tolist() == [False, True, True]
    before = designed_before(setup, first)
    alone, problem = (planning.run_problem(setup, second, runs) for runs in ([], [before]))
    assert not alone.earlier.any()
    sigma = np.array([0.5, 2.0, 0.1]) if criterion == "d" else np.ones(3)
    n = setup.excitation.measured * setup.excitation.period * setup.noise.rate_hz
    motion = before.run.periodic.motion(before.run.periodic.grid(3000))
    plain = DynamicModel(setup.robot, problem.model.columns, np.ones(3))
    W = plain.observation(motion).reshape(3, 3000, -1) / sigma[:, None, None]
    expected = n / 3000 * np.einsum("jki,jkl->il", W, W)
    assert problem.earlier == pytest.approx(expected, rel=0.02, abs=1e-2 * np.abs(expected).max())
    assert problem.share * problem.n_period == pytest.approx(n)
    rows = problem.model.observation(motion).reshape(3, 3000, -1)
    assert not rows[0].any(), "torques of joints that stand still are not used"
    assert rows[1:] == pytest.approx(W[1:])
    validation = next(plan for plan in plans_of(setup) if plan.role == "validate")
    assert not planning.run_problem(setup, validation, [before]).earlier.any()


def test_a_power_models_rows_are_in_units_of_their_noise(tmp_path):
    for criterion, weighted in (("condition", False), ("d", True)):
        setup = setup_of(tmp_path / criterion, THREE + f'model = "power"\ncriterion = "{criterion}"\n')
        sigma = planning.run_problem(setup, plans_of(setup)[0], []).model.sigma
        assert (sigma is not None) == weighted
        if weighted:
            assert sigma == pytest.approx(setup.noise.sigma)


def test_expected_magnitudes_never_fall_below_the_noise(tmp_path):
    """A parameter whose prior is zero counts by what could hide in the noise; a large one by itself."""
    setup = setup_of(tmp_path, SMALL + 'criterion = "d"\n')
    columns = base_parameters(setup.robot).kept
    beta = base_parameters(setup.robot).values(prior(setup.robot))
    assert (planning._magnitudes(setup, columns, beta) >= np.abs(beta)).all()
    assert (planning._magnitudes(setup, columns, 0.0 * beta) > 0.0).all()


def test_a_payload_pair_is_searched_with_its_payload(tmp_path):
    setup = setup_of(tmp_path, f'robot = "rotradi"\n{BODY}[design]\nschedule = "payload-pair"\n' + FAST)
    plan = plans_of(setup)[0]
    assert plan.payload is None
    problem = planning.run_problem(setup, plan, [])
    assert problem.robot.payload is not None
    assert planning.run_robot(setup, plan).payload is None


def test_a_gentle_run_is_searched_within_its_share(tmp_path):
    setup = setup_of(tmp_path, 'robot = "rotradi"\n[design]\nschedule = "gentle-first"\n' + FAST)
    limits = planning.limits_of(setup, plans_of(setup)[0]).limits
    assert limits.velocity == pytest.approx(0.3 * setup.constraints.limits.velocity)
    jerky = replace(setup.constraints, limits=replace(setup.constraints.limits, jerk=np.full(3, 100.0)))
    gentle = run_constraints(plans_of(setup)[0], jerky).limits
    assert gentle.jerk == pytest.approx(np.full(3, 30.0))
    assert gentle.acceleration == pytest.approx(0.3 * jerky.limits.acceleration)
    warm_up = gentle_first(setup.robot)[0]
    assert warm_up.kind == "warm-up"
    assert warm_up.share == pytest.approx(0.3), "before anything is known, warming up is gentle too"


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A designed campaign of one run."""
    setup = setup_of(tmp_path_factory.mktemp("small"), SMALL)
    return design(setup, Settings(0, Budget(evaluations=300), "hybrid"))


def certified_up_to(monkeypatch, swing_of):
    """Certify what swings no further than allowed; the amplitudes that were asked for."""
    asked = []

    def judge(robot, run, *given, **named):
        size, allowed = float(np.abs(run.series.sines).max()), swing_of(run)
        asked.append(size / allowed if allowed else np.inf)
        item = margin_of(Row("swing", "rad", allowed), size, size, proof="p")
        return Certificate((item,))

    monkeypatch.setattr(planning, "certify", judge)
    return asked


def finished(small, found):
    run = small.runs[0]
    return planning._finished(small.setup, run.plan, run.problem, found)


def two_finalists(small):
    """The best motion found, and one that is a little worse: its best values and another shape."""
    run = small.runs[0]
    found = run.found
    problem = run.problem
    one = found.candidates
    other = Candidates(one.center[:1], one.swing[:1] * np.linspace(1.0, 0.6, one.swing.shape[2]))
    both = Candidates(np.concatenate([one.center[:1], other.center]), np.concatenate([one.swing[:1], other.swing]))
    value = evaluate(problem, both).value
    order = np.argsort(value)
    both = Candidates(both.center[order], both.swing[order])
    return replace(found, candidates=both, value=value[order], violation=np.zeros(2))


def test_a_finalist_that_cannot_be_certified_is_drawn_smaller(small, monkeypatch):
    found = two_finalists(small)
    found = replace(found, candidates=Candidates(found.candidates.center[:1], found.candidates.swing[:1]),
                    value=found.value[:1], violation=np.zeros(1))  # fmt: skip
    best = run_of(small.runs[0].problem, found.candidates)
    limit = 0.95 * np.abs(best.series.sines).max()
    certified_up_to(monkeypatch, lambda run: limit)
    chosen = finished(small, found)
    assert chosen.certificate.ready
    assert 0.9 * limit < np.abs(chosen.run.series.sines).max() <= limit


def test_the_next_finalist_is_taken_where_the_best_cannot_be_certified(small, monkeypatch):
    found = two_finalists(small)
    best = run_of(small.runs[0].problem, found.candidates)
    ratio = best.series.sines / np.abs(best.series.sines).max()

    def allowed(run):
        same = np.allclose(run.series.sines / np.abs(run.series.sines).max(), ratio)
        return 1e-9 if same else 10.0

    certified_up_to(monkeypatch, allowed)
    chosen = finished(small, found)
    assert chosen.certificate.ready
    assert np.allclose(chosen.run.series.sines, run_of(small.runs[0].problem, found.candidates, 1).series.sines)


def test_the_best_of_the_certified_is_taken(small, monkeypatch):
    found = two_finalists(small)
    certified_up_to(monkeypatch, lambda run: 100.0)
    chosen = finished(
        small, replace(found, candidates=Candidates(found.candidates.center[::-1], found.candidates.swing[::-1]))
    )
    problem = small.runs[0].problem
    scores = [planning.fine_value(problem, run_of(problem, found.candidates, k)) for k in range(2)]
    assert planning.fine_value(problem, chosen.run) == pytest.approx(min(scores))


def test_a_later_finalist_never_replaces_a_better_one(small, monkeypatch):
    """Each can be certified only much smaller, and a smaller motion is worth less."""
    found = two_finalists(small)
    best = run_of(small.runs[0].problem, found.candidates)
    size, ratio = np.abs(best.series.sines).max(), best.series.sines / np.abs(best.series.sines).max()

    def is_best(run):
        return np.allclose(run.series.sines / np.abs(run.series.sines).max(), ratio)

    monkeypatch.setattr(
        planning, "fine_value", lambda problem, run: (1.0 if is_best(run) else 1.01) / np.abs(run.series.sines).max()
    )
    certified_up_to(monkeypatch, lambda run: size * (0.75 if is_best(run) else 0.2))
    chosen = finished(small, found)
    assert chosen.certificate.ready
    assert is_best(chosen.run)
    assert np.abs(chosen.run.series.sines).max() == pytest.approx(0.7 * size)


def test_where_nothing_can_be_certified_the_run_is_not_ready(small, monkeypatch):
    certified_up_to(monkeypatch, lambda run: 0.0)
    assert not finished(small, two_finalists(small)).certificate.ready


def test_what_breaks_a_limit_is_no_finalist(small, monkeypatch):
    found = two_finalists(small)
    certified_up_to(monkeypatch, lambda run: 100.0)
    chosen = finished(small, replace(found, violation=np.array([0.01, 0.0])))
    worse = run_of(small.runs[0].problem, found.candidates, 1)
    assert np.allclose(chosen.run.series.sines, worse.series.sines)


def test_the_condition_by_noise_is_of_weighted_rows(small):
    run, sigma = small.runs[0], small.setup.noise.sigma
    motion = run.run.periodic.motion(run.run.periodic.grid(2000))
    W = DynamicModel(run.robot, run.problem.model.columns, 1.0 / sigma).observation(motion)
    assert np.ptp(sigma) > 0.0
    assert run.condition_weighted == pytest.approx(condition_number(W), rel=1e-6)
    assert run.condition != pytest.approx(run.condition_weighted, rel=1e-3)


def asked_of(setup, settings, monkeypatch, *, index=0, before=()):
    """The key and the seed that a run's search has."""
    told = {}

    class Asked(Exception):
        pass

    def listening(*given, **named):
        told["seed"] = given[0].seed
        raise Asked

    monkeypatch.setattr(planning, "recall", lambda folder, run, key: told.update(key=key))
    monkeypatch.setattr(planning, "search_motion", listening)
    with pytest.raises(Asked):
        planning.design_run(setup, settings, index=index, plan=plans_of(setup)[min(index, 1)], before=before)
    return told["key"], told["seed"]


def test_other_inputs_are_another_search(tmp_path, monkeypatch):
    """A search is kept only where seed, budget, method, problem and earlier runs are the same."""
    setup = setup_of(tmp_path, THREE)
    settings = Settings(0, Budget(evaluations=300), "hybrid")
    first, other = (designed_before(setup, plans_of(setup)[0], seed) for seed in (0, 1))
    slower = replace(setup, excitation=replace(setup.excitation, period=2.0 * setup.excitation.period))
    keys = [
        asked_of(setup, settings, monkeypatch, index=1, before=[first])[0],
        asked_of(setup, settings, monkeypatch, index=1, before=[other])[0],
        asked_of(setup, replace(settings, seed=1), monkeypatch, index=1, before=[first])[0],
        asked_of(setup, replace(settings, budget=Budget(evaluations=400)), monkeypatch, index=1, before=[first])[0],
        asked_of(setup, replace(settings, method="restarts"), monkeypatch, index=1, before=[first])[0],
        asked_of(slower, settings, monkeypatch, index=1, before=[first])[0],
    ]
    assert len(set(keys)) == len(keys)
    longer = replace(setup, excitation=replace(setup.excitation, measured=9, warm_up=3))
    for same in (setup, longer):
        before = [designed_before(same, plans_of(same)[0], 0)]
        assert asked_of(same, settings, monkeypatch, index=1, before=before)[0] == keys[0]
    assert planning.key_of(1, "a") != planning.key_of(1, "b")


def test_runs_of_a_campaign_have_seeds_of_their_own(tmp_path, monkeypatch):
    """A validation run that repeats the motion it validates would compare the estimate with itself."""
    setup = setup_of(tmp_path, THREE)
    settings = Settings(0, Budget(evaluations=300), "hybrid")
    seeds = {asked_of(setup, settings, monkeypatch, index=k)[1] for k in range(4)}
    assert len(seeds) == 4


def test_a_checkpoint_of_another_key_is_not_used(tmp_path):
    problem = small_problem()
    planning.keep(tmp_path, 0, key="a" * 64, state=empty_state(problem))
    assert planning.recall(tmp_path, 0, "a" * 64) is not None
    assert not planning.recall(tmp_path, 0, "a" * 16 + "b" * 48), "the file's name holds but the key's beginning"
    assert not planning.recall(tmp_path, 1, "a" * 64)


def test_a_search_that_ends_without_a_motion_says_why(small, monkeypatch):
    problem = small.runs[0].problem
    none = replace(small.runs[0].found, violation=np.ones(len(small.runs[0].found.violation)))

    class Blocked(Exception):
        pass

    def explained(*given):
        raise Blocked

    monkeypatch.setattr(planning, "run_search", lambda *given, **named: none)
    monkeypatch.setattr(planning, "raise_infeasible", explained)
    known = replace(empty_state(problem), done=3)
    for stopped, error in (("budget spent", Blocked), ("interrupted", planning.SearchInterrupted)):
        none = replace(none, stopped=stopped)
        with pytest.raises(error):
            planning.search_motion(
                Search(problem, Budget(evaluations=5)), Settings(0, Budget(evaluations=5), "hybrid"),
                where="run", state=known, observer=Observer(),
            )  # fmt: skip


# --- ready, go, finished


def broken(certificate):
    bad = margin_of(Row("velocity elbow", "rad/s", 1.0), 2.0, 2.0, proof="p")
    return Certificate((*certificate.items, bad), certificate.notes, certificate.way)


def test_a_run_that_is_not_proven_makes_the_design_unready(small):
    good = small.runs[0]
    bad = replace(good, plan=replace(good.plan, name="second"), certificate=broken(good.certificate))
    both = replace(small, runs=(good, bad), order=("excitation", "second"))
    assert small.ready
    assert not both.ready
    told, written = summary(both), design_data(both)
    assert told["certified"] is False
    assert told["go"] is False
    assert [run["certified"] for run in told["runs"]] == [True, False]
    assert written["ready"] is False
    assert written["go"] is False
    assert [run["ready"] for run in written["runs"]] == [True, False]
    assert [item["holds"] for item in written["runs"][1]["certificate"]][-1] is False


def test_go_needs_the_proof_and_the_forecast(small):
    class Sure(CampaignDesign):
        checks = ()

    fields = {name: getattr(small, name) for name in CampaignDesign.__dataclass_fields__}
    good = small.runs[0]
    assert Sure(**fields).go
    assert not Sure(**fields | {"runs": (replace(good, certificate=broken(good.certificate)),)}).go

    class Unsure(CampaignDesign):
        checks = (SimpleNamespace(holds=False),)

    assert not Unsure(**fields).go


def test_slow_runs_must_be_proven_too(small):
    plan = replace(small.runs[0].plan, name="sweeps")
    for certificate, ready in ((small.runs[0].certificate, True), (broken(small.runs[0].certificate), False)):
        one = planning.DesignedRun(plan, None, certificate)
        assert replace(small, runs=(*small.runs, one)).ready == ready


def test_a_design_that_lacks_a_run_is_not_finished(small):
    assert small.finished
    assert not replace(small, order=(*small.order, "validation")).finished
    stopped = replace(small.runs[0], found=replace(small.runs[0].found, stopped="interrupted"))
    assert not replace(small, runs=(stopped,)).finished


def test_the_forecast_counts_runs_that_teach_only(small):
    run = small.runs[0]
    validation = replace(run, plan=replace(run.plan, name="validation", role="validate"))
    assert [one.name for one in planning.planned_of([run, validation])] == ["excitation"]


def test_the_way_that_is_written_leads_from_home_to_the_start(small):
    run = design_data(small)["runs"][0]
    assert run["way"]["waypoints"][0] == pytest.approx(small.setup.constraints.home)
    assert run["way"]["waypoints"][-1] == pytest.approx(run["center"])


def test_slow_runs_keep_their_plans_share_and_are_judged_by_torque(tmp_path, monkeypatch):
    setup = setup_of(tmp_path, 'robot = "rotradi"\n[design]\nschedule = "gentle-first"\nwarm_up_minutes = 0.1\n' + FAST)
    plan = plans_of(setup)[0]
    assert plan.kind == "warm-up"
    run = planning.design_slow_run(setup, plan, 0)
    items = {item.name: item for item in run.certificate.items}
    assert items["velocity elbow"].limit == pytest.approx(0.3 * setup.constraints.limits.velocity[2])
    assert items["torque peak elbow"].limit == pytest.approx(setup.constraints.limits.torque[2])


# --- what campaign.toml says


def test_all_margins_and_joint_limits_are_taken(tmp_path):
    text = (
        'robot = "rotradi"\n[limits]\nvelocity_percent = 80\nacceleration_percent = 70\njerk_percent = 60\n'
        "torque_percent = 50\ntorque_rms_percent = 30\nposition_margin_deg = 3\ntool_speed_m_s = 1.5\n"
        "[limits.joint.elbow]\nposition_deg = [-60, 70]\nvelocity_deg_s = 100\nacceleration_deg_s2 = 200\n"
        "jerk_deg_s3 = 3000\ntorque = 10\ntorque_rms = 2\n[design]\n" + FAST
    )
    constraints, own = setup_of(tmp_path, text).constraints, load("rotradi").limits
    limits = constraints.limits
    assert np.degrees(limits.position[2]) == pytest.approx([-57.0, 67.0])
    assert np.degrees(limits.position[1]) == pytest.approx(np.degrees(own.position[1]) + np.array([3.0, -3.0]))
    assert limits.velocity == pytest.approx(0.8 * np.array([*own.velocity[:2], np.radians(100.0)]))
    assert limits.acceleration == pytest.approx(0.7 * np.array([*own.acceleration[:2], np.radians(200.0)]))
    assert limits.jerk == pytest.approx([np.inf, np.inf, 0.6 * np.radians(3000.0)])
    assert limits.torque == pytest.approx(0.5 * np.array([*own.torque[:2], 10.0]))
    assert constraints.torque_rms == pytest.approx([*(0.3 * own.torque[:2]), 2.0])
    assert constraints.tool_speed == 1.5


def test_limits_of_joints_that_slide_are_in_metres(tmp_path):
    text = (
        'robot = "arm.toml"\nhome_deg = [100]\n[limits.joint.slide]\nposition_m = [-0.3, 0.4]\nvelocity_m_s = 0.5\n'
        "acceleration_m_s2 = 2\njerk_m_s3 = 30\n[design]\n" + FAST
    )
    setup = setup_of(tmp_path, text, arm__toml=SLIDER)
    limits = setup.constraints.limits
    assert limits.position[0] == pytest.approx([-0.298, 0.398])
    assert limits.velocity == pytest.approx([0.45])
    assert limits.acceleration == pytest.approx([1.8])
    assert limits.jerk == pytest.approx([27.0])
    assert setup.constraints.home == pytest.approx([0.1])


def test_a_payload_hangs_in_the_tools_frame(tmp_path):
    setup = setup_of(tmp_path, f'robot = "rotradi"\n{BODY}[design]\n{FAST}')
    robot, q = setup.robot, np.array([[0.3, 0.5, -0.4]])
    phi = robot.payload.phi
    assert phi[9] == pytest.approx(3.0)
    link = link_poses(robot, q)[0, robot.payload.link]
    place = link @ np.array([*phi[6:9] / phi[9], 1.0])
    assert place == pytest.approx(frame_pose(robot, q)[0] @ np.array([0.05, 0.02, 0.03, 1.0]))


ZONES = {
    "corners": (
        'shape = "box"\nlow = [2, -1, 0.5]\nhigh = [3, 2, 2.5]',
        lambda p: box(p, [2.5, 0.5, 1.5], [0.5, 1.5, 1.0]),
    ),
    "size": (
        'shape = "box"\ncenter = [2.5, 0.5, 1.5]\nsize = [1, 3, 2]\nrpy_deg = [0, 0, 30]',
        lambda p: box(p, [2.5, 0.5, 1.5], [0.5, 1.5, 1.0], turn(30.0)),
    ),
    "wall": ('shape = "half-space"\npoint = [2, 0, 0]\nnormal = [-2, 0, 0]', lambda p: 2.0 - p[0]),
    "sphere": ('shape = "sphere"\ncenter = [2, 1, 0]\nradius = 0.3', lambda p: np.linalg.norm(p - [2, 1, 0]) - 0.3),
    "upright drum": (
        'shape = "cylinder"\ncenter = [2, 0, 0]\nradius = 0.2\nheight = 1.0',
        lambda p: drum(p - [2, 0, 0], 2, 0.2, 0.5),
    ),
    "lying drum": (
        'shape = "cylinder"\ncenter = [0, 2.5, 0]\nradius = 0.2\nheight = 3.0\naxis = [0, 2, 0]',
        lambda p: drum(p - [0, 2.5, 0], 1, 0.2, 1.5),
    ),
}


def turn(degrees):
    c, s = np.cos(np.radians(degrees)), np.sin(np.radians(degrees))
    return np.array([[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]])


def box(p, center, half, R=None):
    local = (np.eye(3) if R is None else R).T @ (p - center)
    return np.linalg.norm(np.maximum(np.abs(local) - half, 0.0))


def drum(p, axis, radius, half):
    across = np.linalg.norm(np.delete(p, axis)) - radius
    return np.linalg.norm(np.maximum([across, abs(p[axis]) - half], 0.0))


@pytest.mark.parametrize("name", ZONES)
def test_zones_stand_where_the_campaign_puts_them(tmp_path, name):
    """Distances from the tool's ball to each solid, worked out by hand."""
    text, distance = ZONES[name]
    setup = setup_of(
        tmp_path,
        f'robot = "rotradi"\n[cell]\nself_collision = false\nclearance_m = 0.01\ntool_radius_m = 0.03\n[[cell.zone]]\n'
        f'name = "z"\nkeep = "out"\nbodies = "tool"\nclearance_m = 0.05\n{text}\n[design]\n{FAST}',
    )
    robot, scene = setup.robot, setup.constraints.scene
    q = np.random.default_rng(0).uniform(-1.0, 1.0, (20, 3))
    expected = [distance(p) - 0.03 for p in tool_at(robot, q)]
    assert min(expected) > 0.0
    assert clearances(robot, scene, q)[:, 0] == pytest.approx(expected, abs=1e-9)
    assert required(robot, scene) == pytest.approx([0.05])


def model_json(robot, sigmas, inflations=(), scale=None):
    names = layout(robot).names
    parameters = [{"name": name, "value": float(x)} for name, x in zip(names, (scale or 1.0) * robot.chi, strict=True)]
    return json.dumps(
        {
            "schema": 1,
            "weights": [{"joint": name, "sigma": s} for s_of in sigmas for name, s in s_of.items()],
            "parameters": [{"name": "M1", "value": 1.0, "sigma": x, "sigma_white": 1.0} for x in inflations],
            "standard": {"parameters": parameters},
        }
    )


def test_noise_is_learned_with_its_worst_run_and_its_inflation(tmp_path):
    robot = load("rotradi")
    loud, soft = ({"base_joint": s, "shoulder": 0.2, "elbow": 0.1} for s in (0.9, 0.3))
    text = SMALL + '[noise]\nmodel = "model.json"\ninflation = 1.5\n'
    noise = setup_of(tmp_path, text, model__json=model_json(robot, [loud, soft], (4.0, 5.0, 60.0))).noise
    assert noise.sigma == pytest.approx([0.9, 0.2, 0.1])
    assert np.max(noise.inflation) == pytest.approx(5.0)
    noise = setup_of(tmp_path, text, model__json=model_json(robot, [loud], (1.1,))).noise
    assert np.max(noise.inflation) == pytest.approx(1.5), "what the campaign states is the least"


def test_a_prior_is_believed(tmp_path):
    """Its values are taken, and count as known: torques can be judged by them."""
    robot = load("rotradi")
    blank = replace(robot, chi=0.0 * robot.chi, known=np.zeros_like(robot.known))
    (tmp_path / "model.json").write_text(model_json(robot, [{"elbow": 1.0}], scale=1.1))
    learned = learned_robot(tmp_path, "model.json", blank)
    assert learned.chi == pytest.approx(1.1 * robot.chi)
    assert has_torque_model(learned)
    assert not has_torque_model(blank)


# --- several runs


@pytest.mark.parametrize("period", [5.0, 20.0])
def test_an_earlier_run_of_another_period_counts_by_its_own_samples(tmp_path, period):
    text = THREE.replace("[design]\n", '[design]\nmodel = "power"\n')
    setup = setup_of(tmp_path / "c", text)
    first, second = planned_runs(setup)[0][:2]
    at_hand = designed_before(setup, first).run
    other = reformed(at_hand, period=period)
    before = planning.run_problem(setup, second, [SimpleNamespace(plan=first, run=other)])
    model = planning.model_of(setup, before.model.columns, before.criterion, first)
    W = planning._gram(model, other.series)
    samples = other.series.periods * period * setup.noise.rate_hz
    assert before.earlier == pytest.approx(samples / planning.FINE_SAMPLES * W)


def test_slow_runs_move_the_campaigns_joints_only(tmp_path):
    text = (
        'robot = "rotradi"\nhome_deg = [10, 20, 30]\n[design]\njoints = ["elbow"]\nfriction_sweeps = true\n'
        "warm_up_minutes = 0.2\nstatic_poses = 3\n" + FAST
    )
    setup = setup_of(tmp_path / "c", text)
    runs = [planning.design_slow_run(setup, plan, 0) for plan in planned_runs(setup)[0] if plan.kind != "excitation"]
    assert [run.plan.kind for run in runs] == ["warm-up", "static", "sweep"]
    for run in runs:
        travel = np.ptp(run.run.knots, axis=0)
        assert travel[:2] == pytest.approx(0.0), run.plan.name
        assert travel[2] > 0.1, run.plan.name
        assert run.certificate.ready
