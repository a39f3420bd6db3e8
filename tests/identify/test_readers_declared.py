"""From recordings to logs: what is declared, what is asked for, and how time stamps become an even grid."""

import numpy as np
import pytest

from excitor.experiments.campaign import InvalidCampaign, open_campaign
from excitor.experiments.logs import read_run
from excitor.identify.log import Channel, Clock, Recording, joint_side
from excitor.identify.logs.declared import ColumnMap
from excitor.identify.logs.read import read_log, recording_log
from excitor.robots.errors import InvalidLog
from excitor.robots.load import load

N = 400


def wave(t, joints=2):
    return np.sin(2 * np.pi * np.outer(t, 0.5 + 0.3 * np.arange(joints)))


def recording(t_position, t_torque=None, **changes):
    """Two joints: positions in deg on the joint side, torques whose side the format does not know."""
    t_torque = t_position if t_torque is None else t_torque
    slow = Clock(t_position, np.arange(2, len(t_position) + 2))
    fast = slow if t_torque is t_position else Clock(t_torque, np.arange(2, len(t_torque) + 2))
    torque = {"kind": "torque", "role": "measured", "unit": "N m", **changes}
    channels = []
    for k in range(2):
        values = wave(t_position)[:, k]
        channels.append(Channel(f"q[{k}]", values, slow, "position", k, "measured", "joint", "deg"))
        channels.append(Channel(f"tau[{k}]", wave(t_torque)[:, k], fast, joint=k, **torque))
    return Recording("run.log", "made", tuple(channels))


def declared(**entry):
    return ColumnMap.model_validate({"signals": [{"kind": "torque", "side": "motor", "columns": ["tau"], **entry}]})


def values(log, kind="torque"):
    return log.signal(kind).values


def times(log):
    return log.start_s + np.arange(len(values(log))) / log.sample_rate_hz


def test_what_a_format_defines_needs_no_declaration():
    t = 0.004 * np.arange(N)
    log = recording_log(recording(t, side="motor"), ColumnMap.model_validate({}))
    np.testing.assert_array_equal(values(log), wave(t))
    np.testing.assert_allclose(values(log, "position"), np.radians(wave(t)))
    assert log.sample_rate_hz == pytest.approx(250.0)
    assert [signal.side for signal in log.signals] == ["joint", "motor"]
    assert not any("resampled" in note for note in log.notes)


def test_signs_scales_and_matrices():
    t = 0.004 * np.arange(N)
    made = recording(t)
    np.testing.assert_allclose(values(recording_log(made, declared(scale=[2.0, -1.0]))), wave(t) * [2.0, -1.0])
    matrix = [[1.0, 0.0], [0.5, -1.0]]
    np.testing.assert_allclose(values(recording_log(made, declared(scale=matrix))), wave(t) @ np.array(matrix).T)
    np.testing.assert_allclose(values(recording_log(made, declared(columns=["tau[1]", 2]))), wave(t)[:, ::-1])
    for scale in ([1.0], 0.0, [[1.0, 1.0], [1.0, 1.0]], [[1.0, 0.0], [1.0]]):
        with pytest.raises(InvalidLog, match="expected a number other than 0 for each column, or a matrix"):
            recording_log(made, declared(scale=scale))


@pytest.mark.parametrize(
    ("change", "entry", "words"),
    [
        ({}, {"side": None}, 'does not say on which side tau of torque is; declare side = "joint" or "motor"'),
        ({"unit": None}, {}, r"tau\[0\] has no unit; declare unit = one of N m"),
        ({"unit": "%"}, {}, r"the unit of tau\[0\] is '%'; declare unit"),
        ({"unit": "N m"}, {"unit": "mN m"}, r"tau\[0\] is in N m by its format, declared in mN m"),
        ({}, {"unit": "furlong"}, "torque in 'furlong' is not known"),
        ({"side": "joint"}, {}, r"tau\[0\] is on the joint side by its format, declared on the motor side"),
        ({"kind": "current", "unit": "A"}, {}, r"tau\[0\] is a current by its format, declared as torque"),
        ({"kind": "torque_model"}, {}, r"tau\[0\] is what the controller's own model computes"),
        ({"role": "reference"}, {}, r"tau\[0\] is what was commanded, not a measured torque"),
        ({}, {"columns": ["taw"]}, r"has no channel 'taw'; its channels are q\[0\], tau\[0\], q\[1\], tau\[1\]"),
        ({}, {"columns": [9]}, "has 4 channels; the declaration asks for number 9"),
        ({}, {"columns": ["tau", "tau[0]"]}, "a channel of torque is declared twice"),
        ({}, {"file": "other.csv"}, "'other.csv' goes with plain tables only"),
    ],
)
def test_what_contradicts_or_lacks_is_reported(change, entry, words):
    with pytest.raises(InvalidLog, match=words):
        recording_log(recording(0.004 * np.arange(N), **change), declared(**entry))


def test_what_is_requested_without_a_declaration():
    t = 0.004 * np.arange(N)
    none = ColumnMap.model_validate({})
    with pytest.raises(InvalidLog, match=r"does not define all .* 'tau'; declare which is what in \[\[log.signals\]\]"):
        recording_log(recording(t), none)
    with pytest.raises(InvalidLog, match="has no measured torque or current: tau come from a model or were commanded"):
        recording_log(recording(t, kind="torque_model"), none)
    made = recording(t, side="motor")
    few = Recording("run.log", "made", made.channels[1:])
    with pytest.raises(InvalidLog, match="q is there for joints 2 only, expected all from 1 on"):
        recording_log(few, none)


def test_jitter_is_taken_out_by_the_stamps():
    rng = np.random.default_rng(0)
    t = 5.0 + 0.008 * np.arange(N) + rng.uniform(0, 0.003, N)
    log = recording_log(recording(t, side="motor"), ColumnMap.model_validate({}))
    assert log.sample_rate_hz == pytest.approx(125.0)
    np.testing.assert_allclose(values(log)[3:-3], wave(times(log))[3:-3], atol=1e-6)
    assert any("steps of time vary" in note for note in log.notes)
    assert any("resampled to 125 Hz by cubic splines through the time stamps" in note for note in log.notes)
    np.testing.assert_array_equal(log.raw.channel("tau[0]").t, t)


def test_alternating_steps():
    t = np.concatenate([[0.0], np.cumsum(np.tile([0.010, 0.012], N // 2))])
    log = recording_log(recording(t, side="motor"), ColumnMap.model_validate({}))
    assert 1 / log.sample_rate_hz == pytest.approx(0.011)
    np.testing.assert_allclose(values(log)[3:-3], wave(times(log))[3:-3], atol=1e-5)


def test_dropped_and_repeated_samples():
    t = np.delete(0.004 * np.arange(N), [50, 51, 52, 200])
    t = np.insert(t, 100, t[100])
    log = recording_log(recording(t, side="motor"), ColumnMap.model_validate({}))
    np.testing.assert_allclose(values(log)[3:-3], wave(times(log))[3:-3], atol=1e-6)
    assert any("4 samples are missing, up to 3 in a row" in note for note in log.notes)
    assert any("1 rows repeat the time of the row before (first: row 103)" in note for note in log.notes)


@pytest.mark.parametrize(
    ("t", "words", "row"),
    [
        (np.delete(0.004 * np.arange(N), range(50, 60)), "0.044 s are missing in q before this row", 52),
        (np.delete(0.004 * np.arange(N), range(0, N, 4)), "samples in all", None),
        (np.concatenate([0.004 * np.arange(20), 0.004 * np.arange(20)]), "time runs backward in q", 22),
        (np.array([0.0, 0.0, 0.1]), "q has 2 samples, expected at least 3", None),
    ],
)
def test_time_that_cannot_be_mended(t, words, row):
    with pytest.raises(InvalidLog, match=words) as caught:
        recording_log(recording(t, side="motor"), ColumnMap.model_validate({}))
    assert row is None or caught.value.row == row


def test_clocks_of_two_rates_that_start_apart():
    slow, fast = 0.012 * np.arange(N), 0.1 + 0.004 * np.arange(3 * N)
    log = recording_log(recording(slow, fast, side="motor"), ColumnMap.model_validate({}))
    assert (log.start_s, log.sample_rate_hz) == (pytest.approx(0.1), pytest.approx(250.0))
    assert times(log)[-1] == pytest.approx(slow[-1])
    np.testing.assert_allclose(np.degrees(values(log, "position"))[9:-9], wave(times(log))[9:-9], atol=1e-5)
    np.testing.assert_allclose(values(log), wave(times(log)), atol=1e-9)
    assert any("recorded at 250 Hz and 83.3333 Hz, resampled to 250 Hz" in note for note in log.notes)
    with pytest.raises(InvalidLog, match="q and tau were not recorded at the same time"):
        recording_log(recording(slow, 9.0 + fast, side="motor"), ColumnMap.model_validate({}))


def test_a_rate_that_is_requested():
    t = 0.004 * np.arange(N)
    log = recording_log(recording(t, side="motor"), ColumnMap.model_validate({"sample_rate_hz": 100.0}))
    assert log.sample_rate_hz == pytest.approx(100.0)
    np.testing.assert_allclose(values(log), wave(times(log)), atol=1e-6)
    with pytest.raises(InvalidLog, match="defines its time itself"):
        recording_log(recording(t, side="motor"), ColumnMap.model_validate({"time": "q[0]"}))


def test_standing_still_is_reported():
    t = 0.004 * np.arange(1000)
    made = recording(t, side="motor")
    still = np.where((t > 1.0) & (t < 3.5), np.sin(2 * np.pi * (t - 1.0)), 0.0)
    channels = [Channel(c.name, still, c.clock, c.kind, c.joint, c.role, c.side, c.unit) for c in made.channels]
    log = recording_log(Recording("run.log", "made", tuple(channels)), ColumnMap.model_validate({}))
    assert "stands still for 1 s before and 0.5 s after the motion" in log.notes


def test_uninitialised_numbers_of_a_used_channel():
    made = recording(0.004 * np.arange(N), side="motor")
    bad = made.channels[1].values.copy()
    bad[7] = 1e50
    c = made.channels[1]
    channel = Channel(c.name, bad, c.clock, c.kind, c.joint, c.role, c.side, c.unit)
    with pytest.raises(InvalidLog, match=r"row 9: tau\[0\] is 1e\+50, which no robot measures"):
        recording_log(
            Recording("run.log", "made", (made.channels[0], channel, *made.channels[2:])), ColumnMap.model_validate({})
        )


def test_motor_side_becomes_joint_side_by_the_matrix():
    robot = load("kr150")
    t = 0.004 * np.arange(N)
    clock = Clock(t, np.arange(1, N + 1))
    motor = wave(t, 6)
    channels = [Channel(f"{n}[{k}]", motor[:, k], clock) for n in ("position", "current") for k in range(6)]
    entries = [
        {"kind": "position", "side": "motor", "unit": "rad", "columns": ["position"]},
        {"kind": "current", "side": "motor", "unit": "A", "columns": ["current"]},
    ]
    log = recording_log(Recording("run.log", "made", tuple(channels)), ColumnMap.model_validate({"signals": entries}))
    measured = joint_side(robot, log)
    np.testing.assert_allclose(measured.q, np.linalg.solve(robot.drive.motor_from_joint, motor.T).T)


CAMPAIGN = (
    'robot = "rotradi"\n[log]\n{log}\n[[run]]\nname = "one"\nlog = "one.csv"\n'
    "[processing]\nlowpass_hz = 20.0\ndrop_ends = 5\n"
)


def campaign(folder, log=""):
    (folder / "campaign.toml").write_text(CAMPAIGN.replace("{log}", log))
    t = 0.001 * np.arange(N)
    names = ["time", *(f"{name}[{k}]" for name in ("q", "tau_J", "tau_J_d") for k in range(3))]
    table = np.column_stack([t, wave(t, 3), 2 * wave(t, 3), wave(t, 3)])
    np.savetxt(folder / "one.csv", table, delimiter=",", header=",".join(names), comments="", fmt="%.12g")
    return t


@pytest.mark.parametrize("log", ["", 'format = "franka_csv"', '[[log.signals]]\nkind = "torque"\ncolumns = ["tau_J"]'])
def test_a_campaigns_log_of_a_known_format(tmp_path, log):
    t = campaign(tmp_path, log)
    opened = open_campaign(tmp_path)
    samples = read_run(opened, opened.content.run[0])
    np.testing.assert_allclose(samples.tau, 2 * wave(t, 3)[5:-5], atol=1e-9)
    assert samples.sample_rate_hz == pytest.approx(1000.0)


def test_a_campaigns_model_torque_is_refused(tmp_path):
    campaign(tmp_path, '[[log.signals]]\nkind = "torque"\ncolumns = ["tau_J_d"]')
    opened = open_campaign(tmp_path)
    with pytest.raises(InvalidLog, match=r"tau_J_d\[0\] is what the controller's own model computes"):
        read_run(opened, opened.content.run[0])


def test_an_unknown_format_is_reported_with_its_key(tmp_path):
    campaign(tmp_path, 'format = "excel"')
    with pytest.raises(InvalidCampaign, match="log.format: is 'excel', expected one of ros_bag"):
        open_campaign(tmp_path)


def test_a_folder_is_measured_once(tmp_path):
    campaign(tmp_path)
    (tmp_path / "bag").mkdir()
    text = (tmp_path / "campaign.toml").read_text().replace("one.csv", "bag")
    (tmp_path / "campaign.toml").write_text(text + '[[run]]\nname = "two"\nlog = "bag"\n')
    with pytest.raises(InvalidCampaign, match="'one' and 'two' are the same samples"):
        open_campaign(tmp_path)


def test_a_partner_outside_the_folder_is_refused(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "tau.csv").write_text("a,b,c\n" + "1,2,3\n" * 20)
    (tmp_path / "in" / "q.csv").write_text("t,a,b,c\n" + "".join(f"{0.1 * k},1,2,3\n" for k in range(20)))
    (tmp_path / "in" / "tau.csv").symlink_to("../tau.csv")
    entries = [
        {"kind": "position", "side": "joint", "unit": "rad", "columns": ["a", "b", "c"]},
        {"kind": "torque", "side": "joint", "unit": "N m", "columns": ["a", "b", "c"], "file": "tau.csv"},
    ]
    with pytest.raises(InvalidLog, match="tau.csv leads out of the folder of the log"):
        read_log(tmp_path / "in" / "q.csv", ColumnMap.model_validate({"signals": entries, "time": "t"}))


def test_a_column_map_asks_for_side_and_unit(tmp_path):
    (tmp_path / "q.csv").write_text("t,a\n" + "".join(f"{0.1 * k},1\n" for k in range(20)))
    entries = [{"kind": "position", "columns": ["a"]}]
    with pytest.raises(InvalidLog, match="a table of numbers does not define side and unit of position; declare both"):
        read_log(tmp_path / "q.csv", ColumnMap.model_validate({"signals": entries, "time": "t"}))
    with pytest.raises(InvalidLog, match="declares no signals; add"):
        read_log(tmp_path / "q.csv", ColumnMap.model_validate({"format": "csv", "time": "t"}))
