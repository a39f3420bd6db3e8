"""The five-schemes study: its virtual robot against closed forms, its figures, and what it says of timing."""

import json

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from excitor.experiments.figures import to_json
from excitor.experiments.studies import rotradi
from excitor.identify.samples import Samples
from excitor.identify.validate import open_loop
from excitor.robots.arrays import FloatArray
from excitor.robots.base import base_parameters
from excitor.robots.dynamics import energy, inverse_dynamics, mass_matrix
from excitor.robots.robot import Motion

L2, G = 0.45, 9.81


def closed_form(theta: FloatArray, q: FloatArray, dq: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """M, h and g of one state, written by hand in the 21 parameters."""
    t = np.append(np.nan, theta)  # t[1] is the first
    s2, c2, s23, c23 = -np.cos(q[1]), np.sin(q[1]), -np.cos(q[1] + q[2]), np.sin(q[1] + q[2])
    s3, c3 = np.sin(q[2]), np.cos(q[2])
    kappa, kp = L2 * (t[12] * c3 - t[13] * s3), -L2 * (t[12] * s3 + t[13] * c3)
    M = np.empty((3, 3))
    M[0, 0] = t[1] + t[2] * s2**2 + 2 * t[3] * s2 * c2 + t[7] * s23**2 + 2 * t[8] * s23 * c23
    M[0, 0] += 2 * L2 * c2 * (t[12] * c23 - t[13] * s23)
    M[0, 2] = M[2, 0] = t[9] * s23 + t[10] * c23
    M[0, 1] = M[1, 0] = t[4] * s2 + t[5] * c2 + M[0, 2]
    M[1, 1] = t[6] + t[11] + 2 * kappa
    M[1, 2] = M[2, 1] = t[11] + kappa
    M[2, 2] = t[11]
    A3 = 2 * t[7] * s23 * c23 + 2 * t[8] * (c23**2 - s23**2)
    A2 = A3 + 2 * t[2] * s2 * c2 + 2 * t[3] * (c2**2 - s2**2)
    A2 += -2 * L2 * t[12] * (s2 * c23 + c2 * s23) + 2 * L2 * t[13] * (s2 * s23 - c2 * c23)
    A3 += -2 * L2 * c2 * (t[12] * s23 + t[13] * c23)
    d23 = dq[1] + dq[2]
    h = np.array(
        [
            (A2 * dq[1] + A3 * dq[2]) * dq[0]
            + (t[4] * c2 - t[5] * s2) * dq[1] ** 2
            + (t[9] * c23 - t[10] * s23) * d23**2,
            kp * (2 * dq[1] * dq[2] + dq[2] ** 2) - A2 * dq[0] ** 2 / 2,
            -kp * dq[1] ** 2 - A3 * dq[0] ** 2 / 2,
        ]
    )
    g3 = G * (t[12] * c23 - t[13] * s23)
    return M, h, np.array([0.0, t[14] * c2 - t[15] * s2 + g3, g3])


def energy_columns(q: FloatArray, dq: FloatArray) -> FloatArray:
    """The 15 columns of the energy, written by hand."""
    s2, c2, s23, c23 = -np.cos(q[1]), np.sin(q[1]), -np.cos(q[1] + q[2]), np.sin(q[1] + q[2])
    s3, c3, d1, d2, d23 = np.sin(q[2]), np.cos(q[2]), dq[0], dq[1], dq[1] + dq[2]
    return np.array(
        [
            *[d1**2 / 2, s2**2 * d1**2 / 2, s2 * c2 * d1**2, s2 * d1 * d2, c2 * d1 * d2, d2**2 / 2],
            *[s23**2 * d1**2 / 2, s23 * c23 * d1**2, s23 * d1 * d23, c23 * d1 * d23, d23**2 / 2],
            L2 * (c3 * d2 * d23 + c2 * c23 * d1**2) + G * s23,
            -L2 * (s3 * d2 * d23 + c2 * s23 * d1**2) + G * c23,
            *[s2, c2],
        ]
    )


@pytest.fixture(scope="module")
def known() -> rotradi.Truth:
    return rotradi.truth()


@pytest.fixture(scope="module")
def states() -> Motion:
    q, dq, ddq = np.random.default_rng(3).normal(scale=[[[1.5]], [[3.0]], [[20.0]]], size=(3, 40, 3))
    return Motion(q, dq, ddq)


def test_the_declared_parameters_are_21_and_the_sheets_closed_form(known, states):
    assert len(base_parameters(known.sharp)) == len(known.names) == len(rotradi.UNITS) == 21
    assert np.linalg.matrix_rank(known.T) == 21
    tau = inverse_dynamics(known.robot, states, known.robot.chi)
    again = inverse_dynamics(known.robot, states, known.standard(known.theta))
    assert again == pytest.approx(tau, abs=1e-9)
    for k in range(len(states)):
        q, dq, ddq = states.q[k], states.dq[k], states.ddq[k]
        M, h, g = closed_form(known.theta, q, dq)
        friction = known.theta[15:18] * dq + known.theta[18:] * np.tanh(dq / rotradi.WIDTH)
        assert tau[k] == pytest.approx(M @ ddq + h + g + friction, abs=1e-9)


def test_energy_is_that_of_the_hand_written_columns(known, states):
    H = energy(known.robot, states, known.robot.chi)
    rows = np.array([energy_columns(q, dq) for q, dq in zip(states.q, states.dq, strict=True)])
    assert H - H[0] == pytest.approx((rows - rows[0]) @ known.theta[:15], abs=1e-9)


def test_every_parameter_takes_part_as_declared(known, states):
    """A change of any one θ changes torques as the closed form says: signs and factors of the declared list."""
    for i in range(15):
        theta = np.where(np.arange(21) == i, 1.0, 0.0)
        tau = inverse_dynamics(known.robot, states, known.standard(theta))
        for k in (0, 7):
            M, h, g = closed_form(theta, states.q[k], states.dq[k])
            assert tau[k] == pytest.approx(M @ states.ddq[k] + h + g, abs=1e-9), known.names[i]


def test_the_mass_matrix_is_positive_over_the_workspace(known):
    q2, q3 = np.meshgrid(np.linspace(-np.pi, np.pi, 61), np.linspace(-np.pi, np.pi, 61))
    q = np.column_stack([np.zeros(q2.size), q2.ravel(), q3.ravel()])
    smallest = np.linalg.eigvalsh(mass_matrix(known.robot, q, known.robot.chi))[:, 0].min()
    assert smallest == pytest.approx(0.0877, abs=2e-4)


def test_the_plant_moves_as_an_integrator_of_the_closed_form(known):
    done = rotradi.experiments(known, [4], seconds=0.1)
    assert set(done) == {(4, "ideal"), (4, "noisy")}
    run = done[4, "ideal"].new
    state = np.zeros(6)
    for k in range(len(run.tau) - 1):

        def slope(_, x, push=run.applied[k]):
            M, h, g = closed_form(known.theta, x[:3], x[3:])
            friction = known.theta[15:18] * x[3:] + known.theta[18:] * np.tanh(x[3:] / rotradi.WIDTH)
            return np.concatenate([x[3:], np.linalg.solve(M, push - h - g - friction)])

        state = solve_ivp(slope, (0.0, 1.0 / rotradi.RATE), state, method="LSODA", rtol=1e-8, atol=1e-10).y[:, -1]
    assert run.true.q[-1] == pytest.approx(state[:3], abs=2e-6)  # what eight RK4 steps a sample leave at reversals
    assert run.q[-1] == pytest.approx(state[:3], abs=2e-6 + rotradi.QUANTUM / 2.0)
    counts = run.q / rotradi.QUANTUM
    assert counts == pytest.approx(np.round(counts), abs=1e-6)


def test_excitation_has_the_papers_form_and_phases_of_its_own_every_sample():
    tau = rotradi.torques(rotradi.IDENTIFICATION, np.random.default_rng(0), 4000)
    assert tau.shape == (4000, 3)
    assert np.abs(tau).max(axis=0) == pytest.approx([28.2, 80.5, 5.6], rel=0.1)  # another draw of the phases
    spikes = np.abs(np.diff(tau, axis=0)).max(axis=0)
    steepest = np.abs(rotradi.IDENTIFICATION.amplitude[:, 1:] * rotradi.IDENTIFICATION.frequency).sum(axis=1)
    assert (spikes > 5.0 * steepest / rotradi.RATE).all()


def test_phases_average_to_the_middle_of_their_intervals():
    mean = np.array([rotradi.torques(rotradi.NEW, np.random.default_rng(k), 400) for k in range(60)]).mean(axis=0)
    t = np.arange(400)[:, None, None] / rotradi.RATE
    middle, half = np.radians(rotradi.NEW.phase_deg).mean(axis=2), np.radians(np.ptp(rotradi.NEW.phase_deg, axis=2)) / 2
    waves = np.sin(rotradi.NEW.frequency * t + middle) * np.sinc(half / np.pi)
    expected = rotradi.NEW.amplitude[:, 0] * (1 - np.exp(-0.5 * t[:, :, 0] ** 3))
    expected += (rotradi.NEW.amplitude[:, 1:] * waves).sum(axis=2)
    for j in range(3):
        assert np.corrcoef(mean[:, j], expected[:, j])[0, 1] > 0.98  # what 60 draws leave
        assert np.std(mean[:, j]) == pytest.approx(np.std(expected[:, j]), rel=0.05)


def test_drives_lag_by_one_and_a_ninth_samples():
    ramp = np.tile(np.arange(200.0)[:, None], (1, 3))
    lagged = rotradi.delivered(ramp, np.zeros_like(ramp))
    assert ramp[-1] - lagged[-1] == pytest.approx(1.0 + 1.0 / 9.0, abs=1e-9)


@pytest.fixture(scope="module")
def short(known) -> dict[tuple[int, str], rotradi.Experiment]:
    return dict(rotradi.experiments(known, [0], seconds=3.0))


def test_the_papers_way_costs_what_care_saves(known, short):
    """Three seconds of one seed are short for the scalar schemes; the order of ways is there."""

    def worst_main(theta):
        return rotradi.percent_errors(known, theta)[rotradi.MAIN].max()

    clean, lagging = (rotradi.fit(known, short[0, case]) for case in rotradi.CASES)
    error = {name: np.median(rotradi.percent_errors(known, theta)) for name, theta in clean.theta.items()}
    assert 1.0 < error["filtered dynamic"] < 6.0
    assert error["power"] > 2.0 * error["filtered dynamic"]
    assert all(error[name] < 1.0 for name in rotradi.CAREFUL_ALL)
    assert worst_main(clean.theta[rotradi.CAREFUL]) < 0.5  # 2 with the true sign in the regressor
    assert clean.batch_difference < 1e-8
    assert lagging.delay[0] == pytest.approx((1.0 + 1.0 / 9.0) / rotradi.RATE, abs=2e-4)  # of the lag
    assert abs(clean.delay[0]) < 1e-4
    late, unaware = (worst_main(lagging.theta[name]) for name in (rotradi.CAREFUL, "filtered dynamic"))
    assert late < 0.3 * unaware  # half of it where the delay is not applied
    for recursion in (*clean.recursions.values(), *lagging.recursions.values()):
        assert (recursion.eigenvalues > 0.0).all()
        assert recursion.eigenvalues.max(axis=1)[-1] < recursion.eigenvalues.max(axis=1)[0]


def test_responses_are_those_of_open_simulation(known, short):
    """Beside another integrator: a wrong model, its own and a new torque, and the truth under a late torque."""
    run = short[0, "noisy"].new
    wrong = known.theta * np.random.default_rng(1).uniform(0.95, 1.05, size=21)
    asked = [
        rotradi.SimulationTask(wrong, run),
        rotradi.SimulationTask(known.theta, run),
        rotradi.SimulationTask(known.theta, run, 1.11 / 400),
    ]
    found = rotradi.responses(known, asked)
    raw = Samples("raw", Motion(run.q, 0.0 * run.q, 0.0 * run.q), run.tau, rotradi.RATE, phase=0.0)
    told = open_loop(known.robot, known.standard(wrong), [raw]).runs[0]
    assert np.degrees(found[0] - told.q) == pytest.approx(0.0, abs=0.02)
    assert rotradi.norms(found[0], run) == pytest.approx(np.degrees(told.norm), rel=1e-3)
    unaware, aware = (rotradi.norms(q, run) for q in found[1:])
    assert np.linalg.norm(aware) < np.linalg.norm(unaware)


def test_a_late_torque_keeps_its_impulse():
    tau = np.random.default_rng(0).normal(size=(50, 3))
    assert rotradi.late(tau, 0.0) == pytest.approx(tau)
    assert rotradi.late(tau, 2.0 / 400.0)[2:] == pytest.approx(tau[:-2])
    pulse = np.zeros((20, 3))
    pulse[4] = 1.0
    shifted = rotradi.late(pulse, 1.25 / 400.0)
    assert shifted.sum(axis=0) == pytest.approx(1.0)
    assert np.arange(20) @ shifted == pytest.approx(4.0 + 1.25)


def test_models_that_no_robot_can_have_are_reported(known):
    driving, hollow = known.theta.copy(), known.theta.copy()
    driving[17], hollow[10] = -0.1, 0.001
    told = rotradi.impossible(known, {"truth": known.theta, "driving": driving, "hollow": hollow})
    assert set(told) == {"driving", "hollow"}
    assert "Fv3 = -0.1" in told["driving"]
    assert "mass matrix" in told["hollow"]


def test_tables_report_rankings_and_what_flew_away(known):
    names = (*rotradi.SCHEMES, *rotradi.CAREFUL_ALL)

    def outcome(seed, case, worst):
        scale = {name: 1.0 + 0.01 * k for k, name in enumerate(names)} | {worst: 2.0}
        theta = {name: known.theta * scale[name] for name in names}
        norms = {name: np.full((2, 3), 10.0 + k) for k, name in enumerate(rotradi.SCHEMES)}
        norms["filtered dynamic"] = np.full((2, 3), 1.0)
        norms["power"] = np.full((2, 3), np.inf)
        ends = dict.fromkeys(names, (1e-6, 1e-2))
        return rotradi.Outcome(seed, case, theta, norms, dict.fromkeys(names, 1e-6), ends, 0.0, (0.0, 0.0), 0.0)

    outcomes = [outcome(s, case, "power" if case == "ideal" else "energy") for s in (0, 1, 2) for case in rotradi.CASES]
    assert rotradi.farthest(outcomes, "ideal") == "power"
    assert rotradi.farthest(outcomes, "noisy") == "energy"
    assert rotradi.best_simulated(outcomes) == "filtered dynamic"
    outcomes[0].norms["dynamic"][0, 0] = 0.5
    assert rotradi.best_simulated(outcomes) == "filtered dynamic"  # by the median over three seeds
    outcomes[2].norms["dynamic"][0, 0] = 0.5
    assert rotradi.best_simulated(outcomes) == ""
    assert rotradi.median_errors(known, outcomes, "ideal", "power") == pytest.approx([100.0] * 3)
    assert rotradi.variation_table(outcomes)["power"]["ideal, median relative difference %"] == "98 (98 … 98)"
    assert rotradi.norm_table(outcomes)["power"]["ideal, new torque"] == "diverged, diverged, diverged"
    table = rotradi.parameter_table(known, outcomes[0])
    assert len(table) == 22
    assert table["14 gMX2R, N m"].startswith("38.46")


@pytest.mark.slow
def test_the_study_holds_its_bars_and_draws(tmp_path, monkeypatch):
    monkeypatch.setattr(rotradi.schemes, "figures", lambda *_, **__: [])  # has tests of its own
    report = rotradi.run(None, tmp_path)
    missed = [figure.name for figure in report.figures if figure.holds is False]
    assert not missed
    names = {figure.name for figure in report.figures}
    for scheme in ("dynamic", "filtered_dynamic", "energy", "power", "filtered_power", "careful"):
        assert {f"rotradi.{scheme}.ideal_median_percent", f"rotradi.{scheme}.noisy_median_percent"} <= names
    assert {"rotradi.parameters", "rotradi.rls_batch_difference", "rotradi.rls_updates_per_s"} <= names
    assert "sensitivity to timing" in " ".join(report.context["found"])
    json.loads(to_json(report))
    drawn = {path.name for path in tmp_path.iterdir()}
    assert {f"figure{k}" for k in range(2, 8)} == {
        name.partition("_")[0] for name in drawn if name.startswith("figure")
    }
    assert {"errors.png", "variation.png", "ablation.png", "cutoff_scan.png"} <= drawn
