"""What mutations of the search and the certificate showed to be untested: scores, limits, the best, proofs."""

from dataclasses import replace

import numpy as np
import pytest

from excitor.design.approach import approach, blocked, is_clear
from excitor.design.certify.bounds import link_rates, point_rates, torque_rates
from excitor.design.certify.certify import Certificate, certify, failing
from excitor.design.constraints.clearance import Clearance
from excitor.design.constraints.constraint import CLEARANCE_SCALE, SEARCH, Row, margin_of, unproven
from excitor.design.constraints.constraints import Constraints
from excitor.design.constraints.torque import has_torque_model
from excitor.design.criteria import Criterion, DynamicModel, load_model
from excitor.design.motion import Excitation, even_spans, line_run, periodic_run
from excitor.design.problem import (
    POINT_COST,
    Candidates,
    Evaluation,
    active_rows,
    build_problem,
    constraint_values,
    decode,
    encode,
    evaluate,
    fitted,
    motions,
    places_of,
    run_of,
    searched,
)
from excitor.design.search import (
    CHILD,
    GATES,
    SCREEN,
    WHOLE,
    Budget,
    Descent,
    Ledger,
    Search,
    _Crew,
    advance,
    aligned,
    distances,
    empty_state,
    merit,
    run_search,
)
from excitor.experiments import plan
from excitor.robots.base import base_parameters, random_motion
from excitor.robots.cell import Scene, Shape, Zone, clearances, tool_speeds
from excitor.robots.dynamics import frame_pose, inverse_dynamics
from excitor.robots.gram import condition_number
from excitor.robots.load import load
from excitor.robots.parameters import layout, prior
from excitor.robots.robot import Motion
from tests.limits import from_robot
from tests.plans import reformed

TELESCOPE = """name = "telescope"
[[joint]]
name = "turn"
mdh = { alpha_deg = 0, d = 0, theta_deg = 0, r = 0 }
limits = { position_deg = [-90, 90], velocity_deg_s = 90, acceleration_deg_s2 = 200 }
[[joint]]
name = "slide"
kind = "prismatic"
mdh = { alpha_deg = 90, d = 0, theta_deg = 0, r = OFFSET }
limits = { position_m = [0, 3], velocity_m_s = 1, acceleration_m_s2 = 5 }
"""


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


def random_candidates(problem, n, seed=0):
    return decode(problem, np.random.default_rng(seed).uniform(-1.0, 1.0, (n, problem.n_design)))


def at(x, y, z):
    T = np.eye(4)
    T[:3, 3] = x, y, z
    return T


def ball(place, radius, clearance=0.0):
    zone = Zone("post", Shape("sphere", at(*place), np.array([radius, 0.0, 0.0])), "out", "tool", clearance)
    return Scene((zone,), False)


def tool_at(robot, q):
    return frame_pose(robot, np.atleast_2d(q))[:, :3, 3]


# --- what is scored


def test_all_scores_of_the_search_count_earlier_runs_and_their_share():
    """Evaluating, drawing together and polishing see the same stacked rows: √share of this run's, and the earlier."""
    problem = small_problem()
    chosen = random_candidates(problem, 3)
    old = problem.model.observation(run_of(problem, chosen, 2).periodic.motion(problem.excitation.grid(64)))
    old = old * np.logspace(-1, 1, old.shape[1])
    problem = replace(problem, earlier=old.T @ old, share=0.05)
    W = problem.model.observation(run_of(problem, chosen).periodic.motion(problem.excitation.grid(192)))
    truth = condition_number(np.concatenate([np.sqrt(0.05) * W, old]))
    assert abs(condition_number(np.concatenate([W, old])) / truth - 1.0) > 0.01, "the share must matter here"
    assert evaluate(problem, chosen).value[0] == pytest.approx(truth, rel=1e-6)
    assert fitted(problem, chosen, None)[1].value[0] == pytest.approx(truth, rel=1e-6)
    x = encode(problem, chosen)[0]
    sharp = replace(WHOLE, width=1e-9, softness=1e4, weight=0.0)
    stacked = np.concatenate([np.sqrt(0.05) * W, old])
    length = np.log(np.linalg.norm(stacked, axis=0)).mean()
    for size in (0.0, 0.3):
        sized = replace(problem, criterion=replace(problem.criterion, size=size))
        J = sized.objective(sharp)(x, np.zeros(len(problem.names)))[0]
        assert pytest.approx(np.log(truth) - size * length, abs=1e-3) == J
        assert evaluate(sized, chosen).value[0] == pytest.approx(truth, rel=1e-6), "it is judged by the condition alone"
    fine = problem.finer()
    W = problem.model.observation(run_of(problem, chosen).periodic.motion(problem.excitation.grid(768)))
    truth = condition_number(np.concatenate([np.sqrt(0.05 / 4.0) * W, old]))
    assert fine.evaluate(chosen).value[0] == pytest.approx(truth, rel=1e-6)


def test_the_final_score_is_of_all_rows_on_the_fine_grid():
    problem = small_problem()
    chosen = run_of(problem, random_candidates(problem, 1))
    W = problem.model.observation(chosen.periodic.motion(problem.excitation.grid(2000)))
    assert plan.FINE_SAMPLES >= 2000
    assert plan.fine_value(problem, chosen) == pytest.approx(condition_number(W), rel=1e-9)
    old = W[:500] * np.logspace(-1, 1, W.shape[1])
    joined = replace(problem, earlier=old.T @ old, share=0.5)
    rows = np.concatenate([np.sqrt(0.5 * 192 / 2000) * W, old])
    assert plan.fine_value(joined, chosen) == pytest.approx(condition_number(rows), rel=1e-6)


def test_weights_are_in_the_matrix_itself():
    """W of a model and its Gram matrix are of the same weighted rows."""
    robot = load("rotradi")
    motion = random_motion(robot, 30)
    states = [np.ascontiguousarray(x.T)[None] for x in (motion.q, motion.dq, motion.ddq)]
    model = DynamicModel(robot, base_parameters(robot).kept, np.array([2.0, 0.0, 0.5]))
    W = model.observation(motion)
    G = model.grams(*states, 30)[0]
    assert pytest.approx(W.T @ W, rel=1e-9, abs=1e-9) == G
    load_rows = load_model(load("kr150"), 5, moving=np.arange(6) >= 3, weights=np.arange(1.0, 7.0))
    plain = replace(load_rows, weights=np.ones(6))
    motion = random_motion(load_rows.robot, 20)
    expected = plain.observation(motion).reshape(3, 20, -1) * np.array([4.0, 5.0, 6.0])[:, None, None]
    assert load_rows.observation(motion).reshape(3, 20, -1) == pytest.approx(expected)


# --- limits while searching


def test_joint_limits_hold_between_sparse_samples_too():
    """24 samples a cycle, and no ramp: only the factor cos(πn/N) keeps what lies between them."""
    problem = small_problem(harmonics=(1, 7, 8))
    candidates, limits = random_candidates(problem, 40), problem.constraints.limits
    t = np.linspace(0.0, 10.0, 6000)
    for k in range(40):
        chosen = run_of(problem, candidates, k)
        q = chosen.periodic.at(t)
        assert (q >= limits.position[:, 0] - 1e-9).all()
        assert (q <= limits.position[:, 1] + 1e-9).all()
        for order, limit in ((1, limits.velocity), (2, limits.acceleration)):
            assert (np.abs(chosen.periodic.at(t, order)) <= limit * (1.0 + 1e-9)).all()


def test_high_harmonics_get_samples_enough():
    """A rival sampled 12 points a cycle of the top harmonic and violated limits."""
    assert small_problem(harmonics=(1, 40)).n_period >= 24 * 40


def test_ramps_which_no_bound_covers_keep_a_reserve():
    problem = small_problem(ramp=2.0)
    limits = problem.constraints.limits
    assert (problem.rates[0] <= 0.995 * limits.velocity * (1.0 + 1e-12)).all()
    assert (problem.rates[1] <= 0.995 * limits.acceleration * (1.0 + 1e-12)).all()
    assert (np.ptp(problem.position, axis=1) <= 0.995 * np.ptp(limits.position, axis=1) * (1.0 + 1e-12)).all()


def test_torques_and_the_tool_are_judged_on_ramps_with_a_reserve():
    """Exactly: every sample of period and ramps, against 99.5 % of each limit; the mean square over the period only."""
    robot = load("rotradi")
    problem = small_problem(ramp=0.4, torque_rms=0.3 * robot.limits.torque, tool_speed=2.0)
    candidates, on_ramp = random_candidates(problem, 30), np.zeros(2, dtype=bool)
    g = evaluate(problem, candidates).g
    n, states = problem.n_period, motions(problem, candidates)
    for k in range(30):
        motion = Motion(*(x[k].T for x in states))
        tau, speed = inverse_dynamics(robot, motion), tool_speeds(robot, motion)
        found = dict(zip(problem.names, g[k], strict=True))
        for j, name in enumerate(robot.joint_names):
            peak, rms = np.abs(tau[:, j]).max(), np.sqrt(np.mean(tau[:n, j] ** 2))
            assert found[f"torque peak {name}"] == pytest.approx(peak / (0.995 * robot.limits.torque[j]) - 1, abs=1e-9)
            assert found[f"torque rms {name}"] == pytest.approx(
                rms / (0.3 * 0.995 * robot.limits.torque[j]) - 1, abs=1e-9
            )
        assert found["tool speed"] == pytest.approx(speed.max() / (0.995 * 2.0) - 1.0, abs=1e-9)
        on_ramp |= [np.abs(tau[n:]).max() > np.abs(tau[:n]).max(), speed[n:].max() > speed[:n].max()]
    assert on_ramp.all(), "some ramp must be what counts"


def test_what_the_dry_run_and_the_way_from_home_touch_is_violated():
    """Posts that the run itself stays away from."""
    home = np.array([0.0, 0.5, 0.5])
    plain = small_problem(home=home)
    chosen = random_candidates(plain, 1, seed=4)
    run = run_of(plain, chosen)
    full = tool_at(plain.robot, run.periodic.at(run.periodic.grid(5000)))
    dry = tool_at(plain.robot, run.scaled(0.15).periodic.at(run.periodic.grid(192)[::4]))
    way = tool_at(plain.robot, home + np.linspace(0.0, 1.0, 24)[:, None] * (run.series.center - home))
    for places, others in ((dry, (full, way)), (way, (full, dry))):
        away = np.min([np.linalg.norm(places[:, None] - other[None], axis=2).min(axis=1) for other in others], axis=0)
        place, radius = places[np.argmax(away)], 0.3 * away.max()
        assert radius > 0.003
        scene = ball(place, radius)
        problem = small_problem(home=home, scene=scene)
        g = constraint_values(problem, chosen)[0, problem.names.index("clearance: post / tool")]
        # the centre of the post is a place the tool takes: nothing but -radius is left there
        assert g == pytest.approx((SEARCH.clearance + radius) / CLEARANCE_SCALE, abs=1e-9)


def test_clearances_keep_a_reserve_while_searching():
    chosen = random_candidates(small_problem(), 1)
    run = run_of(small_problem(), chosen)
    robot = load("rotradi")
    scene = ball(tool_at(robot, run.series.center)[0] + 3.0, 0.1, clearance=0.2)
    problem = small_problem(scene=scene)
    q = run.periodic.at(run.periodic.grid(problem.n_period))
    left = clearances(robot, scene, q).min(axis=0)
    assert SEARCH.clearance >= 0.001
    assert SEARCH.share <= 0.995
    g = evaluate(problem, chosen).g[0, -1]
    assert g >= (0.2 + 0.001 - left[0]) / CLEARANCE_SCALE - 1e-9


def test_polishing_looks_at_the_same_limits_as_scoring():
    """The worst sample of each limit, where the way from home or the dry run is what counts, and off-centre ranges."""
    robot = load("rotradi")
    position = np.array([[-0.5, 2.5], [-1.0, 0.2], [0.3, 2.0]])
    limits = replace(robot.limits, position=position)
    home = np.array([2.0, -0.9, 1.8])
    for place in ("way", "dry"):
        plain = small_problem(limits=limits, home=home)
        chosen = random_candidates(plain, 1, seed=1)
        run = run_of(plain, chosen)
        dry = tool_at(robot, run.scaled(0.15).periodic.at(run.periodic.grid(192)[::4]))
        half = 0.5 * (home + run.series.center)
        spot = tool_at(robot, half)[0] if place == "way" else dry[np.argmax(np.ptp(dry, axis=1))]
        problem = small_problem(limits=limits, home=home, scene=ball(spot, 0.02))
        x = encode(problem, chosen)[0]
        made = problem.coefficients(x[None])
        places = places_of(problem, made.center[0], made.swing[0])
        found = [active_rows(problem, item, places, near=-np.inf, most=1).g for item, _ in searched(problem)]
        assert np.concatenate(found) == pytest.approx(evaluate(problem, chosen).g[0], abs=1e-9)


# --- keeping the best


def recorded(problem, *populations):
    """Record populations of (value, violation); the number of the motion that comes first, and the ledger."""
    search = Search(problem, Budget(evaluations=1000))
    ledger = Ledger(search, empty_state(problem), _Crew(search))
    chosen, k = random_candidates(problem, sum(map(len, populations))), 0
    for population in populations:
        value, violation = np.array(population, dtype=float).T
        part = Candidates(chosen.center[k : k + len(value)], chosen.swing[k : k + len(value)])
        ledger.record(part, Evaluation(value, violation[:, None]), len(value))
        k += len(value)
    first = ledger.closed()
    return [np.array_equal(first.swing[0], swing) for swing in chosen.swing].index(True), ledger


def test_the_best_so_far_is_kept_not_the_last():
    """A rival keeps its last iterate."""
    problem = small_problem()
    assert recorded(problem, [(5.0, 0.0)], [(9.0, 0.0)])[0] == 0
    assert recorded(problem, [(9.0, 0.0)], [(5.0, 0.0)])[0] == 1


def test_what_breaks_a_limit_is_never_the_best():
    problem = small_problem()
    assert recorded(problem, [(1.0, 0.02), (5.0, 0.0)])[0] == 1
    assert recorded(problem, [(5.0, 0.0)], [(1.0, 1e-6)])[0] == 0
    _, ledger = recorded(problem, [(1.0, 0.02)])
    assert ledger.rows[-1][1] == np.inf, "what breaks a limit is no best value to report"
    assert merit(Evaluation(np.array([4.9]), np.array([[0.5]]))) > merit(Evaluation(np.array([5.0]), np.zeros((1, 1))))


def test_a_result_has_its_best_first_and_a_population_no_motion_twice():
    problem = small_problem()
    search, chosen = Search(problem, Budget(evaluations=1000)), random_candidates(problem, 3)
    state = replace(
        empty_state(problem), done=3, value=np.array([3.0, 9.0, 20.0]), violation=np.array([0.04, 0.0, 0.0]),
        center=chosen.center, swing=chosen.swing,
    )  # fmt: skip
    found = run_search(search, state)
    assert found.value.tolist() == [9.0, 20.0, 3.0]
    assert state.best == 9.0
    ledger = Ledger(search, replace(state, done=1), _Crew(search))
    x = problem.encode(chosen)[1]
    shifted = search.problem.genes.shifted(x, 1.0)
    ledger.record(problem.decode(shifted[None]), Evaluation(np.array([8.9]), np.zeros((1, 1))), 1)
    assert ledger.closed().value.tolist() == [8.9, 20.0, 3.0], "the same motion, shifted in time, is one member"


def test_shifts_reversal_and_mirrors_are_found_and_undone():
    problem = small_problem()
    genes = problem.genes
    a, b = problem.encode(random_candidates(problem, 2))
    truth = evaluate(problem, problem.decode(a[None])).value[0]
    for image in range(len(genes.signs)):
        other = genes.shifted(genes.signs[image] * a + genes.offsets[image], 2.0)
        assert distances(genes, other, a[None])[0][0] < 0.3 * genes.radius
        value = evaluate(problem, problem.coefficients(other[None])).value[0]
        assert value == pytest.approx(truth, rel=0.03)
    assert len(genes.signs) > 1, "reversal at least"
    assert distances(genes, b, a[None])[0][0] > genes.radius
    assert distances(genes, aligned(genes, b, a), a[None])[0] == pytest.approx(distances(genes, b, a[None])[0])


def test_a_dropped_child_is_not_judged():
    problem = small_problem()
    crew = _Crew(Search(problem, Budget(evaluations=1000)))
    x = problem.encode(random_candidates(problem, 1))[0]
    screened, child = crew.run(
        [
            Descent(x, (SCREEN, WHOLE), gates=(0.0,) * len(GATES)),
            Descent(x, (CHILD,), gates=tuple(0.0 if gate == (CHILD, 20) else np.inf for gate in GATES)),
        ]
    )
    assert screened.candidates is None
    assert child.candidates is None
    assert np.isfinite(screened.screened).tolist() == [fidelity == SCREEN for fidelity, _ in GATES]
    assert np.isfinite(child.screened).tolist() == [gate == (CHILD, 20) for gate in GATES]
    assert child.evaluations == 20 * POINT_COST, "it ends at its first comparison"


def test_seeds_differ():
    problem = small_problem()
    states = [advance(Search(problem, Budget(evaluations=400), seed), empty_state(problem))[0] for seed in (0, 1)]
    assert not np.array_equal(states[0].center, states[1].center)


# --- certificates


def test_what_is_unproven_is_not_ready():
    good = margin_of(Row("a", "1", 1.0), 0.5, 0.5, proof="p")
    bad = margin_of(Row("b", "1", 1.0), 1.1, 0.9, proof="p")
    assert Certificate((good,)).ready
    assert not Certificate((good, bad)).ready
    assert not Certificate((good, unproven(Row("c", "1", 1.0), "r"))).ready


def test_one_unknown_mass_is_no_torque_model():
    robot = load("tx40")
    assert has_torque_model(robot)
    known = robot.known.copy()
    known[10 * 4 + 9] = False
    assert not has_torque_model(replace(robot, known=known))


def test_a_run_that_starts_in_motion_is_refused_though_it_starts_at_its_centre():
    """Sines alone pass the centre at full speed (rivals start so)."""
    robot = load("rotradi")
    excitation = Excitation(10.0, 0.004, (1, 2), np.ones(3, bool), ramp=2.0)
    run = periodic_run(excitation, np.array([0.0, 0.5, 0.5]), 0.2 * np.ones((3, 2)), np.zeros((3, 2)))
    assert certify(robot, run, from_robot(robot)).ready
    for changed in (run, periodic_run(excitation, run.series.center, np.array([[0.2, -0.1]] * 3), np.zeros((3, 2)))):
        jumping = reformed(changed, ramp=0.0)
        failed = {item.name for item in failing(certify(robot, jumping, from_robot(robot)))}
        assert {"start at rest", "end at rest"} <= failed


def test_a_way_that_does_not_begin_at_home_is_refused():
    robot = load("rotradi")
    run = periodic_run(
        Excitation(10.0, 0.004, (1,), np.ones(3, bool), ramp=2.0), np.zeros(3), *np.full((2, 3, 1), 0.05)
    )
    constraints = replace(from_robot(robot), home=np.array([0.3, 0.3, 0.3]))
    astray = line_run(robot.joint_names, 0.004, np.array([[0.4, 0.3, 0.3], [0.0, 0.0, 0.0]]), [4.0])
    assert [item.name for item in failing(certify(robot, run, constraints, way=astray))] == ["way back: arrives"]


def test_the_way_back_takes_other_torques_than_the_way_there():
    """Down to the start friction helps to hold the arm; on the way back it has to be lifted."""
    robot = load("rotradi")
    home, start = np.array([0.0, 2.0, 0.0]), np.array([0.0, 0.4, 0.0])  # hanging at 0
    run = periodic_run(Excitation(10.0, 0.004, (1,), np.ones(3, bool), ramp=2.0), start, *np.full((2, 3, 1), 0.01))
    way = approach(robot, home, start, from_robot(robot))
    t = np.linspace(0.0, way.duration, 4000)[200:-200]
    states = [way.at(t, order) for order in range(3)]
    down, up = (
        np.abs(inverse_dynamics(robot, Motion(states[0], sign * states[1], states[2]))[:, 1]).max() for sign in (1, -1)
    )
    assert up > down + 5.0
    items = {item.name: item for item in certify(robot, run, replace(from_robot(robot), home=home), way=way).items}
    assert items["way back: torque peak"].worst == pytest.approx(up, rel=0.01)
    assert items["way from home: torque peak"].worst < items["way back: torque peak"].worst - 1.0


def test_slow_motions_change_their_torque_by_gravity():
    """Where nothing but weight counts, the bound of torques' curvature must hold too."""
    for name in ("rotradi", "tx40"):
        robot = load(name)
        n = robot.n_joints
        random = np.random.default_rng(2)
        excitation = Excitation(2000.0, 0.004, (1, 2), np.ones(n, bool))
        phi = prior(robot)[: layout(robot).n_link_params].reshape(-1, 10)
        for _ in range(3):
            piece = periodic_run(excitation, random.normal(size=n), *random.normal(size=(2, n, 2))).pieces()[0]
            bound = torque_rates(robot.mechanism, phi, link_rates(robot.mechanism, even_spans(piece, 1000).rates()))[2]
            t = np.linspace(0.0, 2000.0, 4001)
            motion = Motion(*(piece.at(t, order) for order in range(3)))
            tau = robot.mechanism.inverse_dynamics(motion, phi)
            bend = np.abs(np.diff(tau, 2, axis=0)) / 0.5**2
            largest = bend[:3996].reshape(999, 4, n)[:, :3].max(axis=1)
            assert (largest <= bound[:999] * (1.0 + 1e-3) + 1e-9).all()


def test_a_first_moment_alone_bends_torques_too():
    """Only the elbow turns, fast: what its body without mass, but with a first moment, asks of the shoulder."""
    robot = load("rotradi")
    phi = np.zeros((3, 10))
    phi[2, 6] = 5.0
    excitation = Excitation(0.4, 0.004, (1, 2), np.arange(3) == 2)
    swing = np.array([[0.0, 0.0], [0.0, 0.0], [1.0, 0.3]])
    piece = periodic_run(excitation, np.zeros(3), swing, 0.5 * swing).pieces()[0]
    bound = torque_rates(robot.mechanism, phi, link_rates(robot.mechanism, even_spans(piece, 400).rates()))[2]
    t = np.linspace(0.0, 0.4, 4001)
    tau = robot.mechanism.inverse_dynamics(Motion(*(piece.at(t, order) for order in range(3))), phi)
    bend = np.abs(np.diff(tau, 2, axis=0)) / 1e-4**2
    largest = bend[:3990].reshape(399, 10, 3)[:, :9].max(axis=1)
    assert (largest <= bound[:399] * (1.0 + 1e-3) + 1e-3).all()


def test_a_line_is_slow_enough_for_jerk():
    robot = load("rotradi")
    limits = replace(robot.limits, jerk=np.array([20.0, 20.0, 20.0]))
    way = approach(robot, np.zeros(3), np.array([0.5, 0.5, 0.5]), Constraints(limits, np.full(3, np.inf)))
    t = np.linspace(0.0, way.duration, 5000)
    jerk = np.abs(way.at(t, 3)).max(axis=0)
    assert (jerk <= 0.25 * 20.0 * (1.0 + 1e-9)).all()


def test_a_pose_that_is_clear_by_too_little_is_blocked():
    robot = load("rotradi")
    q = np.array([0.2, 0.6, 0.4])
    place = tool_at(robot, q)[0] + np.array([0.0, 0.0, 0.11])
    for clearance, names in ((0.005, ()), (0.02, ("post / tool",))):
        constraints = replace(from_robot(robot), scene=ball(place, 0.1, clearance))
        assert blocked(robot, q, constraints) == names


def telescope(folder, offset=0):
    """An arm that turns about z and slides outwards, with nothing on the way."""
    (folder / "arm.toml").write_text(TELESCOPE.replace("OFFSET", str(offset)), "utf-8")
    return load(str(folder / "arm.toml"))


def test_what_slides_out_sweeps_a_wider_arc(tmp_path):
    """Posts that lie between samples on the arc of an arm slid out: its reach is part of how fast it can come near."""
    robot = telescope(tmp_path)
    a, b = np.array([-0.35, 2.9]), np.array([0.35, 2.9])
    scene = ball(tool_at(robot, a + 0.375 * (b - a))[0], 0.02)
    assert not is_clear(robot, replace(from_robot(robot), scene=scene), a, b)
    run = periodic_run(
        Excitation(4.0, 0.004, (1,), np.array([True, False])), np.array([0.0, 2.9]), *[[[0.5], [0.0]]] * 2
    )
    piece = run.pieces()[0]
    t = np.array([500.0, 500.5, 501.0]) * (4.0 / 1000)
    tools = tool_at(robot, piece.at(t, 0))
    radius = 0.1 * np.linalg.norm(tools[2] - tools[0])
    item = Clearance(ball(tools[1], radius), robot.limits).margins(robot, (piece,))[0]
    assert not item.holds


def test_an_offset_of_a_sliding_joint_is_part_of_its_reach(tmp_path):
    robot = telescope(tmp_path, offset=5)
    run = periodic_run(Excitation(4.0, 0.004, (1,), np.ones(2, bool)), np.array([0.0, 0.5]), *[[[0.5], [0.1]]] * 2)
    piece = run.pieces()[0]
    rates = link_rates(robot.mechanism, even_spans(piece, 50).rates())
    bound = point_rates(robot.mechanism, robot.tool.link, robot.tool.T_link_frame[:3, 3], rates)
    t = np.linspace(0.0, 4.0, 5001)
    p = tool_at(robot, piece.at(t, 0))
    speed = np.linalg.norm(np.diff(p, axis=0), axis=1) / (t[1] - t[0])
    assert np.linalg.norm(p, axis=1).max() > 5.0
    assert (np.linalg.norm(p[:-1], axis=1).reshape(50, 100).max(axis=1) <= bound[0] * (1.0 + 1e-9)).all()
    assert (speed.reshape(50, 100).max(axis=1) <= bound[1] * (1.0 + 1e-6)).all()
