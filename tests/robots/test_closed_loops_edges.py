"""Closed chains at their edges: singularities, out of reach, other closures, files that say wrong things."""

import time
import tomllib
from dataclasses import replace

import numpy as np
import pytest

from excitor.robots.base import base_parameters, random_motion
from excitor.robots.closed_chain import ClosedLoop, complete, find_legs, forward_geometry, inverse_geometry, opened
from excitor.robots.dynamics import energy_regressor, inverse_dynamics, regressor
from excitor.robots.errors import AssemblyError, InvalidRobot
from excitor.robots.files.toml import robot_from_data
from excitor.robots.gram import gram, gram_gradient
from excitor.robots.lint import lint
from excitor.robots.load import load, robot_text
from excitor.robots.parameters import layout, prior
from excitor.robots.population import population_grams, population_torques
from excitor.robots.robot import Motion, Payload, posture
from excitor.robots.simulate import Steps, simulate, with_friction_width


def changed(name, **tables):
    """A catalogue robot with top-level keys replaced."""
    return robot_from_data({**tomllib.loads(robot_text(name)), **tables}, name)


# Singularities and the edge of the workspace.


def test_type_1_vanishes_where_a_leg_is_stretched():
    loop = load("five-bar").mechanism
    A = np.array([-0.1375, 0.0])
    toward = np.array([np.cos(np.radians(60)), np.sin(np.radians(60))])
    distances = []
    for short in (0.03, 1e-2, 1e-3, 1e-4):
        x = A + (0.45 - short) * toward
        distances.append(loop.singularity_distances(inverse_geometry(loop, x[None]))[0, 0])
    assert (np.diff(distances) < 0.0).all()
    assert distances[-1] < 0.05  # as the root of how far the leg is from stretched


def test_type_2_vanishes_where_distal_bars_are_in_line_and_beyond_is_negative():
    loop = load("five-bar").mechanism
    angle = np.linspace(np.radians(90), np.radians(170), 200)
    least = loop.singularity_distances(np.column_stack([angle, np.pi - angle]))[:, 1]
    gap = 0.275 - 2 * 0.2 * np.cos(angle)
    assert (least[gap < 0.5 - 1e-6] > 0.0).all()
    assert (least[gap > 0.5 + 1e-6] < 0.0).all()
    edge = least[np.abs(gap - 0.5) < 0.004]
    assert np.abs(edge).max() < 0.3
    beyond = least[gap > 0.5 + 1e-6]
    assert (np.diff(beyond) < 0.0).all()  # an optimiser sees which way back


def test_another_working_mode_lies_beyond_type_1():
    loop = load("five-bar").mechanism
    x = np.array([[0.0, 0.38]])
    q = inverse_geometry(loop, x)
    assert (loop.singularity_distances(q) > 0.0).all()
    elbow_in = np.arctan2(0.38, 0.1375) - (q[0, 0] - np.arctan2(0.38, 0.1375))
    distance = loop.singularity_distances(np.array([[elbow_in, q[0, 1]]]))[0]
    assert distance[0] < 0.0 < distance[1]
    np.testing.assert_allclose(forward_geometry(loop, np.array([[elbow_in, q[0, 1]]])), x, atol=1e-12)


def test_another_assembly_mode_lies_beyond_type_2():
    """Far from home the way there leads out of reach and back: what is found then is not what encoders mean."""
    loop = load("delta").mechanism
    q = np.array([[-2.92311741, 2.08296401, 2.70804882]])
    whole = complete(loop, posture(q))
    assert whole.residual[0] < 1e-9
    assert not whole.closes[0]
    assert (loop.singularity_distances(q) < 0.0).all()
    with pytest.raises(AssemblyError, match="beyond a singularity, in another assembly mode"):
        loop.poses(q)


def test_a_sample_is_assembled_alike_alone_and_in_company():
    loop = load("five-bar").mechanism
    q = loop.home[loop.actuated] + np.random.default_rng(0).uniform(-np.pi, np.pi, size=(300, 2))
    together = complete(loop, posture(q))
    for k in range(0, 300, 17):
        alone = complete(loop, posture(q[k : k + 1]))
        assert alone.closes[0] == together.closes[k]
        np.testing.assert_allclose(alone.motion.q[0], together.motion.q[k], atol=1e-9)


def test_what_cannot_be_assembled_is_reported_with_its_sample():
    robot = load("five-bar")
    q = np.array([[2.0, 1.14], [2.0, 1.14], [3.0, 0.1]])
    with pytest.raises(AssemblyError, match=r"q1 = 3, q2 = 0.1 \(sample 3 of 3; 1 such\).*out of reach") as caught:
        robot.mechanism.poses(q)
    assert caught.value.samples.tolist() == [2]
    with pytest.raises(AssemblyError, match=r"platform coordinates .*x = 0, .*y = 0.9 .*stay open by 0.46 m"):
        inverse_geometry(robot.mechanism, np.array([[0.0, 0.9]]))


def test_random_positions_need_limits_within_reach():
    from excitor.robots.errors import ExcitorError

    robot = load("five-bar")
    limits = replace(robot.limits, position=np.array([[2.9, 3.1], [0.05, 0.1]]))
    with pytest.raises(ExcitorError, match="0 can be assembled"):
        random_motion(replace(robot, limits=limits), 10)


def test_populations_survive_candidates_that_leave_the_workspace():
    robot = load("five-bar")
    good = random_motion(robot, 40)
    q = np.stack([good.q.T, np.tile([[3.1], [0.05]], 40)])
    dq, ddq = np.stack([good.dq.T] * 2), np.stack([good.ddq.T] * 2)
    G = population_grams(robot, q, dq, ddq)
    np.testing.assert_allclose(G[0], gram(robot, good), rtol=1e-12)
    assert not G[1].any()
    peak, square = population_torques(robot, q, dq, ddq)
    assert peak[0].max() < 1e3 < peak[1].min()
    assert np.isfinite(square).all()


def test_a_run_that_leaves_the_workspace_is_lost_alone():
    robot = load("five-bar")
    robot = with_friction_width(robot, 0.05)
    q = inverse_geometry(robot.mechanism, np.array([[0.0, 0.3], [0.02, 0.32]]))
    torque = np.zeros((2, 2, 60))
    torque[1] = np.array([[12.0], [-12.0]])  # arms turn outwards until the distal bars are in line
    for chi in (None, np.tile(prior(robot), (2, 1))):
        done = simulate(robot, torque, start=posture(q), steps=Steps(0.004, 60, substeps=2), chi=chi)
        assert done.diverged_at[0] == np.inf
        assert done.diverged_at[1] < 0.2
        np.testing.assert_allclose(done.q[0, :, -1], q[0], atol=1e-12)


def test_the_gram_matrix_s_gradient():
    robot = load("3-rrr")
    motion, rng = random_motion(robot, 12, seed=3), np.random.default_rng(0)
    columns, weights = base_parameters(robot).kept, np.array([1.0, 2.0, 0.5])
    bar = rng.normal(size=(len(columns), len(columns)))
    got = gram_gradient(robot, motion, gram_bar=bar, columns=columns, weights=weights)
    for kind in range(3):
        step = rng.normal(size=motion.q.shape)

        def value(h, kind=kind, step=step):
            parts = [motion.q, motion.dq, motion.ddq]
            parts[kind] = parts[kind] + h * step
            return (gram(robot, Motion(*parts), columns, weights) * bar).sum()

        h = 1e-5
        expected = (value(h) - value(-h)) / (2 * h)
        assert (got[kind] * step).sum() == pytest.approx(expected, rel=1e-6)


def test_a_closed_regressor_is_fast():
    robot = load("orthoglide")
    motions = [random_motion(robot, 2000, seed=k) for k in range(3)]
    regressor(robot, motions[0])
    spent = []
    for motion in motions:
        begin = time.process_time()
        regressor(robot, motion)
        spent.append(time.process_time() - begin)
    assert min(spent) / 2000 < 40e-6


# Other closures.


def test_rods_close_like_universal_joints():
    data = tomllib.loads(robot_text("delta"))
    joints = [joint for joint in data["joint"] if joint["name"][0] == "q"]
    closures = [
        {**closure, "kind": "rod", "between": [f"q{k + 1}", "platform"], "length": "L"}
        for k, closure in enumerate(data["closure"])
    ]
    for closure in closures:
        closure["points"] = [["L1", 0, 0], closure["points"][1]]
    rods = robot_from_data({**data, "joint": joints, "closure": closures, "capsule": []}, "rods")
    motion = random_motion(load("delta"), 50, seed=2)
    ours, theirs = opened(rods.mechanism, motion), opened(load("delta").mechanism, motion)
    for kind in ("q", "dq", "ddq"):
        a = getattr(ours.motion, kind)[:, rods.mechanism.platform]
        b = getattr(theirs.motion, kind)[:, load("delta").mechanism.platform]
        np.testing.assert_allclose(a, b, atol=1e-10)
    assert rods.mechanism.n_links == 4


def test_a_welded_platform_moves_as_the_arm_s_last_link():
    """The hand of a serial arm welded to a free platform: the same torques as with the platform's body on the hand."""
    data = tomllib.loads(robot_text("tx40"))
    for unused in ("declared_base", "controllers", "capsule"):
        data.pop(unused)
    posture_deg = [20, 30, 40, 50, 60, 70]
    joints = [{**joint, "home_deg": home} for joint, home in zip(data["joint"], posture_deg, strict=True)]
    serial = load("tx40")
    T = serial.mechanism.poses(np.radians([posture_deg]))[0, -1]
    roll, pitch, yaw = _xyz_angles(T[:3, :3])
    platform = {
        "moves": ["x", "y", "z", "rx", "ry", "rz"],
        "home": [*map(float, T[:3, 3]), *np.degrees([roll, pitch, yaw]).tolist()],
        "link": {"mass": 2.0, "center": [0.03, -0.02, 0.05], "inertia": [0.02, 0, 0, 0.03, 0, 0.025]},
    }
    weld = [{"kind": "weld", "between": ["j6", "platform"]}]
    welded = robot_from_data({**data, "joint": joints, "platform": platform, "closure": weld}, "welded")
    rng = np.random.default_rng(0)
    q = np.radians(posture_deg) + rng.uniform(-0.4, 0.4, size=(40, 6))
    motion = Motion(q, *rng.normal(size=(2, 40, 6)))
    np.testing.assert_allclose(welded.mechanism.poses(q)[:, -1], serial.mechanism.poses(q)[:, -1], atol=1e-12)
    home = welded.mechanism.home
    assert find_legs(welded.mechanism) is None  # so Newton's method finds its joints
    back = inverse_geometry(welded.mechanism, home[None, welded.mechanism.platform] + 0.01)
    np.testing.assert_allclose(forward_geometry(welded.mechanism, back)[0], home[welded.mechanism.platform] + 0.01)
    chi = prior(welded)
    hand = Payload(5, chi[layout(welded).link(6)])
    np.testing.assert_allclose(
        inverse_dynamics(welded, motion), inverse_dynamics(replace(serial, payload=hand), motion), atol=1e-9
    )
    far = {**platform, "home": [3, 0, 0, 0, 0, 0]}
    with pytest.raises(InvalidRobot, match="do not reach"):
        robot_from_data({**data, "joint": joints, "platform": far, "closure": weld}, "w")


def _xyz_angles(R):
    """Angles with R = Rx Ry Rz."""
    return np.arctan2(-R[1, 2], R[2, 2]), np.arcsin(R[0, 2]), np.arctan2(-R[0, 1], R[0, 0])


def test_a_palletiser_s_rods_stay_parallel():
    robot = load("palletiser")
    q = random_motion(robot, 50).q
    R = dict(zip(robot.mechanism.link_names, robot.mechanism.poses(q).transpose(1, 0, 2, 3), strict=True))
    np.testing.assert_allclose(R["rod"][:, :3, :3], R["j2"][:, :3, :3], atol=1e-14)
    np.testing.assert_allclose(R["forearm"][:, :3, :3], R["j3"][:, :3, :3], atol=1e-14)
    np.testing.assert_allclose(R["wrist"][:, :3, :3], R["j1"][:, :3, :3], atol=1e-14)
    elbow = R["forearm"][:, :3, 3] - 0.40 * R["forearm"][:, :3, 0]
    rod_end = R["rod"][:, :3, 3] + 1.15 * R["rod"][:, :3, 2]
    np.testing.assert_allclose(rod_end, elbow, atol=1e-13)
    pins = np.linalg.norm(energy_regressor(robot, Motion(q, q, q)), axis=0)
    assert np.isfinite(pins).all()


# Bad files.


def bad(match, **tables):
    with pytest.raises(InvalidRobot, match=match):
        changed("five-bar", **tables)


def test_bad_files():
    data = tomllib.loads(robot_text("five-bar"))
    closures, platform, joints = data["closure"], data["platform"], data["joint"]
    without = {key: value for key, value in data.items() if key != "platform"}
    with pytest.raises(InvalidRobot, match=r"platform: is missing; a closed chain needs \[platform\]"):
        robot_from_data(without, "x")
    bad(r"closure: is missing; \[\[closure\]\]", closure=[])
    bad("2 equations for the 4 coordinates that no drive settles", closure=closures[:1])
    spatial = [{key: value for key, value in closure.items() if key != "normal"} for closure in closures]
    bad("6 equations for the 4 coordinates", closure=spatial)
    bad(r"platform.name: 'p1' names the base or a joint already", platform={**platform, "name": "p1"})
    bad(r"platform.moves: is \['x', 'x'\], which says one twice", platform={**platform, "moves": ["x", "x"]})
    bad(r"platform.home: has 1 entries", platform={**platform, "home": [0]})
    bad("the legs do not reach the platform there: .* by 0.[0-9]+ m", platform={**platform, "home": [0, 0.9]})
    bad(r"closure\[1\].between: no joint is named 'arm'", closure=[{**closures[0], "between": ["arm", "p2"]}])
    bad("one and the same link", closure=[{**closures[0], "between": ["p1", "p1"]}, closures[1]])
    bad(r"closure\[1\].length: is for a rod", closure=[{**closures[0], "length": 1}, closures[1]])
    bad(r"closure\[1\].rpy_deg: is for a weld", closure=[{**closures[0], "rpy_deg": [0, 0, 0]}, closures[1]])
    bad("a rod needs its length", closure=[{"kind": "rod", "between": ["p1", "p2"]}, closures[1]])
    bad("expected a direction other than 0", closure=[{**closures[0], "normal": [0, 0, 0]}, closures[1]])
    twice = [closures[0], closures[0]]
    bad("with the actuated joints held still, .* can still move|do not reach", closure=twice)
    active = [{**joint, "passive": False} for joint in joints]
    bad("4 joints are actuated, but the platform has 2 moves", joint=active)
    limited = [joints[0], {**joints[1], "limits": {"position_deg": [-1, 1]}}, *joints[2:]]
    bad(r"joint\[2\].limits: the joint is passive", joint=limited)
    weightless = [{**joints[0], "massless": True}, *joints[1:]]
    bad(r"joint\[1\].link: is given, but the link is massless", joint=weightless)
    bad(r"platform.link.center: 'zz' has", platform={**platform, "link": {"mass": 1, "center": ["zz", 0, 0]}})
    serial = tomllib.loads(robot_text("rotradi"))
    serial["joint"][0]["passive"] = True
    serial["joint"][1]["slender"] = True
    with pytest.raises(InvalidRobot) as caught:
        robot_from_data(serial, "x")
    assert len(caught.value.problems) == 2
    assert "joint[1].passive: is for closed chains" in str(caught.value)


def test_a_singular_home_is_refused():
    """Elbows stretched: platform at a distance L1 + L2 of a base joint."""
    data = tomllib.loads(robot_text("five-bar"))
    far = float(np.sqrt(0.45**2 - 0.1375**2))
    with pytest.raises(InvalidRobot, match=r"home is a singularity|do not reach"):
        robot_from_data({**data, "platform": {**data["platform"], "home": [0, far]}}, "stretched")


def test_home_settles_the_working_mode():
    data = tomllib.loads(robot_text("five-bar"))
    joints = [dict(joint) for joint in data["joint"]]
    for joint, home in zip(joints, (16, 86, 164, -86), strict=True):  # elbows inwards
        joint["home_deg"] = home
        if "limits" in joint:
            joint["limits"] = {**joint["limits"], "position_deg": [-30, 210]}
    inwards = robot_from_data({**data, "joint": joints}, "inwards").mechanism
    assert isinstance(inwards, ClosedLoop)
    x = np.array([[0.02, 0.28]])
    a, b = inverse_geometry(load("five-bar").mechanism, x)[0], inverse_geometry(inwards, x)[0]
    assert a[0] > b[0]
    assert a[1] < b[1]
    np.testing.assert_allclose(forward_geometry(inwards, b[None]), x, atol=1e-13)


def test_lint_finds_odd_closed_chains():
    def told(name, **tables):
        return [str(finding) for finding in lint(changed(name, **tables))]

    thick = [dict(joint) for joint in tomllib.loads(robot_text("delta"))["joint"]]
    rod = next(joint for joint in thick if joint["name"] == "b2")
    rod["link"] = {**rod["link"], "inertia": [0.02, 0, 0, 0.086, 0, 0.086]}
    sentences = told("delta", joint=thick)
    assert any("warning: link 'b2': counts as a slender rod" in sentence for sentence in sentences)
    arms = [dict(joint) for joint in tomllib.loads(robot_text("five-bar"))["joint"]]
    arms[0]["limits"] = {**arms[0]["limits"], "position_deg": [75, 100]}
    sentences = told("five-bar", joint=arms)
    assert any("joint 'q1': stands at 1.998 at home, outside its limits" in sentence for sentence in sentences)
    assert any("can be assembled; let a design keep its distance" in sentence for sentence in told("five-bar"))
