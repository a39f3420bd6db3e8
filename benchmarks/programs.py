"""Benchmark of programs: mutations that must be caught, time of emitting and verifying, timing of streams.

The EGM client and the RSI server run in real time against a controller over loopback that is late, loses packets and
falls silent.
"""

import csv
import heapq
import importlib
import resource
import select
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.physics import reference_second
from excitor.design.motion import Excitation, line_run, periodic_run
from excitor.design.programs import registry
from excitor.design.programs.clients import egm_client, rsi_server
from excitor.design.programs.conformance import example
from excitor.design.programs.facts import RATES, facts_of
from excitor.design.programs.krl.rsi import TARGET as RSI
from excitor.design.programs.package import Package, package
from excitor.design.programs.plan import Plan, Stretches
from excitor.design.programs.rapid.egm import TARGET
from excitor.design.programs.rapid.egm_controller import FIRST_PACKET, FakeController, sensor_message
from excitor.design.programs.run_json import run_json
from excitor.design.programs.target import in_axes, to_axes
from excitor.design.programs.verify import aborts, verify
from excitor.experiments.campaign import open_campaign
from excitor.experiments.emit import CheckedPlan, Request, emit, own_files, plans_of
from excitor.experiments.figures import Figure, Report
from excitor.experiments.plan import design
from excitor.experiments.setup import Overrides, set_up, settings_of
from excitor.experiments.stages import write_all
from excitor.robots.arrays import FloatArray, one_blas_thread
from excitor.robots.errors import ExcitorError
from excitor.robots.load import load

LEAST = 25  # mutations of each target
FEW = 15  # of them in a run that is not full
SPACINGS = {"krl": 0.025}  # s between points, where the target's own breaks a limit of the short run
SHORT = """robot = "{robot}"
home_deg = {home}
[payload]
mass = 1.0
center = [0.0, 0.0, 0.05]
inertia = [0.002, 0, 0, 0.002, 0, 0.002]
[design]
schedule = "single"
base_frequency_hz = 0.5
harmonics = 3
ramp_s = 1.0
settle_s = 0.4
hold_s = 0.4
warm_up_periods = 1
measured_periods = 2
controller_sample_s = 0.008
"""
HOME = [10.0, 20.0, -30.0, 15.0, 25.0, -20.0, 5.0]  # deg: all different, so that swapping any two is an error
LONG = """robot = "tx40"
[design]
schedule = "single"
measured_periods = 10
controller_sample_s = 0.008
"""


def run(full: bool = False) -> Report:
    """Measure mutations, cost and streams; `full` tries every mutation and streams for 20 s, else a part of it."""
    figures: list[Figure] = []
    context: dict[str, Any] = {}
    with one_blas_thread(), tempfile.TemporaryDirectory(prefix="excitor-bench-") as folder:
        parts = (
            ("mutations", mutations), ("aborts", stops), ("clients", packets), ("limits", unsaid), ("cost", cost),
            *((("all targets", every_target),) if full else ()),
        )  # fmt: skip
        for name, part in parts:
            start = time.process_time()
            measured = part(Path(folder), full)
            figures += measured["figures"]
            context[name] = {**measured["context"], "cpu_s": round(time.process_time() - start, 1)}
    measured = streams(full)
    return Report("bench", "programs", [*figures, *measured["figures"]], context | {"streams": measured["context"]})


def mutations(folder: Path, full: bool) -> dict[str, Any]:
    """Change each target's programs in many ways, and count how often `verify` notices; no digest helps it."""
    total, caught, passing = 0, 0, 0
    told: dict[str, Any] = {}
    for name in registry.NAMES:
        robot = "iiwa" if registry.target(name).joints == 7 else "tx40"
        made, judged = short_package(folder / robot, robot, name)
        base = list(noticed(made, judged, [("base", made.texts)]))
        passing += not base[0][1]
        found = [*noticed(made, judged, mutated(made, full)), *(emitted(made, judged, full))]
        missed, count = [label for label, noticed in found if not noticed], len(found)
        told[name] = {"mutations": count, "missed": missed}
        total, caught = total + count, caught + count - len(missed)
    return {
        "figures": [
            Figure(
                "programs.mutations_total",
                float(total),
                "",
                float((LEAST if full else FEW) * len(registry.NAMES)),
                "at least",
            ),
            Figure("programs.mutations_caught", float(caught), "", float(total), "equal"),
            Figure("programs.mutants_caught_percent", 100.0 * caught / total, "%", 100.0, "at least"),
            Figure("programs.base_passes", float(passing), "", float(len(registry.NAMES)), "equal"),
        ],
        "context": told,
    }


def stops(folder: Path, full: bool) -> dict[str, Any]:
    """Run each target's example into what it watches, at random moments: which conditions it fails."""
    wrong: dict[str, list[str]] = {}
    moments, tried = 20 if full else 2, 0
    for name in registry.NAMES:
        watched = [each for each in registry.target(name).conditions.values() if each.does]
        if watched:
            made = package(registry.emitter(name), [example(registry.target(name))])
            tried += len(watched) * moments
            program = made.programs[0]
            given = (program.plan, made.target, registry.executor(name), made.texts, program.name, moments)
            wrong[name] = list(aborts(*given))
    failed = sum(map(len, wrong.values()))
    percent = 100.0 * (1.0 - failed / tried)
    return {
        "figures": [Figure("programs.aborts_ok_percent", percent, "%", 100.0, "at least")],
        "context": {"moments": moments, "wrong": wrong},
    }


def unsaid(folder: Path, full: bool) -> dict[str, Any]:
    """Count the limits of joints that a target's page gives without saying that they hold, are exceeded or unknown."""
    missing = []
    for name in registry.NAMES:
        robot = "iiwa" if registry.target(name).joints == 7 else "tx40"
        judged = short_package(folder / robot, robot, name)[1]
        assert judged.judge.constraints is not None
        facts = facts_of(judged.plan, judged.judge.constraints)
        said = {line.key for line in facts.lines if line.state in ("holds", "exceeded", "unknown")}
        joints = range(judged.plan.robot.n_joints)
        missing += [f"{name}: {kind} {j}" for kind in ("position", *RATES) for j in joints if (kind, j) not in said]
    return {
        "figures": [Figure("programs.unsaid_limits", float(len(missing)), "", 0.0, "equal")],
        "context": {"missing": missing, "full": full},
    }


def packets(folder: Path, full: bool) -> dict[str, Any]:
    """Send mutated packets through each streaming client."""
    source = importlib.import_module("tests.packets")
    count = 100_000 if full else 2000
    found = {name: list(source.escapes(name, count, folder)) for name in source.NAMES}
    found["urscript"] = list(source.recorder_escapes(count, folder))
    escaped = float(sum(map(len, found.values())))
    return {
        "figures": [Figure("programs.client_escapes", escaped, "", 0.0, "equal")],
        "context": {name: sentences[:3] for name, sentences in found.items()},
    }


def cost(folder: Path, full: bool) -> dict[str, Any]:
    """Emit and verify a 10 s, 10-period design of six joints for every target that can drive it."""
    where, second = _designed(folder / "long", LONG), reference_second()
    start = time.process_time()
    _, made = emit(where, Request(registry.NAMES, approximate=True, loss=1.0, allow=("no-go",)), lambda _: None)
    spent = time.process_time() - start
    bad = [one.refused for one in made if one.folder is None and one.name != "franka"]
    script = where / "programs" / "urscript" / "excitation.script"
    size = float(script.stat().st_size) if script.exists() else float("nan")
    executed = sum(len(one.verified.verdicts) for one in made if one.verified is not None)  # programs of all targets
    source = Path(registry.__file__).parent
    lines = sum(len(file.read_text("utf-8").splitlines()) for file in source.rglob("*.py"))
    return {
        "figures": [
            Figure("programs.emit_verify_cpu_s", spent / second, "reference s", 60.0, "at most"),
            Figure("programs.emit_verify_s", spent / second / executed, "reference s", 3.0, "at most"),  # a program
            Figure("programs.lines", float(lines), "lines", 18_000.0, "at most"),
            Figure("programs.refused", float(len(bad)), "", 0.0, "equal"),
            Figure("programs.urscript_bytes", size, "bytes", 6000.0, "at most"),
        ],
        "context": {"refused": bad, "written": [one.name for one in made if one.folder is not None], "full": full},
    }


def every_target(folder: Path, full: bool) -> dict[str, Any]:
    """Emit the default campaign of the UR10, three runs, for all targets, in a process of its own."""
    where = folder / "everything"
    for words in (("init", where, "--robot", "ur10"), ("design", where, "--evaluations", 3000)):
        _excitor(*words)
    before, second = resource.getrusage(resource.RUSAGE_CHILDREN), reference_second()
    _excitor("emit", where, "--target", "all", "--allow", "no-go")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    second = 0.5 * (second + reference_second())  # as it was before and after
    sizes = {each.name: sum(file.stat().st_size for file in each.rglob("*")) for each in (where / "programs").iterdir()}
    return {
        "figures": [
            Figure("programs.emit_all_s", spent / second, "reference s", 40.0, "at most"),
            Figure("programs.emit_all_mb", 1e-6 * sum(sizes.values()), "MB", 12.0, "at most"),
            Figure("programs.emit_all_memory_mb", 1.024e-3 * after.ru_maxrss, "MB", 800.0, "at most"),  # of any verb
        ],
        "context": {"bytes": sizes, "cpu_s": spent, "reference_second": second, "full": full},
    }


def _excitor(*words: object) -> None:
    command = [sys.executable, "-m", "excitor.experiments.cli", *map(str, words)]
    subprocess.run(command, check=True, capture_output=True)


def streams(full: bool) -> dict[str, Any]:
    """Stream to fake controllers over loopback in real time, some packets late and some lost."""
    figures: list[Figure] = []
    told: dict[str, Any] = {}
    for name, measured in (("egm", measure_egm), ("rsi", measure_rsi)):
        found = measured(20.0 if full else 3.0, 0.05, 0.01, 0)
        told[name] = found
        figures += [
            Figure(f"programs.{name}.error_deg", found["max_error_deg"], "deg", 1e-4, "at most"),
            Figure(f"programs.{name}.stops_on_silence", float(found["stopped"]), "", 1.0, "equal"),
            Figure(f"programs.{name}.resumes_by_itself", float(found["resumed"]), "", 0.0, "equal"),
            Figure(f"programs.{name}.turnaround_us", found["turnaround_us_median"], "µs"),
            Figure(f"programs.{name}.turnaround_us_p999", found["turnaround_us_p999"], "µs"),
        ]
    return {"figures": figures, "context": told}


def noticed(
    made: Package, judged: CheckedPlan, changed: Iterable[tuple[str, Mapping[str, str]]]
) -> Iterator[tuple[str, bool]]:
    """Yield for each changed program whether its execution shows the change."""
    executor, name = registry.executor(made.target.name), made.programs[0].name
    for label, files in changed:
        own = own_files(files, name, [name], made.target)
        verdict = verify(judged.plan, made.target, executor, files=own, name=name, judge=judged.judge)
        yield label, not verdict.good


def emitted(made: Package, judged: CheckedPlan, full: bool) -> Iterator[tuple[str, bool]]:
    """Change emitters, records and clients, write the program again, and tell whether its execution shows it."""
    source = importlib.import_module("tests.mutations.emitters")
    name = made.target.name
    changes = source.CHANGES[name]
    for change in changes if full else changes[:3]:
        with source.applied(name, change):
            try:
                again = package(registry.emitter(name), [judged.plan], SPACINGS.get(name))
            except ExcitorError:
                yield change[0], True
            else:
                yield change[0], all(each for _, each in noticed(made, judged, [(change[0], again.texts)]))


def mutated(made: Package, full: bool) -> Iterator[tuple[str, Mapping[str, str]]]:
    """Yield every mutation; a run that is not full uses the first of each target."""
    module = made.target.name.replace("-", "_")
    source = importlib.import_module(f"tests.mutations.{module}")
    yield from islice(source.mutations(made.texts, made.programs[0].name), None if full else FEW)


def short_package(folder: Path, robot: str, name: str) -> tuple[Package, CheckedPlan]:
    """Write the program of one short run, not its dry run."""
    where = (
        folder
        if (folder / "design.json").exists()
        else _designed(folder, SHORT.format(robot=robot, home=HOME[: load(robot).n_joints]))
    )
    judged = next(one for one in plans_of(open_campaign(where, "design")).programs if not one.plan.dry)
    return package(registry.emitter(name), [judged.plan], SPACINGS.get(name)), judged


def _designed(folder: Path, text: str) -> Path:
    folder.mkdir(parents=True)
    (folder / "campaign.toml").write_text(text, "utf-8")
    setup = set_up(open_campaign(folder, "design"))
    write_all(design(setup, settings_of(setup.design, Overrides(evaluations=2000))))
    return folder


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
        """Send a packet every 4 ms, and receive answers meanwhile."""
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


def measure_egm(seconds: float, late: float, lost: float, seed: int) -> dict[str, float | str | bool]:
    """Stream for some time, fall silent, send again: errors in deg, times in µs, as measured here."""
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
                before = len(robot.commanded)
                time.sleep(2.0 * egm_client.SILENCE)
                wire.run(_AFTER)
                said = process.communicate(timeout=10.0)[0]
            finally:
                process.kill()
        return _found(plan, wire, log, {
            "resumed": float(len(robot.commanded) - before > 0),
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
    """Compute planned positions t s after the first packet, deg: a second at home, the way out, a rest, the run."""
    axes = in_axes(plan, TARGET)
    way = plan.out.duration
    begun = egm_client.ALIGN + way + egm_client.REST
    out = axes.out.at(np.clip(t - egm_client.ALIGN, 0.0, way))
    return np.where((t < begun)[:, None], out, axes.body.at(np.maximum(t - begun, 0.0)))


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
    body = periodic_run(excitation, start, sines, cosines, robot.joint_names)
    return Plan("bench", "egm", "none", robot, line_run(robot.joint_names, _STEP, np.array([home, start]), [0.4]), body)


STEP = 4  # ms
SILENCE = 0.7  # s without a packet, after which some more are sent
AFTER = 0.6  # s of packets after it


@dataclass(slots=True)
class _Heard:
    """Received answers."""

    sent: dict[int, float] = field(default_factory=dict)  # ipoc -> s
    answers: dict[int, tuple[FloatArray, float]] = field(default_factory=dict)  # ipoc -> corrections, s it took
    correction: FloatArray = field(default_factory=lambda: np.zeros(6))  # the last one: where the robot is


def measure_rsi(seconds: float, late: float, lost: float, seed: int) -> dict[str, float]:
    """Stream for a time, fall silent, send again: errors in deg, times in us, 1 for passed checks, else 0.

    A late packet leaves the controller up to three cycles after its time, a lost one never.
    """
    plan = _rsi_plan(seconds)
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder, "loop.json")
        run.write_text(run_json(plan, RSI), encoding="utf-8")
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
    home = in_axes(plan, RSI).home
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
    """Send every packet at its time, and receive answers in between."""
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
    """Compute the commanded axis positions by the library and not by the server."""
    home = in_axes(plan, RSI).home
    out, begin = np.zeros((len(t), 6)), rsi_server.REST
    for name in Stretches:
        length = plan.stretch(name).duration
        inside = t >= begin - 0.5 * rsi_server.REST
        q = plan.stretch(name).at(np.clip(t[inside] - begin, 0.0, length))
        out[inside] = to_axes(plan.robot, RSI, q) - home
        begin += length + rsi_server.REST
    return out


def _rsi_plan(seconds: float) -> Plan:
    """Plan a run that is still active when the controller falls silent."""
    robot = load("kr150")
    center = np.array([0.0, -0.2, 0.3, 0.1, 0.4, 0.0])
    periods = max(1, int(np.ceil(seconds / 4.0)))
    excitation = Excitation(
        4.0, 0.004, (1, 2, 3, 4, 5), np.ones(6, dtype=bool), ramp=2.0, settle=0.4, hold=1.0, measured=periods
    )
    waves = 0.1 * np.random.default_rng(7).normal(size=(2, 6, 5)) / np.arange(1, 6)
    body = periodic_run(excitation, center, waves[0], waves[1], robot.joint_names)
    return Plan(
        "loopback",
        "loop",
        "none",
        robot,
        line_run(robot.joint_names, 0.004, np.array([center + 0.05, center]), [0.6]),
        body,
    )
