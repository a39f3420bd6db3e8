"""Impossible cells with known conflicts: the report names them, and what it says to relax does make room."""

import time
from dataclasses import replace

import numpy as np
import pytest

from excitor.design.criteria import Criterion, DynamicModel
from excitor.design.explain import HOME, SELF, STILL, InfeasibleDesign, explain, relaxed, sentences
from excitor.design.motion import Excitation
from excitor.design.problem import build_problem, candidates_of, feasible_start, violation_of
from excitor.robots.base import base_parameters, random_motion
from excitor.robots.cell import Scene, Shape, Zone, clearances, required, row_names
from excitor.robots.dynamics import frame_pose
from excitor.robots.load import load
from excitor.robots.robot import Limits
from tests.limits import from_robot

FLIPPED = np.diag([1.0, -1.0, -1.0, 1.0])


def at(x, y, z):
    T = np.eye(4)
    T[:3, 3] = x, y, z
    return T


def box(name, center, half, keep, **others):
    return Zone(name, Shape("box", at(*center), half), keep, **others)


def ball(name, center, radius, keep="out", **others):
    return Zone(name, Shape("sphere", at(*center), [radius, 0.0, 0.0]), keep, **others)


def floor(name, height, **others):
    return Zone(name, Shape("half-space", at(0.0, 0.0, height)), "out", **others)


def ceiling(name, height, **others):
    return Zone(name, Shape("half-space", at(0.0, 0.0, height) @ FLIPPED), "out", **others)


def make(name, *zones, limits=None, moving=None, pose=None, scene=None, ramp=1.0, **constraints):
    robot = load(name)
    n = robot.n_joints
    found = from_robot(robot, scene=Scene(zones, **(scene or {})))
    if limits:
        changed = {field: getattr(found.limits, field).copy() for field in Limits.__dataclass_fields__}
        for (field, joint), value in limits.items():
            changed[field][joint] = value
        found = replace(found, limits=Limits(**changed))
    moving = np.ones(n, bool) if moving is None else np.asarray(moving)
    return build_problem(
        robot,
        Excitation(10.0, 0.004, (1, 2, 3, 4, 5), moving, ramp=ramp),
        constraints=replace(found, **constraints),
        criterion=Criterion(),
        model=DynamicModel(robot, base_parameters(robot).kept, np.ones(n)),
        pose=pose,
    )


def names(blocked):
    return {member.name for member in blocked.members}


def quick(problem, **others):
    return explain(problem, evaluations=2000, **others)


def only(blocked, group, action=None):
    (member,) = [member for member in blocked.members if member.name == group]
    found = [r for r in member.relaxations if action in (None, r.action)]
    assert found, f"{group} has no way to {action}"
    return found[0]


# the arm reaches 0.225 + 0.225 + 0.065 m about z = 0.32 m, beside its shoulder's offset of 0.035 m
REACH = np.hypot(0.225 + 0.225 + 0.065, 0.035)

HIGH = box("high", (0, 0, 1.2), [0.8, 0.8, 0.2], "in", bodies="tool")
LEFT = box("left", (0.2, 0.3, 0.5), [0.3, 0.2, 0.4], "in", bodies="tool")
RIGHT = box("right", (0.2, -0.3, 0.5), [0.3, 0.2, 0.4], "in", bodies="tool")
AHEAD = box("ahead", (0.4, 0.05, 0.5), [0.1, 0.05, 0.3], "in", bodies="tool")
LOW = box("cell", (0.35, 0, 0.30), [0.15, 0.25, 0.12], "in", bodies="tool")
PILLAR = box("pillar", (-0.5, 0, 0.5), [0.05, 0.05, 0.5], "out")
WALL = box("wall", (0.9, 0, 0.5), [0.1, 2, 2], "out")

CELLS = {
    "box out of reach": lambda: (
        make("tx40", box("cell", (0.9, 0, 0.5), [0.1] * 3, "in", bodies="tool"), PILLAR),
        {"clearance: cell"},
    ),
    "box under a table": lambda: (
        make("tx40", LOW, floor("table", 0.45, bodies="tool"), PILLAR),
        {"clearance: cell", "clearance: table"},
    ),
    "two boxes apart": lambda: (make("tx40", LEFT, RIGHT, PILLAR), {"clearance: left", "clearance: right"}),
    "torque below gravity and friction": lambda: (
        make("tx40", floor("table", 0.05, bodies="tool"), limits={("torque", 1): 5.0}),
        {"torque peak j2"},
    ),
    "ball around the robot": lambda: (
        make("tx40", ball("ball", (0, 0, 0.5), 0.8), PILLAR, floor("table", 0.05, bodies="tool")),
        {"clearance: ball"},
    ),
    "seven joints, box above a ceiling": lambda: (
        make("iiwa", HIGH, ceiling("ceiling", 0.8, bodies="tool", clearance=0.05), WALL),
        {"clearance: high", "clearance: ceiling"},
    ),
    "seven joints, gravity": lambda: (
        make("iiwa", HIGH, WALL, limits={("torque", 0): 3.0}),
        {"torque peak iiwa_joint_1"},
    ),
    "home outside the cell": lambda: (
        make("tx40", box("cell", (0.35, 0, 0.5), [0.25] * 3, "in", bodies="tool"), home=np.zeros(6)),
        {"clearance: cell", HOME},
    ),
    "joint turned away": lambda: (
        make("tx40", AHEAD, PILLAR, limits={("position", 0): [-1.75, -1.05]}),
        {"clearance: ahead", "position j1"},
    ),
}


FAST = ("torque below gravity and friction",)


@pytest.fixture(
    scope="module", params=[name if name in FAST else pytest.param(name, marks=pytest.mark.slow) for name in CELLS]
)
def cell(request):
    problem, expected = CELLS[request.param]()
    begun = time.process_time()
    blocked = explain(problem, seed=0)
    return problem, expected, blocked, time.process_time() - begun


def test_the_planted_conflict_is_found(cell):
    _, expected, blocked, seconds = cell
    assert names(blocked) == expected
    assert seconds < 10.0


def test_the_usual_start_finds_nothing_and_one_change_is_enough(cell):
    problem, _, blocked, _ = cell
    assert violation_of(problem, feasible_start(problem, 200, np.random.default_rng(5))).min() > 0.0
    for member in blocked.members:
        assert member.relaxations
        assert any(r.enough for r in member.relaxations)


def test_relaxations_make_room(cell):
    """The relaxed problem, built anew, has the motion that was found, and another search finds a smaller one."""
    problem, _, blocked, _ = cell
    for member in blocked.members:
        for relaxation in member.relaxations:
            changed = relaxed(problem, [relaxation])
            assert violation_of(changed, candidates_of([relaxation.motion]))[0] <= 0.0
            again = explain(changed, seed=3, smallest=0.02, evaluations=2000)
            assert not again.members, (relaxation.words, sentences(again))


def test_reports_are_sentences(cell):
    _, expected, blocked, _ = cell
    text = "\n".join(sentences(blocked))
    assert text.startswith("No motion")
    assert "nan" not in text
    assert "inf" not in text
    assert {member.name for member in blocked.members} == expected


BRIEFLY = {
    **{name: made for name, made in CELLS.items() if name not in FAST},
    "tool too slow": lambda: (make("tx40", tool_speed=0.004), {"tool speed"}),
    "torque on average": lambda: (make("tx40", torque_rms=np.array([np.inf, 1.0, *[np.inf] * 4])), {"torque rms j2"}),
    "too narrow for the smallest motion": lambda: (
        make("tx40", box("cell", (0.35, 0, 0.5), [0.02] * 3, "in", bodies="tool")),
        {"clearance: cell"},
    ),
}


@pytest.mark.parametrize("name", BRIEFLY)
def test_a_brief_search_names_the_conflict_and_what_is_enough(name):
    """What slow tests establish by whole searches: the reason and no other, and a motion that fits once it is gone."""
    problem, expected = BRIEFLY[name]()
    blocked = explain(problem, seed=0, evaluations=800)
    assert names(blocked) == expected
    for member in blocked.members:
        enough = [relaxation for relaxation in member.relaxations if relaxation.enough]
        assert enough
        motion = candidates_of([enough[0].motion])
        assert violation_of(relaxed(problem, enough[:1]), motion)[0] <= 0.0
        low, high = problem.position.T
        within = ((low <= motion.center) & (motion.center <= high)).all()  # limits that are no constraints
        assert violation_of(problem, motion)[0] > 0.0 or not within


def test_amounts_are_those_of_geometry():
    """A box beyond reach: it must grow by the distance that is missing."""
    problem = make("tx40", box("cell", (0.9, 0, 0.32), [0.1] * 3, "in", bodies="tool"))
    blocked = quick(problem)
    short = 0.8 - REACH
    amount = only(blocked, "clearance: cell", "grow").amount
    # and 4 mm of the search's own, and what the smallest motion takes
    assert short + 0.004 <= amount < 1.05 * short + 0.03
    assert blocked.members[0].slack == pytest.approx(amount / 1.05, abs=3e-3)
    assert not blocked.standing
    assert blocked.amplitude == 0.0


def test_two_planes_say_how_far_apart_they_are():
    """A floor above a ceiling: each must give way by their overlap, the ball's diameter and the margins."""
    zones = (floor("floor", 0.65, bodies="tool"), ceiling("ceiling", 0.60, bodies="tool"))
    blocked = quick(make("tx40", *zones, scene={"tool_radius": 0.02}))
    assert names(blocked) == {"clearance: floor", "clearance: ceiling"}
    least = 0.05 + 2 * 0.02 + 2 * 0.004
    for name, along in (("floor", [0, 0, -1]), ("ceiling", [0, 0, 1])):
        move = only(blocked, f"clearance: {name}", "move")
        assert least <= move.amount < 1.05 * least + 0.03
        np.testing.assert_allclose((move.after - move.before) / move.amount, along, atol=1e-9)


@pytest.mark.slow
def test_moved_zone_is_clear_by_the_public_geometry():
    problem, _ = CELLS["box under a table"]()
    move = only(quick(problem), "clearance: table", "move")
    changed = relaxed(problem, [move])
    q = quick(changed, seed=1).fits.series.center[None, :]
    scene = changed.constraints.scene
    assert (clearances(changed.robot, scene, q) >= required(changed.robot, scene)).all()
    assert frame_pose(changed.robot, q)[0, 2, 3] < 0.30 + 0.12


@pytest.mark.slow
def test_same_seed_gives_the_same_report():
    problem, _ = CELLS["two boxes apart"]()
    first, second = (sentences(quick(problem, seed=4)) for _ in range(2))
    assert first == second


def test_a_possible_cell_is_not_called_impossible():
    problem = make("tx40", box("cell", (0.35, 0, 0.5), [0.05] * 3, "in", bodies="tool"), PILLAR)
    blocked = quick(problem)
    assert not blocked.members
    assert blocked.amplitude >= blocked.smallest
    assert violation_of(problem, candidates_of([blocked.fits]))[0] <= 0.0
    assert "did not find one" in sentences(blocked)[0]


@pytest.mark.slow
def test_a_cell_too_narrow_for_the_smallest_motion_has_a_smaller_one():
    problem = make("tx40", box("cell", (0.35, 0, 0.5), [0.02] * 3, "in", bodies="tool"))
    blocked = quick(problem)
    assert names(blocked) == {"clearance: cell"}
    assert blocked.standing
    assert 0.0 < blocked.amplitude < blocked.smallest
    assert violation_of(problem, candidates_of([blocked.fits]))[0] <= 0.0
    assert "the largest found swings" in sentences(blocked)[0]
    assert not quick(problem, smallest=0.5 * blocked.amplitude).members


@pytest.mark.slow
def test_the_tool_may_be_too_slow():
    problem = make("tx40", tool_speed=0.004)
    blocked = quick(problem)
    assert names(blocked) == {"tool speed"}
    raised = only(blocked, "tool speed", "raise")
    assert raised.unit == "m/s"
    assert raised.after[0] > 0.004
    assert not quick(relaxed(problem, [raised])).members


@pytest.mark.slow
def test_rms_torque_and_clearances_give_way():
    problem = make("tx40", torque_rms=np.array([np.inf, 1.0, *[np.inf] * 4]))
    blocked = quick(problem)
    assert names(blocked) == {"torque rms j2"}
    assert "carry less" in only(blocked, "torque rms j2").words
    near = [floor("floor", 0.25, bodies="tool", clearance=0.25), ceiling("ceiling", 0.6, bodies="tool", clearance=0.2)]
    blocked = quick(make("tx40", *near))
    less = only(blocked, "clearance: floor", "reduce clearance")
    assert 0.1 < less.amount < 0.25
    assert less.after[0] == pytest.approx(0.25 - less.amount)


def test_joints_that_stand_still_in_the_way():
    moving = np.array([True, False, False, True, True, True])
    pose = np.array([0.0, -0.1, 0.1, 0.0, 0.0, 0.0])
    cell = box("cell", (0.0, 0.0, 0.4), [0.6, 0.6, 0.2], "in", bodies="tool")
    blocked = quick(make("tx40", cell, moving=moving, pose=pose))
    assert names(blocked) == {"clearance: cell", STILL}
    stand = only(blocked, STILL)
    assert stand.enough
    assert "j2" in stand.words
    assert "j3" in stand.words
    assert "j4" not in stand.words


def test_a_robot_that_cannot_keep_from_itself():
    """Its joints are kept where the hand is in the base: only the limits of two joints, or touching, would help."""
    robot = load("tx40")
    q = random_motion(robot, 3000).q
    gaps = clearances(robot, Scene(), q)
    worst = q[np.argmin(gaps[:, row_names(robot, Scene()).index("base / link j6")])]
    limits = {("position", j): [worst[j] - 0.05, worst[j] + 0.05] for j in (1, 2, 4)}
    blocked = quick(make("tx40", scene={"self_clearance": 0.012}, limits=limits))
    assert SELF in names(blocked)
    assert names(blocked) <= {SELF, "position j2", "position j3", "position j5"}
    assert blocked.standing is False


@pytest.mark.slow
def test_two_conflicts_are_relaxed_together():
    limits = {("torque", 1): 5.0}
    problem = make("tx40", LEFT, RIGHT, limits=limits)
    blocked = quick(problem)
    assert names(blocked) in ({"torque peak j2"}, {"clearance: left", "clearance: right"})
    assert not any(r.enough for member in blocked.members for r in member.relaxations)
    assert {r.group for r in blocked.together} >= {"torque peak j2"}
    assert not quick(relaxed(problem, blocked.together)).members
    assert "Together these are" in "\n".join(sentences(blocked))


@pytest.mark.slow
def test_a_home_pose_that_the_joints_cannot_take_comes_on_top():
    far = box("cell", (0.9, 0, 0.5), [0.1] * 3, "in", bodies="tool")
    problem = make("tx40", far, home=np.array([4.0, 0.0, 0.0, 0.0, 0.0, 0.0]))
    blocked = quick(problem)
    assert names(blocked) in ({"clearance: cell"}, {HOME})
    assert {r.group for r in blocked.together} == {"clearance: cell", HOME}
    assert not quick(relaxed(problem, blocked.together)).members


def test_the_error_carries_the_report():
    problem, _ = CELLS["ball around the robot"]()
    blocked = quick(problem)
    with pytest.raises(InfeasibleDesign, match="run 'all joints': no design") as caught:
        raise InfeasibleDesign("run 'all joints'", blocked)
    assert caught.value.blocked is blocked
    with pytest.raises(ValueError, match="expected a share"):
        quick(problem, smallest=0.0)
