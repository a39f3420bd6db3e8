"""FANUC Stream Motion: the client as it is given out, against a controller that is late, silent or unwilling."""

import csv
import json
import re
import shutil
import socket
import struct
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from excitor.design.programs.clients import j519_client, j519_packets
from excitor.design.programs.clients.j519_client import HEADER, J519Client, write_log
from excitor.design.programs.clients.run_motion import Run
from excitor.design.programs.fanuc import stream as fanuc_j519
from excitor.design.programs.fanuc import stream_controller as check
from excitor.design.programs.fanuc.stream import TARGET
from excitor.design.programs.fanuc.stream_controller import J519Robot
from excitor.design.programs.plan import Stretches, marks
from excitor.design.programs.run_json import run_json
from excitor.design.programs.target import CannotDrive, Machine, ProgramError, to_axes
from excitor.design.programs.target import check as check_plan
from excitor.design.programs.verify import Judge, verify
from excitor.robots.robot import ControllerAxes
from tests.mutations.fanuc_j519 import mutations

STEP = 0.008  # s, the period of most tests
HOSTILE = '] ;\n  99:J P[1] 100% FINE ;\n/END"\u202e' + "z" * 300
PLANS = {
    "one harmonic": {"harmonics": (1,)},
    "twelve with gaps": {"harmonics": (1, 3, 4, 7, 12), "period": 8.0, "warm_up": 0},
    "no warm-up, long ramp": {"warm_up": 0, "ramp": 6.0, "measured": 2},
    "moves": {"moves": True, "payload": 1.5, "way": 3},
    "huge": {"swing": 1e4, "measured": 1},
    "tiny": {"swing": 1e-9, "measured": 1},
    "still": {"swing": 0.0, "measured": 1},
    "hostile": {"run": HOSTILE, "campaign": HOSTILE, "measured": 1},
    "large robot": {"robot": "kr150", "measured": 1},
}


def planning(plan_of, **given):
    return plan_of(**{"step": 0.008, "measured": 1, **given})


def machine_of(plan, **changes):
    return replace(Machine(to_axes(plan.robot, TARGET, plan.home), 0.008), **changes)


def client_and_robot(plan, **given):
    return J519Client(Run(json.loads(run_json(plan, TARGET)))), J519Robot(machine_of(plan), **given)


@pytest.mark.parametrize("given", PLANS.values(), ids=PLANS)
def test_executed_is_planned(plan_of, given):
    plan = planning(plan_of, **given)
    files = fanuc_j519.emit(plan, "p", None)
    found = check.execute(files, "p", machine_of(plan))
    assert [stretch.name for stretch in found.stretches] == list(Stretches)
    scale = 1e-9 * max(1.0, given.get("swing", 1.0))
    for stretch in found.stretches:
        assert stretch.t[-1] == pytest.approx(plan.stretch(stretch.name).duration)
        wanted = to_axes(plan.robot, TARGET, plan.stretch(stretch.name).at(stretch.t))
        assert stretch.axes == pytest.approx(wanted, abs=scale)
    assert found.marks == tuple((pytest.approx(t), mark) for t, mark in marks(plan))


@pytest.mark.slow
def test_the_verdict_is_good_and_mutations_are_caught(plan_of):
    short = {"period": 2.0, "ramp": 2.0, "harmonics": (1, 2, 3)}
    for given, least in ((short, 30), ({"moves": True, "payload": 2.0}, 20)):
        plan = planning(plan_of, **given)
        files = fanuc_j519.emit(plan, "p", None)
        assert _judged(plan, files).problems == ()
        changed = dict(mutations(files, "p"))
        assert len(changed) >= least
        assert [label for label, changed_files in changed.items() if _judged(plan, changed_files).good] == []


def _judged(plan, files):
    return verify(plan, TARGET, check, files=files, name="p", judge=Judge())


def test_refuses_before_anything_moves(plan_of):
    plan = planning(plan_of, payload=2.0)
    files = fanuc_j519.emit(plan, "p", None)
    for changes, said in (
        ({"override": 0.5}, "OVERRIDE"),
        ({"automatic": False}, "AUTO"),
        ({"axes": machine_of(plan).axes + np.array([0, 0, 0, 0, 0, 0.6])}, "J6 of the stream is 0.60 deg from home"),
    ):
        found = check.execute(files, "p", machine_of(plan, **changes))
        assert not found.stretches
        assert said in found.halted
    with pytest.raises(CannotDrive, match="no whole numbers"):
        check_plan(plan_of(period=4.005, step=0.005, ramp=2.005), TARGET)


@pytest.mark.parametrize("step", [0.002, 0.004])
def test_streams_at_the_period_that_the_controller_tells(plan_of, step):
    plan = planning(plan_of)
    files = fanuc_j519.emit(plan, "p", None)
    found = check.execute(files, "p", machine_of(plan, step=step))
    assert found.marks == tuple((pytest.approx(t), mark) for t, mark in marks(plan))
    for stretch in found.stretches:
        assert np.diff(stretch.t) == pytest.approx(step)
        assert stretch.axes == pytest.approx(to_axes(plan.robot, TARGET, plan.stretch(stretch.name).at(stretch.t)))
    client, robot = J519Client(Run(json.loads(files["p.json"]))), J519Robot(machine_of(plan, step=step))
    check.over_loopback(client, robot, lambda k: setattr(client, "interrupted", k > 2000) or "")
    stopping = [row[2] for row in client.rows].count("stop")
    assert stopping * step == pytest.approx(0.3, abs=2 * step)


def test_stamps_of_2_ms_measure_a_period_of_2_ms(plan_of):
    """One stamp may be late by its resolution."""
    plan = planning(plan_of)
    client = client_and_robot(plan)[0]
    late = []

    def first_stamp(_):
        if client.first and not late:
            late.append(client.first)
            client.first = (client.first[0], client.first[1] + 2)
        return ""

    robot = J519Robot(machine_of(plan, step=0.002))
    check.over_loopback(client, robot, first_stamp)
    assert late
    assert client.message == ""
    assert robot.finished


def test_times_that_are_no_multiples_of_the_controllers_period_are_refused(plan_of):
    plan = plan_of(period=4.02, step=0.004, ramp=2.0, measured=1)
    files = fanuc_j519.emit(plan, "p", None)
    assert check.execute(files, "p", machine_of(plan, step=0.004)).stretches
    for capable in (True, False):
        client = J519Client(Run(json.loads(files["p.json"])))
        check.over_loopback(client, J519Robot(machine_of(plan), capable=capable))
        assert client.message == "the run's times are no multiples of 8 ms; set design.controller_sample_s = 0.008"


def test_starts_from_where_the_robot_stands_exactly(plan_of):
    plan = planning(plan_of)
    robot = J519Robot(machine_of(plan, axes=machine_of(plan).axes + 0.3))
    client = client_and_robot(plan)[0]
    check.over_loopback(client, robot)
    assert not robot.alarm
    assert client.message == ""
    q = np.array([command[2] for command in robot.commands])
    steps = np.abs(np.diff(q, 3, axis=0)).max() / STEP**3
    assert steps < 1.1 * max(52.5 * 0.3, np.abs(np.diff(_commanded(plan), 3, axis=0)).max() / STEP**3)


def _commanded(plan):
    t = np.arange(round(plan.body.duration / STEP) + 1) * STEP
    return to_axes(plan.robot, TARGET, plan.body.at(t))


@pytest.mark.parametrize(
    ("limits", "said"),
    [((20.0, 1e6, 1e9), "velocity of"), ((1e6, 100.0, 1e9), r"allows 45.0"), ((1e6, 1e6, 50.0), r"jerk of .* deg/s.3")],
)
def test_refuses_motion_beyond_the_controllers_limits(plan_of, limits, said):
    client, robot = client_and_robot(planning(plan_of), limits=limits)
    check.over_loopback(client, robot)
    assert client.state == "refused"
    assert re.search(said, client.message)
    assert not robot.commands
    assert robot.stopped


def test_limits_are_read_for_the_tools_speed_and_the_load(plan_of):
    plan = planning(plan_of, payload=5.0)
    run = Run(json.loads(run_json(plan, TARGET)))
    for given, wanted in (
        ({}, 0.5 * 90.0),
        ({"tool_speed": 50.0}, 0.5 * 100.0),
        ({"full_payload": 20.0}, 90.0 * (1.0 - 0.25 * 0.5)),
        ({"tool_speed": 5000.0, "full_payload": 5.0}, 0.5 * 90.0),
    ):
        client = J519Client(run, **given)
        check.over_loopback(client, J519Robot(machine_of(plan), limits=(100.0, 1.0, 1.0)))
        assert client.limit(1, 0) == pytest.approx(wanted, rel=0.01)
    unknown = J519Client(Run(json.loads(run_json(planning(plan_of), TARGET))), full_payload=20.0)
    check.over_loopback(unknown, J519Robot(machine_of(plan), limits=(100.0, 1.0, 1.0)))
    assert unknown.limit(1, 0) == pytest.approx(0.5 * 90.0, rel=0.01)  # of a payload that nobody stated: the lowest


@pytest.mark.parametrize("seed", [1, 2])
def test_lost_and_late_packets(plan_of, seed):
    """1 % lost and 5 % late for 20 s: every packet that arrives says what was planned for its time."""
    plan = planning(plan_of, period=8.0, measured=1)
    random = np.random.default_rng(seed)
    drawn = random.uniform(size=10_000)
    client, robot = client_and_robot(plan)
    check.over_loopback(client, robot, lambda k: "lost" if drawn[k] < 0.01 else "late" if drawn[k] < 0.06 else "")
    assert client.message == ""
    assert client.state == "done"
    assert not robot.alarm
    assert len(robot.commands) * STEP > 20.0
    rows = [row for row in client.rows if row[2] == "main"]
    q = np.array([row[5:11] for row in rows], dtype=float)
    assert q == pytest.approx(_commanded(plan), abs=1e-4)
    sequence = np.diff([command[0] for command in robot.commands])
    assert (sequence == 1).all()


def test_silence_stops_the_run_for_good(plan_of):
    plan = planning(plan_of)
    client, robot = client_and_robot(plan)
    check.over_loopback(client, robot, lambda k: "lost" if 900 <= k < 907 else "")
    assert "no status for 0.0" in client.message
    assert robot.finished
    assert robot.stopped
    q = np.array([command[2] for command in robot.commands])
    labels = [row[2] for row in client.rows]
    first = labels.index("stop")
    assert set(labels[first:]) == {"stop"}  # never again
    assert (len(labels) - first) * STEP == pytest.approx(0.3, abs=2 * STEP)
    speed = np.abs(np.diff(q[first - 2 :], axis=0)).max(axis=1) / STEP
    assert speed[-1] < 0.1 * speed[0]
    acceleration = np.abs(np.diff(q, 2, axis=0)).max() / STEP**2
    assert acceleration < 3.0 * np.abs(np.diff(_commanded(plan), 2, axis=0)).max() / STEP**2 + 1.5 * speed[0] / 0.3
    main = _commanded(plan)  # the path stays the same, only slower
    at = np.array([np.abs(main - pose).max(axis=1).min() for pose in q[first:]])
    assert at.max() < np.abs(np.diff(main, axis=0)).max()


def test_a_long_silence_ends_the_stream(plan_of):
    client, robot = client_and_robot(planning(plan_of))
    check.over_loopback(client, robot, lambda k: "lost" if k >= 500 else "")
    assert client.message == "the controller has fallen silent"
    assert client.state == "done"
    assert robot.stopped
    assert client.answer(robot.status(), robot.now) == []


def test_stops_on_the_controllers_word(plan_of):
    plan = planning(plan_of)
    for change, said in (
        (lambda robot: setattr(robot, "scale", 0.7), "slowed the motion down to 70 %"),
        (lambda robot: robot.fail("a crash"), "ended the motion"),
    ):
        client, robot = client_and_robot(plan)

        def fault(k, robot=robot, change=change):
            if k == 600:
                change(robot)
            return ""

        check.over_loopback(client, robot, fault)
        assert said in client.message
        assert len(robot.commands) < 700
    client, robot = client_and_robot(plan)
    check.over_loopback(client, robot, lambda k: setattr(client, "interrupted", k > 700) or "")
    assert client.message == "stopped from the keyboard"
    assert client.rows[-1][2] == "stop"


def test_waits_for_the_program_and_refuses_another_period_or_version(plan_of):
    plan = planning(plan_of)
    client, robot = client_and_robot(plan, waiting=False)
    check.over_loopback(client, robot, lambda k: setattr(robot, "waiting", robot.sequence > 100) or "")
    assert robot.commands[0][0] > 100
    client = client_and_robot(plan)[0]
    check.over_loopback(client, J519Robot(machine_of(plan, step=0.003)))
    assert client.message == "the controller's period is 3.00 ms, the client's are 2, 4 and 8 ms"
    client = client_and_robot(plan)[0]
    check.over_loopback(client, J519Robot(machine_of(plan, step=0.004), capable=False))
    assert client.message == "the controller's period is 4.00 ms, not 8 ms"
    client = client_and_robot(plan)[0]
    client.start(0.0)
    client.quiet(0.2)
    assert client.answer(struct.pack(">7I", 7, 1, 1, 8, 1, 1, 0), 0.2)
    assert "version 1" in client.message
    silent = client_and_robot(plan)[0]
    silent.start(0.0)
    assert silent.quiet(5.0)
    silent.quiet(11.0)
    assert "does not tell its limits" in silent.message


def test_the_log_pairs_commands_with_what_was_measured(plan_of, tmp_path):
    plan = planning(plan_of)
    client, robot = client_and_robot(plan)
    check.over_loopback(client, robot)
    write_log(client, str(tmp_path / "log.csv"))
    with open(tmp_path / "log.csv", newline="") as file:
        header, *rows = list(csv.reader(file))
    assert header == HEADER
    assert len(rows) == len(robot.commands)
    values = np.array([row[5:24] for row in rows], dtype=float)
    assert values[1:, 6:12] == pytest.approx(values[:-1, :6], abs=1e-4)  # the robot is where it was told to be
    assert values[:, 12:18] == pytest.approx(0.1 * values[:, 6:12], abs=1e-4)


def test_coefficients_are_checked_for_their_count(plan_of):
    files = fanuc_j519.emit(planning(plan_of), "p", None)
    run = json.loads(files["p.json"])
    run["out"]["segments"][0]["from"].pop()
    with pytest.raises(ProgramError, match="this is no run"):
        check.client_of({"p.json": json.dumps(run)}, "p", check.J519Client)


def test_a_packet_takes_less_than_100_us(plan_of):
    plan = planning(plan_of, period=8.0, measured=2)
    client, robot = client_and_robot(plan)
    begin = time.process_time()
    check.over_loopback(client, robot)
    assert (time.process_time() - begin) / len(robot.commands) < 100e-6


def test_the_files_that_are_given_out_run_alone(plan_of, tmp_path):
    plan = planning(plan_of, period=2.0, ramp=2.0, harmonics=(1, 2))
    clients = Path(j519_client.__file__).parent
    for name in TARGET.clients:
        shutil.copy(clients / name, tmp_path)
    (tmp_path / "p.json").write_text(run_json(plan, TARGET))
    robot = J519Robot(machine_of(plan))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as far:
        far.bind(("127.0.0.1", 0))
        far.settimeout(20.0)
        thread = threading.Thread(target=_serve, args=(far, robot))
        thread.start()
        command = [sys.executable, "-S", "j519_client.py", "p.json", "--port", str(far.getsockname()[1])]
        command += ["--listen", "127.0.0.1", "--controller", "127.0.0.1"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=30, check=False)
        thread.join()
    assert done.stdout.endswith("Finished.\n"), done.stdout + done.stderr
    assert done.returncode == 0
    assert "The stream says: J1 " in done.stdout
    assert not robot.alarm
    assert len((tmp_path / "p_log.csv").read_text().splitlines()) == len(robot.commands) + 1


def _serve(far, robot):
    """Be the controller, in a hurry: the next period begins with the answer."""
    packet, client = far.recvfrom(2048)
    far.settimeout(0.002)
    while not robot.stopped:
        reply = robot.receive(packet) or robot.status()
        if reply:
            far.sendto(reply, client)
        try:
            packet = far.recv(2048)
        except TimeoutError:
            packet = struct.pack(">II", 200, 3)


def test_a_dry_plan_states_it(plan_of):
    assert "DRY RUN" in fanuc_j519.emit(replace(planning(plan_of), dry=True), "p", None)["p.ls"]


class _Listening(J519Robot):
    heard: list

    def receive(self, packet):
        self.heard.append(packet)
        return super().receive(packet)


def packet_201(axes, *, sequence=0, motion=1, style=0xFFFF):
    return struct.pack(">IIIBBH9d256x", 201, 3, sequence, 0, motion, style, *axes, 0.0, 0.0, 0.0)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda axes: packet_201(axes), ""),
        (lambda axes: packet_201(axes + 5e-4), ""),
        (lambda axes: packet_201(axes + 2e-3 * (np.arange(6) == 3)), "the first command jumps away from"),
        (lambda axes: packet_201(axes, style=0), "a command whose data style 0"),
        (lambda axes: packet_201(axes, motion=0), "a command without motion of six axes"),
        (lambda axes: packet_201(axes * np.nan), "a command without motion of six axes"),
        (lambda axes: packet_201(axes)[:-4], "a packet of type 201 and 340 bytes"),
        (lambda axes: packet_201(axes)[:3] + b"\x07" + packet_201(axes)[4:], "a packet of type 7 and 344 bytes"),
        (lambda axes: packet_201(axes)[:7] + b"\x02" + packet_201(axes)[8:], "a packet of version 2"),
    ],
)
def test_the_controller_takes_whole_packets_that_begin_where_the_robot_stands(plan_of, change, said):
    _, robot = client_and_robot(planning(plan_of))
    robot.receive(change(robot.joints))
    assert robot.alarm.startswith(said)
    assert bool(robot.alarm) == bool(said)


def test_a_command_is_laid_out_as_the_controller_reads_it(plan_of):
    """Against the layout written by hand: style 0xFFFF at offset 14 makes the numbers joint angles."""
    plan = planning(plan_of)
    client, robot, sent = J519Client(Run(json.loads(run_json(plan, TARGET)))), _Listening(machine_of(plan)), []
    robot.heard = sent
    check.over_loopback(client, robot)
    stops, rest = sent[:3], sent[3:]
    assert stops == [bytes([0, 0, 0, 2, 0, 0, 0, version]) for version in (1, 2, 3)]
    assert rest[0] == bytes([0, 0, 0, 7, 0, 0, 0, 3, 0, 0, 0, 1]) + bytes(16)
    assert rest[1] == bytes([0, 0, 0, 3, 0, 0, 0, 3, 0, 0, 0, 1, 0, 0, 0, 0])
    assert rest[19] == bytes([0, 0, 0, 200, 0, 0, 0, 3])  # only when the limits are known
    first = rest[20]
    assert len(first) == 344
    assert first[:8] == bytes([0, 0, 0, 201, 0, 0, 0, 3])
    assert int.from_bytes(first[8:12], "big") == robot.commands[0][0]
    assert first[12:16] == bytes([0, 1, 0xFF, 0xFF])
    assert [struct.unpack(">d", first[16 + 8 * j : 24 + 8 * j])[0] for j in range(6)] == client.rows[0][5:11]
    assert first[64:] == bytes(280)
    assert sent[-2][12:16] == bytes([1, 1, 0xFF, 0xFF])


@pytest.mark.parametrize("style", [0, 1, 0xFFFE])
def test_a_command_of_another_style_is_an_alarm(plan_of, style):
    """Style 0 would send the arm to X, Y, Z, W, P, R."""
    _, robot = client_and_robot(planning(plan_of))
    packet = bytearray(j519_packets.command(1, list(robot.joints), False))
    packet[14:16] = style.to_bytes(2, "big")
    robot.receive(bytes(packet))
    assert f"data style {style}" in robot.alarm


@pytest.mark.parametrize(("bit", "said"), [(1, "in error"), (2, "teach pendant"), (4, "emergency stop")])
def test_refuses_and_stops_on_the_robots_status(plan_of, bit, said):
    plan = planning(plan_of)
    client, robot = client_and_robot(plan, trouble=bit)
    check.over_loopback(client, robot)
    assert client.state == "refused"
    assert said in client.message
    assert not robot.commands
    client, robot = client_and_robot(plan)
    check.over_loopback(client, robot, lambda k: setattr(robot, "trouble", bit if k > 600 else 0) or "")
    assert said in client.message
    assert client.rows[-1][2] == "stop"
    assert len(robot.commands) < 700


@pytest.mark.parametrize(("slip", "stops"), [(4.9, False), (8.0, True)])
def test_stops_where_the_robot_does_not_follow(plan_of, slip, stops):
    client, robot = client_and_robot(planning(plan_of))
    check.over_loopback(client, robot, lambda k: setattr(robot, "slip", slip if 600 < k < 620 else 0.0) or "")
    assert bool(client.message) == stops
    assert bool(re.search(r"J6 is \d\.\d deg from where it was told to be", client.message)) == stops
    assert (client.rows[-1][2] == "stop") == stops


def test_a_robot_may_follow_late(plan_of):
    """A fast robot is far from its last command and still on its way."""
    client = client_and_robot(planning(plan_of))[0]
    for k in range(40):
        client.pose = [2.0 * k] * 6  # 250 deg/s
        client.told.append(client.pose)
    assert client._astray([2.0 * 20] * 6) == ""
    assert "J1 is 8.0 deg" in client._astray([2.0 * 11] * 6)


def test_an_older_controller_reports_its_limits_in_version_1(plan_of):
    client, robot = client_and_robot(planning(plan_of), capable=False, limits_version=1)
    check.over_loopback(client, robot)
    assert client.message == ""
    assert robot.finished
    client, robot = client_and_robot(planning(plan_of), limits_version=0)
    check.over_loopback(client, robot)
    assert "does not tell its limits" in client.message
    assert 200 not in robot.received  # never started


def test_packets_of_an_interrupted_session_are_thrown_away(plan_of):
    plan = planning(plan_of)
    client, robot = client_and_robot(plan)
    client.start(0.0)
    short, old = struct.pack(">II", 0, 1) + bytes(124), J519Robot(machine_of(plan), connected=True).status()
    for k in range(100):
        for packet in (short, old):
            assert all(reply[3] in (3, 7) for reply in client.answer(packet, 0.01 * k))  # limits and capability only
    assert client.state == "limits"
    assert client.message == ""
    check.over_loopback(client, robot)
    assert client.message == ""
    assert robot.finished


def test_silence_while_waiting_ends_with_a_message(plan_of):
    client, robot = client_and_robot(planning(plan_of))
    check.over_loopback(client, robot, lambda k: "lost")
    assert client.state == "refused"
    assert "sends no status" in client.message
    assert robot.stopped
    for state in ("clearing", "capability", "limits", "waiting"):
        client = client_and_robot(planning(plan_of))[0]
        client.state, client.interrupted = state, True
        assert client.quiet(0.0) == [bytes([0, 0, 0, 2, 0, 0, 0, 3])]
        assert client.message == "stopped from the keyboard"


def test_stream_has_axes_of_its_own(plan_of):
    """The stream's J3 may be the pendant's J3 + J2: the pendant's axes must not be taken for it."""
    plan = planning(plan_of)
    matrix = np.eye(6)
    matrix[2, 1] = 1.0
    names = tuple(f"J{k}" for k in range(1, 7))

    def with_axes(*keys):
        axes = {key: ControllerAxes(key, names, matrix, np.zeros(6)) for key in keys}
        return replace(plan, robot=replace(plan.robot, controllers=axes))

    with pytest.raises(CannotDrive, match="fanuc-j519"):
        fanuc_j519.emit(with_axes("fanuc"), "p", None)
    both = with_axes("fanuc", "fanuc-j519")
    home = json.loads(fanuc_j519.emit(both, "p", None)["p.json"])["out"]["segments"][0]["from"]
    assert home[2] == pytest.approx(np.degrees(plan.home[1] + plan.home[2]))
    assert "J3" in " ".join(TARGET.loading)
    assert "J2" in " ".join(TARGET.loading)


def test_a_start_is_requested_again_every_half_second(plan_of):
    client, _ = client_and_robot(planning(plan_of))
    client.state = "waiting"
    assert client.quiet(0.4) == []
    assert client.quiet(0.6) == [j519_packets.start()]
    assert client.quiet(1.0) == []
    assert client.quiet(1.2) == [j519_packets.start()]


@pytest.mark.parametrize(("n_axes", "unit"), [(7, "deg"), (6, "rad")])
def test_runs_of_other_machines_are_refused(plan_of, n_axes, unit):
    run = client_and_robot(planning(plan_of))[0].run
    run.axes, run.units = [f"J{k}" for k in range(n_axes)], [unit] * n_axes
    with pytest.raises(ValueError, match="6 axes in deg"):
        J519Client(run)


def test_sequence_numbers_wrap_where_their_32_bits_end(plan_of):
    client, _ = client_and_robot(planning(plan_of))
    client.state, client.sequence = "running", 0
    seen = type("Status", (), {"joints": [0.0] * 6, "currents": [0.0] * 6, "scale": 1.0})()
    first, second = client._commands(2, seen)
    assert [row[1] for row in client.rows] == [2**32 - 1, 0]
    assert first != second


def test_a_status_after_the_last_sequence_number_is_the_next(plan_of):
    client, _ = client_and_robot(planning(plan_of))
    client.state, client.first, client.sequence = "waiting", (2**32 - 5, 0), 2**32 - 1
    client._status(type("Status", (), {"sequence": 0, "stamp": 8, "bits": 0, "joints": [0.0] * 6})(), 1.0)
    assert client.sequence == 0


def test_a_short_run_is_evaluated_at_its_steps(plan_of):
    client, _ = client_and_robot(planning(plan_of))
    client.steps = [("main", 0.008 * k, [float(k)] * 6) for k in range(3)]
    assert [client._between(at)[0] for at in (-0.4, 1.0, 1.6, 9.0)] == [0.0, 1.0, 2.0, 2.0]
