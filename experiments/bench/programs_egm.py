"""How the EGM client does in real time: a controller over loopback UDP is late, loses packets and falls silent.

The client runs as a process of its own, as it does beside a robot; the controller is imitated here, at 250 Hz.
"""

import csv
import heapq
import select
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from excitor.design.motion import Excitation, Trajectory
from excitor.design.programs.clients import egm_client
from excitor.design.programs.plan import Move, Plan, planned
from excitor.design.programs.rapid.egm import TARGET
from excitor.design.programs.rapid.egm_controller import FIRST_PACKET, FakeController, sensor_message
from excitor.design.programs.run_json import run_json
from excitor.design.programs.target import in_axes
from excitor.robots.arrays import FloatArray
from excitor.robots.load import load

_STEP = 0.004  # s
_LATEST = 3  # steps that a packet may be late
_ROBOT = "tx40"
_AFTER = 0.5  # s for which the controller sends again after its silence


@dataclass(slots=True)
class _Wire:
    """The controller's end: some packets and answers are late, some are lost."""

    sock: socket.socket
    peer: tuple[str, int]
    robot: FakeController
    late: float
    lost: float
    random: np.random.Generator
    sent: dict[int, float] = field(default_factory=dict)  # packet -> when, those in time
    turnaround: list[float] = field(default_factory=list)  # s
    delivered: dict[int, list[float]] = field(default_factory=dict)  # packet -> joints
    outgoing: list[tuple[float, int, bytes]] = field(default_factory=list)

    def run(self, seconds: float) -> None:
        """Send a packet every 4 ms, take answers meanwhile."""
        start = time.perf_counter()
        for k in range(round(seconds / _STEP)):
            self._send(self.robot.packet(), FIRST_PACKET + self.robot.sent - 1)
            self._until(start + (k + 1) * _STEP)

    def _send(self, packet: bytes, number: int) -> None:
        draw, now = self.random.random(), time.perf_counter()
        if draw < self.lost:
            return
        if draw < self.lost + self.late:
            heapq.heappush(self.outgoing, (now + self.random.uniform(0.0, _LATEST * _STEP), number, packet))
            return
        self.sock.sendto(packet, self.peer)
        self.sent[number] = now

    def _until(self, end: float) -> None:
        while True:
            now = time.perf_counter()
            while self.outgoing and self.outgoing[0][0] <= now:
                self.sock.sendto(heapq.heappop(self.outgoing)[2], self.peer)
            due = min([end, *(item[0] for item in self.outgoing[:1])])
            if now >= end:
                return
            if select.select([self.sock], [], [], max(due - now, 0.0))[0]:
                self._take(self.sock.recv(4096))

    def _take(self, answer: bytes) -> None:
        number = sensor_message(answer)[0]
        if number in self.sent:
            self.turnaround.append(time.perf_counter() - self.sent[number])
        if self.random.random() < self.lost:
            return
        self.robot.take(answer)
        self.delivered[number] = self.robot.reference


def measure(seconds: float, late: float, lost: float, seed: int) -> dict[str, float | str | bool]:
    """Stream for some time, then fall silent, then send again: errors in deg, times in µs, as measured here."""
    plan = _plan(seconds)
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        run, log = Path(folder) / "run.json", Path(folder) / "log.csv"
        run.write_text(run_json(plan, TARGET))
        command = [sys.executable, egm_client.__file__, str(run), "--port", "0"]
        command += ["--listen", "127.0.0.1", "--controller", "127.0.0.1"]
        with subprocess.Popen([*command, "--log", str(log)], stdout=subprocess.PIPE, text=True) as process:
            try:
                assert process.stdout is not None
                port = int(process.stdout.readline().split("port ")[1].split(";")[0])
                robot = FakeController([float(x) for x in in_axes(plan, TARGET).home])
                sock.bind(("127.0.0.1", 0))
                wire = _Wire(sock, ("127.0.0.1", port), robot, late, lost, np.random.default_rng(seed))
                wire.run(seconds)
                before = len(robot.told)
                time.sleep(2.0 * egm_client.SILENCE)
                wire.run(_AFTER)
                said = process.communicate(timeout=10.0)[0]
            finally:
                process.kill()
        return _found(plan, wire, log, {
            "resumed": float(len(robot.told) - before > 0),
            "stopped": process.returncode == 1 and "stopped: no packet" in said,
        })  # fmt: skip


def _found(plan: Plan, wire: _Wire, log: Path, told: dict[str, float | str | bool]) -> dict[str, float | str | bool]:
    with log.open() as file:
        rows = list(csv.DictReader(file))
    packets = np.array([int(row["packet"]) for row in rows])
    here = np.array([float(row["computer_s"]) for row in rows])
    on_time = np.isin(packets, list(wire.sent))
    beat = np.diff(here[on_time]) - _STEP * np.diff(packets[on_time])
    numbers = np.array(sorted(wire.delivered))
    wanted = _due(plan, (numbers - packets[0]) * _STEP)
    off = np.abs(np.array([wire.delivered[int(k)] for k in numbers]) - wanted)
    return {
        "packets": float(wire.robot.sent),
        "delivered": float(len(numbers)),
        "logged": float(len(rows)),
        "max_error_deg": float(off.max()),
        "turnaround_us_median": 1e6 * float(np.median(wire.turnaround)),
        "turnaround_us_p999": 1e6 * float(np.quantile(wire.turnaround, 0.999)),
        "jitter_us_median": 1e6 * float(np.median(np.abs(beat))),
        "jitter_us_p999": 1e6 * float(np.quantile(np.abs(beat), 0.999)),
        **told,
    }


def _due(plan: Plan, t: FloatArray) -> FloatArray:
    """Where the joints must be t s after the first packet, deg: a second at home, the way out, a rest, the run."""
    axes = in_axes(plan, TARGET)
    way = sum(move.duration for move in plan.out)
    begun = egm_client.ALIGN + way + egm_client.REST
    out = planned(axes, "out", np.clip(t - egm_client.ALIGN, 0.0, way))
    return np.where((t < begun)[:, None], out, planned(axes, "main", np.maximum(t - begun, 0.0)))


def _plan(seconds: float) -> Plan:
    """Plan a run that is longer than the controller sends."""
    robot = load(_ROBOT)
    n, random = robot.n_joints, np.random.default_rng(5)
    home = np.zeros(n)
    start = home + 0.1
    excitation = Excitation(
        2.0, _STEP, (1, 2, 3, 4, 5), np.ones(n, dtype=bool), ramp=0.4, settle=0.2, hold=0.2, warm_up=0,
        measured=int(np.ceil(seconds / 2.0)) + 1,
    )  # fmt: skip
    sines, cosines = 0.05 * random.normal(size=(2, n, 5)) / np.arange(1, 6)
    body = Trajectory(excitation, start, sines, cosines)
    return Plan("bench", "egm", "none", robot, home, (Move(start, 0.4),), body, _STEP)
