"""Physically consistent fits: truth recovered, nonsense refused, units and solvers without influence."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import scipy.io
from scipy import signal

from excitor.identify import consistent
from excitor.identify.consistent import (
    Attempt,
    Bounds,
    Solution,
    audit,
    consistent_fit,
    fit_task,
    minimise,
    pose,
    prior_weight,
    standard_columns,
)
from excitor.identify.estimate import Factors, compress, merge, select, wls
from excitor.identify.regression import Rows, dynamic_regression
from excitor.identify.samples import Samples
from excitor.robots import belief
from excitor.robots.base import base_parameters
from excitor.robots.belief import FLOOR, Prior, prior_body, shares
from excitor.robots.dynamics import inverse_dynamics
from excitor.robots.errors import SolverError
from excitor.robots.friction import joint_positions, joint_torques
from excitor.robots.inertia import check_consistency, from_center_of_mass, parameters_of, pseudo_inertia
from excitor.robots.load import load
from excitor.robots.parameters import layout, prior
from excitor.robots.robot import Motion

DATA = Path(__file__).parents[3] / "shared" / "data"


def make_motion(robot, n_samples=400, seed=0, still=()):
    """A Fourier motion of three harmonics in 10 s; some joints stand still."""
    rng = np.random.default_rng(seed)
    t = np.linspace(0.0, 10.0, n_samples, endpoint=False)[:, None, None]
    w = 2.0 * np.pi * 0.15 * np.arange(1, 4)[:, None]
    s, c = 0.5 * rng.normal(size=(2, 3, robot.n_joints))
    s[:, list(still)] = c[:, list(still)] = 0.0
    wave, turned = s * np.sin(w * t) + c * np.cos(w * t), s * np.cos(w * t) - c * np.sin(w * t)
    return Motion(wave.sum(axis=1), (w * turned).sum(axis=1), (-(w**2) * wave).sum(axis=1))


def make_truth(robot, seed=1, spread=0.2):
    """Bodies that could exist, near the prior: P = L X Lᵀ with X near the identity; drives changed by a fifth."""
    rng = np.random.default_rng(seed)
    params, chi = layout(robot), prior(robot)
    for j in range(params.n_links):
        L = np.linalg.cholesky(pseudo_inertia(chi[params.link(j)]))
        E = np.eye(4) + spread * rng.normal(size=(4, 4))
        chi[params.link(j)] = parameters_of(L @ E @ E.T @ L.T)
    drives = slice(params.n_link_params, None)
    chi[drives] *= rng.uniform(0.8, 1.2, size=len(chi[drives]))
    return chi


def make_samples(robot, chi, motion, noise=0.01, seed=2):
    tau = inverse_dynamics(robot, motion, chi)
    rng = np.random.default_rng(seed)
    return Samples("simulated", motion, tau + noise * tau.std(axis=0) * rng.normal(size=tau.shape), 40.0)


def compressed(robot, samples):
    return compress(dynamic_regression(robot, [samples], columns=standard_columns(robot)))


@pytest.fixture(scope="module")
def robot():
    return load("tx40")


@pytest.fixture(scope="module")
def truth(robot):
    return make_truth(robot)


@pytest.fixture(scope="module")
def factors(robot, truth):
    return compressed(robot, make_samples(robot, truth, make_motion(robot)))


@pytest.fixture(scope="module")
def fit(robot, factors):
    return consistent_fit(factors, robot)


def test_known_truth_is_recovered(robot, truth, fit):
    motion = make_motion(robot, seed=7)
    tau = inverse_dynamics(robot, motion, truth)
    error = np.linalg.norm(inverse_dynamics(robot, motion, fit.chi) - tau, axis=0) / np.linalg.norm(tau, axis=0)
    assert error.max() < 0.01  # noise of 1 % on 400 samples a joint, averaged over 86 parameters
    told = np.array(fit.labels) == "data-determined"
    assert told.sum() > 30
    deviation = np.abs(fit.chi - truth)[told] / np.sqrt(np.diag(fit.covariance))[told]
    assert deviation.max() < 5.0  # of about 40 normal deviates, plus what the prior pulls
    assert np.sqrt(np.mean(deviation**2)) < 1.5


def test_base_parameters_follow_from_standard_ones(robot, fit):
    base = base_parameters(robot)
    assert fit.base_names == base.names
    np.testing.assert_allclose(fit.beta, base.regrouping @ fit.chi, rtol=1e-12)


def test_every_link_could_exist(robot, fit):
    params = layout(robot)
    assert fit.status == "optimal"
    assert fit.whitened_eigenvalue.min() >= 1e-4
    for j, smallest in zip(fit.links, fit.eigenvalue, strict=True):
        P = pseudo_inertia(fit.chi[params.link(j)])
        assert np.linalg.eigvalsh(P)[0] == pytest.approx(smallest)
        assert smallest > 0.0
    assert fit.audit.holds
    assert fit.audit.smallest_eigenvalue > 0.0
    ratio = fit.chi[9:60:10] / prior(robot)[9:60:10]
    assert ((ratio >= 0.3) & (ratio <= 3.0)).all()


def test_audit_finds_what_is_wrong(robot):
    chi = prior(robot)
    assert audit(robot, chi).holds
    assert 0.0 < audit(robot, chi).relative_margin <= 1.0  # as of any matrix whose diagonal is 1
    thin = chi.copy()
    thin[layout(robot).index("ZZ6")] = -1e-3
    found = audit(robot, thin)
    assert not found.holds
    assert [link.holds for link in found.links] == [True] * 5 + [False]
    light = chi.copy()
    assert audit(robot, np.zeros(len(chi))).relative_margin == 0.0
    light[layout(robot).index("Ia3")] = -1.0  # every link is a body, and still M(q) is indefinite
    found = audit(robot, light)
    assert all(link.holds for link in found.links)
    assert not found.holds
    assert found.relative_margin < 0.0
    assert found.smallest_eigenvalue < 0.0
    assert not audit(robot, -chi).holds
    assert audit(robot, -chi).relative_margin < 0.0


@pytest.mark.parametrize("kind", ["entropic", "ridge"])
def test_inadmissible_estimates_become_consistent_at_little_cost(robot, kind):
    """Noise makes rotor inertias or friction negative in least squares; in the fit they are not."""
    chi = make_truth(robot)
    params = layout(robot)
    for name in ("Ia4", "Ia6", "Fv6", "Fc6"):
        chi[params.index(name)] = 0.0
    noisy = compressed(robot, make_samples(robot, chi, make_motion(robot), noise=0.3, seed=5))
    kept = np.isin(np.arange(len(params)), base_parameters(robot).kept)
    free = wls(select(noisy, kept))
    names = [name for name in free.names if name.startswith(("Ia", "Fv", "Fc"))]
    assert min(free.value(name) for name in names) < -1e-3
    held = consistent_fit(noisy, robot, prior=Prior(kind, 0.1))
    assert min(held.chi[params.index(name)] for name in names) >= 0.0
    assert held.audit.holds
    assert held.wls_residual == pytest.approx(free.weighted_residual, rel=1e-8)
    assert 0.0 <= held.loss < 0.01
    assert set(held.active) & set(names)


def scaled_units(robot, factors, unit):
    """The same data and beliefs, masses counted in kg / unit: every parameter and torque is `unit` times as large."""
    R = factors.R.copy()
    R[:, :, -1] *= unit
    other = Factors(factors.names, factors.units, factors.joint, factors.run, factors.n_rows, R)
    return dataclasses.replace(robot, chi=robot.chi * unit), other


@pytest.mark.parametrize("kind", ["entropic", "ridge"])
def test_units_change_nothing(robot, factors, kind):
    one = consistent_fit(factors, robot, prior=Prior(kind))
    heavy, other = scaled_units(robot, factors, 1000.0)
    two = consistent_fit(other, heavy, prior=Prior(kind))
    sizes = np.sqrt(np.diag(one.covariance) + prior(robot) ** 2)
    assert (np.abs(two.chi / 1000.0 - one.chi) < 1e-6 * sizes).all()
    np.testing.assert_allclose(two.beta / 1000.0, one.beta, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(two.share, one.share, atol=1e-6)
    assert two.labels == one.labels


def test_whitening_is_what_makes_units_irrelevant(robot, factors, monkeypatch):
    whiten = belief._whiten
    monkeypatch.setattr(belief, "_whiten", lambda P0, entries: whiten(np.eye(4), entries))
    one = consistent_fit(factors, robot)
    heavy, other = scaled_units(robot, factors, 1000.0)
    try:
        two = consistent_fit(other, heavy)
    except SolverError:
        return
    assert np.abs(two.chi / 1000.0 - one.chi).max() > 1e-3


def test_column_order_and_groups_change_nothing(robot, factors, fit):
    order = np.random.default_rng(3).permutation(factors.n_columns)
    names = tuple(factors.names[k] for k in order)
    units = tuple(factors.units[k] for k in order)
    R = factors.R[:, :, [*order, factors.n_columns]]
    shuffled = Factors(names, units, factors.joint, factors.run, factors.n_rows, R)
    np.testing.assert_allclose(consistent_fit(shuffled, robot).chi, fit.chi, atol=2e-6)


def test_what_no_torque_shows_stays_at_the_prior(robot, truth):
    """Joint 1 stands still: its link, rotor and friction cannot be seen."""
    still = consistent_fit(compressed(robot, make_samples(robot, truth, make_motion(robot, still=[0]))), robot)
    params = layout(robot)
    hidden = [*range(10), *params.indices(["Ia1", "Fv1", "Fc1"])]
    np.testing.assert_allclose(still.chi[hidden], prior(robot)[hidden], atol=1e-5)
    assert {still.labels[k] for k in hidden} == {"prior-dominated"}
    assert still.share[hidden].max() < 1e-5
    assert still.labels[params.index("Fv2")] == "data-determined"


@pytest.mark.parametrize("kind", ["entropic", "ridge"])
def test_what_a_prior_costs_is_what_data_pay_for_it(factors, robot, kind):
    """Along the minima of data + weight · divergence, d data = -weight · d divergence; at the prior it is zero."""

    def minimum(weight):
        task = consistent.pose(factors, robot, prior=Prior(kind=kind, weight=weight))
        found = consistent.fit_task(task, "CLARABEL")
        data = (found.data_residual**2 - found.wls_residual**2) / task.noise**2
        return 0.5 * data, found.prior_cost / weight

    (less, far), (more, near), (_, none) = (minimum(weight) for weight in (95.0, 105.0, 1e9))
    assert more - less == pytest.approx(100.0 * (far - near), rel=0.01)
    assert -1e-9 < none < 1e-4 < near


def test_parameters_seen_only_combined_are_the_priors(robot, fit):
    base, params = base_parameters(robot), layout(robot)
    assert {fit.labels[params.index(name)] for name in base.only_combined} == {"prior-dominated"}
    assert fit.labels[params.index("Fv1")] == "data-determined"
    assert fit.labels[params.index("Ia3")] == "data-determined"


def test_share_of_a_single_parameter_is_its_definition():
    """One equation of variance 1 for x / 2: data know x to 1 / 4, a prior of weight 3 and size 2 to 3 / 4."""
    found = shares(np.array([[1.0]]), np.array([[2.0]]), 3.0)
    assert found.share[0] == pytest.approx(0.25, rel=1e-5)
    assert found.covariance[0, 0] == pytest.approx(1.0)


def test_a_heavier_prior_holds_harder(robot, factors):
    light, heavy = (consistent_fit(factors, robot, prior=Prior(weight=w)) for w in (0.1, 1e4))
    assert heavy.data_residual > light.data_residual >= light.wls_residual
    assert heavy.share[:60].sum() < light.share[:60].sum()


@pytest.mark.parametrize(("spread", "low", "high"), [(0.0, 999.0, 1001.0), (0.05, 40.0, 400.0), (0.2, 2.0, 20.0)])
def test_the_chosen_weight_falls_with_the_square_of_the_distance_from_the_prior(robot, spread, low, high):
    """A weight is an inverse variance of the bodies about the prior, here (1 + spread) at random."""
    chi = make_truth(robot, spread=spread) if spread else prior(robot)
    samples = [make_samples(robot, chi, make_motion(robot, 200, seed=k), seed=k) for k in range(3)]
    parts = [compress(dynamic_regression(robot, [one])) for one in samples]
    deviations = 0.01 * samples[0].tau.std(axis=0)
    assert low < prior_weight(parts, robot, {(j, 0): deviations[j] for j in range(6)}) < high


def test_a_prior_may_be_given(robot, truth, factors):
    told = consistent_fit(factors, robot, prior=Prior(chi=truth, weight=1e3))
    far = consistent_fit(factors, robot, prior=Prior(weight=1e3))
    assert np.abs(told.chi - truth).max() < 0.1 * np.abs(far.chi - truth).max()
    with pytest.raises(ValueError, match=r"Prior\.chi has 3 entries, expected the 86"):
        consistent_fit(factors, robot, prior=Prior(chi=np.zeros(3)))


def test_payload_is_a_bound_that_holds(robot, factors, fit):
    params = layout(robot)
    k = params.index("M6")
    least = 1.5 * max(fit.chi[k], prior(robot)[k])
    loaded = consistent_fit(factors, robot, bounds=Bounds(mass_ratio=None, values={"M6": (least, np.inf)}))
    assert loaded.chi[k] >= least
    assert loaded.chi[k] == pytest.approx(least, rel=1e-3)
    assert "M6" in loaded.active
    assert "M6" not in fit.active
    assert loaded.settings["M6"] == f"{least:g} to inf"


def test_total_mass_is_a_bound_that_holds(robot, factors, fit):
    most = 0.95 * fit.chi[9:60:10].sum()
    light = consistent_fit(factors, robot, bounds=Bounds(total_mass=(0.0, most)))
    assert light.chi[9:60:10].sum() <= most
    assert "total mass" in light.active


def test_mass_ratios_hold_against_the_data(robot, factors):
    chi = prior(robot).copy()
    chi[layout(robot).link(2)] /= 20.0  # a prior far too light
    fitted = consistent_fit(factors, robot, prior=Prior(chi=chi))
    assert fitted.chi[layout(robot).index("M3")] <= 3.0 * chi[layout(robot).index("M3")]
    assert "M3" in fitted.active


def test_robots_of_which_nothing_is_known_get_sensible_bodies(robot, factors):
    blank = dataclasses.replace(robot, chi=0.0 * robot.chi, known=np.zeros_like(robot.known))
    fitted = consistent_fit(factors, blank)
    assert fitted.audit.holds
    assert 2.0 < fitted.chi[9:60:10].sum() < 200.0  # the robot weighs 23 kg
    assert fitted.loss < 0.1


def test_assumed_zeros_are_zero():
    robot = load("qrc350")
    fitted = consistent_fit(compressed(robot, make_samples(robot, prior(robot), make_motion(robot))), robot)
    assert (fitted.chi[robot.assumed_zero] == 0.0).all()
    assert {label for label, zero in zip(fitted.labels, robot.assumed_zero, strict=True) if zero} == {"assumed zero"}
    assert fitted.audit.holds


def test_what_is_assumed_zero_is_not_believed_otherwise():
    robot = load("qrc350")
    equations = compressed(robot, make_samples(robot, prior(robot), make_motion(robot)))
    chi = robot.chi.copy()
    chi[layout(robot).index("MX6")] = 0.5
    chi[layout(robot).index("XY6")] = 0.01
    other = dataclasses.replace(robot, chi=chi)
    np.testing.assert_allclose(consistent_fit(equations, other).chi, consistent_fit(equations, robot).chi, atol=1e-9)


def test_thin_priors_are_thickened_and_impossible_ones_replaced(robot):
    phi, generic = prior(robot)[:10], prior(robot)[10:20]
    all_known = np.ones(10, dtype=bool)
    rod = np.array([1.0, 0, 0, 1.0, 0, 0, 0, 0, 0, 1.0])  # along z, without thickness
    np.testing.assert_allclose(prior_body(rod, all_known, generic), np.diag([FLOOR, FLOOR, 1.0, 1.0]), atol=1e-15)
    afar = from_center_of_mass(1.0, np.array([1.0, 0.0, 0.0]), 1e-6 * np.eye(3))
    seen = check_consistency(parameters_of(prior_body(afar, all_known, generic)))
    assert seen.relative_margin == pytest.approx(FLOOR, rel=0.01)
    point = np.eye(10)[9]
    np.testing.assert_array_equal(prior_body(point, all_known, generic), pseudo_inertia(generic))
    impossible = phi.copy()
    impossible[5] = 10.0
    np.testing.assert_array_equal(prior_body(impossible, all_known, generic), pseudo_inertia(generic))


def test_infeasible_bounds_are_reported(robot, factors):
    with pytest.raises(SolverError, match="no consistent parameters lie within the bounds") as failed:
        consistent_fit(factors, robot, bounds=Bounds(total_mass=(0.0, 1.0)))
    assert "infeasible" in failed.value.status


def test_anything_but_optimal_is_a_failure(robot, factors, monkeypatch):
    monkeypatch.setattr(consistent, "ATTEMPTS", {"CLARABEL": (Attempt(1.0, 1e-18),)})
    with pytest.raises(SolverError, match="so there is no consistent model") as failed:
        consistent_fit(factors, robot)
    assert failed.value.status == "optimal_inaccurate"


def test_near_misses_are_tried_again_but_not_for_ever(robot, factors, monkeypatch):
    tried = []
    answers = iter(["optimal_inaccurate", "solver_error", *["user_limit"] * 3])
    monkeypatch.setattr(consistent, "_solved", lambda *call: tried.append(call[3]) or next(answers))
    with pytest.raises(SolverError) as failed:
        consistent_fit(factors, robot)
    assert failed.value.status == "user_limit"
    assert tried == [1e-12, 1e-10, 1e-8, 1e-8, 1e-8]


def test_what_a_solver_calls_optimal_is_checked(robot, factors, monkeypatch):
    task = pose(factors, robot)
    right = minimise(task, "CLARABEL").v
    for wrong in (right.copy(), right.copy()):
        wrong[task.coordinates.bodies[3].place] *= -1.0
        monkeypatch.setattr(consistent, "minimise", lambda *_, v=wrong: Solution(v, "CLARABEL", 1e-8))
        with pytest.raises(SolverError, match="link 4 cannot be"):
            fit_task(task, "CLARABEL")
    negative = right.copy()
    negative[task.coordinates.drives[0]] = -1e-9
    monkeypatch.setattr(consistent, "minimise", lambda *_: Solution(negative, "CLARABEL", 1e-8))
    with pytest.raises(SolverError, match="Ia1 cannot be"):
        fit_task(task, "CLARABEL")


def test_scs_agrees_where_it_is_requested():
    robot = load("rotradi")
    equations = compressed(robot, make_samples(robot, prior(robot), make_motion(robot)))
    one, two = consistent_fit(equations, robot), consistent_fit(equations, robot, solver="SCS")
    assert two.solver.startswith("SCS ")
    assert one.solver.startswith("CLARABEL ")
    np.testing.assert_allclose(two.beta, one.beta, rtol=1e-4, atol=1e-4)
    assert two.whitened_eigenvalue.min() > 0.0


def test_all_rows_give_what_the_triangle_gives():
    from benchmarks.identify import measure_sdp

    ratio, context = measure_sdp(n_samples=400)
    assert ratio > 1.0
    assert context["largest_torque_difference"] < 1e-6


def test_parts_may_be_merged_first(robot, truth):
    runs = [make_samples(robot, truth, make_motion(robot, seed=s), seed=s) for s in (0, 1)]
    together = compress(dynamic_regression(robot, runs, columns=standard_columns(robot)))
    halves = [dataclasses.replace(compressed(robot, run), run=np.full(6, k)) for k, run in enumerate(runs)]
    a, b = consistent_fit(together, robot), consistent_fit(merge(halves), robot)
    np.testing.assert_allclose(b.chi, a.chi, atol=2e-6)
    assert a.n_rows == b.n_rows == 4800


def test_wrong_arguments_are_reported(robot, factors):
    with pytest.raises(ValueError, match=r"lack 26 of tx40's parameters \(.*standard_columns\(robot\)"):
        consistent_fit(select(factors, np.isin(np.arange(86), base_parameters(robot).kept)), robot)
    with pytest.raises(ValueError, match=r"no positive entry for \(joint, run\) \(5, 0\)"):
        consistent_fit(factors, robot, sigma={(j, 0): 1.0 for j in range(5)})
    with pytest.raises(ValueError, match=r"Prior\.weight is 0"):
        Prior(weight=0.0)
    with pytest.raises(ValueError, match=r"Bounds\.margin is 0"):
        Bounds(margin=0.0)
    with pytest.raises(ValueError, match="leave no room to M3"):
        consistent_fit(factors, robot, bounds=Bounds(values={"M3": (2.0, 1.0)}))
    with pytest.raises(ValueError, match="parameter 'M7' is not one"):
        consistent_fit(factors, robot, bounds=Bounds(values={"M7": (1.0, 2.0)}))


def test_weights_may_be_given(robot, factors, fit):
    doubled = {group: 2.0 * value for group, value in fit.group_sigma.items()}
    np.testing.assert_allclose(consistent_fit(factors, robot, sigma=doubled).chi, fit.chi, atol=2e-6)


@pytest.mark.skipif(not (DATA / "tx40").is_dir(), reason="the TX-40 recording is not here")
def test_tx40_consistent_model_predicts_as_well_as_least_squares(robot):
    folder = DATA / "tx40"
    motor_torque = np.loadtxt(folder / "curr_data.csv", delimiter=",", skiprows=1)
    motor_angle = np.loadtxt(folder / "pos_read_data.csv", delimiter=",", skiprows=1)
    q = signal.filtfilt(*signal.butter(4, 0.02), joint_positions(robot, motor_angle), axis=0)
    dq = np.gradient(q, 2e-4, axis=0)
    cut = slice(50, -50)
    motion = Motion(q[cut], dq[cut], np.gradient(dq, 2e-4, axis=0)[cut])
    samples = Samples("tx40", motion, joint_torques(robot, motor_torque)[cut], 5000.0)
    rows = Rows(thinned, 0.01 * robot.limits.velocity)
    whole = dynamic_regression(robot, [samples], columns=standard_columns(robot), rows=rows)
    early = whole.sample * 0.02 + 0.01 < 4.7
    train, test = (only(whole, chosen) for chosen in (early, ~early))
    equations = compress(train)
    kept = base_parameters(robot).kept
    beta = wls(select(equations, np.isin(np.arange(86), kept))).values
    size = np.linalg.norm(test.y)
    by_wls = np.linalg.norm(test.y - test.W[:, kept] @ beta) / size
    fitted = consistent_fit(equations, robot)
    error = np.linalg.norm(test.y - test.W @ fitted.chi) / size
    assert by_wls == pytest.approx(0.0722, abs=2e-4)
    assert error <= by_wls + 0.003
    assert fitted.eigenvalue.min() > 0.0
    assert fitted.audit.holds
    ratio = fitted.chi[9:60:10] / prior(robot)[9:60:10]
    assert ratio.min() >= 0.3
    assert ratio.max() <= 3.0


def thinned(x):
    for _ in range(2):
        x = signal.filtfilt(*signal.cheby1(8, 0.05, 0.08), x, axis=0)[::10]
    return x


def only(equations, chosen):
    fields = {name: getattr(equations, name)[chosen] for name in ("W", "y", "joint", "run", "sample")}
    return dataclasses.replace(equations, **fields)


@pytest.mark.skipif(not (DATA / "qrc350").is_dir(), reason="the QRC 350's recordings are not here")
def test_qrc350_consistent_model_predicts_another_trajectory():
    robot = load("qrc350")
    a, c = (recorded(letter) for letter in "ac")
    columns = standard_columns(robot)
    scaled = {(j, 0): float(np.abs(a.tau[:, j]).mean()) for j in range(6)}
    equations = compress(dynamic_regression(robot, [a], columns=columns))
    payload = Bounds(values={"M6": (10.621, np.inf)})
    fitted = consistent_fit(equations, robot, bounds=payload, sigma=scaled)
    predicted = inverse_dynamics(robot, c.motion, fitted.chi)
    errors = 100.0 * np.abs(c.tau - predicted).mean(axis=0) / np.abs(c.tau).mean(axis=0)
    assert errors.mean() <= 9.4
    assert fitted.loss < 0.003
    assert fitted.eigenvalue.min() > 0.0
    params = layout(robot)
    assert 0.0 <= fitted.chi[params.index("Ia4")] < 1e-3  # -0.058 by least squares
    assert fitted.chi[params.index("M6")] >= 10.621


def recorded(letter):
    """The mean of measured positions, low-passed at 15 Hz over the period of 5000 samples, spectral derivatives."""
    file = scipy.io.loadmat(DATA / f"qrc350/trajectory_{letter}.mat", squeeze_me=True, struct_as_record=False)
    spectrum = np.fft.rfft(file["q_meas"].average[:5000], axis=0)
    f = np.fft.rfftfreq(5000, 0.002)[:, None]
    spectrum = np.where(f <= 15.0, spectrum, 0.0)
    motion = Motion(*(np.fft.irfft(spectrum * (2j * np.pi * f) ** k, 5000, axis=0) for k in range(3)))
    return Samples(letter, motion, file["tau_meas"].average[:5000], 500.0)
