"""Every diagnosis: a fault that triggers it, in a sentence that says what to do; healthy runs trigger none."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from excitor.identify.diagnose import delay, diagnose, usable
from excitor.identify.regression import subset
from excitor.identify.samples import Samples
from excitor.robots.load import catalog_names, load, robot_text
from excitor.robots.parameters import prior
from excitor.robots.robot import DriveTrain, FrictionTerm, Motion

DATA = Path(__file__).parents[3] / "shared" / "data"


@pytest.fixture(scope="module")
def robot():
    return load("tx40")


@pytest.fixture
def healthy(simulate):
    """A run of a robot that is not quite its prior, with noise, measured eight times."""

    def make(robot, seed=0, n_samples=600):
        rng = np.random.default_rng(500 + seed)
        chi = prior(robot) * rng.uniform(0.7, 1.4, size=len(prior(robot)))
        run = simulate(robot, chi, seed, n_samples=n_samples)
        noise = 0.03 * run.tau.std(axis=0)
        return replace(
            run,
            tau=run.tau + rng.normal(size=run.tau.shape) * noise,
            variance=np.tile(8.0 * noise**2, (n_samples, 1)),
            repetitions=8,
        )

    return make


def moved(run, **columns):
    """The run with columns of its motion replaced: q=(joint, values)."""
    arrays = {name: getattr(run.motion, name).copy() for name in ("q", "dq", "ddq")}
    for name, (joint, values) in columns.items():
        arrays[name][:, joint] = values
    return replace(run, motion=Motion(**arrays))


def retorqued(run, joint, change):
    tau = run.tau.copy()
    tau[:, joint] = change(tau[:, joint])
    return replace(run, tau=tau)


def scaled(run, factor):
    motion = run.motion
    return replace(run, motion=Motion(motion.q * factor, motion.dq * factor, motion.ddq * factor))


def with_friction(robot, *models):
    """The robot without prior knowledge of its drives, its first joint with other friction."""
    first = np.eye(robot.n_joints)[0]
    terms = [term for term in robot.drive.friction if not term.senses[0]]
    terms += [FrictionTerm(f"{model}1", model, first, first) for model in models]
    drive = DriveTrain(
        robot.drive.motor_from_joint,
        robot.drive.torque_from_current,
        robot.drive.efficiency,
        robot.drive.rotors,
        tuple(terms),
    )
    names = {term.parameter for term in robot.drive.friction if term.senses[0]}
    from excitor.robots.parameters import layout, layout_of

    before, after = layout(robot), layout_of(robot.mechanism.n_links, robot.mechanism.prismatic, drive)
    chi = np.array([0.0 if name not in before.names else robot.chi[before.index(name)] for name in after.names])
    assert not names & set(after.names)
    known = np.ones(len(chi), dtype=bool)
    return replace(robot, drive=drive, chi=chi, known=known, assumed_zero=~known, declared_base=None)


OPEN_CHAINS = [name for name in catalog_names() if "[platform]" not in robot_text(name) and name != "palletiser"]


@pytest.mark.parametrize("seeds", [range(6), pytest.param(range(6, 20), marks=pytest.mark.slow)], ids=["few", "many"])
@pytest.mark.parametrize("name", OPEN_CHAINS)
def test_healthy_runs_raise_no_alarm(name, seeds, healthy):
    """Random waves suit serial arms: they take closed chains apart, and tell little of a palletiser's wrist."""
    robot = load(name)
    for seed in seeds:
        assert [str(finding) for finding in diagnose(robot, healthy(robot, seed))] == []


def only(findings, what, level="unusable"):
    assert [finding.what for finding in findings if finding.level != "note"] == [what], [str(f) for f in findings]
    (finding,) = (finding for finding in findings if finding.what == what)
    assert finding.level == level
    assert usable(findings) == (level != "unusable")
    assert str(finding) == f"{finding.sentence}; {finding.remedy}"
    return finding


def test_joint_that_never_reverses_hides_friction_behind_the_offset(robot, healthy):
    run = healthy(robot)
    rising = moved(run, q=(0, np.linspace(-2.0, 2.0, 600)), dq=(0, np.full(600, 4.0 / 5.99)), ddq=(0, np.zeros(600)))
    finding = only(diagnose(robot, rising), "never reverses")
    assert "joint j1 never reverses, so Fc1 cannot be separated from off1" in finding.sentence
    assert set(finding.data["parameters"]) == {"Fc1", "off1"}


def test_one_reversal_is_doubtful_and_two_are_enough(robot, healthy):
    run = healthy(robot)
    t = np.arange(600) / 100.0
    # -cos rises and falls: one reversal a period, and one between two; a mean of periods goes on where it began
    for periods, repetitions, found in ((1, 0, 1), (2, 0, 0), (1, 5, 0)):
        w = 2.0 * np.pi * periods / 6.0
        swing = moved(run, q=(0, -np.cos(w * t)), dq=(0, w * np.sin(w * t)), ddq=(0, w**2 * np.cos(w * t)))
        swing = replace(swing, repetitions=repetitions)
        findings = [f for f in diagnose(robot, swing) if f.what == "never reverses"]
        assert len(findings) == found
    only_once = moved(run, q=(0, -np.cos(np.pi * t / 3)), dq=(0, np.pi / 3 * np.sin(np.pi * t / 3)))
    (finding,) = (f for f in diagnose(robot, only_once) if f.what == "never reverses" or f.what == "derivative")
    assert finding.what == "derivative"  # the acceleration was left behind: later checks wait


def test_without_an_offset_one_way_motion_is_doubtful_only(robot, healthy):
    bare = with_friction(robot, "viscous", "coulomb")
    run = healthy(robot)
    rising = moved(run, q=(0, np.linspace(-2.0, 2.0, 600)), dq=(0, np.full(600, 4.0 / 5.99)), ddq=(0, np.zeros(600)))
    finding = next(f for f in diagnose(bare, rising) if f.what == "never reverses")
    assert finding.level == "doubtful"
    assert "an offset that the model does not have" in finding.sentence


def test_noise_around_standstill_is_no_reversal(robot, healthy):
    run = healthy(robot)
    jitter = np.random.default_rng(0).normal(scale=0.01, size=600)
    dq = np.where(np.arange(600) < 300, 4.0 / 2.99, 0.0) + jitter
    rising = moved(run, q=(0, -2.0 + np.cumsum(dq) / 100.0), dq=(0, dq), ddq=(0, np.gradient(dq, 0.01)))
    assert "never reverses" in {f.what for f in diagnose(robot, rising)}


def test_runs_in_opposite_directions_count_together(robot, healthy):
    run = healthy(robot)
    runs = []
    for sign in (1.0, -1.0, 1.0):
        q, dq = sign * np.linspace(-2.0, 2.0, 600), np.full(600, sign * 4.0 / 5.99)
        runs.append(moved(run, q=(0, q), dq=(0, dq), ddq=(0, np.zeros(600))))
    assert not [f for f in diagnose(robot, runs) if f.what == "never reverses"]


def test_joint_that_does_not_move(robot, healthy):
    run = healthy(robot)
    still = moved(run, q=(2, 0.3), dq=(2, 0.0), ddq=(2, 0.0))
    finding = only(diagnose(robot, still), "does not move")
    assert "joint j3 does not move" in finding.sentence
    assert {"Fv3", "Fc3", "Ia3"} <= set(finding.data["parameters"])
    assert not [f for f in diagnose(robot, [still, run]) if f.what == "does not move"]


def test_few_samples_and_few_repetitions(robot, healthy):
    few = healthy(robot, n_samples=100)
    assert only(diagnose(robot, few), "few samples", "doubtful").data["samples"] == 100
    twice = replace(healthy(robot), repetitions=2)
    assert "mean of 2 repetitions" in only(diagnose(robot, twice), "repetitions", "doubtful").sentence
    (once,) = diagnose(robot, replace(healthy(robot), repetitions=0, variance=None))
    assert once.level == "note"
    assert "measured once" in once.sentence


def test_clipped_torque(robot, healthy):
    run = healthy(robot)
    size = np.abs(run.tau[:, 1]).max()
    finding = only(
        diagnose(robot, retorqued(run, 1, lambda tau: np.clip(tau, -0.93 * size, 0.93 * size))), "clipped", "doubtful"
    )
    assert finding.data["joint"] == "j2"
    hard = diagnose(robot, retorqued(run, 1, lambda tau: np.clip(tau, -0.5 * size, 0.5 * size)))
    assert hard[0].what == "clipped"
    assert hard[0].level == "unusable"


def test_quantised_torque_is_not_clipped(robot, healthy):
    run = healthy(robot)
    step = np.ptp(run.tau, axis=0) / 50
    rounded = replace(run, tau=np.rint(run.tau / step) * step)
    assert not [f for f in diagnose(robot, rounded) if f.what == "clipped"]


def test_torque_at_the_limit_is_clipped(robot, healthy):
    limit = robot.limits.torque[0]
    rng = np.random.default_rng(0)

    def saturate(tau):
        out = tau.copy()
        out[100:110] = limit * (1.0 + 1e-5 * rng.normal(size=10))
        return out

    finding = next(f for f in diagnose(robot, retorqued(healthy(robot), 0, saturate)) if f.what == "clipped")
    assert finding.data["share"] == pytest.approx(10 / 600)


@pytest.mark.parametrize("name", ["tx40", "ur10", "rotradi", "kr150"])
def test_wrong_sign_of_every_joint_that_shows_it(name, healthy):
    robot = load(name)
    told = []
    for joint in range(robot.n_joints):
        findings = diagnose(robot, retorqued(healthy(robot), joint, np.negative))
        assert not usable(findings), robot.joint_names[joint]
        told += [f.data["joint"] == robot.joint_names[joint] for f in findings if f.what == "sign"]
    assert told == [True] * robot.n_joints


def test_motor_torques_for_joint_torques(robot, healthy):
    findings = diagnose(robot, retorqued(healthy(robot), 1, lambda tau: tau / 32.0))
    assert "motor's torque, before the gear" in only(findings, "scale").sentence


@pytest.mark.parametrize(
    ("factor", "meaning"), [(1000.0, "N mm"), (0.001, "kN m"), (32.0, "gear was applied twice"), (150.0, "a current")]
)
def test_wrong_unit(robot, healthy, factor, meaning):
    findings = diagnose(robot, retorqued(healthy(robot), 1, lambda tau: tau * factor))
    assert meaning in only(findings, "scale").sentence


def test_poor_prior_is_a_doubt_and_not_an_end(robot, healthy):
    """A factor that a very wrong prior could explain, and no unit does."""
    findings = diagnose(robot, retorqued(healthy(robot), 1, lambda tau: tau * 6.0))
    assert only(findings, "scale", "doubtful").data["factor"] == pytest.approx(6.0, rel=0.5)


def test_dead_channel(robot, healthy):
    findings = diagnose(robot, retorqued(healthy(robot), 1, lambda tau: np.full_like(tau, 0.7)))
    assert "stays at 0.7 while the joint moves" in only(findings, "dead channel").sentence


def test_noise_for_a_torque(robot, healthy):
    noise = np.random.default_rng(3)
    findings = diagnose(robot, retorqued(healthy(robot), 1, lambda tau: noise.normal(size=tau.shape)))
    assert "nothing of what the prior model expects" in only(findings, "unrelated", "doubtful").sentence


@pytest.mark.parametrize("pair", [(0, 1), (1, 2), (2, 3), (1, 4)])
def test_swapped_torques_and_positions(robot, healthy, pair):
    run = healthy(robot)
    order = np.arange(6)
    order[list(pair)] = pair[::-1]
    names = tuple(robot.joint_names[j] for j in pair)
    motion = Motion(run.motion.q[:, order], run.motion.dq[:, order], run.motion.ddq[:, order])
    for changed, channels in (
        (replace(run, tau=run.tau[:, order]), "torques"),
        (replace(run, motion=motion), "positions"),
        (replace(run, tau=run.tau[:, order], motion=motion), "torques and positions"),
    ):
        finding = next(f for f in diagnose(robot, changed) if f.what == "swapped")
        assert (finding.data["channels"], finding.data["joints"]) == (channels, names)


@pytest.mark.parametrize("late", [-5.0, -1.5, 2.0, 6.0])
def test_delay_is_found_to_a_third_of_a_sample(robot, healthy, late):
    run = healthy(robot, n_samples=1200)
    time = np.arange(1200.0)
    tau = np.column_stack([np.interp(time - late, time, column) for column in run.tau.T])
    findings = diagnose(robot, replace(run, tau=tau))
    (finding,) = (f for f in findings if f.what == "delay")
    assert finding.level != "note"
    assert finding.data["delay_ms"] == pytest.approx(10.0 * late, abs=3.5)
    assert ("after" if late > 0 else "before") in finding.sentence


def test_noise_does_not_make_a_delay(robot, simulate):
    """Torques in time with their motion: the shift found is no larger than its σ says, and never compensated."""
    for seed in range(8):
        run = simulate(robot, prior(robot), seed, n_samples=1200)
        rng = np.random.default_rng(seed)
        tau = run.tau + 0.2 * run.tau.std(axis=0) * rng.normal(size=run.tau.shape)
        found = delay(robot, [replace(run, tau=tau)], subset(robot, [run]))
        assert found is not None
        assert not found.sharp, f"seed {seed}: {1e3 * found.late:.2f} ms"


def test_degrees_for_radians(robot, healthy):
    run = healthy(robot)
    assert "divide them" in only(diagnose(robot, scaled(run, 57.29578)), "degrees").remedy
    motion = run.motion
    only(diagnose(robot, replace(run, motion=Motion(motion.q * 57.29578, motion.dq, motion.ddq))), "degrees")
    only(diagnose(robot, replace(run, motion=Motion(motion.q, motion.dq * 57.29578, motion.ddq))), "degrees")


def test_small_motion_in_degrees_shows_in_its_derivative(robot, healthy):
    run = healthy(robot)
    motion = run.motion
    small = Motion(*(0.02 * x for x in (motion.q, motion.dq, motion.ddq)))
    findings = diagnose(robot, replace(run, motion=Motion(small.q, small.dq * 57.29578, small.ddq * 57.29578)))
    assert "velocity is probably in degrees" in findings[0].remedy


def test_velocity_that_is_not_the_derivative(robot, healthy):
    run = healthy(robot)
    other = healthy(robot, seed=1)
    finding = diagnose(robot, moved(run, dq=(3, other.motion.dq[:, 3])))[0]
    assert finding.what == "derivative"
    assert finding.data["joints"] == ("j4",)
    negative = diagnose(robot, moved(run, q=(3, -run.motion.q[:, 3])))[0]
    assert "wrong sign" in negative.remedy
    behind = diagnose(robot, moved(run, ddq=(5, 0.0)))[0]
    assert "acceleration of j6 is not the derivative of velocity" in behind.sentence


def test_wrong_sample_rate(robot, healthy):
    finding = diagnose(robot, replace(healthy(robot), sample_rate_hz=250.0))[0]
    assert "sample rate 250 Hz is probably wrong" in finding.remedy
    assert finding.data["factor"] == pytest.approx(2.5, rel=0.01)


def test_seams_where_samples_were_cut_out_are_no_fault(robot, healthy):
    run = healthy(robot)
    kept = np.r_[0:200, 240:420, 450:600]
    motion = Motion(run.motion.q[kept], run.motion.dq[kept], run.motion.ddq[kept])
    cut = Samples(run.run, motion, run.tau[kept], 100.0, run.variance[kept], run.steps)
    assert usable(diagnose(robot, cut))
    assert "derivative" not in {f.what for f in diagnose(robot, cut)}


def test_speed_and_travel_beyond_limits(robot, healthy):
    slow = replace(robot, limits=replace(robot.limits, velocity=robot.limits.velocity / 4.0))
    findings = diagnose(slow, healthy(robot))
    assert {f.what for f in findings} == {"speed"}
    assert "times its limit" in findings[0].sentence
    tight = replace(robot, limits=replace(robot.limits, position=robot.limits.position * 0.05))
    assert {f.what for f in diagnose(tight, healthy(robot))} == {"travel"}


def test_rank_deficient_columns_by_name(robot, healthy):
    run = healthy(robot)
    tied = moved(
        run, q=(5, 0.5 * run.motion.q[:, 4]), dq=(5, 0.5 * run.motion.dq[:, 4]), ddq=(5, 0.5 * run.motion.ddq[:, 4])
    )
    from excitor.robots.dynamics import inverse_dynamics

    tied = replace(tied, tau=inverse_dynamics(robot, tied.motion) + run.tau - inverse_dynamics(robot, run.motion))
    finding = next(f for f in diagnose(robot, tied) if f.what == "rank")
    assert {"Fv6", "Fvm6"} <= set(finding.data["parameters"])
    locked = replace(robot, locked={5: 0.0})
    rigid = moved(run, q=(5, 0.0), dq=(5, 0.0), ddq=(5, 0.0))
    rigid = replace(rigid, tau=inverse_dynamics(robot, rigid.motion))
    assert not {"does not move", "rank", "absent"} & {f.what for f in diagnose(locked, rigid)}


def test_wild_and_missing_values(robot, healthy):
    run = healthy(robot)
    wild = run.tau.copy()
    wild[17, 2] = 1e300
    finding = only(diagnose(robot, replace(run, tau=wild)), "values")
    assert "tau of joint 3 is 1e+300 at sample 17" in finding.sentence
    wild[17, 2] = np.nan
    with pytest.raises(ValueError, match=r"Samples.tau\[17, 2\] is nan, expected a finite number"):
        replace(run, tau=wild)


def test_robot_without_prior_says_what_was_not_checked(robot, healthy):
    unknown = replace(robot, chi=np.zeros_like(robot.chi))
    findings = diagnose(unknown, retorqued(healthy(robot), 1, np.negative))
    assert [f.what for f in findings if f.level == "note"] == ["no prior"]


def test_run_of_another_robot(robot, healthy):
    with pytest.raises(ValueError, match=r"has 3 joints, tx40 has 6"):
        diagnose(robot, healthy(load("rotradi")))


@pytest.mark.skipif(not (DATA / "qrc350").is_dir(), reason=f"no real measurements in {DATA}")
def test_real_measurements_of_a_good_campaign_are_usable():
    from scipy.io import loadmat

    robot = load("qrc350")
    for name in ("trajectory_a", "trajectory_b", "trajectory_c"):
        data = loadmat(DATA / "qrc350" / f"{name}.mat", squeeze_me=True, struct_as_record=False)
        motion = Motion(*(data[key].average_rect for key in ("q_meas", "dq_meas", "ddq_meas")))
        tau = data["tau_meas"]
        assert usable(diagnose(robot, Samples(name, motion, tau.average, 500.0, tau.variance)))
        rate = diagnose(robot, Samples(name, motion, tau.average, 100.0, tau.variance))
        assert "sample rate 100 Hz is probably wrong" in rate[0].remedy
        assert not usable(diagnose(robot, Samples(name, motion, tau.average * [1, 1, -1, 1, 1, 1], 500.0)))
