"""Streams one run to a FANUC controller with Stream Motion (J519) and logs what comes back. Needs Python 3.10 alone.

    python j519_client.py RUN.json --listen COMPUTER_ADDRESS --controller CONTROLLER_ADDRESS

Start the TP program of the run first; it waits for this client. Ctrl-C brings the robot to a halt.
"""

from __future__ import annotations

import argparse
import csv
import functools
import gc
import operator
import os
import signal
import socket
import sys
import time
from collections import deque

try:
    import j519_packets as packets
    from addresses import bound, parse
    from run_motion import Run, load
except ImportError:  # inside the package
    from excitor.design.programs.clients import j519_packets as packets
    from excitor.design.programs.clients.addresses import bound, parse
    from excitor.design.programs.clients.run_motion import Run, load

PORT = 60015
PERIODS = (0.002, 0.004, 0.008)  # s between packets: the controller tells which; the longest where it does not
AXES = packets.AXES
CLEAR = 0.1  # s in which packets of an interrupted session are thrown away
ALIGN = 1.0  # s, from where the robot stands exactly to the home pose
REST = 1.0  # s of standing still before and after the run
SLOWING = 0.3  # s in which the run's clock comes to a halt
MOST_LOST = 5  # steps from a status to the next that comes, at most
NEAR_HOME = 0.5  # deg of each axis
SILENCE = 1.0  # s without any packet after which nobody listens
ASTRAY = 5.0  # deg that an axis may be away from all commands of the last steps
LAG = 0.2  # s by which a robot may follow its commands late

STRETCHES = ("out", "main", "back")
_KINDS = ("velocity", "acceleration", "jerk")
_SETUP = ("clearing", "capability", "limits")
HEADER = [
    "time_stamp_ms", "sequence", "stretch", "part", "mark", *(f"command_J{k}_deg" for k in range(1, 7)),
    *(f"J{k}_deg" for k in range(1, 7)), *(f"current_J{k}_A" for k in range(1, 7)), "safety_scale",
]  # fmt: skip

Step = tuple[str, float, "list[float]"]  # stretch, s since its start, pose


class J519Client:
    """Answers the controller's packets.

    States: clearing, capability, limits, waiting, aligning, running, stopping or holding, last, done; or refused.
    """

    def __init__(self, run: Run, tool_speed: float | None = None, full_payload: float | None = None) -> None:
        if len(run.axes) != AXES or set(run.units) != {"deg"}:
            raise ValueError(f"the run has axes in {', '.join(run.units)}; this client drives {AXES} axes in deg")
        self.run = run
        self.tool_speed, self.full_payload = tool_speed, full_payload
        self._pace(PERIODS[-1])
        if any(len(pose) != AXES for _, _, pose in self.steps):
            raise ValueError(f"the run has poses of other than {AXES} axes")
        self.parts = [t for t, _ in run.marks]
        self.state, self.message = "clearing", ""
        self.tables: dict[tuple[int, int], packets.Table] = {}
        self.version = packets.VERSION  # of requests for limits
        self.interrupted = False  # from the keyboard
        self.opened = self.asked = 0.0  # when the first packet, and the last request, went out
        self.heard = 0.0  # when the last status came
        self.sequence = self.stamp = 0  # of the last status
        self.first: tuple[int, int] | None = None  # sequence and time stamp of the first status
        self.angles: list[float] = []  # that the stream told first
        self.begin: list[float] = []  # where the robot stands exactly
        self.k = 0  # steps of the present state so far
        self.slow_from = 0.0  # step at which the clock began to slow down
        self.pose: list[float] = []  # last commanded
        self.part = 0  # of the main stretch, so far
        self.rows: list[list[object]] = []

    def _pace(self, step: float) -> None:
        """Take the controller's period: list the commands, and how many of the last ones count."""
        self.step, self.steps = step, all_steps(self.run, step)
        self.told: deque[list[float]] = deque(maxlen=round(LAG / step))

    def start(self, now: float) -> list[bytes]:
        """End what an interrupted session may have left, whatever version it spoke."""
        self.opened = self.asked = self.heard = now
        return [packets.stop(version) for version in range(packets.OLDEST, packets.VERSION + 1)]

    def answer(self, packet: bytes, now: float) -> list[bytes]:
        """Answer a packet of the controller that came at `now`, s."""
        if self.state in ("done", "refused") or len(packet) < packets.HEAD.size:
            return []
        if self.state == "capability" and packets.capability(packet):
            return self._capability(packet, now)
        if self.state == "limits" and packets.limits(packet):
            return self._limits(packet, now)
        if self.state not in _SETUP and packets.STATUS.get(packets.HEAD.unpack_from(packet)[0]) == len(packet):
            return self._status(packets.Status(packet), now)
        return self.quiet(now)

    def quiet(self, now: float) -> list[bytes]:
        """Do what must be done when nothing came: go on, ask again, or give up."""
        if self.interrupted and self.state in (*_SETUP, "waiting"):
            return self._refuse("stopped from the keyboard")
        if self.interrupted:
            self.halt("stopped from the keyboard")
        if self.state in _SETUP:
            return self._set_up(now)
        if self.state == "waiting" and now - self.heard > 3.0 * SILENCE:
            return self._refuse("the controller sends no status; check the cable, the option J519 and its version")
        if self.state == "waiting" and self.first is None and now - self.asked > 0.5:
            self.asked = now
            return [packets.start()]
        if self.state in ("aligning", "running", "stopping", "holding", "last") and now - self.heard > SILENCE:
            if self.state != "last":
                self._say("the controller has fallen silent")
            self.state = "done"
            return [packets.stop()]
        return []

    def _set_up(self, now: float) -> list[bytes]:
        """Go through what comes before the stream; older controllers do not tell what they can do."""
        if now - self.opened > 10.0 * SILENCE:
            return self._refuse("the controller does not tell its limits; check its address and the J519 option")
        if self.state == "clearing" and now - self.opened > CLEAR:
            self.state, self.asked = "capability", now
            return [packets.ask_capability()]
        if self.state == "capability" and now - self.asked > 0.5:
            self.state, self.asked = "limits", now
            return [self._request()]
        if self.state == "limits" and now - self.asked > 0.1:
            if not self.tables and now - self.opened > 4.0 * SILENCE:
                self.version = packets.OLDEST
            self.asked = now
            return [self._request()]
        return []

    def _capability(self, packet: bytes, now: float) -> list[bytes]:
        period, version = packets.capability(packet) or (0, 0)
        if version < packets.VERSION:
            return self._refuse(f"the controller speaks version {version}, this client version {packets.VERSION}")
        if period:
            step = next((one for one in PERIODS if abs(1e-3 * period - one) <= 0.05 * one), None)
            if step is None:
                return self._refuse(f"the controller's period is {period:.2f} ms, the client's are 2, 4 and 8 ms")
            self._pace(step)
        self.state, self.asked = "limits", now
        return [self._request()]

    def halt(self, reason: str) -> None:
        """Come to a halt for good: the run's clock slows down, the path stays the same."""
        self._say(reason)
        if self.state == "running":
            self.state, self.slow_from, self.k = "stopping", float(self.k), 0
        elif self.state == "aligning":
            self.state = "holding"

    def _say(self, message: str) -> None:
        self.message = self.message or message

    def _refuse(self, message: str) -> list[bytes]:
        self._say(message)
        self.state = "refused"
        return [packets.stop()]

    def _request(self) -> bytes:
        n = len(self.tables)
        packet: bytes = packets.ask_limit(self.version, n // len(_KINDS) + 1, n % len(_KINDS))
        return packet

    def _limits(self, packet: bytes, now: float) -> list[bytes]:
        found = packets.limits(packet)
        if not found or found[0] != (len(self.tables) // len(_KINDS) + 1, len(self.tables) % len(_KINDS)):
            return self.quiet(now)
        self.tables[found[0]] = found[1]
        self.asked = now
        if len(self.tables) < AXES * len(_KINDS):
            return [self._request()]
        if broken := self.broken_limits():
            return self._refuse("; ".join(broken))
        self.state, self.heard = "waiting", now
        return [packets.start()]

    def limit(self, axis: int, kind: int) -> float:
        """Read the controller's limit: the lowest of all tool speeds and loads, unless they are known."""
        known = self.full_payload and self.run.payload is not None
        load = (self.run.payload or 0.0) / (self.full_payload or 1.0) if known else None
        return float(packets.lowest(self.tables[axis, kind], self.tool_speed, load))

    def broken_limits(self) -> list[str]:
        """Compare the commands, as the controller differentiates them, with its limits."""
        step, times = self.step, (*map(self.run.duration, STRETCHES), *self.parts)
        if any(abs(t - step * round(t / step)) > 1e-6 for t in times):
            return [f"the run's times are no multiples of {1e3 * step:g} ms; set design.controller_sample_s = {step:g}"]
        found = []
        for j in range(AXES):
            values = [pose[j] for _, _, pose in self.steps]
            for kind, name in enumerate(_KINDS):
                values = list(map(operator.sub, values[1:], values))
                peak, limit = max(map(abs, values), default=0.0) / self.step ** (kind + 1), self.limit(j + 1, kind)
                if peak > limit:
                    unit = f"deg/s{'' if kind == 0 else f'^{kind + 1}'}"
                    found.append(f"J{j + 1}: {name} of {peak:.1f} {unit}, the controller allows {limit:.1f}")
        return found

    def _status(self, status: packets.Status, now: float) -> list[bytes]:
        gap = (status.sequence - self.sequence) % 2**32 if self.first else 1
        if gap == 0 or gap > 2**31:
            return []  # late: a newer one was there before
        quiet = max(now - self.heard, 0.0)
        if self.first is None:
            self.first, self.angles = (status.sequence, status.stamp), status.joints
        self.sequence, self.stamp, self.heard = status.sequence, status.stamp, now
        if self.interrupted and self.state == "waiting":
            return self._refuse("stopped from the keyboard")
        if self.state == "waiting":
            return self._wait(status)
        if not status.bits & packets.WAITING or not status.bits & packets.READY:
            self._say(status.trouble or "the controller has ended the motion; read its alarm")
            self.state = "done"
            return [packets.stop()]
        if self.interrupted:
            self.halt("stopped from the keyboard")
        if status.scale != 1.0:
            self.halt(f"the controller slowed the motion down to {100.0 * status.scale:.0f} %")
        for reason in (status.trouble, self._astray(status.joints)):
            if reason:
                self.halt(reason)
        if gap > MOST_LOST or quiet > MOST_LOST * self.step + 0.5 * self.step:
            self.halt(f"no status for {max(gap * self.step, quiet):.3f} s")
            gap = 1
        return self._commands(gap, status)

    def _wait(self, status: packets.Status) -> list[bytes]:
        """Wait for the TP program, and look at the controller before anything moves."""
        assert self.first
        steps = (self.sequence - self.first[0]) % 2**32
        if not status.bits & packets.WAITING or not status.bits & packets.READY or steps * self.step < 0.08:
            return []
        period = 1e-3 * ((self.stamp - self.first[1]) % 2**32) / steps
        if abs(period - self.step) > 0.05 * self.step:
            return self._refuse(f"the controller's period is {1e3 * period:.2f} ms, not {1e3 * self.step:g} ms")
        if status.trouble:
            return self._refuse(status.trouble)
        if status.scale != 1.0:
            return self._refuse(f"the safety scale is {status.scale:g}; set the override to 100 %")
        away = [abs(a - b) for a, b in zip(status.joints, self.run.home, strict=True)]
        if max(away) > NEAR_HOME:
            axis = away.index(max(away)) + 1
            return self._refuse(f"J{axis} of the stream is {max(away):.2f} deg from home; move the robot there")
        self.begin, self.state = list(status.joints), "aligning"
        return self._commands(1, status)

    def _astray(self, joints: list[float]) -> str:
        """Say which axis is far from wherever it was told to be lately."""
        for j, angle in enumerate(joints):
            if self.pose and abs(angle - self.pose[j]) > ASTRAY:
                lately = [pose[j] for pose in self.told]
                off = max(min(lately) - angle, angle - max(lately))
                if off > ASTRAY:
                    return f"J{j + 1} is {off:.1f} deg from where it was told to be"
        return ""

    def _commands(self, n: int, status: packets.Status) -> list[bytes]:
        """Send the next n commands: one per period, those of lost packets as well."""
        outgoing = []
        if self.state == "last":
            self.state = "done"
            return [packets.stop()]
        seen = (*status.joints, *status.currents, status.scale)
        for back in range(n - 1, -1, -1):
            stretch, t, pose, last = self._next()
            part, mark = self._part(stretch, t)
            sequence = (self.sequence - back) % 2**32
            self.pose = pose
            self.told.append(pose)
            self.rows.append([self.stamp, sequence, stretch, part, mark, *pose, *seen])
            outgoing.append(packets.command(sequence, pose, last))
            if last:
                self.state = "last"
                break
        return outgoing

    def _next(self) -> tuple[str, float, list[float], bool]:
        """Say where to go next: the stretch, the time in it, the pose, and whether it is the last."""
        k, self.k = self.k, self.k + 1
        if self.state == "aligning":
            if k * self.step < ALIGN:
                s = k * self.step / ALIGN
                share = s * s * s * s * (35.0 - s * (84.0 - s * (70.0 - 20.0 * s)))
                pairs = zip(self.begin, self.run.home, strict=True)
                return "align", k * self.step, [a + share * (b - a) for a, b in pairs], False
            self.state, self.k, k = "running", 1, 0
        if self.state == "running":
            return *self.steps[k], k == len(self.steps) - 1
        if self.state == "stopping":
            x = min((k + 1) * self.step / SLOWING, 1.0)
            at = self.slow_from - 1.0 + SLOWING / self.step * x * (1.0 - x * x * (1.0 - 0.5 * x))
            return "stop", k * self.step, self._between(at), x >= 1.0
        return "stop", 0.0, self.pose, True

    def _between(self, at: float) -> list[float]:
        """Evaluate the run between two steps; over 8 ms a cubic is the run itself."""
        i = min(max(int(at), 1), len(self.steps) - 3)
        if i < 1:
            return self.steps[min(max(round(at), 0), len(self.steps) - 1)][2]
        x = at - i
        w = (
            -x * (x - 1) * (x - 2) / 6, (x + 1) * (x - 1) * (x - 2) / 2,
            -(x + 1) * x * (x - 2) / 2, (x + 1) * x * (x - 1) / 6,
        )  # fmt: skip
        near = self.steps[i - 1 : i + 3]
        return [sum(a * step[2][j] for a, step in zip(w, near, strict=True)) for j in range(AXES)]

    def _part(self, stretch: str, t: float) -> tuple[int, int]:
        """Say which part of the main stretch it is, from 1, and its mark."""
        if stretch != "main":
            self.part = 0
            return 0, {"out": 1, "back": 6}.get(stretch, 0)
        while self.part < len(self.parts) and t >= self.parts[self.part] - 0.5 * self.step:
            self.part += 1
        return self.part, self.run.marks[self.part - 1][1] if self.part else 0


@functools.lru_cache(maxsize=4)
def all_steps(run: Run, step: float) -> list[Step]:
    """List the commands from the home pose and back to it, one per period: once, however many clients stream them."""
    steps, pose = [], run.home
    for stretch in STRETCHES:
        n = round(run.duration(stretch) / step)
        moved = [run.at(stretch, k * step) for k in range(n + 1)] if n else []
        pose = moved[-1] if n else pose
        steps += [(stretch, k * step, q) for k, q in enumerate(moved)]
        steps += [("rest", k * step, pose) for k in range(1, round(REST / step))]
    return steps


def stream(client: J519Client, link: socket.socket) -> None:
    """Talk to the controller until the run is over."""
    link.settimeout(0.02)
    outgoing = client.start(time.monotonic())
    shown = False
    while True:
        for packet in outgoing:
            link.send(packet)
        if client.state in ("done", "refused"):
            return
        if client.angles and not shown:
            shown = True
            _show(client)
        try:
            packet = link.recv(2048)
        except (TimeoutError, ConnectionRefusedError):
            outgoing = client.quiet(time.monotonic())
        else:
            outgoing = client.answer(packet, time.monotonic())


def _show(client: J519Client) -> None:
    """Print the stream's angles: its J3 may differ from the pendant's by J2."""
    for title, pose in (("The stream says", client.angles), ("home is", client.run.home)):
        print(f"{title:>15}: {', '.join(f'J{j} {angle:.3f}' for j, angle in enumerate(pose, 1))} deg", flush=True)
    if abs(client.run.home[1]) < ASTRAY:
        print("J2 of home is near 0: home cannot tell whether J3 is the stream's. Compare at another pose.", flush=True)


def write_log(client: J519Client, path: str) -> None:
    """Write the log: what was commanded, and what the controller said at that time."""
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(HEADER)
        writer.writerows(client.rows)


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("run", help="the run's .json file")
    parser.add_argument("--port", type=int, default=PORT)
    parser.add_argument("--log", help="where the log goes; by default beside the run")
    parser.add_argument("--tool-speed", type=float, help="highest speed of the tool in the run, mm/s")
    parser.add_argument("--full-payload", type=float, help="what the robot may carry, kg")
    args = parse(parser)
    client = J519Client(load(args.run), args.tool_speed, args.full_payload)
    log = args.log or f"{os.path.splitext(args.run)[0]}_log.csv"
    signal.signal(signal.SIGINT, lambda *_: setattr(client, "interrupted", True))
    gc.disable()  # no pause for tidying up between two packets
    with bound(parser, args.listen, 0) as link:
        link.connect((args.controller, args.port))  # the operating system drops packets of other senders
        print("Limits, then waiting for the TP program ...")
        try:
            stream(client, link)
        finally:
            if client.rows:
                write_log(client, log)
                print(f"{len(client.rows)} rows in {log}")
    print(client.message or "Finished.")
    return 1 if client.message else 0


if __name__ == "__main__":
    sys.exit(main())
