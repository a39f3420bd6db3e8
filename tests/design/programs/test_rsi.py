"""The RSI server alone: its answers, why it stops, that it never goes on by itself; and in real time over loopback."""

import json
import socket
import threading
from pathlib import Path

import numpy as np
import pytest

from benchmarks.programs import measure_rsi as measure
from excitor.design.programs.clients import rsi_server
from excitor.design.programs.clients.rsi_server import RsiServer, read_packet, serve, write_log
from excitor.design.programs.clients.run_motion import Run
from excitor.design.programs.krl.rsi import TARGET
from excitor.design.programs.krl.rsi_controller import Break, parsed
from excitor.design.programs.run_json import run_json
from excitor.design.programs.target import to_axes

FIRST = 987_654_320


def server_of(plan, **given):
    return RsiServer(Run(json.loads(run_json(plan, TARGET))), **given)


def packet(ipoc, axes, delay=0, extra=""):
    told = " ".join(f'A{k}="{x:.4f}"' for k, x in enumerate(axes, start=1))
    return f'<Rob Type="KUKA"><AIPos {told}/><Delay D="{delay}"/>{extra}<IPOC>{ipoc}</IPOC></Rob>'.encode()


def corrections(reply):
    root = parsed(reply.decode(), "answer")
    return np.array([float(root.find("AK").get(f"A{k}")) for k in range(1, 7)])


class Talk:
    """Packets every 4 ms on a virtual clock, of a robot that is where it was told to be `lag` packets before."""

    def __init__(self, plan, **given):
        self.server, self.home = server_of(plan, **given), to_axes(plan.robot, TARGET, plan.home)
        self.ms, self.lag = 0, 0
        self.at = [np.zeros(6)]

    def go(self, ms, step=4, delay=None):
        """Go on for a time; give the corrections."""
        found = []
        for k in range(round(ms / step)):
            late = 0 if delay is None else delay + k
            at = self.home + self.at[max(-len(self.at), -1 - self.lag)]
            self.at.append(corrections(self.server.answer(packet(FIRST + self.ms, at, late), 1e-3 * self.ms)))
            found.append(self.at[-1])
            self.ms += step
        return np.array(found)


@pytest.fixture
def talk(plan_of):
    return Talk(plan_of("kr150"))


@pytest.mark.parametrize("step", [4, 12])
def test_answers_follow_the_controllers_clock(plan_of, step):
    plan = plan_of("kr150")
    talk = Talk(plan)
    found = talk.go(25_000, step)
    t = 1e-3 * step * np.arange(len(found))
    begin = 1.0
    for name in ("out", "main", "back"):
        inside = (t >= begin) & (t <= begin + plan.stretch(name).duration)
        wanted = to_axes(plan.robot, TARGET, plan.stretch(name).at(t[inside] - begin)) - talk.home
        assert np.abs(found[inside] - wanted).max() < 1e-9
        begin += plan.stretch(name).duration + 1.0
    assert not found[t < 1.0].any()


def test_every_answer_names_its_packet(talk):
    for ipoc in (FIRST, FIRST + 4, FIRST + 12, FIRST + 8):
        assert f"<IPOC>{ipoc}</IPOC>".encode() in talk.server.answer(packet(ipoc, talk.home), 0.0)


def test_it_stays_at_home_if_the_robot_is_elsewhere(plan_of):
    talk = Talk(plan_of("kr150"))
    talk.home = talk.home + np.array([0.0, 0.0, 0.6, 0.0, 0.0, 0.0])
    assert not talk.go(8000).any()
    assert talk.server.state == "refused"
    assert "0.60 degrees from home" in talk.server.reason


def test_missing_packets_stop_it_smoothly(talk):
    running = talk.go(6000)
    speed = np.abs(np.diff(running, axis=0)).max()
    talk.ms += 24
    after = talk.go(20_000)
    assert "28 ms of the controller's clock are missing, at most 20 may" in talk.server.reason
    assert np.abs(after[0] - running[-1]).max() <= speed
    steps = np.abs(np.diff(after, axis=0)).max(axis=1)
    assert steps[:10].max() <= 1.05 * speed
    assert steps[30:40].max() < 0.5 * speed
    assert steps[76:].max() == 0.0


def test_few_missing_packets_do_not_stop_it(talk):
    talk.go(6000)
    talk.ms += 16
    talk.go(1000)
    assert talk.server.state == "running"


def test_a_long_gap_leaves_the_robot_where_it_was_held(talk):
    running = talk.go(6000)
    talk.ms += 2000
    after = talk.go(20_000)
    assert not np.abs(after - running[-1]).any()


def test_late_answers_in_a_row_stop_it(talk):
    talk.go(6000)
    talk.go(40, delay=1)
    assert "6 answers in a row came too late" in talk.server.reason
    assert not np.diff(talk.go(20_000)[100:], axis=0).any()


def test_silence_by_our_clock_stops_it(talk):
    running = talk.go(6000)
    assert not talk.server.ended(6.2)
    assert not talk.server.ended(6.6)
    assert "silent for more than 0.5 s" in talk.server.reason
    assert not np.abs(talk.go(3000) - running[-1]).any()
    assert talk.server.ended(100.0)


@pytest.mark.parametrize("jump", [-5000, -40, 40, 10**9])
def test_jumps_of_the_controllers_clock_stop_it(talk, jump):
    running = talk.go(6000)
    talk.ms += jump
    after = talk.go(4000)
    assert talk.server.state == "stopping"
    assert np.abs(after[0] - running[-1]).max() <= np.abs(np.diff(running, axis=0)).max() + 1e-9
    assert not np.diff(after[100:], axis=0).any()


@pytest.mark.parametrize("state", ["stopping", "done"])
def test_a_controller_that_starts_again_is_not_moved(plan_of, state):
    talk = Talk(plan_of("kr150"))
    talk.go(6000 if state == "stopping" else 30_000)
    if state == "stopping":
        talk.server.stop("stopped by the operator")
        talk.go(1000)
    assert talk.server.state == state
    last = talk.go(40)[-1]
    talk.ms = 0
    assert not np.abs(talk.go(8000) - last).any()
    assert talk.server.state == state


def test_before_it_moves_gaps_stop_it_as_well(talk):
    talk.go(8)
    talk.ms += 3000
    assert not talk.go(3000).any()
    assert talk.server.state == "stopping"


@pytest.mark.parametrize("lag", [0, 15, 40])
def test_a_robot_that_follows_late_is_no_reason_to_stop(plan_of, lag):
    talk = Talk(plan_of("kr150"))
    talk.lag = lag
    talk.go(30_000)
    assert talk.server.state == "done"


@pytest.mark.parametrize("axis", [0, 4])
def test_axes_that_do_not_follow_stop_it_for_good(plan_of, axis):
    """STOP is pressed while packets go on, STOP ignores corrections, or a limit cuts one axis off."""
    talk = Talk(plan_of("kr150", swing=0.3))
    talk.go(6000)
    stood = talk.at[-1]
    for _ in range(1500):
        at = talk.at[-1].copy()
        at[axis] = stood[axis]
        talk.at.append(corrections(talk.server.answer(packet(FIRST + talk.ms, talk.home + at), 1e-3 * talk.ms)))
        talk.ms += 4
        if talk.server.state == "stopping":
            break
    assert f"A{axis + 1} is 3." in talk.server.reason
    assert "off what it is told; at most 3 are allowed" in talk.server.reason
    assert abs(talk.at[-1][axis] - stood[axis]) > 3.0
    assert not np.diff(talk.go(20_000)[100:], axis=0).any()
    assert talk.server.state == "stopping"


def test_the_tracking_limit_is_a_parameter(plan_of):
    talk = Talk(plan_of("kr150"), tracking=1e-3)
    talk.go(50)
    assert talk.server.state == "waiting"
    talk.home = talk.home + 2e-3
    talk.go(4)
    assert "at most 0.001 are allowed" in talk.server.reason


def test_an_older_packet_changes_nothing(talk):
    talk.go(6000)
    late = corrections(talk.server.answer(packet(FIRST + talk.ms - 12, talk.home + talk.at[-1]), 1e-3 * talk.ms))
    assert talk.server.state == "running"
    again = Talk.go(talk, 8)
    assert np.abs(again[0] - late).max() < 0.5


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x00\xff",
        b"<Rob",
        b"<Rob></Rob>",
        b'<?xml version="1.0"?><Rob/>',
        b'<!DOCTYPE Rob [<!ENTITY a "aaaa">]><Rob>&a;</Rob>',
        b'<Rob><!DOCTYPE x [<!ENTITY a "b">]>&a;</Rob>',
        packet(FIRST, [0.0] * 5),
        packet(FIRST, [0.0] * 6).replace(b"0.0000", b"nan", 1),
        packet(FIRST, [0.0] * 6).replace(b"0.0000", b"1e999", 1),
        packet(FIRST, [0.0] * 6).replace(b"0.0000", b"0,0", 1),
        packet("x" * 20, [0.0] * 6),
        packet(-4, [0.0] * 6),
        packet(FIRST, [0.0] * 6, extra="<Delay D='x'/>").replace(b'<Delay D="0"/>', b""),
        packet(FIRST, [0.0] * 6, extra="<x>" * 500),
        packet(FIRST, [0.0] * 6, extra=" " * 5000),
        packet(FIRST, [0.0] * 6).decode().encode("utf-16"),
        packet("9" * 5000, [0.0] * 6),
    ],
    ids=range(18),
)
def test_malformed_packets_are_not_answered(talk, data):
    talk.go(100)
    assert read_packet(data, 6) is None
    assert talk.server.answer(data, 0.0) is None
    assert talk.server.malformed == 1
    assert not talk.go(100).any()


def test_random_bytes_never_crash_it(talk):
    random = np.random.default_rng(3)
    good = bytearray(packet(FIRST, talk.home, extra='<MACur A1="1" A2="1" A3="1" A4="1" A5="1" A6="1"/>'))
    for _ in range(3000):
        data = bytearray(good)
        for place in random.integers(0, len(data), random.integers(1, 6)):
            data[place] = random.integers(0, 256)
        read_packet(bytes(data), 6)


def test_the_log(plan_of, tmp_path):
    talk = Talk(plan_of("kr150"))
    talk.go(30_000)
    path = write_log(talk.server, str(tmp_path / "a.csv"))
    assert write_log(talk.server, str(tmp_path / "a.csv")).endswith("a_2.csv")
    heads, *rows = Path(path).read_text("utf-8").splitlines()
    assert heads.split(",")[:4] == ["time_s", "mark", "period", "reference_A1"]
    assert len(rows) == 7500
    assert {len(row.split(",")) for row in rows} == {21}
    marks = [int(row.split(",")[1]) for row in rows]
    order = [mark for k, mark in enumerate(marks) if k == 0 or mark != marks[k - 1]]
    assert order == [0, 1, 0, 2, 3, 101, 1001, 1002, 4, 5, 0, 6, 0, 7]
    assert next(row.split(",")[2] for row in rows if row.split(",")[1] == "1002") == "2"


def test_it_serves_one_sender_until_silence(plan_of):
    server = server_of(plan_of("kr150"))
    home = server.run.home
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as ours:
        ours.bind(("127.0.0.1", 0))
        thread = threading.Thread(target=serve, args=(server, ours, "127.0.0.1"))
        thread.start()
        with socket.socket(type=socket.SOCK_DGRAM) as robot, socket.socket(type=socket.SOCK_DGRAM) as stranger:
            for end in (robot, stranger):
                end.connect(ours.getsockname())
                end.settimeout(0.3)
            for k in range(20):
                robot.send(packet(FIRST + 4 * k, home))
                assert not corrections(robot.recv(4096)).any()
            stranger.send(packet(FIRST, home))
            with pytest.raises(TimeoutError):
                stranger.recv(4096)
        thread.join(10.0)
    assert not thread.is_alive()
    assert len(server.rows) == 20
    assert "silent" in server.reason


def test_runs_of_other_machines_are_refused(plan_of):
    with pytest.raises(ValueError, match="six axes in degrees"):
        server_of(plan_of("iiwa"))


def test_the_fake_controller_refuses_declarations():
    with pytest.raises(Break, match="declares"):
        parsed("<!DOCTYPE a><a/>", "it")


def told(found):
    assert found["answered"] >= 0.98 * found["packets"]  # of UDP on a busy machine
    assert found["max_error_deg"] <= 1e-4
    assert found["stopped"]
    assert found["answered_after_silence"] > 50
    assert not found["resumed"]
    assert found["jump_after_silence_deg"] < 1e-9
    assert found["logged"] >= found["answered"] + found["answered_after_silence"]
    print({name: round(value, 9) for name, value in found.items()})


@pytest.mark.slow
def test_real_time_for_a_moment():
    told(measure(1.6, 0.05, 0.01, 2))


@pytest.mark.slow
def test_real_time_for_twenty_seconds():
    told(measure(20.0, 0.05, 0.01, 1))


def test_the_port_is_the_configurations():
    assert rsi_server.PORT == 59152


def test_a_stretch_ends_at_its_last_moment_whatever_rounding_makes_of_it(talk):
    """The clock is a sum of milliseconds: it may lie beyond the end by rounding."""
    server, run = talk.server, talk.server.run
    for name, late, told in (("main", 1e-9, "main"), ("main", 1e-5, ""), ("out", -1e-10, "out")):
        length = run.duration(name)
        pose = server._inside(name, length + late if name == "main" else late, length)
        assert server.stretch == told
        assert bool(server.mark) == bool(told)
        assert pose == run.at(name, length if name == "main" else 0.0)


def test_it_waits_at_home_before_the_way_out(talk):
    assert not talk.go(900).any()
    assert (talk.server.state, talk.server.mark) == ("waiting", 0)
    talk.go(200)
    assert (talk.server.state, talk.server.mark) == ("running", rsi_server.OUT)


def test_commands_as_old_as_the_lag_count_and_older_ones_do_not(plan_of):
    for age, state in ((rsi_server.LAG, "waiting"), (rsi_server.LAG + 1, "stopping")):
        server = server_of(plan_of("kr150"))
        home, far = list(server.run.home), [x + 10.0 for x in server.run.home]
        server.told.extend([(0, far), (100, home)])
        server._follow(rsi_server.Packet(age, far, [], 0))
        assert server.state == state


def test_an_axis_four_degrees_off_stops_it(plan_of):
    talk = Talk(plan_of("kr150"))
    talk.go(100)
    talk.server.answer(packet(FIRST + talk.ms, talk.home + np.array([4.0, 0, 0, 0, 0, 0])), 1e-3 * talk.ms)
    assert "4.00 degrees off" in talk.server.reason


class Port:
    """A socket that brings packets of strangers, and then Ctrl-C."""

    def __init__(self, n):
        self.left = n

    def settimeout(self, seconds):
        pass

    def recvfrom(self, most):
        self.left -= 1
        if self.left < 0:
            raise KeyboardInterrupt
        return b"<Rob/>", ("10.0.0.9", 5)


@pytest.mark.parametrize("n", [1, 3])
def test_strangers_are_counted_and_named_once(plan_of, capsys, n):
    server = server_of(plan_of("kr150"))
    serve(server, Port(n), "10.0.0.1")
    assert server.strangers == n
    assert capsys.readouterr().out == "packets of 10.0.0.9, port 5, are ignored; the controller is 10.0.0.1\n"
