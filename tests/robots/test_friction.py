"""The friction table: every row is what it claims to be, and a registered law is a row like the others."""

from dataclasses import replace

import numpy as np
import pytest

from excitor.robots.base import base_parameters, random_motion
from excitor.robots.belief import Prior, coordinates
from excitor.robots.codegen import start_trace
from excitor.robots.dynamics import forward_dynamics, inverse_dynamics, momentum_form, power_regressor, regressor
from excitor.robots.errors import ExcitorError, InvalidRobot
from excitor.robots.friction import (
    TABLE,
    FrictionLaw,
    element_names,
    element_rows,
    forget_friction,
    friction_model,
    register_friction,
)
from excitor.robots.gram import gram, gram_gradient
from excitor.robots.lint import lint
from excitor.robots.load import load, robot_from_toml, robot_text
from excitor.robots.parameters import layout
from excitor.robots.population import population_grams, population_torques
from excitor.robots.robot import FrictionTerm, Motion
from excitor.robots.simulate import friction_elements, integrate_held

ROWS = tuple(TABLE)
SPEEDS = (0.02, 1.0, 20.0)


def term_of(name, width=0.0):
    one = np.ones(1)
    return FrictionTerm("F", name, one, one, width=width, scale=0.3, warm_up=1)


def cycle(speed, n=1000):
    """One closed cycle of a sine: positions and velocities."""
    t = np.linspace(0.0, 2.0 * np.pi, n, endpoint=False)
    return -speed * np.cos(t), speed * np.sin(t)


def columns_of(name, p, v, carried, width):
    return friction_model(term_of(name)).column(term_of(name, width), p, v, carried)


@pytest.mark.parametrize("width", [0.0, 0.01])
@pytest.mark.parametrize("name", ROWS)
def test_numpy_columns_are_the_compiled_ones(name, width):
    robot = load("tx40")
    axis = np.eye(6)[1]
    term = FrictionTerm("F", name, axis, axis, width=width, scale=0.3, warm_up=1)
    drive, flags = replace(robot.drive, friction=(term,), rotors=()), np.zeros(61, dtype=bool)
    more = replace(robot, drive=drive, chi=np.zeros(61), known=flags, assumed_zero=flags, declared_base=None)
    motion = random_motion(robot, 40)
    carried = np.random.default_rng(0).normal(size=motion.q.shape)
    compiled = regressor(more, motion, carried)[:, 1, 60]
    expected = columns_of(name, motion.q[:, 1], motion.dq[:, 1], carried[:, 1], width)
    np.testing.assert_allclose(expected, compiled, atol=1e-13)


@pytest.mark.parametrize("width", [0.0, 0.01])
@pytest.mark.parametrize("name", ROWS)
def test_what_dissipates_takes_energy_and_nothing_else_does_always(name, width):
    row, gained = TABLE[name], []
    for speed in SPEEDS:
        p, v = cycle(speed)
        power = v * columns_of(name, p, v, np.sin(v), width)
        gained.append(power.sum() if row.memory else power.min())
    assert (min(gained) >= 0.0) == row.dissipates
    assert row.dissipates == (row.sign != "any")


@pytest.mark.parametrize("name", ROWS)
def test_columns_turn_with_the_direction_where_a_row_states_it(name):
    row = TABLE[name]
    p, v = np.zeros(4), np.array([1e-9, 1e-3, 0.1, 2.0])
    there, back = (columns_of(name, p, side * v, np.ones(4), 0.0) for side in (1.0, -1.0))
    odd = bool(np.allclose(there, -back, rtol=1e-12) and there.any())
    assert odd == (row.reverses or row.shape == "linear")
    if row.reverses:
        assert (there > 0.0).all()
    if not row.memory:
        assert row.sticks == (row.reverses and not row.load and there[0] > 0.9)
    if row.load:
        np.testing.assert_allclose(columns_of(name, p, v, 3.0 * np.ones(4), 0.0), 3.0 * there)


@pytest.mark.parametrize("name", ROWS)
def test_memory_is_what_depends_on_the_past(name):
    (p, v), row, term = cycle(1.0), TABLE[name], replace(term_of(name), warm_up=0)
    whole, part = (row.column(term, p[first:], v[first:], np.ones(len(p) - first)) for first in (0, 500))
    assert (not np.allclose(whole[500:], part)) == row.memory


@pytest.mark.parametrize("name", ROWS)
def test_shapes_growth_and_slopes_are_those_of_the_columns(name):
    row = TABLE[name]
    v = np.array([0.5, 1.0, 2.0, 4.0])
    g = columns_of(name, np.zeros(4), v, np.ones(4), 0.01)
    expected = {"constant": np.ones(4), "linear": v, "sign": np.tanh(v / 0.01)}
    if row.shape in expected:
        np.testing.assert_allclose(g, expected[row.shape])
    if row.grows:
        np.testing.assert_allclose(g, v**row.grows)
    if not (row.memory or row.load):
        dense = np.linspace(-0.1, 0.1, 20_001)
        slopes = np.diff(columns_of(name, np.zeros(len(dense)), dense, dense, 0.01)) / np.diff(dense)
        steepest = row.steepest(term_of(name, 0.01))
        assert slopes.max() <= steepest * 1.02 + 1e-9
        assert slopes.max() >= steepest * 0.9 - 1e-9


@pytest.mark.parametrize("width", [0.0, 0.01])
@pytest.mark.parametrize("name", ROWS)
def test_enclosures_hold_and_bounds_are_reached_by_none(name, width):
    row, rng = TABLE[name], np.random.default_rng(3)
    low = {key: rng.normal(size=200) for key in "pvc"}
    high = {key: low[key] + rng.exponential(0.5, size=200) for key in "pvc"}
    inside = {key: low[key] + rng.uniform(size=200) * (high[key] - low[key]) for key in "pvc"}
    g = columns_of(name, inside["p"], inside["v"], inside["c"], width)
    lowest, highest = row.enclose(term_of(name, width), *((low[key], high[key]) for key in "pvc"))
    assert (lowest <= g + 1e-12).all()
    assert (g <= highest + 1e-12).all()
    assert ((row.bounds[0] <= g) & (g <= row.bounds[1])).all()


def test_robot_files_name_every_row():
    assert element_names() == ("viscous", "coulomb", "offset", "sqrt", "stribeck", "load", "maxwell-slip", "ripple")
    assert element_names(at_every_joint=True) == ("viscous", "coulomb", "offset", "sqrt")
    assert [row.suffix for row in element_rows("ripple")] == ["s", "c"]
    assert {row.name for element in element_names() for row in element_rows(element)} == set(ROWS)


def test_a_model_without_a_row_is_reported():
    with pytest.raises(ValueError, match="'lugre', which no row of the friction table describes"):
        friction_model(term_of("lugre"))


def cubic(dq, q, term):
    """Air and oil: |v| v, and a saturating part."""
    return np.column_stack([np.abs(dq) * dq, np.arctan(dq / term.scale)])


CUBIC = FrictionLaw(
    name="turbulent",
    columns=cubic,
    names=("a", "b"),
    units=(("N m s2/rad2", "N s2/m2"), ("N m", "N")),
    signs=("positive", "positive"),
    bounds=((-np.inf, np.inf), (-2.0, 2.0)),
    dissipates=True,
    rising=True,
    needs_scale=True,
)
ELEMENT = """
[[friction.element]]
parameter = "Ft"
model = "turbulent"
senses = { 2 = 1.0 }
scale = 0.2
"""


@pytest.fixture
def law():
    register_friction(CUBIC)
    yield CUBIC
    forget_friction("turbulent")


@pytest.fixture
def robot(law):
    text = robot_text("ur10")
    name = load("ur10").joint_names[1]
    made = robot_from_toml(text + ELEMENT.replace("2 =", f"{name} ="), "ur10 with a law")
    chi = made.chi.copy()
    chi[layout(made).indices(["Fta", "Ftb"])] = 0.7, 4.0
    return replace(made, chi=chi)


def test_a_registered_law_has_columns_names_and_units(robot):
    params, motion = layout(robot), random_motion(robot, 50)
    columns = params.indices(["Fta", "Ftb"])
    assert [params.units[k] for k in columns] == ["N m s2/rad2", "N m"]
    Y, v = regressor(robot, motion), motion.dq[:, 1]
    np.testing.assert_allclose(Y[:, 1, columns], np.column_stack([np.abs(v) * v, np.arctan(v / 0.2)]), atol=1e-14)
    assert not Y[:, [0, 2, 3, 4, 5]][:, :, columns].any()
    np.testing.assert_allclose(inverse_dynamics(robot, motion), Y @ robot.chi, rtol=1e-9, atol=1e-9)
    still = inverse_dynamics(load("ur10"), motion)
    np.testing.assert_allclose(
        (inverse_dynamics(robot, motion) - still)[:, 1], 0.7 * np.abs(v) * v + 4.0 * np.arctan(v / 0.2), atol=1e-9
    )


def test_a_registered_law_balances_power_and_momentum(robot):
    motion = random_motion(robot, 30)
    power = np.sum(motion.dq * inverse_dynamics(robot, motion), axis=1)
    np.testing.assert_allclose(power_regressor(robot, motion) @ robot.chi, power, rtol=1e-9, atol=1e-9)
    columns = layout(robot).indices(["Fta", "Ftb"])
    form = momentum_form(robot, motion)
    np.testing.assert_allclose(form.B[:, :, columns], regressor(robot, motion)[:, :, columns], atol=1e-14)
    tau = inverse_dynamics(robot, motion)
    np.testing.assert_allclose(
        forward_dynamics(robot, motion.q, dq=motion.dq, tau=tau), motion.ddq, rtol=1e-7, atol=1e-7
    )


def test_a_registered_law_is_identified_and_believed(robot):
    base, params = base_parameters(robot), layout(robot)
    assert {"Fta", "Ftb"} <= set(base.names)
    assert len(base) == len(base_parameters(load("ur10"))) + 2
    believed = coordinates(robot, Prior(), np.ones(len(params)), level=None)
    places = np.isin(believed.columns, params.indices(["Fta", "Ftb"]))
    assert believed.positive[places].all()
    negative = replace(robot, chi=-np.abs(robot.chi), known=np.ones(len(robot.chi), dtype=bool))
    told = [finding for finding in lint(negative) if "Fta" in finding.where]
    assert any("expected 0 or more" in finding.sentence for finding in told)
    assert any("evaluated in numpy" in finding.sentence for finding in told)


def test_designs_of_a_registered_law_are_exact(robot):
    rng = np.random.default_rng(1)
    states = rng.normal(size=(3, 4, 6, 25))
    grams = population_grams(robot, *states)
    largest, _ = population_torques(robot, *states)
    for b in range(4):
        motion = Motion(*(states[k, b].T for k in range(3)))
        Y = regressor(robot, motion)
        np.testing.assert_allclose(grams[b], np.tensordot(Y, Y, axes=((0, 1), (0, 1))), rtol=1e-8, atol=1e-8)
        np.testing.assert_allclose(largest[b], np.abs(inverse_dynamics(robot, motion)).max(axis=0), rtol=1e-9)


def test_gradients_of_a_registered_law_are_those_of_its_columns(robot):
    rng = np.random.default_rng(2)
    states, columns = rng.normal(size=(3, 6, 6)), base_parameters(robot).kept
    bar = rng.normal(size=(len(columns), len(columns)))
    gradient = gram_gradient(robot, Motion(*states), gram_bar=bar, columns=columns)

    def value(which, k, i, h):
        moved = [state.copy() for state in states]
        moved[which][k, i] += h
        return np.sum(bar * gram(robot, Motion(*moved), columns))

    scale = max(np.abs(part).max() for part in gradient)
    for which, k, i in ((0, 1, 1), (1, 2, 1), (1, 4, 1), (2, 0, 3)):
        difference = (value(which, k, i, 1e-5) - value(which, k, i, -1e-5)) / 2e-5
        assert abs(gradient[which][k, i] - difference) < 1e-6 * scale


def test_simulation_falls_back_to_numpy(robot):
    """A law equal to viscous friction gives the motion that the compiled viscous friction gives."""
    same = FrictionLaw("plain", lambda dq, q, term: dq[:, None], signs=("positive",), dissipates=True, rising=True)
    register_friction(same)
    try:
        arm = load("ur10")
        swapped = tuple(replace(t, model="plain") if t.model == "viscous" else t for t in arm.drive.friction)
        foreign = replace(arm, drive=replace(arm.drive, friction=swapped))
        tau = np.zeros((12, 6))
        start = (np.array([0.0, -1.0, 0.5, 0.0, 0.3, 0.0]), np.zeros(6))
        there = integrate_held(foreign, tau, start=start, rate_hz=100.0)
        here = integrate_held(arm, tau, start=start, rate_hz=100.0, method="rk45")
        np.testing.assert_allclose(there.motion.q, here.motion.q, atol=1e-7)
    finally:
        forget_friction("plain")


def test_compiled_programs_refuse_a_registered_law(robot):
    with pytest.raises(ExcitorError, match="'Fta' .turbulent-a.*registered law.*generated code"):
        start_trace(robot, range(len(layout(robot))))
    start_trace(robot, range(10))  # without its columns
    with pytest.raises(ExcitorError, match="simulation of a plant needs a built-in formula"):
        friction_elements(robot)


def test_a_robot_file_selects_what_is_registered_and_no_more():
    text = robot_text("ur10") + ELEMENT.replace("2 =", f"{load('ur10').joint_names[1]} =")
    with pytest.raises(InvalidRobot, match="is 'turbulent', expected 'viscous', 'coulomb'"):
        robot_from_toml(text, "ur10 with a law")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"name": "coulomb"}, "coulomb is taken"),
        ({"columns": lambda dq, q, term: dq}, "columns gave shape"),
        ({"columns": lambda dq, q, term: np.full((len(dq), 2), np.nan)}, "not finite"),
        ({"columns": lambda dq, q, term: -cubic(dq, q, term)}, "claims that it dissipates, and drives"),
        ({"bounds": ((-1.0, 1.0), (-2.0, 2.0))}, "claims that it stays within its bounds"),
        ({"columns": lambda dq, q, term: np.column_stack([dq, np.sin(dq) * (np.abs(dq) < np.pi)])}, "and falls"),
    ],
)
def test_laws_that_are_not_what_they_claim_are_refused(changes, message):
    before = dict(TABLE)
    with pytest.raises((ValueError, ExcitorError), match=message):
        register_friction(replace(CUBIC, **changes))
    assert before == TABLE
    with pytest.raises(ValueError, match="units has 1 entries, expected 2"):
        replace(CUBIC, units=(("1", "1"),))
    with pytest.raises(ValueError, match="no friction law 'coulomb' is registered"):
        forget_friction("coulomb")
