"""Streams one run to an ABB controller by Externally Guided Motion, and logs what comes back. Needs Python 3.10 alone.

    python egm_client.py run.json --listen COMPUTER_ADDRESS --controller CONTROLLER_ADDRESS

Start it first, then the RAPID program. It listens at one address and to one controller; packets of other senders, and
packets that cannot be read, are counted and not answered. The controller sends a packet every 4 ms; each is answered
with where the joints must be, as a function of the controller's own time: its packets are numbered. Until guided motion
runs, the answer is where the joints are. Whatever is wrong, also joints that do not follow, the client slows down along
the path, falls silent and never goes on by itself; the controller then stops by its time-out.
"""

from __future__ import annotations

import argparse
import gc
import math
import os
import signal
import socket
import sys
import time
from bisect import bisect_right
from collections import deque

try:
    from addresses import bound, parse
    from egm_packets import Robot, command
    from run_motion import Run, load
except ImportError:  # inside the package
    from excitor.design.programs.clients.addresses import bound, parse
    from excitor.design.programs.clients.egm_packets import Robot, command
    from excitor.design.programs.clients.run_motion import Run, load

PORT = 6510
STEP = 0.004  # s between the controller's packets, \SampleRate:=4
ALIGN = 1.0  # s in which the commands go from where the robot stands to home
REST = 1.0  # s at standstill before and after the run
SLOWING = 0.3  # s in which a stop slows the motion to nothing, along its path
HOLDING = 0.5  # s of standing still, before the client falls silent
AT_HOME = 0.5  # deg: how far from home the robot may stand at the start
TRACKING = 3.0  # deg by which a joint may be off all that it was told in the last LAG packets
LAG = 50
GAP = 5  # steps from a packet to the next that comes, at most: one less may be missing in a row
SILENCE = 0.1  # s without a packet that can be read
OUT, BACK, END, WARM_UP, MEASURED = 1, 6, 7, 100, 1000  # marks, as in the programs of other controllers

_MOVING = ("out", "main", "back")


class EgmClient:
    """What to answer to each packet. States: waiting, align, out, rest, main, back, done, stopped."""

    def __init__(self, run: Run, *, gap: int = GAP, torque: int = 0, tracking: float = TRACKING) -> None:
        self.run, self.gap, self.torque, self.tracking = run, gap, torque, tracking
        self.state, self.reason = "waiting", ""
        self.heard = 0.0  # computer's time at which a packet of the controller could be read, s
        self.unreadable = self.strangers = 0  # packets that were not answered for that reason
        self.rows: list[tuple[int, float, str, int, list[float], bytes]] = []
        self.parts: list[tuple[int, str]] = []  # first step, state
        at = 0
        for state in ("align", "out", "rest", "main", "rest", "back"):
            seconds = ALIGN if state == "align" else REST if state == "rest" else run.duration(state)
            steps = round(seconds / STEP)
            if abs(steps * STEP - seconds) > 1e-6:
                raise ValueError(f"{state} takes {seconds:g} s, no whole number of steps of {STEP:g} s")
            if steps:
                self.parts.append((at, state))
            at += steps
        self.parts.append((at, "done"))
        _check_joined(run)
        self._firsts = [first for first, _ in self.parts]
        self._marks = [t for t, _ in run.marks]
        self._offset = [0.0] * len(run.home)
        self._first = self._last = self.steps = 0
        self._window = (0, 0)  # packet and ms, since when the controller's clock is watched
        self.told: deque[list[float]] = deque(maxlen=LAG)
        self._slow: tuple[float, int] | None = None  # step at which a stop began, and packets since

    def answer(self, packet: bytes, now: float) -> bytes | None:
        """Say what the controller must be told now; None: nothing. `now`: the computer's time, for the log, s."""
        try:
            robot = Robot(packet)
        except ValueError as error:
            self.unreadable += 1
            if self.state == "waiting":
                self.reason = str(error)
            return None
        self.heard = now
        if self.state == "stopped":
            return None
        if self.state == "waiting":
            if not self._begins(robot):
                return None
            if not robot.runs:  # it may wait for answers before it runs; nothing moves, and the clock stands
                self.reason = "the controller's guided motion does not run yet"
                held: bytes = command(robot.sequence, robot.ms, robot.position)
                return held
        elif not self._goes_on(robot):
            return None
        state, position, mark = self._at(self._moment())
        if self.state == "stopped":
            return None
        self.state = state
        self.rows.append((self.steps, now, state, mark, position, packet))
        self.told.append(position)
        reply: bytes = command(robot.sequence, robot.ms, position)
        return reply

    def stop(self, reason: str) -> None:
        """Slow down along the path, stand, and fall silent for good."""
        if self._slow is None and self.state not in ("waiting", "done", "stopped"):
            self.reason, self._slow = reason, (float(self.steps), 0)
        elif self.state == "waiting":
            self.silent(reason)

    def silent(self, reason: str) -> None:
        """Answer nothing any more; after the run's end this is how it must be."""
        if self.state not in ("done", "stopped"):
            self.state, self.reason = "stopped", self.reason or reason

    @property
    def slowing(self) -> bool:
        """Whether a stop has begun."""
        return self._slow is not None

    def _begins(self, robot: Robot) -> bool:
        away = [q - home for q, home in zip(robot.position, self.run.home, strict=True)]
        self.reason = _switched_off(robot)
        for name, off in zip(self.run.axes, away, strict=True):
            if not abs(off) <= AT_HOME:
                self.reason = f"{name} stands {off:+.3f} deg from home, allowed is {AT_HOME:g} deg"
        if self.reason:
            return False
        self._offset, self._first, self._last = away, robot.sequence, robot.sequence
        self._window = (robot.sequence, robot.ms)
        return True

    def _goes_on(self, robot: Robot) -> bool:
        ahead = _difference(robot.sequence, self._last)
        if ahead <= 0:
            return False  # late or sent twice: what it asks has been answered
        trouble = _switched_off(robot)
        if robot.state(5) in (1, 2):
            trouble = trouble or "the controller's guided motion does not run any more"
        if trouble:
            self.silent(trouble)
            return False
        self._last = robot.sequence
        if self._slow is not None:
            self._slow = (self._slow[0], self._slow[1] + (ahead if ahead <= self.gap else 1))
        elif self.state == "done":
            return True
        elif ahead > self.gap:
            self.stop(f"{ahead - 1} packets of the controller were lost in a row")
            self._slow = (float(self.steps), 1)
        elif not self._clock_agrees(robot):
            self.stop(f"the controller's packets are not {1e3 * STEP:g} ms apart; set SampleRate to {1e3 * STEP:g}")
            self._slow = (float(self.steps), 1)
        elif away := self._lost(robot):
            self.stop(away)
            self._slow = (float(self.steps), 1)
        if self._slow is None:
            self.steps = _difference(robot.sequence, self._first)
        return True

    def _lost(self, robot: Robot) -> str:
        """Say which joint is far from all that it was told lately; how late a joint follows is the controller's."""
        for k, (name, q) in enumerate(zip(self.run.axes, robot.position, strict=True)):
            if self.told and not abs(q - self.told[-1][k]) <= self.tracking:
                told = [pose[k] for pose in self.told]
                off = max(min(told) - q, q - max(told))
                if not off <= self.tracking:
                    return f"{name} is {off:.2f} deg off what it is told, allowed is {self.tracking:g} deg"
        return ""

    def _clock_agrees(self, robot: Robot) -> bool:
        """Compare the numbers of packets with their time stamps, over a second at a time."""
        n, ms = _difference(robot.sequence, self._window[0]), _difference(robot.ms, self._window[1])
        if n * STEP >= 1.0:
            self._window = (robot.sequence, robot.ms)
        return abs(ms - 1e3 * n * STEP) < 1e3 * (self.gap + 1) * STEP - 0.5

    def _moment(self) -> float:
        """Tell the step of the run that is due; its clock slows down when the client stops."""
        if self._slow is None:
            return float(self.steps)
        begin, n = self._slow
        u = min(n * STEP / SLOWING, 1.0)
        if n * STEP > SLOWING + HOLDING:
            self.state = "stopped"
        return begin + SLOWING / STEP * (u - u**4 * (2.5 - u * (3.0 - u)))

    def _at(self, step: float) -> tuple[str, list[float], int]:
        """Look up state, position and mark at a step of the run; both ends of a stretch belong to it."""
        k = bisect_right(self._firsts, step) - 1
        if k and step == self._firsts[k] and self.parts[k - 1][1] in _MOVING:
            k -= 1
        first, state = self.parts[k]
        t = (step - first) * STEP
        if state == "align":
            u = t / ALIGN
            left = 1.0 - u**3 * (10.0 - u * (15.0 - 6.0 * u))
            return state, [q + left * off for q, off in zip(self.run.home, self._offset, strict=True)], 0
        if state == "rest":
            return state, list(self.run.start), 0
        if state == "done":
            return state, list(self.run.home), END
        if state == "main":
            return state, self.run.at(state, t), self.run.marks[bisect_right(self._marks, t + 1e-9) - 1][1]
        return state, self.run.at(state, t), OUT if state == "out" else BACK


def _switched_off(robot: Robot) -> str:
    """Say what is off; a state that is undefined, or not told, is none that would be wrong."""
    if robot.state(4) == 2:
        return "the controller's motors are off"
    if robot.state(8) == 1:
        return "the RAPID program has stopped"
    return ""


def _difference(later: int, earlier: int) -> int:
    """Subtract counters of 32 bits, which begin again at 0."""
    return (later - earlier + 2**31) % 2**32 - 2**31


def _check_joined(run: Run) -> None:
    """Refuse a run that jumps from one stretch to the next."""
    if len(run.home) != 6:
        raise ValueError(f"the run moves {len(run.home)} axes, this client six")
    ends = [run.home, run.at("out", 0.0), run.at("out", run.duration("out")), run.at("main", 0.0)]
    ends += [run.at("main", run.duration("main")), run.at("back", 0.0), run.at("back", run.duration("back")), run.home]
    for before, after in zip(ends[::2], ends[1::2], strict=True):
        if not max(abs(a - b) for a, b in zip(before, after, strict=True)) <= 1e-6:
            raise ValueError("the run jumps between its stretches; emit the programs again")


def write_log(client: EgmClient, path: str) -> None:
    """Write everything that was answered, and what the controller told, as CSV."""
    robots = [Robot(packet) for *_, packet in client.rows]
    extra = {"test": 7, "force": 9, **({"torque": client.torque} if client.torque else {})}
    widths = {name: max((len(robot.numbers(k)) for robot in robots), default=0) for name, k in extra.items()}
    names = client.run.axes
    head = ["time_s", "controller_ms", "packet", "computer_s", "phase", "mark", "period"]
    head += [f"{kind}_{name}_deg" for kind in ("ref", "pos", "planned") for name in names]
    head += ["motors_on", "egm_running", "utilization_percent"]
    head += [f"{name}_{i + 1}" for name, width in widths.items() for i in range(width)]
    with open(path, "w", encoding="utf-8", newline="\n") as file:
        file.write(",".join(head) + "\n")
        for (_, now, state, mark, position, _), robot in zip(client.rows, robots, strict=True):
            t = STEP * _difference(robot.sequence, robots[0].sequence)
            period = mark - MEASURED if mark > MEASURED else mark - WARM_UP if mark > WARM_UP else 0
            cells = [f"{t:.3f}", str(robot.ms), str(robot.sequence), f"{now:.6f}", state, str(mark), str(period)]
            numbers = [*position, *robot.position, *(robot.planned or [math.nan] * len(names))]
            cells += [f"{x:.9f}" for x in numbers]
            cells += [str(int(robot.state(4) == 1)), str(int(robot.state(5) == 3)), f"{robot.utilization:.6g}"]
            for name, width in widths.items():
                found = robot.numbers(extra[name])
                cells += [f"{x:.9g}" for x in found + [math.nan] * (width - len(found))]
            file.write(",".join(cells) + "\n")


def receive(sock: socket.socket, client: EgmClient, controller: str) -> None:
    """Take one packet and answer it; packets of other senders than the controller are counted."""
    packet, sender = sock.recvfrom(4096)
    if sender[0] != controller:
        client.strangers += 1
        if client.strangers == 1:
            print(f"packets of {sender[0]} are ignored; the controller is {controller}", flush=True)
        return
    reply = client.answer(packet, time.perf_counter())
    if reply is not None:
        sock.sendto(reply, sender)


def serve(sock: socket.socket, client: EgmClient, controller: str) -> None:
    """Answer the controller's packets until the run is over or has stopped."""
    told = ("", "")
    sock.settimeout(SILENCE)
    while client.state != "stopped":
        heard = client.heard
        try:
            receive(sock, client, controller)
        except TimeoutError:
            pass
        except OSError as error:
            client.silent(f"the network fails: {error}")
        silent = client.heard == heard and time.perf_counter() - heard >= SILENCE
        if silent and client.state != "waiting":
            if client.state == "done":
                return
            client.silent(f"no packet of the controller came for {SILENCE:g} s")
        if (client.state, client.reason) != told:
            told = (client.state, client.reason)
            print(": ".join(filter(None, told)), flush=True)


def main() -> int:
    """Run from the command line; 0 where the run came to its end."""
    parser = argparse.ArgumentParser(description="Stream a run to an ABB controller by EGM.")
    parser.add_argument("run", help="the run's .json file")
    parser.add_argument("--port", type=int, default=PORT, help=f"UDP port to listen at ({PORT})")
    parser.add_argument("--gap", type=int, default=GAP, help=f"steps to the next packet, at most ({GAP})")
    parser.add_argument("--tracking", type=float, default=TRACKING, help="deg that a joint may be off what it is told")
    parser.add_argument("--torque-field", type=int, default=0, help="number of torqueRef in your egm.proto, to log it")
    parser.add_argument("--log", default=None, help="CSV file to write; it must not exist")
    given = parse(parser)
    log = given.log or f"{os.path.splitext(given.run)[0]}_{time.strftime('%Y%m%d_%H%M%S')}.csv"
    with bound(parser, given.listen, given.port) as sock:
        try:
            with open(log, "x"):  # now rather than after the run
                pass
        except OSError as error:
            print(f"the log cannot be written: {error}", file=sys.stderr)
            return 2
        client = EgmClient(load(given.run), gap=given.gap, torque=given.torque_field, tracking=given.tracking)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: client.stop("stopped from this computer"))
        where = f"for {given.controller} at {given.listen}, port {sock.getsockname()[1]}"
        print(f"waiting {where}; Ctrl-C slows the robot down and stops it", flush=True)
        gc.disable()  # a pause of the collector is a late answer
        try:
            serve(sock, client, given.controller)
        finally:
            gc.enable()
            write_log(client, log)
            print(f"not answered: {client.unreadable} packets not understood, {client.strangers} of other senders")
            print(f"{client.state}{': ' + client.reason if client.reason else ''}; log: {log}", flush=True)
    return 0 if client.state == "done" else 1


if __name__ == "__main__":
    sys.exit(main())
