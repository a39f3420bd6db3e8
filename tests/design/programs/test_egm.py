"""The EGM client: what it answers, when it refuses, how it stops; packets; real time over loopback."""

import contextlib
import csv
import json
import re
import signal
import socket
import struct
import subprocess
import sys
import time

import numpy as np
import pytest

from benchmarks.programs import measure_egm as measure
from excitor.design.programs.clients import egm_client
from excitor.design.programs.clients.egm_client import ALIGN, REST, STEP, EgmClient, write_log
from excitor.design.programs.clients.egm_packets import Robot, command, fields
from excitor.design.programs.clients.run_motion import Run
from excitor.design.programs.rapid.egm import TARGET
from excitor.design.programs.rapid.egm_controller import FIRST_PACKET, FakeController, robot_message, sensor_message
from excitor.design.programs.run_json import run_json
from excitor.design.programs.target import in_axes


@pytest.fixture
def plan(plan_of):
    return plan_of(period=2.0, ramp=1.0, measured=1, warm_up=0, swing=0.05)


def client_of(plan, **options):
    return EgmClient(Run(json.loads(run_json(plan, TARGET))), **options)


def packet(position, n=0, *, ms=None, motors=1, egm=3):
    return robot_message(FIRST_PACKET + n, 4 * n if ms is None else ms, position, position, motors=motors, egm=egm)


def joints(answer):
    return np.array(sensor_message(answer)[2])


def home(plan):
    return in_axes(plan, TARGET).home


def stream(client, position, packets):
    """Answer numbered packets of a robot that goes where it is told; answers by number, None where there is none."""
    found = {}
    for n in packets:
        found[n] = client.answer(packet(client.rows[-1][4] if client.rows else position, n), 0.001 * n)
    return found


def test_packets_are_those_of_the_definition():
    wanted = bytes.fromhex("0a0708ac021005180312380a36")
    made = command(300, 5, [1.0, -2.5, 0.0, 1e-9, 180.0, 7.0])
    assert made[:13] == wanted
    assert made[13:] == b"".join(b"\x09" + struct.pack("<d", x) for x in (1.0, -2.5, 0.0, 1e-9, 180.0, 7.0))
    assert sensor_message(made) == (300, 3, [1.0, -2.5, 0.0, 1e-9, 180.0, 7.0])


def test_packets_of_other_versions_are_read():
    position = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
    packed = b"\x0a\x30" + struct.pack("<6d", *position)  # repeated doubles, all together
    feedback = b"\x0a" + bytes([len(packed)]) + packed
    newer = b"\x58\x07" + b"\x62\x02\x08\x00" + b"\x7d" + struct.pack("<f", 1.0)  # moveIndex, CollisionInfo, a float
    force = b"\x4a\x14\x08\x01" + (b"\x11" + struct.pack("<d", 9.5)) * 2
    robot = Robot(b"\x0a\x04\x08\x05\x10\x06" + b"\x12" + bytes([len(feedback)]) + feedback + newer + force)
    assert (robot.sequence, robot.ms, robot.position) == (5, 6, position)
    assert robot.numbers(9) == [9.5, 9.5]
    assert (robot.state(4), robot.planned, robot.numbers(7)) == (0, [], [])
    assert np.isnan(robot.utilization)


@pytest.mark.parametrize("data", [b"\x0a\xff", b"\x08", b"\x0b", b"\x09\x01", b"\xff" * 12, b"", b"\x08\x01"])
def test_broken_packets_are_not_answered(plan, data):
    client = client_of(plan)
    assert client.answer(data, 0.0) is None
    assert client.state == "waiting"
    with pytest.raises(ValueError, match="packet"):
        Robot(data)


def odd_packets(plan, n):
    """Packets that RobotWare never sends, each with one part empty, missing or odd; all number n."""
    whole, at = packet(home(plan), n), [float(x) for x in home(plan)]

    def numbered(*parts):
        header = b"\x08" + _varint(FIRST_PACKET + n) + b"\x10" + _varint(4 * n)
        return b"".join(_part(k, data) for k, data in ((1, header), *parts))

    def feedback(values):
        return (2, _part(1, b"".join(b"\x09" + struct.pack("<d", x) for x in values)))

    right = feedback(at)
    assert Robot(numbered(right)).position == at
    return {
        "nothing": b"",
        "no header": numbered(right)[len(numbered()) :],
        "an empty header": _part(1, b"") + _part(*right),
        "a number beyond 32 bits": _part(1, b"\x08" + _varint(2**32) + b"\x10\x01") + _part(*right),
        "no joints": numbered(),
        "empty feedback": numbered((2, b"")),
        "empty joints": numbered((2, _part(1, b""))),
        "five joints": numbered(feedback(at[:5])),
        "seven joints": numbered(feedback([*at, 0.0])),
        "a joint that is no number": numbered(feedback([float("nan"), *at[1:]])),
        "an infinite joint": numbered(feedback([*at[:5], float("-inf")])),
        "joints that are a number": numbered((2, b"\x08\x01")),
        "five planned joints": numbered(right, (3, feedback(at[:5])[1])),
        "odd planned joints": numbered(right, (3, b"\x0a\x02\x09")),
        "an empty motor state": numbered(right, (4, b"")),
        "a motor state without its part": numbered(right) + b"\x20\x01",
        "an odd state of guided motion": numbered(right, (5, b"\x08")),
        "an empty state of guided motion": whole.replace(b"\x2a\x02\x08\x03", b"\x2a\x00"),
        "an empty program state": numbered(right, (8, b"")),
        "odd test signals": numbered(right, (7, b"\x09\x01")),
        "odd forces": numbered(right, (9, b"\xff")),
        "a number that does not end": numbered(right) + b"\x30" + b"\xff" * 12,
        "one byte too few": whole[:-1],
    }


def _varint(value):
    return bytes([value & 0x7F | 0x80]) + _varint(value >> 7) if value > 0x7F else bytes([value])


def _part(number, data):
    return bytes([number << 3 | 2]) + _varint(len(data)) + data


def logged(client, path):
    write_log(client, str(path))
    with path.open() as file:
        return list(csv.DictReader(file))


def test_odd_packets_are_counted_and_change_nothing(plan, tmp_path):
    whole, client = stream(client_of(plan), home(plan), range(800)), client_of(plan)
    found, odd = {}, odd_packets(plan, 0)
    for n in range(800):  # before guided motion begins, and one with every tenth packet
        for label in list(odd)[n // 10 : n // 10 + 1] if n % 10 == 0 else odd if n == 795 else ():
            before = client.unreadable
            assert client.answer(odd_packets(plan, n)[label], 0.0) is None, label
            assert client.unreadable == before + 1, label
        found |= stream(client, home(plan), [n])
    assert found == whole
    assert client.unreadable == 2 * len(odd)
    assert len(logged(client, tmp_path / "log.csv")) == 800


def test_parts_that_may_be_empty_are_no_reason_to_ignore_a_packet(plan, tmp_path):
    client, header = client_of(plan, torque=12), b"\x08" + _varint(FIRST_PACKET) + b"\x10\x00"
    position = b"".join(b"\x09" + struct.pack("<d", x) for x in home(plan))
    parts = [(1, header), (2, _part(1, position)), (3, b""), (7, b""), (9, b""), (12, b"\xff")]  # 12: not torques
    assert client.answer(b"".join(_part(*part) for part in parts), 0.0) is not None
    assert client.unreadable == 0
    (row,) = logged(client, tmp_path / "log.csv")
    assert {row[f"planned_{axis}_deg"] for axis in client.run.axes} == {"nan"}


def test_packets_cut_or_changed_at_random_neither_raise_nor_lose_the_log(plan, tmp_path):
    random, answered, unreadable = np.random.default_rng(11), 0, 0
    for k in range(300):
        client = client_of(plan, torque=12)
        stream(client, home(plan), range(5))
        bad = bytearray(packet(home(plan), 5))
        if k % 2:
            del bad[random.integers(0, len(bad)) :]
        else:
            for place in random.integers(0, len(bad), random.integers(1, 6)):
                bad[place] = random.integers(0, 256)
        answered += client.answer(bytes(bad), 0.0) is not None
        unreadable += client.unreadable
        stream(client, home(plan), range(6, 9))
        rows = logged(client, tmp_path / f"{k}.csv")
        assert len(rows) == len(client.rows) >= 5
        assert all(None not in row and None not in row.values() for row in rows)
    assert answered > 10
    assert unreadable > 150


def test_every_answer_follows_the_controllers_packets(plan):
    client, axes = client_of(plan), in_axes(plan, TARGET)
    answers = stream(client, home(plan), range(3400))
    begun = {"out": ALIGN, "main": ALIGN + plan.out.duration + REST}
    begun["back"] = begun["main"] + plan.body.duration + REST
    for name, start in begun.items():
        n = np.arange(round(plan.stretch(name).duration / STEP) + 1)
        found = np.array([joints(answers[int(k) + round(start / STEP)]) for k in n])
        assert found == pytest.approx(axes.stretch(name).at(n * STEP), abs=1e-9), name
    assert joints(answers[0]) == pytest.approx(home(plan))
    assert joints(answers[3399]) == pytest.approx(home(plan))
    assert client.state == "done"
    all_of_it = np.array([joints(answer) for answer in answers.values()])
    rates = np.diff(all_of_it, axis=0) / STEP
    assert np.abs(rates[[0, -1]]).max() < 1e-6
    assert np.abs(np.diff(rates, axis=0)).max() / STEP < 1e3  # deg/s2: no step of speed between the parts


def test_the_first_answer_is_where_the_robot_stands(plan):
    client, away = client_of(plan), np.array([0.4, -0.3, 0.2, 0.0, -0.45, 0.1])
    answers = stream(client, home(plan) + away, range(400))
    first = np.array([joints(answer) for answer in answers.values()])
    assert first[0] == pytest.approx(home(plan) + away, abs=1e-12)
    assert first[250] == pytest.approx(home(plan), abs=1e-9)
    assert np.abs(np.diff(first[:250], n=2, axis=0)).max() / STEP**2 < 5.0  # deg/s2


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"motors": 2}, "motors are off"),
        ({"motors": 2, "egm": 2}, "motors are off"),
        ({"egm": 2, "away": 0.6}, r"stands \+0.600 deg from home"),
        ({"away": 0.6}, r"stands \+0.600 deg from home"),
        ({"away": float("nan")}, "has joints that are no numbers"),
    ],
)
def test_it_does_not_begin_where_something_is_wrong(plan, given, reason):
    client, away = client_of(plan), given.pop("away", 0.0)
    position = home(plan) + np.array([0.0, away, 0.0, 0.0, 0.0, 0.0])
    assert all(client.answer(packet(position, n, **given), 0.0) is None for n in range(20))
    assert client.state == "waiting"
    assert re.search(reason, client.reason)
    assert client.answer(packet(home(plan), 20), 0.0) is not None  # nothing has moved: it may begin


@pytest.mark.parametrize("egm", [0, 1, 2])
def test_until_guided_motion_runs_the_present_pose_is_commanded(plan, egm):
    client, away = client_of(plan), np.array([0.4, -0.3, 0.2, 0.0, -0.45, 0.1])
    for n in range(300):
        here = home(plan) + (0.5 + 0.001 * (n % 3)) * away
        assert joints(client.answer(packet(here, n, egm=egm), 0.0)).tolist() == here.tolist()
    assert client.state == "waiting"
    assert "does not run yet" in client.reason
    assert not client.rows
    assert client.answer(packet(home(plan) + 2.0 * away, 300, egm=egm), 0.0) is None  # home is checked first
    first = client.answer(packet(home(plan) + away, 301), 0.0)
    assert joints(first) == pytest.approx(home(plan) + away, abs=1e-12)  # no jump: the clock begins here
    assert (client.state, client.reason, client.rows[0][0]) == ("align", "", 0)


def test_states_that_are_undefined_or_not_reported_are_no_reason_to_refuse(plan):
    client, whole = client_of(plan), packet(home(plan))
    undefined = whole.replace(b"\x42\x02\x08\x02", b"\x42\x02\x08\x00")  # rapidExecState
    untold = whole.replace(b"\x2a\x02\x08\x03", b"")  # mciState
    assert len({whole, undefined, untold}) == 3
    for data in (undefined, untold):
        client = client_of(plan)
        assert client.answer(data, 0.0) is not None
        assert client.state == "align"


def test_the_fake_controller_does_not_run_before_an_answer(plan):
    robot = FakeController([float(x) for x in home(plan)])
    assert not Robot(robot.packet()).runs
    with pytest.raises(ValueError, match="leads away"):
        robot.take(command(FIRST_PACKET, 0, [x + 1e-3 for x in robot.position]))
    robot.take(command(FIRST_PACKET, 0, robot.position))
    assert Robot(robot.packet()).runs
    assert not robot.commanded


@pytest.mark.parametrize("lag", [0, 10, 40])
def test_joints_that_follow_late_are_no_reason_to_stop(plan, lag):
    client, told = client_of(plan), [home(plan)]
    for n in range(3400):
        told.append(joints(client.answer(packet(told[max(-len(told), -1 - lag)], n), 0.0)))
    assert client.state == "done"


@pytest.mark.parametrize("joint", [0, 4])
def test_a_joint_that_does_not_follow_stops_it_for_good(plan_of, joint):
    plan = plan_of(period=2.0, ramp=1.0, measured=1, warm_up=0, swing=0.3)
    client = client_of(plan)
    stream(client, home(plan), range(1500))
    stood = client.rows[-1][4][joint]
    for n in range(1500, 2500):
        here = list(client.rows[-1][4])
        here[joint] = stood
        client.answer(packet(here, n), 0.0)
        if client.slowing:
            break
    assert f"{client.run.axes[joint]} is 3." in client.reason
    assert "off what it is told, allowed is 3 deg" in client.reason
    after = [a for a in stream(client, home(plan), range(n + 1, n + 400)).values() if a is not None]
    assert client.state == "stopped"
    assert np.abs(np.diff([joints(a) for a in after[-50:]], axis=0)).max() == 0.0


def test_lost_and_late_packets_leave_the_rest_in_place(plan):
    whole, client = stream(client_of(plan), home(plan), range(1500)), client_of(plan)
    lost = {*range(600, 604), 900, 1100}
    some = stream(client, home(plan), [n for n in range(1500) if n not in lost])
    assert all(some[n] == whole[n] for n in some)
    assert client.answer(packet(home(plan), 900), 0.0) is None  # comes after all
    assert client.answer(packet(home(plan), 1499), 0.0) is None  # comes twice
    assert client.state not in ("stopped", "waiting")


def stopping(plan, act, at=1500):
    """Stream to a packet of the run, do something, stream on; all positions, and the client."""
    client = client_of(plan)
    found = [joints(answer) for answer in stream(client, home(plan), range(at)).values()]
    first = act(client, at)
    after = stream(client, home(plan), range(first, first + 400))
    return client, found, [joints(answer) for answer in after.values() if answer is not None], after


@pytest.mark.parametrize("act", ["gap", "operator"])
def test_a_stop_slows_down_along_the_path_and_is_for_good(plan, act):
    def gap(client, at):
        return at + 8

    def operator(client, at):
        client.stop("stopped from this computer")
        return at

    client, before, after, answers = stopping(plan, gap if act == "gap" else operator)
    assert client.state == "stopped"
    assert ("8 packets" if act == "gap" else "from this computer") in client.reason
    whole = np.array([*before, *after])
    path = np.array([joints(a) for a in stream(client_of(plan), home(plan), range(2000)).values()])[len(before) :]
    speed = np.abs(np.diff(whole, axis=0)).max(axis=1) / STEP
    assert speed[len(before) - 2] > 1.0  # it did move, deg/s
    assert speed[-10:].max() == 0.0
    far = max(np.abs(path - pose).max(axis=1).min() for pose in after[:80])
    assert far < np.abs(np.diff(path, axis=0)).max()  # on the path, between two of its steps
    jerk = np.abs(np.diff(whole[len(before) - 100 :], n=3, axis=0)).max() / STEP**3
    assert jerk < 4.0 * (np.abs(np.diff(path, n=3, axis=0)).max() / STEP**3 + speed.max() * 6.0 / 0.3**2)
    assert len(after) == pytest.approx((0.3 + 0.5) / STEP, abs=2)
    assert all(answer is None for answer in list(answers.values())[len(after) :])  # never again


@pytest.mark.parametrize("wrong", [{"motors": 2}, {"egm": 2}])
def test_a_controller_that_stops_is_left_alone(plan, wrong):
    client = client_of(plan)
    stream(client, home(plan), range(1000))
    assert client.answer(packet(home(plan), 1000, **wrong), 0.0) is None
    assert client.state == "stopped"
    assert all(answer is None for answer in stream(client, home(plan), range(1001, 1100)).values())


def test_a_program_that_stops_is_no_program_to_begin_or_go_on_with(plan):
    """Its state is RAPID_STOPPED (1), while motors and guided motion are as they were."""

    def stopped(n):
        return packet(home(plan), n).replace(b"\x42\x02\x08\x02", b"\x42\x02\x08\x01")

    client = client_of(plan)
    assert client.answer(stopped(0), 0.0) is None
    assert (client.state, client.reason) == ("waiting", "the RAPID program has stopped")
    client = client_of(plan)
    stream(client, home(plan), range(100))
    assert client.answer(stopped(100), 0.4) is None
    assert (client.state, client.reason) == ("stopped", "the RAPID program has stopped")


def test_packets_at_another_rate_stop_it_before_anything_moves(plan):
    client = client_of(plan)
    for n in range(600):
        client.answer(packet(home(plan), n, ms=8 * n), 0.0)
    assert client.state == "stopped"
    assert "not 4 ms apart" in client.reason
    assert {row[2] for row in client.rows} == {"align"}


def test_counters_begin_again_at_0(plan):
    client, robot = client_of(plan), home(plan)
    numbers = [(2**32 - 300 + n) % 2**32 for n in range(1000)]
    found, at = [], robot
    for n, k in enumerate(numbers):
        found.append(client.answer(robot_message(k, (4 * n + 2**32 - 900) % 2**32, at, at, motors=1, egm=3), 0.0))
        at = joints(found[-1])
    whole = stream(client_of(plan), robot, range(1000))
    assert all(np.array_equal(joints(a), joints(b)) for a, b in zip(found, whole.values(), strict=True))


@pytest.mark.parametrize(("off", "stops"), [(2.9, False), (3.1, True), (-2.9, False), (-3.1, True)])
def test_how_far_a_joint_may_be_from_all_it_was_told_lately(plan, off, stops):
    client = client_of(plan)
    stream(client, home(plan), range(200))
    told = np.array([row[4] for row in client.rows])[-50:, 2]
    here = list(client.rows[-1][4])
    here[2] = (told.max() if off > 0 else told.min()) + off
    client.answer(packet(here, 200), 0.8)
    assert client.slowing is stops
    assert ("3.10 deg off what it is told" in client.reason) is stops


@pytest.mark.parametrize("axis", range(6))
def test_a_jump_of_one_axis_alone_is_refused(plan, axis):
    data = json.loads(run_json(plan, TARGET))
    data["back"]["segments"][-1]["to"][axis] += 1e-5
    with pytest.raises(ValueError, match="jumps"):
        EgmClient(Run(data))


def test_the_log_numbers_periods_of_warm_up_from_1(plan_of, tmp_path):
    plan = plan_of(period=2.0, ramp=1.0, measured=1, warm_up=2, swing=0.05)
    client = client_of(plan)
    for n in range(4000):
        client.answer(packet(client.rows[-1][4] if client.rows else home(plan), n), 0.004 * n)
    write_log(client, str(tmp_path / "log.csv"))
    with (tmp_path / "log.csv").open() as file:
        found = {row["mark"]: row["period"] for row in csv.DictReader(file)}
    assert (found["101"], found["102"], found["1001"], found["3"]) == ("1", "2", "1", "0")


def test_a_run_that_jumps_is_refused(plan):
    data = json.loads(run_json(plan, TARGET))
    data["back"]["segments"][-1]["to"][0] += 1.0
    with pytest.raises(ValueError, match="jumps"):
        EgmClient(Run(data))
    data["out"]["segments"][0]["duration"] += 0.001
    with pytest.raises(ValueError, match="no whole number of steps"):
        EgmClient(Run(data))


def test_the_log_reports_everything(plan, tmp_path):
    client, robot = client_of(plan, torque=7), FakeController([float(x) for x in home(plan)])
    for n in range(1601):  # the first one only starts it
        answer = client.answer(robot.packet(), 0.004 * n + 10.0)
        robot.take(answer)
    write_log(client, str(tmp_path / "log.csv"))
    with (tmp_path / "log.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 1600
    assert {row["phase"] for row in rows} == {"align", "out", "rest", "main"}
    main = [row for row in rows if row["phase"] == "main"]
    assert main[0]["mark"] == "2"
    assert {row["mark"] for row in main} == {"2", "3", "1001"}
    assert {row["period"] for row in main} == {"0", "1"}
    assert client.rows[0][0] == 0
    assert [float(row["time_s"]) for row in rows[:3]] == [0.0, 0.004, 0.008]
    ref = np.array([[float(row[f"ref_{axis}_deg"]) for axis in client.run.axes] for row in rows])
    pos = np.array([[float(row[f"pos_{axis}_deg"]) for axis in client.run.axes] for row in rows])
    assert pos[100:] == pytest.approx(ref[94:-6], abs=1e-8)  # the imitated robot is some packets late
    assert float(rows[-1]["torque_6"]) == pytest.approx(0.5 * pos[-1, 5], abs=1e-6)
    assert (rows[0]["motors_on"], rows[0]["egm_running"], rows[0]["utilization_percent"]) == ("1", "1", "42")


def check(found):
    assert found["max_error_deg"] <= 1e-4
    assert found["delivered"] > 0.85 * (found["packets"] - 125)
    assert found["resumed"] == 0
    assert found["stopped"] is True
    assert 0.0 < found["turnaround_us_median"] < 4000.0
    assert np.isfinite(found["jitter_us_p999"])


@pytest.mark.slow
def test_in_real_time_for_a_short_time():
    check(measure(2.5, 0.05, 0.01, 1))


@pytest.mark.slow
def test_in_real_time_for_20_seconds():
    check(measure(20.0, 0.05, 0.01, 2))


def test_fields_are_cut_as_they_stand():
    assert fields(b"\x08\x96\x01\x12\x07testing") == [(1, 150), (2, b"testing")]  # the definition's own examples


def test_only_odd_packets_stop_it_and_the_log_is_written(plan, tmp_path):
    (tmp_path / "run.json").write_text(run_json(plan, TARGET))
    command = [sys.executable, egm_client.__file__, "run.json", "--port", "0", "--log", "log.csv"]
    command += ["--listen", "127.0.0.1", "--controller", "127.0.0.1"]
    odd = list(odd_packets(plan, 30).values())
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock,
        subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as process,
    ):
        sock.connect(("127.0.0.1", int(process.stdout.readline().split("port ")[1].split(";")[0])))
        sock.settimeout(1.0)
        for n in range(30):
            sock.send(packet(home(plan), n))
            sock.recv(4096)
        for k in range(400):
            if process.poll() is not None:
                break
            with contextlib.suppress(ConnectionRefusedError):
                sock.send(odd[k % len(odd)])
            time.sleep(0.005)
        said = process.communicate(timeout=10)[0]
    assert process.returncode == 1
    assert "stopped: no packet of the controller came for 0.1 s" in said
    assert int(re.search(r"not answered: (\d+) packets not understood, 0 of other", said)[1]) > 5
    assert (tmp_path / "log.csv").read_text().count("\n") == 31


def test_an_interrupt_slows_the_robot_down_and_the_log_is_written(plan, tmp_path):
    (tmp_path / "run.json").write_text(run_json(plan, TARGET))
    command = [sys.executable, egm_client.__file__, "run.json", "--port", "0"]
    command += ["--listen", "127.0.0.1", "--controller", "127.0.0.1"]
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock,
        subprocess.Popen([*command, "--log", "log.csv"], cwd=tmp_path, stdout=subprocess.PIPE, text=True) as process,
    ):
        port = int(process.stdout.readline().split("port ")[1].split(";")[0])
        sock.connect(("127.0.0.1", port))
        sock.settimeout(1.0)
        found = []
        try:
            for n in range(900):  # as fast as answers come: the client knows no time but the controller's
                sock.send(packet(found[-1] if found else home(plan), n))
                found.append(joints(sock.recv(4096)))
                if n == 500:
                    process.send_signal(signal.SIGINT)
        except TimeoutError:
            pass
        said = process.communicate(timeout=10)[0]
    assert process.returncode == 1
    assert "stopped: stopped from this computer" in said
    assert 500 + 0.8 / STEP <= len(found) < 800
    assert np.abs(np.diff(found[-50:], axis=0)).max() == 0.0
    assert (tmp_path / "log.csv").read_text().count("\n") == len(found) + 1
