"""The RSI server as a process of its own against a fake controller in real time: late, lost and silent packets."""

import heapq
import json
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from excitor.design.motion import Excitation, Trajectory
from excitor.design.programs.clients import rsi_server
from excitor.design.programs.krl.rsi import TARGET
from excitor.design.programs.plan import Move, Plan, Stretches, duration, planned
from excitor.design.programs.run_json import run_json
from excitor.design.programs.target import in_axes, to_axes
from excitor.robots.arrays import FloatArray
from excitor.robots.load import load

STEP = 4  # ms
SILENCE = 0.7  # s without a packet, after which some more are sent
AFTER = 0.6  # s of packets after it


@dataclass(slots=True)
class _Heard:
    """What came back."""

    sent: dict[int, float] = field(default_factory=dict)  # ipoc -> s
    answers: dict[int, tuple[FloatArray, float]] = field(default_factory=dict)  # ipoc -> corrections, s it took
    correction: FloatArray = field(default_factory=lambda: np.zeros(6))  # the last one: where the robot is


def measure(seconds: float, late: float, lost: float, seed: int) -> dict[str, float]:
    """Stream for a time, fall silent, send again: errors in deg, times in us, 1 for what happened, else 0.

    A late packet leaves the controller up to three cycles after its time, a lost one never.
    """
    plan = _plan(seconds)
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder, "loop.json")
        run.write_text(run_json(plan, TARGET), encoding="utf-8")
        command = [sys.executable, str(Path(rsi_server.__file__)), str(run), "--port", "0"]
        command += ["--listen", "127.0.0.1", "--controller", "127.0.0.1"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            try:
                assert process.stdout is not None
                port = int(process.stdout.readline().rsplit(" ", 1)[1])
                before, after = _talk(port, plan, list(_schedule(seconds, late, lost, seed)))
                told = process.communicate(timeout=20.0)[0]
            finally:
                process.kill()
        rows = len(Path(folder, "loop_log.csv").read_text(encoding="utf-8").splitlines()) - 1
    return _report(plan, before, after, rows, told)


def _schedule(seconds: float, late: float, lost: float, seed: int) -> Iterator[tuple[float, int]]:
    """List (when it leaves, number) of every packet that is sent."""
    random = np.random.default_rng(seed)
    for k in range(round(1e3 * seconds / STEP)):
        chance = random.uniform()
        if chance < lost and k:
            continue
        delayed = random.uniform(0.25, 3.0) * STEP if chance < lost + late else 0.0
        yield 1e-3 * (k * STEP + delayed), k


def _talk(port: int, plan: Plan, schedule: list[tuple[float, int]]) -> tuple[_Heard, _Heard]:
    first = 4_208_163_634
    home = in_axes(plan, TARGET).home
    before = _Heard()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as end:
        end.connect(("127.0.0.1", port))
        _send(end, before, schedule, first, home)
        time.sleep(SILENCE)
        after = _Heard(correction=before.correction)
        last = max(k for _, k in schedule) + round(1e3 * SILENCE / STEP)
        again = [(1e-3 * k * STEP, last + k) for k in range(round(1e3 * AFTER / STEP))]
        _send(end, after, again, first, home)
    return before, after


def _send(end: socket.socket, heard: _Heard, schedule: list[tuple[float, int]], first: int, home: FloatArray) -> None:
    """Send every packet at its time, and take answers in between."""
    waiting = list(schedule)
    heapq.heapify(waiting)
    begun = time.perf_counter()
    while waiting:
        due, k = waiting[0]
        left = begun + due - time.perf_counter()
        if left <= 0.0:
            heapq.heappop(waiting)
            ipoc = first + k * STEP
            axes = " ".join(f'A{k}="{x:.4f}"' for k, x in enumerate(home + heard.correction, start=1))
            packet = f'<Rob Type="KUKA"><AIPos {axes}/><Delay D="0"/><IPOC>{ipoc}</IPOC></Rob>'.encode()
            heard.sent[ipoc] = time.perf_counter()
            end.send(packet)
        _receive(end, heard, max(min(left, 1e-3), 1e-5))
    until = time.perf_counter() + 0.1
    while time.perf_counter() < until:
        _receive(end, heard, 0.02)


def _receive(end: socket.socket, heard: _Heard, wait: float) -> None:
    end.settimeout(wait)
    try:
        text = end.recv(4096).decode("ascii")
    except TimeoutError:
        return
    now = time.perf_counter()
    ipoc = int(text.partition("<IPOC>")[2].partition("<")[0])
    values = [float(text.partition(f' A{k}="')[2].partition('"')[0]) for k in range(1, 7)]
    heard.correction = np.array(values)
    if ipoc in heard.sent:
        heard.answers[ipoc] = (heard.correction, 1e6 * (now - heard.sent[ipoc]))


def _report(plan: Plan, before: _Heard, after: _Heard, rows: int, told: str) -> dict[str, float]:
    first = min(before.sent)
    ipocs = np.array(sorted(before.answers))
    found = np.array([before.answers[ipoc][0] for ipoc in ipocs])
    off = np.abs(found - _expected(plan, 1e-3 * (ipocs - first)))
    took = np.array([before.answers[ipoc][1] for ipoc in ipocs])
    held = np.array([after.answers[ipoc][0] for ipoc in sorted(after.answers)])
    return {
        "packets": float(len(before.sent)),
        "answered": float(len(ipocs)),
        "max_error_deg": float(off.max()),
        "turnaround_us_median": float(np.median(took)),
        "turnaround_us_p999": float(np.quantile(took, 0.999)),
        "turnaround_us_worst": float(took.max()),
        "logged": float(rows),
        "stopped": float("stopping: the controller was silent" in told),
        "answered_after_silence": float(len(held)),
        "resumed": float(np.abs(held - held[0]).max() > 0.0),
        "jump_after_silence_deg": float(np.abs(held[0] - found[-1]).max()),
    }


def _expected(plan: Plan, t: FloatArray) -> FloatArray:
    """Evaluate what the axes must be told, by the library and not by the server."""
    home = in_axes(plan, TARGET).home
    out, begin = np.zeros((len(t), 6)), rsi_server.REST
    for name in Stretches:
        length = duration(plan, name)
        inside = t >= begin - 0.5 * rsi_server.REST
        q = planned(plan, name, np.clip(t[inside] - begin, 0.0, length))
        out[inside] = to_axes(plan.robot, TARGET, q) - home
        begin += length + rsi_server.REST
    return out


def _plan(seconds: float) -> Plan:
    """Make a run that is still going on when the controller falls silent."""
    robot = load("kr150")
    center = np.array([0.0, -0.2, 0.3, 0.1, 0.4, 0.0])
    periods = max(1, int(np.ceil(seconds / 4.0)))
    excitation = Excitation(
        4.0, 0.004, (1, 2, 3, 4, 5), np.ones(6, dtype=bool), ramp=2.0, settle=0.4, hold=1.0, measured=periods
    )
    waves = 0.1 * np.random.default_rng(7).normal(size=(2, 6, 5)) / np.arange(1, 6)
    body = Trajectory(excitation, center, waves[0], waves[1])
    return Plan("loopback", "loop", "none", robot, center + 0.05, (Move(center, 0.6),), body, 0.004)


if __name__ == "__main__":
    print(json.dumps(measure(20.0, 0.05, 0.01, 1), indent=1))
