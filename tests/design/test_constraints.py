"""Constraints as objects: the conformance suite, what it refuses, and two kinds that prove that one file is enough."""

import json
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest

from benchmarks.design import LIMITED, drawn_robots, limited_design, shares_of_limit
from excitor.design.certify.certify import certify
from excitor.design.constraints.acceleration import ToolAcceleration
from excitor.design.constraints.clearance import Clearance
from excitor.design.constraints.constraint import Constraint, ConstraintKind, Relaxation, Row, Trace
from excitor.design.constraints.constraints import Constraints
from excitor.design.constraints.home import Home
from excitor.design.constraints.joint_limits import JointLimits
from excitor.design.constraints.joint_sum import JointSum
from excitor.design.constraints.registry import CONSTRAINTS, check_constraint, check_constraint_kind
from excitor.design.constraints.robust_torque import RobustTorque, normal_factor
from excitor.design.constraints.singularity import Singularity
from excitor.design.constraints.tool_cone import ToolCone, ToolConeTable
from excitor.design.constraints.tool_speed import ToolSpeed
from excitor.design.constraints.torque import TorquePeak, TorqueRms
from excitor.design.constraints.torque_envelope import TorqueEnvelope
from excitor.design.criteria import Criterion, DynamicModel
from excitor.design.explain import explain, relaxed, sentences
from excitor.design.motion import Excitation, line_run, periodic_run
from excitor.design.problem import build_problem, candidates_of, encode, run_of
from excitor.design.search import WHOLE, Budget, solve
from excitor.robots.base import base_parameters
from excitor.robots.cell import Scene, Shape, Zone
from excitor.robots.errors import ExcitorError
from excitor.robots.inertia import translation
from excitor.robots.load import load
from excitor.robots.parameters import prior
from excitor.robots.robot import Motion
from tests.oracles import Oracle

CONE = ToolCone(np.radians(75.0), (0.1, 0.0, 1.0), (0.0, 0.0, 1.0))


def scene():
    post = Zone("post", Shape("sphere", translation(0.5, 0.2, 0.4), np.array([0.3, 0.0, 0.0])), "out", "all", 0.02)
    cage = Zone("cage", Shape("box", translation(0.0, 0.0, 0.6), np.array([0.7, 0.6, 0.7])), "in", "tool")
    return Scene((post, cage), True, 0.02)


BUILT_IN = {
    "joint limits": lambda robot: JointLimits(replace(robot.limits, jerk=np.full(robot.n_joints, 300.0))),
    "torque peak": lambda robot: TorquePeak(np.full(robot.n_joints, 3.0)),
    "torque rms": lambda robot: TorqueRms(np.full(robot.n_joints, 1.0)),
    "clearance": lambda robot: Clearance(scene(), robot.limits),
    "tool speed": lambda robot: ToolSpeed(0.2),
    "tool cone": lambda robot: CONE,
    "joint sum": lambda robot: JointSum({robot.joint_names[0]: 1.0, robot.joint_names[1]: -0.5}, -0.1, 0.05),
    "tool acceleration": lambda robot: ToolAcceleration(0.5),
    "torque envelope": lambda robot: envelope(robot, [1.0, 1.0, 0.3]),
    "robust torque": lambda robot: RobustTorque(np.full(robot.n_joints, 3.0), 0.1, 0.999),
    "robust torque, box": lambda robot: RobustTorque(np.full(robot.n_joints, 3.0), 0.2, None),
}
OF_ANY_MECHANISM = ("tool acceleration", "torque envelope", "robust torque", "robust torque, box")


def envelope(robot, share):
    return TorqueEnvelope(np.full(robot.n_joints, 3.0), np.tile([0.0, 0.1, 2.0], (robot.n_joints, 1)), share)


@pytest.mark.parametrize("kind", OF_ANY_MECHANISM)
def test_constraints_of_closed_chains_conform(kind):
    robot = load("five-bar")
    check_constraint(BUILT_IN[kind](robot), robot)


@pytest.mark.parametrize("robot", ["tx40", "rotradi"])
@pytest.mark.parametrize("kind", BUILT_IN)
def test_built_in_constraints_conform(kind, robot):
    robot = load(robot)
    check_constraint(BUILT_IN[kind](robot), robot)


def test_distances_to_singularities_conform():
    robot = load("five-bar")
    check_constraint(Singularity(0.9), robot)


@pytest.mark.parametrize("name", CONSTRAINTS)
def test_registered_kinds_conform(name):
    check_constraint_kind(CONSTRAINTS[name])


@dataclass(frozen=True, eq=False)
class Height(Constraint):
    """A constraint from outside: the tool stays above a height. Fields break it in one way each."""

    limit: float = 0.6
    names: tuple[str, ...] = ("tool height",)
    loose: float = 0.0  # added to the bound: it proves what does not hold
    wrong: float = 0.0  # added to the values at random
    order: ClassVar[int] = 0
    everywhere: ClassVar[bool] = True

    def rows(self, robot):
        return tuple(Row(name, "m", self.limit, lower=True, kind="tool height", group=name) for name in self.names)

    def values(self, trace):
        z = tool_heights(trace.robot, trace.motion.q)
        return z[:, None] + self.wrong * np.random.default_rng().normal(size=(len(z), 1))

    def violations(self, robot, values, reserve=None):
        return (self.limit + 1e-3 - values) / 0.1

    def bound(self, robot, part):
        from excitor.design.certify.bounds import body_point_rates

        z = tool_heights(robot, part.jets[0])[:, None]
        rates = body_point_rates(robot.mechanism, robot.tool.link, robot.tool.T_link_frame[:3, 3], part)
        low, _ = part.enclose(z, rates[2][:, None])
        return low + self.loose, z


def tool_heights(robot, q):
    from excitor.robots.dynamics import frame_pose

    return frame_pose(robot, q)[:, 2, 3]


def test_a_constraint_from_outside_conforms():
    check_constraint(Height())


def test_violations_of_lower_limits_rise_below_them():
    item = Height()
    plain = Constraint.violations(item, None, np.array([[0.3], [0.6], [1.2]]))
    np.testing.assert_allclose(plain[:, 0], [1.0 - 0.995 * 0.5, 0.005, 1.0 - 0.995 * 2.0], rtol=1e-12)


def test_home_is_a_constraint_like_the_others():
    robot = load("tx40")
    home = np.array([0.1, 0.2, 1.0, 0.0, 0.0, 0.0])
    constraints = Constraints(robot.limits, np.full(6, np.inf), home=home)
    item = constraints.owners(robot)[Home.group]
    assert item is constraints.way
    (row,) = item.rows(robot)
    assert item.describe(robot, row.group).startswith("home pose")
    start = np.full((1, 6), 0.4)
    way = constraints.ways(start)
    np.testing.assert_allclose(way[0, :, [0, -1]], [home, start[0]])
    run = periodic_run(Excitation(5.0, 0.005, (1,), np.ones(6, dtype=bool)), start[0], *np.zeros((2, 6, 1)))
    for first, verdicts in ((home, [True, True]), (home + 1e-6, [True, False])):
        certificate = certify(robot, run, constraints, way=line_run(robot.joint_names, 0.005, [first, start[0]], [5.0]))
        assert [margin.holds for margin in certificate.items if margin.name.endswith("arrives")] == verdicts
    moved = Relaxation(row.group, "stand elsewhere", "rad", 0.1, home, home + 0.1, "elsewhere")
    np.testing.assert_array_equal(constraints.relaxed(robot, moved).home, home + 0.1)


@dataclass(frozen=True, eq=False)
class Failing(Height):
    """Raises what no constraint should."""

    def values(self, trace):
        return np.linalg.inv(np.zeros((2, 2)))


@dataclass(frozen=True, eq=False)
class Upwards(Height):
    """Its g falls towards the limit."""

    def violations(self, robot, values, reserve=None):
        return (values - self.limit) / 0.1


@pytest.mark.parametrize(
    ("item", "match"),
    [
        (Height(names=()), "expected at least one"),
        (Height(names=("a", "a")), "a name of its own"),
        (Height(limit=np.nan), "expected finite numbers"),
        (Height(loose=0.05), "it proves what does not hold"),
        (Height(wrong=1e-3), "differ when they are evaluated again"),
        (Failing(), "constraint Failing: raises LinAlgError"),
        (Upwards(), "violations do not rise towards the limit"),
    ],
)
def test_a_constraint_that_does_not_conform_is_refused_with_the_reason(item, match):
    with pytest.raises(ExcitorError, match=match):
        check_constraint(item)


@pytest.mark.parametrize(
    ("kind", "match"),
    [
        (ConstraintKind("Tool Cone", "", ToolConeTable, lambda robot, table: CONE, lambda robot: {}), "lower-case"),
        (ConstraintKind("cone", "", ToolConeTable, lambda robot, table: CONE, lambda robot: {}), "example raises"),
        (
            ConstraintKind("cone", "", ToolConeTable, lambda robot, table: Upwards(), lambda robot: {"angle_deg": 9.0}),
            "violations do not rise",
        ),
    ],
)
def test_a_kind_that_does_not_conform_is_refused(kind, match):
    with pytest.raises(ExcitorError, match=match):
        check_constraint_kind(kind)


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: ToolCone(0.0), "angle is 0.0 rad, expected above 0"),
        (lambda: ToolCone(1.0, (0.0, 0.0, 0.0)), "direction is .* not all 0"),
        (lambda: JointSum({"j1": 1.0}, 1.0, 0.0), "the lower first"),
        (lambda: JointSum({}, 0.0, 1.0), "weights are {}"),
        (lambda: JointSum({"j9": 1.0}, 0.0, 1.0).rows(load("tx40")), "'j9' is no joint of"),
        (lambda: ToolAcceleration(0.0), "limit is 0.0, expected a positive acceleration"),
        (lambda: envelope(load("rotradi"), [1.0, 0.5, 0.6]), "expected 1 at standstill, then falling"),
        (lambda: TorqueEnvelope([1.0], [[1.0, 2.0]], [1.0, 0.5]), "do not rise from 0"),
        (lambda: TorqueEnvelope([1.0], [[0.0]], [1.0]), "expected 1 joints x the points"),
        (lambda: RobustTorque([1.0], 0.9), "spread is 0.9, expected a share"),
        (lambda: RobustTorque([1.0], 0.1, 1.0), "probability is 1.0, expected from 0.5"),
        (lambda: RobustTorque([0.0], 0.1), "expected positive torques"),
    ],
)
def test_numbers_that_make_no_constraint_are_refused(make, match):
    with pytest.raises(ValueError, match=match):
        make()


def problem_with(*others, robot="tx40", home=True, **limits):
    robot = load(robot)
    n = robot.n_joints
    tight = replace(robot.limits, torque=np.full(n, np.inf), jerk=np.full(n, np.inf))
    start = np.array([0.0, 0.3, 0.3, 0.0, 0.5, 0.0])[:n]
    constraints = Constraints(tight, np.full(n, np.inf), home=start if home else None, others=others, **limits)
    excitation = Excitation(5.0, 0.01, (1, 2, 3), np.ones(n, bool), ramp=2.0)
    columns = base_parameters(robot).kept
    return build_problem(
        robot,
        excitation,
        constraints=constraints,
        criterion=Criterion(),
        model=DynamicModel(robot, columns, np.ones(n)),
    )


def both():
    """A cone and a sum that both bind."""
    return CONE, JointSum({"j2": 1.0, "j3": 1.0}, np.radians(0.0), np.radians(70.0))


def tool_axes(robot, q):
    """The tool's z axis by pinocchio, (n, 3)."""
    zero = np.zeros_like(q)
    poses = Oracle(robot.mechanism).poses(Motion(q, zero, zero))
    return poses[:, robot.tool.link, :3, :3] @ robot.tool.T_link_frame[:3, 2]


@pytest.fixture(scope="module")
def design():
    return checked_design(0)


def checked_design(seed):
    problem = problem_with(*both())
    found = solve(problem, Budget(evaluations=500), seed=seed)
    assert found.feasible
    run = run_of(problem, found.candidates)
    certificate = certify(problem.robot, run, problem.constraints)
    return problem, run, certificate


def violations_by_pinocchio(problem, run, n=20_000):
    t = np.linspace(0.0, run.excitation.duration, n)
    q = run.at(t)
    cone, total = problem.constraints.others
    angle = np.arccos(np.clip(tool_axes(problem.robot, q) @ np.asarray(cone.direction), -1.0, 1.0))
    joints = [problem.robot.joint_names.index(name) for name in total.weights]
    s = q[:, joints].sum(axis=1)
    return angle.max() - cone.angle, max(s.max() - total.high, total.low - s.min()), angle, s


def test_a_certified_design_keeps_cone_and_sum_by_pinocchio(design):
    problem, run, certificate = design
    margins = {item.name: item for item in certificate.items}
    names = {"tool cone", "joint sum j2 + j3 upper", "joint sum j2 + j3 lower"}
    assert names <= margins.keys()
    assert {"dry run: tool cone", "way from home: tool cone", "way back: joint sum"} <= margins.keys()
    assert certificate.ready, [item for item in certificate.items if not item.holds]
    over_cone, over_sum, angle, s = violations_by_pinocchio(problem, run)
    assert over_cone <= 0.0
    assert over_sum <= 0.0
    assert margins["tool cone"].worst >= angle.max() - 1e-12  # the proof covers what occurs, and not much more
    assert margins["tool cone"].worst <= angle.max() + 0.05
    assert margins["joint sum j2 + j3 upper"].worst == pytest.approx(s.max(), abs=5e-3)


@pytest.mark.slow
def test_ten_designs_keep_cone_and_sum_by_pinocchio():
    for seed in range(10):
        problem, run, certificate = checked_design(seed)
        assert certificate.ready
        assert max(violations_by_pinocchio(problem, run, 40_000)[:2]) <= 0.0


def test_a_run_beyond_the_cone_is_not_certified(design):
    problem, run, _ = design
    angle = violations_by_pinocchio(problem, run)[2].max()
    narrow = replace(
        problem.constraints, others=(ToolCone(0.98 * angle, CONE.direction), problem.constraints.others[1])
    )
    failing = [item.name for item in certify(problem.robot, run, narrow).items if not item.holds]
    assert "tool cone" in failing
    assert not [name for name in failing if "joint sum" in name]


def test_slopes_of_the_new_kinds_agree_with_differences(design):
    problem, run, _ = design
    x = encode(problem, candidates_of([run]))[0]
    objective, shift = problem.objective(replace(WHOLE, weight=1.0)), np.full(len(problem.names), 0.5)
    slope = objective(x, shift)[1]
    for k in range(0, problem.n_design, 5):
        step = np.zeros(problem.n_design)
        step[k] = 1e-7
        up, down = (objective(x + sign * step, shift)[0] for sign in (1.0, -1.0))
        assert slope[k] == pytest.approx((up - down) / 2e-7, rel=1e-3, abs=2e-4)


@pytest.mark.parametrize(
    ("item", "group", "words"),
    [
        pytest.param(
            ToolCone(np.radians(4.0)), "tool cone", "tool cone of 4° about (0, 0, -1)", marks=pytest.mark.slow
        ),
        (JointSum({"j2": 1.0, "j3": 1.0}, -0.1, 0.1), "joint sum j2 + j3", "range of j2 + j3 (-5.7 … 5.7°)"),
    ],
)
def test_what_blocks_is_explained_and_its_relaxation_is_enough(item, group, words):
    problem = problem_with(item, home=False)
    blocked = explain(problem, evaluations=2000)
    assert [member.name for member in blocked.members] == [group]
    assert words in " ".join(sentences(blocked))
    enough = next(relaxation for relaxation in blocked.members[0].relaxations if relaxation.enough)
    assert enough.words.startswith("widen the")
    assert not explain(relaxed(problem, [enough]), evaluations=2000).members


class Crooked(ToolAcceleration):
    """Its slopes are those of another limit."""

    def slopes(self, robot, motion, rows):
        return ToolAcceleration(1.01 * self.limit).slopes(robot, motion, rows)


def test_wrong_slopes_are_refused():
    with pytest.raises(ExcitorError, match="slopes differ from differences"):
        check_constraint(Crooked(0.5))


def test_a_probability_of_all_robots_counts_more_than_one_sample():
    assert normal_factor(0.999, 1) > 3.29  # of a single normal number, two-sided
    assert normal_factor(0.999, 6) > normal_factor(0.99, 6)
    assert normal_factor(0.999, 6) < 6.0


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("tool acceleration", marks=pytest.mark.slow),
        pytest.param("torque envelope", marks=pytest.mark.slow),
        "robust torque",
        pytest.param("robust torque, box", marks=pytest.mark.slow),
    ],
)
def test_certified_designs_keep_their_limits_by_pinocchio(name):
    make = LIMITED[name]
    robot, run, ready = limited_design(make, seed=3)
    assert ready
    item, nominal = make(robot), prior(robot)[None]
    share = shares_of_limit(robot, run, item, nominal, 10).max()
    assert share <= 1.0
    certified = max(1.0 - margin.margin / margin.limit for margin in item.margins(robot, run.pieces()))
    assert 0.98 < certified <= 1.0  # the limit binds, or the check would show nothing
    if name == "robust torque":
        drawn = shares_of_limit(robot, run, item, drawn_robots(robot, False, np.random.default_rng(0)), 1)
        assert (drawn.max(axis=(0, 1)) <= 1.0).mean() >= 0.999
        assert share < np.quantile(drawn.max(axis=(0, 1)), 0.999)  # the prior's own torques are smaller
    elif name == "robust torque, box":
        drawn = shares_of_limit(robot, run, item, drawn_robots(robot, True, np.random.default_rng(0)), 1)
        assert share < drawn.max() <= 1.0
    else:
        assert share == pytest.approx(certified, abs=0.02)


def test_a_long_path_of_the_torques_direction_is_not_proven(design, monkeypatch):
    robot, run = design[0].robot, design[1]
    monkeypatch.setattr("excitor.design.constraints.robust_torque.PATH", 1.0)
    normal_factor.cache_clear()
    margins = RobustTorque(robot.limits.torque, 0.1).margins(robot, run.pieces())
    normal_factor.cache_clear()
    assert not any(margin.holds for margin in margins)
    assert "fewer harmonics or a shorter run" in margins[0].proof


def test_a_torque_envelope_reads_percent_of_the_joints_limits():
    robot, kind = load("tx40"), CONSTRAINTS["torque-envelope"]
    keys = {"speed_percent": [0, 50, 100], "torque_percent": [80, 80, 20], "joints": ["j2"]}
    item = kind.build(robot, kind.table.model_validate_json(json.dumps(keys)))
    (row,) = item.rows(robot)
    assert (row.name, row.unit, row.joint) == ("torque envelope j2", "N m", 1)
    assert row.limit == pytest.approx(0.8 * robot.limits.torque[1])
    still = np.zeros((1, 6))
    trace = Trace(robot, Motion(still, 0.75 * robot.limits.velocity[None], still))
    assert item.values(trace)[0, 0] == pytest.approx(abs(trace.torque[0, 1]) / 0.625)
    with pytest.raises(ValueError, match="'j22' is no joint of .*did you mean 'j2'"):
        kind.build(robot, kind.table.model_validate(keys | {"joints": ["j22"]}))
    with pytest.raises(ValueError, match="each point needs both"):
        kind.build(robot, kind.table.model_validate(keys | {"speed_percent": [0.0, 1.0]}))


@pytest.mark.parametrize(
    ("item", "words"),
    [
        (ToolAcceleration(0.05), "raise the tool's acceleration limit from 0.05 to"),
        pytest.param(
            RobustTorque(np.array([np.inf, 10.0, *4 * [np.inf]]), 0.1),
            "raise the robust torque limit of j2 from 10 to",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_what_the_further_kinds_block_can_be_relaxed(item, words):
    problem = problem_with(item, home=False)
    blocked = explain(problem, evaluations=2000)
    assert words in " ".join(sentences(blocked))
