"""Mutated packets through whole clients that stream a run: what a network may bring must neither raise nor move."""

import csv
import re
import struct
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from excitor.design.motion import periodic_run
from excitor.design.programs.clients import egm_client, j519_client, rsi_server, rtde_recorder
from excitor.design.programs.clients.run_motion import Run
from excitor.design.programs.conformance import example
from excitor.design.programs.fanuc.stream_controller import J519Robot
from excitor.design.programs.krl.rsi_controller import RsiRobot, parsed, read_flow
from excitor.design.programs.package import package
from excitor.design.programs.plan import Stretches
from excitor.design.programs.rapid.egm_controller import FakeController, sensor_message
from excitor.design.programs.registry import emitter, target
from excitor.design.programs.run_json import read_program
from excitor.design.programs.target import Machine, ProgramError

NAMES = ("rapid", "krl-rsi", "fanuc-j519")
_NEAR = 0.6  # deg, about the run: as far as home may be away at the start
_GOOD = 0.7  # share of packets that arrive unchanged


class Wire:
    """A client and a controller that agree, until a packet is changed on its way; both begin again after a stop."""

    def __init__(self, name: str) -> None:
        plan = example(target(name))
        e = plan.body.excitation
        assert plan.body.series is not None
        s = plan.body.series
        plan = replace(plan, body=periodic_run(replace(e, measured=3), s.center, s.sines, s.cosines, plan.body.joints))
        made = package(emitter(name), [plan])
        self.name, self.files, self.program = name, made.texts, made.programs[0].name
        file = f"{self.program}.json"
        self.run = Run(read_program(file, made.texts[file], longest=1e5))
        times = {x: np.linspace(0.0, self.run.duration(x), 2000) for x in Stretches}
        poses = np.array([self.run.at(x, float(t)) for x in Stretches for t in times[x]])
        self.low, self.high = poses.min(axis=0) - _NEAR, poses.max(axis=0) + _NEAR
        self.begin()

    def begin(self) -> None:
        """Start the client and the controller."""
        home = np.array(self.run.home)
        self.now = 0.0
        self.client: Any
        self.robot: Any
        if self.name == "rapid":
            self.client, self.robot = egm_client.EgmClient(self.run), FakeController([float(x) for x in home])
        elif self.name == "krl-rsi":
            flow = read_flow(self.files, f"{self.program}.rsi")
            self.client, self.robot = rsi_server.RsiServer(self.run), RsiRobot(flow, home, 0.004)
        else:
            self.client, self.robot = j519_client.J519Client(self.run), J519Robot(Machine(home, 0.008))
            self._pass(self.client.start(0.0), None)

    @property
    def over(self) -> bool:
        """Whether the client has given up, or has reached its end."""
        return self.client.state in ("stopped", "done", "stopping", "refused", "holding", "last")

    def exchange(self, random: np.random.Generator, changed: bool) -> list[list[float]]:
        """Send one packet of the controller, changed or not; return the poses that the client commands, deg."""
        self.now += 0.008 if self.name == "fanuc-j519" else 0.004
        if self.name == "fanuc-j519":
            packet = self.robot.status()
            if packet is None:
                return self._pass(self.client.quiet(self.now), None)
            return self._pass(self.client.answer(spoiled(packet, random) if changed else packet, self.now), random)
        packet = self.robot.packet()
        if self.name == "rapid":
            answer = self.client.answer(spoiled(packet, random) if changed else packet, self.now)
            if answer is None:
                return []
            if not changed or sensor_message(answer)[0] < 2**31:
                self._take(answer)
            return [sensor_message(answer)[2]]
        answer = self.client.answer(spoiled(packet, random) if changed else packet, self.now)
        self.robot.take(answer if not changed else None)
        if answer is None:
            return []
        axes = parsed(answer.decode("ascii"), "answer").find("AK")
        assert axes is not None
        return [[home + float(axes.attrib[f"A{k}"]) for k, home in enumerate(self.run.home, 1)]]

    def _take(self, answer: bytes) -> None:
        try:
            self.robot.take(answer)
        except ValueError:  # a changed packet said that the robot is elsewhere
            self.begin()

    def _pass(self, outgoing: list[bytes], random: np.random.Generator | None) -> list[list[float]]:
        """Hand the client's packets to the controller, and its answers back; list commanded poses."""
        poses = []
        while outgoing:
            following: list[bytes] = []
            for packet in outgoing:
                if packet[:4] == b"\0\0\0\xc9":
                    poses.append(list(np.frombuffer(packet, ">f8", 6, 16)))
                reply = self.robot.receive(packet)
                if reply:
                    following += self.client.answer(reply, self.now)
            outgoing = following
        return poses

    def log(self, path: Path) -> str:
        """Write the log and read it again; what is wrong with it."""
        if self.name == "krl-rsi":
            path.write_text(self.client.table())
        else:
            (egm_client if self.name == "rapid" else j519_client).write_log(self.client, str(path))
        with path.open() as file:
            rows = list(csv.reader(file))
        return "" if len({len(row) for row in rows}) == 1 else "the log's rows differ in length"


def spoiled(packet: bytes, random: np.random.Generator) -> bytes:
    """Cut a packet, change some of its bytes, or lengthen it."""
    data, kind = bytearray(packet), random.integers(4)
    if kind == 0:
        del data[random.integers(0, len(data)) :]
    elif kind == 1:
        data += random.bytes(int(random.integers(1, 40)))
    else:
        for place in random.integers(0, len(data), random.integers(1, 6)):
            data[place] = random.integers(0, 256)
    return bytes(data)


def escapes(name: str, packets: int, folder: Path, seed: int = 0) -> Iterator[str]:
    """Send mutated packets to a client; yield a sentence for each that raises, moves outside, or spoils the log."""
    random, wire, spent = np.random.default_rng(seed), Wire(name), 0
    while spent < packets:
        changed = bool(random.random() > _GOOD)
        spent += changed
        try:
            for pose in wire.exchange(random, changed):
                if not (np.all(pose >= wire.low) and np.all(pose <= wire.high)):
                    yield f"{name}: commands {pose} after packet {spent}"
        except ProgramError as error:
            yield f"{name}: {error}"
        except Exception as error:
            yield f"{name}: raises {error!r} after packet {spent}"
            wire.begin()
        if wire.over or random.random() < 1e-3:
            if wire.client.rows and (wrong := wire.log(folder / f"{name}.csv")):
                yield f"{name}: {wrong}"
            wire.begin()


class RtdeController:
    """The controller's end of RTDE as a socket: what it sends may be spoilt once the recorder listens."""

    def __init__(self, random: np.random.Generator) -> None:
        self.random, self.spent, self.sends, self.rows = random, 0, b"", False

    def sendall(self, data: bytes) -> None:
        """Answer a question of the recorder."""
        kind, names = data[2], data[11:].split(b",")
        body = b"\x01"
        if kind == ord("O"):
            vectors = {b"target_q", b"target_qd", b"target_qdd", b"target_current", b"target_moment", b"actual_q",
                       b"actual_qd", b"actual_current", b"joint_temperatures"}  # fmt: skip
            kinds = [
                b"VECTOR6D" if x in vectors else b"INT32" if b"register" in x else b"UINT32" if x == b"runtime_state"
                else b"DOUBLE" for x in names
            ]  # fmt: skip
            body = b"\x01" + b",".join(kinds)
            self.format = ">B" + "".join({b"VECTOR6D": "6d", b"INT32": "i", b"UINT32": "I"}.get(x, "d") for x in kinds)
        self.rows = kind == ord("S")
        self.sends += struct.pack(">HB", 3 + len(body), kind) + body

    def recv(self, n: int) -> bytes:
        """Send what is waiting, or the next row, spoilt now and then."""
        if not self.sends and self.rows:
            count = sum(int(x or 1) for x in re.findall(r"(\d*)[dIi]", self.format[2:]))
            row = struct.pack(self.format, 1, *[1.0 if x < count - 2 else 1 for x in range(count)])
            data = struct.pack(">HB", 3 + len(row), ord("U")) + row
            changed = bool(self.random.random() > _GOOD)
            self.spent += changed
            self.sends = spoiled(data, self.random) if changed else data
        taken, self.sends = self.sends[:n], self.sends[n:]
        return taken

    def close(self) -> None:
        """End the connection."""


def recorder_escapes(packets: int, folder: Path, seed: int = 0) -> Iterator[str]:
    """Send mutated rows to the recorder, which may give up in a sentence; yield what else it does."""
    random, spent = np.random.default_rng(seed), 0
    while spent < packets:
        wire = RtdeController(random)
        path = folder / "rtde.csv"
        with patch.object(rtde_recorder.socket, "create_connection", lambda *_, wire=wire: wire):
            try:
                recorder = rtde_recorder.Recorder("127.0.0.1")
                watch = rtde_recorder.Watch(recorder.header, recorder.rate)
                rows = [row for row in islice(recorder.rows(), 200) if watch.see(row) is not None]
            except rtde_recorder.RecorderError:
                rows = []
            except Exception as error:
                yield f"urscript: raises {error!r} after packet {spent}"
                rows = []
        with path.open("w", newline="") as file:
            csv.writer(file).writerows([recorder.header, *rows])
        with path.open() as file:
            lengths = {len(row) for row in csv.reader(file)}
        if len(lengths) != 1:
            yield "urscript: the log's rows differ in length"
        spent += max(wire.spent, 1)
