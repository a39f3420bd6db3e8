"""Streams one run to a FANUC controller with Stream Motion (J519) and logs what comes back. Needs Python 3.10 alone.

    python j519_client.py RUN.json ROBOT_ADDRESS [--log RUN_log.csv] [--tool-speed MM_S] [--full-payload KG]

Start the TP program of the run first; it waits for this client. Ctrl-C brings the robot to a halt.
"""

from __future__ import annotations

import argparse
import csv
import gc
import itertools
import os
import signal
import socket
import struct
import sys
import time
from collections.abc import Iterator

try:
    from run_motion import Run, load
except ImportError:  # inside the package
    from excitor.design.programs.clients.run_motion import Run, load

PORT = 60015
STEP = 0.008  # s between packets
AXES = 6
ALIGN = 1.0  # s, from where the robot stands exactly to the home pose
REST = 1.0  # s of standing still before and after the run
SLOWING = 0.3  # s in which the run's clock comes to a halt
MOST_LOST = 5  # packets in a row that may be lost
NEAR_HOME = 1.0  # deg: two joints that are 0.5 deg off, where J3 follows J2
SILENCE = 1.0  # s without any packet after which nobody listens

VERSION = 3
STOP, LIMITS, START, COMMAND = 2, 3, 200, 201
STATUS = {202: 388, 204: 416}  # packet type -> bytes
_HEAD = struct.Struct(">II")
_REQUEST = struct.Struct(">IIII")
_TABLE = struct.Struct(">IIIIII20f20f")
_STATUS = struct.Struct(">IIIBBBBI9f9f9ff")
_COMMAND = struct.Struct(">IIIBBH9d256x")
_KINDS = ("velocity", "acceleration", "jerk")
_WAITING, _READY = 1, 4  # status bits
HEADER = [
    "time_stamp_ms", "sequence", "stretch", "part", "mark", *(f"command_J{k}_deg" for k in range(1, 7)),
    *(f"J{k}_deg" for k in range(1, 7)), *(f"current_J{k}_A" for k in range(1, 7)), "safety_scale",
]  # fmt: skip

Step = tuple[str, float, "list[float]"]  # stretch, s since its start, pose


class J519Client:
    """Answers the controller's packets.

    States: limits, waiting, aligning, running, stopping or holding, last, done; or refused.
    """

    def __init__(self, run: Run, tool_speed: float | None = None, full_payload: float | None = None) -> None:
        if len(run.axes) != AXES or set(run.units) != {"deg"}:
            raise ValueError(f"the run has axes in {', '.join(run.units)}; this client drives {AXES} axes in deg")
        self.run = run
        self.tool_speed, self.full_payload = tool_speed, full_payload
        self.steps: list[Step] = list(_steps(run))
        if any(len(pose) != AXES for _, _, pose in self.steps):
            raise ValueError(f"the run has poses of other than {AXES} axes")
        self.parts = [t for t, _ in run.marks]
        self.state, self.message = "limits", ""
        self.tables: dict[tuple[int, int], tuple[float, list[float], list[float]]] = {}
        self.interrupted = False  # from the keyboard
        self.opened = self.asked = 0.0  # when the first and the last request for limits went out
        self.heard = 0.0  # when the last status came
        self.sequence = self.stamp = 0  # of the last status
        self.first: tuple[int, int] | None = None  # sequence and time stamp of the first status
        self.begin: list[float] = []  # where the robot stands exactly
        self.k = 0  # steps of the present state so far
        self.slow_from = 0.0  # step at which the clock began to slow down
        self.pose: list[float] = []  # last commanded
        self.part = 0  # of the main stretch, so far
        self.rows: list[list[object]] = []

    def start(self, now: float) -> list[bytes]:
        """Open the connection."""
        self.opened = self.asked = self.heard = now
        return [_HEAD.pack(START, VERSION), self._request()]

    def answer(self, packet: bytes, now: float) -> list[bytes]:
        """Answer a packet of the controller that came at `now`, s."""
        if self.state in ("done", "refused") or len(packet) < _HEAD.size:
            return []
        kind, version = _HEAD.unpack_from(packet)
        if kind == LIMITS and len(packet) == _TABLE.size:
            return self._limits(packet, now)
        if STATUS.get(kind) == len(packet):
            return self._status(packet, now)
        if len(packet) < 300:
            return self._refuse(f"the controller speaks version {version} of the protocol, this client {VERSION}")
        return []

    def quiet(self, now: float) -> list[bytes]:
        """Do what must be done when nothing came: ask again, or give up."""
        if self.interrupted:
            self.halt("stopped from the keyboard")
        if self.state == "limits" and now - self.opened > 10.0 * SILENCE:
            return self._refuse("the controller does not tell its limits; check its address and the J519 option")
        if self.state == "limits" and now - self.asked > 0.1:
            self.asked = now
            return [_HEAD.pack(START, VERSION), self._request()]
        if self.state in ("aligning", "running", "stopping", "holding", "last") and now - self.heard > SILENCE:
            if self.state != "last":
                self._say("the controller has fallen silent")
            self.state = "done"
            return [_HEAD.pack(STOP, VERSION)]
        return []

    def halt(self, reason: str) -> None:
        """Come to a halt for good: the run's clock slows down, the path stays the same."""
        self._say(reason)
        if self.state == "running":
            self.state, self.slow_from, self.k = "stopping", float(self.k), 0
        elif self.state == "aligning":
            self.state = "holding"
        elif self.state in ("limits", "waiting"):
            self.state = "refused"

    def _say(self, message: str) -> None:
        self.message = self.message or message

    def _refuse(self, message: str) -> list[bytes]:
        self._say(message)
        self.state = "refused"
        return [_HEAD.pack(STOP, VERSION)]

    def _request(self) -> bytes:
        n = len(self.tables)
        return _REQUEST.pack(LIMITS, VERSION, n // len(_KINDS) + 1, n % len(_KINDS))

    def _limits(self, packet: bytes, now: float) -> list[bytes]:
        _, _, axis, kind, fastest, _, *values = _TABLE.unpack(packet)
        wanted = (len(self.tables) // len(_KINDS) + 1, len(self.tables) % len(_KINDS))
        if self.state != "limits" or (axis, kind) != wanted:
            return []
        self.tables[axis, kind] = (float(fastest), values[:20], values[20:])
        self.asked = now
        if len(self.tables) < AXES * len(_KINDS):
            return [self._request()]
        broken = self.broken_limits()
        if broken:
            return self._refuse("; ".join(broken))
        self.state = "waiting"
        return []

    def limit(self, axis: int, kind: int) -> float:
        """Read the controller's limit: the lowest of all tool speeds and loads, unless they are known."""
        fastest, empty, full = self.tables[axis, kind]
        entries = range(20)
        if self.tool_speed is not None and fastest > 0.0:
            entries = range(min(20, int(20.0 * self.tool_speed / fastest) + 1))
        low, high = (min(table[i] for i in entries) for table in (empty, full))
        if self.full_payload and self.run.payload is not None:
            share: float = min(max(self.run.payload / self.full_payload, 0.0), 1.0)
            return low + share * (high - low)
        return min(low, high)

    def broken_limits(self) -> list[str]:
        """Compare the commands, as the controller differentiates them, with its limits."""
        found = []
        for j in range(AXES):
            values = [pose[j] for _, _, pose in self.steps]
            for kind, name in enumerate(_KINDS):
                values = [(b - a) / STEP for a, b in itertools.pairwise(values)]
                peak, limit = max(map(abs, values), default=0.0), self.limit(j + 1, kind)
                if peak > limit:
                    unit = f"deg/s{'' if kind == 0 else f'^{kind + 1}'}"
                    found.append(f"J{j + 1}: {name} of {peak:.1f} {unit}, the controller allows {limit:.1f}")
        return found

    def _status(self, packet: bytes, now: float) -> list[bytes]:
        _, _, sequence, bits, _, _, _, stamp, *values = _STATUS.unpack_from(packet)
        joints, currents, scale = values[9 : 9 + AXES], values[18 : 18 + AXES], values[27]
        if self.state == "limits":
            self.heard = now
            return self.quiet(now)
        gap = (sequence - self.sequence) % 2**32 if self.first else 1
        if gap == 0 or gap > 2**31:
            return []  # late: a newer one was there before
        quiet = max(now - self.heard, 0.0)
        if self.first is None:
            self.first = (sequence, stamp)
        self.sequence, self.stamp, self.heard = sequence, stamp, now
        if self.interrupted and self.state == "waiting":
            return self._refuse("stopped from the keyboard")
        if self.state == "waiting":
            return self._wait(bits, joints, currents, scale)
        if not bits & _WAITING or not bits & _READY:
            self._say("the controller has ended the motion; read its alarm")
            self.state = "done"
            return [_HEAD.pack(STOP, VERSION)]
        if self.interrupted:
            self.halt("stopped from the keyboard")
        if scale != 1.0:
            self.halt(f"the controller slowed the motion down to {100.0 * scale:.0f} %")
        if gap > MOST_LOST or quiet > MOST_LOST * STEP + 0.5 * STEP:
            self.halt(f"no status for {max(gap * STEP, quiet):.3f} s")
            gap = 1
        return self._commands(gap, joints, currents, scale)

    def _wait(self, bits: int, joints: list[float], currents: list[float], scale: float) -> list[bytes]:
        """Wait for the TP program, and look at the controller before anything moves."""
        assert self.first
        steps = (self.sequence - self.first[0]) % 2**32
        if not bits & _WAITING or not bits & _READY or steps < 10:
            return []
        period = 1e-3 * ((self.stamp - self.first[1]) % 2**32) / steps
        if abs(period - STEP) > 0.05 * STEP:
            return self._refuse(f"the controller's period is {1e3 * period:.2f} ms, the run is for {1e3 * STEP:g} ms")
        if scale != 1.0:
            return self._refuse(f"the safety scale is {scale:g}; set the override to 100 %")
        away = [abs(a - b) for a, b in zip(joints, self.run.home, strict=True)]
        if max(away) > NEAR_HOME:
            axis = away.index(max(away)) + 1
            return self._refuse(f"J{axis} is {max(away):.2f} deg from home; move the robot there")
        self.begin, self.state = list(joints), "aligning"
        return self._commands(1, joints, currents, scale)

    def _commands(self, n: int, joints: list[float], currents: list[float], scale: float) -> list[bytes]:
        """Send the next n commands: one per period, those of lost packets as well."""
        packets = []
        if self.state == "last":
            self.state = "done"
            return [_HEAD.pack(STOP, VERSION)]
        for back in range(n - 1, -1, -1):
            stretch, t, pose, last = self._next()
            part, mark = self._part(stretch, t)
            sequence = (self.sequence - back) % 2**32
            self.pose = pose
            self.rows.append([self.stamp, sequence, stretch, part, mark, *pose, *joints, *currents, scale])
            packets.append(_COMMAND.pack(COMMAND, VERSION, sequence, last, 1, 0, *pose, 0.0, 0.0, 0.0))
            if last:
                self.state = "last"
                break
        return packets

    def _next(self) -> tuple[str, float, list[float], bool]:
        """Say where to go next: the stretch, the time in it, the pose, and whether it is the last."""
        k, self.k = self.k, self.k + 1
        if self.state == "aligning":
            if k * STEP < ALIGN:
                s = k * STEP / ALIGN
                share = s * s * s * s * (35.0 - s * (84.0 - s * (70.0 - 20.0 * s)))
                pairs = zip(self.begin, self.run.home, strict=True)
                return "align", k * STEP, [a + share * (b - a) for a, b in pairs], False
            self.state, self.k, k = "running", 1, 0
        if self.state == "running":
            return *self.steps[k], k == len(self.steps) - 1
        if self.state == "stopping":
            x = min((k + 1) * STEP / SLOWING, 1.0)
            at = self.slow_from - 1.0 + SLOWING / STEP * x * (1.0 - x * x * (1.0 - 0.5 * x))
            return "stop", k * STEP, self._between(at), x >= 1.0
        return "stop", 0.0, self.pose, True

    def _between(self, at: float) -> list[float]:
        """Evaluate the run between two steps; over 8 ms a cubic is the run itself."""
        i = min(max(int(at), 1), len(self.steps) - 3)
        if i < 1:
            return self.steps[min(max(round(at), 0), len(self.steps) - 1)][2]
        x = at - i
        w = (
            -x * (x - 1) * (x - 2) / 6,
            (x + 1) * (x - 1) * (x - 2) / 2,
            -(x + 1) * x * (x - 2) / 2,
            (x + 1) * x * (x - 1) / 6,
        )
        near = self.steps[i - 1 : i + 3]
        return [sum(a * step[2][j] for a, step in zip(w, near, strict=True)) for j in range(AXES)]

    def _part(self, stretch: str, t: float) -> tuple[int, int]:
        """Say which part of the main stretch it is, from 1, and its mark."""
        if stretch != "main":
            self.part = 0
            return 0, {"out": 1, "back": 6}.get(stretch, 0)
        while self.part < len(self.parts) and t >= self.parts[self.part] - 0.5 * STEP:
            self.part += 1
        return self.part, self.run.marks[self.part - 1][1] if self.part else 0


def _steps(run: Run) -> Iterator[Step]:
    """List the commands from the home pose and back to it, one per period."""
    pose = run.home
    rest = round(REST / STEP)
    for stretch in ("out", "main", "back"):
        n = round(run.duration(stretch) / STEP)
        if n:
            for k in range(n + 1):
                pose = run.at(stretch, k * STEP)
                yield stretch, k * STEP, pose
        for k in range(1, rest):
            yield "rest", k * STEP, pose


def stream(client: J519Client, link: socket.socket) -> None:
    """Talk to the controller until the run is over."""
    link.settimeout(0.02)
    outgoing = client.start(time.monotonic())
    while True:
        for packet in outgoing:
            link.send(packet)
        if client.state in ("done", "refused"):
            return
        try:
            packet = link.recv(2048)
        except (TimeoutError, ConnectionRefusedError):
            outgoing = client.quiet(time.monotonic())
        else:
            outgoing = client.answer(packet, time.monotonic())


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
    parser.add_argument("robot", help="the controller's address")
    parser.add_argument("--port", type=int, default=PORT)
    parser.add_argument("--log", help="where the log goes; by default beside the run")
    parser.add_argument("--tool-speed", type=float, help="highest speed of the tool in the run, mm/s")
    parser.add_argument("--full-payload", type=float, help="what the robot may carry, kg")
    args = parser.parse_args()
    client = J519Client(load(args.run), args.tool_speed, args.full_payload)
    log = args.log or f"{os.path.splitext(args.run)[0]}_log.csv"
    signal.signal(signal.SIGINT, lambda *_: setattr(client, "interrupted", True))
    gc.disable()  # no pause for tidying up between two packets
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as link:
        link.connect((args.robot, args.port))
        print("Limits, then waiting for the TP program ...")
        stream(client, link)
    if client.rows:
        write_log(client, log)
        print(f"{len(client.rows)} rows in {log}")
    print(client.message or "Finished.")
    return 1 if client.message else 0


if __name__ == "__main__":
    sys.exit(main())
