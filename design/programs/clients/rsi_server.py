"""Stream a run to a KUKA controller with RSI: answer every packet with the axes' distance from home. Needs Python 3.10.

    python rsi_server.py excitation.json --listen COMPUTER_ADDRESS --controller CONTROLLER_ADDRESS

Start it before the program on the controller. It listens at one address, the IP_NUMBER of the controller's
configuration, and to one controller; packets of other senders are counted and not answered. It starts only if the robot
stands at home, follows the controller's own clock, and stops for good if packets stay away or come too late, or if the
axes do not follow. The log is written when the controller is silent again.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import math
import re
import socket
import sys
import time
import xml.etree.ElementTree as ET
from collections import deque
from typing import Any, NamedTuple

try:
    from addresses import bound, parse
    from run_motion import Run, load
except ImportError:  # inside the package
    from excitor.design.programs.clients.addresses import bound, parse
    from excitor.design.programs.clients.run_motion import Run, load

PORT = 59152
SENDER = "Excitor"  # SENTYPE of the controller's configuration
REST = 1.0  # s that the robot stands between the stretches
NEAR = 0.5  # deg: from home, to be allowed to start
TRACKING = 3.0  # deg by which a measured axis may be off all that it was told in LAG
LAG = 200  # ms
SLOWEST = 12  # ms between packets
OUT, BACK, END = 1, 6, 7  # marks of the log, beside those of the run
_LARGEST = 4096  # bytes of a packet


class Packet(NamedTuple):
    """What the controller says."""

    ipoc: int  # ms on its clock
    actual: list[float]  # deg
    currents: list[float]
    delay: int  # answers that came too late


def read_packet(data: bytes, n_axes: int) -> Packet | None:
    """Read a packet; None for anything else. Declarations are refused, so that no entity is ever expanded."""
    if len(data) > _LARGEST or not data.startswith(b"<Rob") or b"<!" in data:
        return None
    try:
        root = ET.fromstring(data)
        names = [f"A{k}" for k in range(1, n_axes + 1)]
        actual = [float(root.find("AIPos").attrib[name]) for name in names]  # type: ignore[union-attr]
        found = root.find("MACur")
        currents = [float(found.attrib[name]) for name in names] if found is not None else []
        late = root.find("Delay")
        ipoc = int(root.findtext("IPOC", ""))
        delay = int(late.attrib["D"]) if late is not None else 0
    except (ET.ParseError, AttributeError, KeyError, ValueError):
        return None
    if ipoc < 0 or not all(map(math.isfinite, actual + currents)):
        return None
    return Packet(ipoc, actual, currents, delay)


class RsiServer:
    """Answers packets: what the axes are told is a function of the controller's clock alone."""

    def __init__(
        self, run: Run, gap: int = 5, slowing: float = 0.3, silence: float = 0.5, tracking: float = TRACKING
    ) -> None:
        if len(run.axes) != 6 or set(run.units) != {"deg"}:
            raise ValueError("RSI corrects six axes in degrees; emit the run for krl-rsi")
        self.run = run
        self.gap = gap  # steps to the next packet, at most; or late ones in a row
        self.slowing = slowing  # s in which the run's clock comes to a stop
        self.silence = silence  # s
        self.tracking = tracking  # deg
        self.state = "waiting"  # running, stopping, refused, done
        self.reason = ""
        self.stretch = ""
        self.mark = 0
        self.time = 0.0  # s of the run's clock; it slows down when the server stops
        self.elapsed = 0.0  # s of the present stretch, by that clock
        self.rows: list[tuple[Any, ...]] = []
        self.malformed = self.strangers = 0  # packets that were not answered
        self._parts = self._timeline()
        self._first = self._last = -1  # ms of the controller's clock
        self._heard = 0.0  # s of our clock
        self._step = SLOWEST  # ms, until packets show a faster one
        self._delay = self._late = 0
        self.told: deque[tuple[int, list[float]]] = deque()  # ms of the controller's clock, pose
        self._stopped = (0, 0.0)  # ms of the controller's clock and s of the run's when the server began to stop
        self._eased = 0.0  # share of `slowing` that has passed since; it never falls

    def answer(self, data: bytes, now: float) -> bytes | None:
        """Answer a packet that came at `now` s; None if it is none."""
        packet = read_packet(data, len(self.run.axes))
        if packet is None:
            self.malformed += 1
            return None
        if self._first < 0:
            self._begin(packet)
        else:
            self._watch(packet, now)
        self._last, self._heard = max(self._last, packet.ipoc), now
        self._delay = packet.delay
        pose: list[float] = self._pose(packet.ipoc)
        self.told.append((packet.ipoc, pose))
        self.rows.append((packet.ipoc - self._first, self.mark, pose, packet.actual, packet.currents))
        axes = " ".join(
            f'A{k}="{x - home:.9f}"' for k, (x, home) in enumerate(zip(pose, self.run.home, strict=True), 1)
        )
        stop = int(self.state == "done")
        return f'<Sen Type="{SENDER}"><AK {axes} /><Stop>{stop}</Stop><IPOC>{packet.ipoc}</IPOC></Sen>'.encode()

    def stop(self, reason: str, held: bool = False) -> None:
        """Stop for good: smoothly, or where the robot was told to be last, if it has been held there for long."""
        if self.state in ("waiting", "running"):
            self.state, self.reason = "stopping", reason
            self._stopped = (self._last, self.time)
            self.slowing = 0.0 if held else self.slowing

    def ended(self, now: float) -> bool:
        """Tell whether nobody will ask again; silence while running is a reason to stop."""
        if self._first < 0:
            return False
        silent = now - self._heard
        if silent > self.silence:
            self.stop(f"the controller was silent for more than {self.silence:g} s", held=True)
        return silent > self.silence + 1.0

    def _begin(self, packet: Packet) -> None:
        self._first = packet.ipoc
        away = max(abs(x - home) for x, home in zip(packet.actual, self.run.home, strict=True))
        if away > NEAR:
            self.state, self.reason = (
                "refused",
                f"an axis is {away:.2f} degrees from home; at most {NEAR:g} are allowed",
            )

    def _watch(self, packet: Packet, now: float) -> None:
        """Stop if packets stayed away, came late too often, or the controller's clock jumped."""
        missing = packet.ipoc - self._last
        if missing > 0:
            self._step = min(self._step, missing)
        self._late = self._late + 1 if packet.delay > self._delay else 0
        if self.state not in ("waiting", "running"):
            return
        if abs(missing) > self.gap * self._step:
            # Without an answer the controller has held the last correction: from there on, and not from where the
            # run would be by now. Where it stood as long as stopping takes, it stays.
            self.stop(
                f"{abs(missing)} ms of the controller's clock are missing, at most {self.gap * self._step} may",
                held=abs(missing) >= 1e3 * self.slowing,
            )
            self._stopped = (packet.ipoc, self.time)
        elif now - self._heard > self.silence:
            self.stop(f"the controller was silent for more than {self.silence:g} s", held=True)
        elif self._late > self.gap:
            self.stop(f"{self._late} answers in a row came too late")
        else:
            self._follow(packet)

    def _follow(self, packet: Packet) -> None:
        """Stop if an axis is far from all that it was told lately: it was stopped, or its corrections are cut off.

        How late an axis follows depends on the controller; inside of the range of late commands it follows.
        """
        while len(self.told) > 1 and packet.ipoc - self.told[0][0] > LAG:
            self.told.popleft()
        for k, (axis, actual) in enumerate(zip(self.run.axes, packet.actual, strict=True)):
            if abs(actual - self.told[-1][1][k]) <= self.tracking:
                continue
            told = [pose[k] for _, pose in self.told]
            off = max(min(told) - actual, actual - max(told))
            if off > self.tracking:
                self.stop(f"{axis} is {off:.2f} degrees off what it is told; at most {self.tracking:g} are allowed")
                return

    def _pose(self, ipoc: int) -> list[float]:
        """Say where the axes must be when the controller's clock shows `ipoc`."""
        if self.state in ("refused", "done"):
            self.mark, self.stretch = END if self.state == "done" else 0, ""
            return list(self.run.home)
        self.time = self._eased_time(ipoc) if self.state == "stopping" else 1e-3 * (ipoc - self._first)
        for begin, length, stretch in self._parts:
            if self.time < begin + length + REST - 1e-7:
                return self._inside(stretch, self.time - begin, length)
        if self.state != "stopping":
            self.state = "done"
        self.mark, self.stretch = END, ""
        return list(self.run.home)

    def _eased_time(self, ipoc: int) -> float:
        """Let the run's clock come to a stop: its rate is 1 - x^3 (10 - 15 x + 6 x^2)."""
        begin, at = self._stopped
        if self.slowing <= 0.0:
            return at
        self._eased = x = min(max(1e-3 * (ipoc - begin) / self.slowing, self._eased), 1.0)
        return at + self.slowing * (x - x**4 * (2.5 - x * (3.0 - x)))

    def _inside(self, stretch: str, t: float, length: float) -> list[float]:
        """Say where the axes must be t seconds into a stretch, or while they rest before or after it."""
        if self.state == "waiting" and t >= 0.0:
            self.state = "running"
        moving = -1e-9 <= t <= length + 1e-7
        self.elapsed = t
        self.stretch = stretch if moving else ""
        self.mark = 0 if not moving else {"out": OUT, "back": BACK}.get(stretch) or self.run.mark(t)
        pose: list[float] = self.run.at(stretch, min(max(t, 0.0), length))
        return pose

    def _timeline(self) -> list[tuple[float, float, str]]:
        """List when each stretch begins, and how long it takes; the robot stands before and after it."""
        parts, t = [], REST
        for stretch in ("out", "main", "back"):
            length = self.run.duration(stretch)
            if length > 0.0:
                parts.append((t, length, stretch))
                t += length + REST
        return parts

    def table(self) -> str:
        """Write the log as CSV."""
        names = [*self.run.axes]
        heads = ["time_s", "mark", "period"]
        heads += [f"{kind}_{name}" for kind in ("reference", "actual", "current") for name in names]
        lines = [",".join(heads)]
        for ms, mark, pose, actual, currents in self.rows:
            period = mark - 1000 if mark >= 1000 else mark - 100 if mark >= 100 else 0
            values = [f"{x:.9f}" for x in pose] + [f"{x:.6f}" for x in actual]
            values += [f"{x:.6f}" for x in currents] or [""] * len(names)
            lines.append(f"{1e-3 * ms:.3f},{mark},{period}," + ",".join(values))
        return "\n".join(lines) + "\n"


def serve(server: RsiServer, port: socket.socket, controller: str) -> None:
    """Answer the controller until it is silent again; other senders, also a second port of it, are counted."""
    port.settimeout(0.1)
    sender: Any = None
    while True:
        try:
            if server.ended(time.monotonic()):
                return
            data, source = port.recvfrom(_LARGEST + 1)
            if source != (sender or (controller, source[1])):
                server.strangers += 1
                if server.strangers == 1:
                    told = f"packets of {source[0]}, port {source[1]}, are ignored; the controller is {controller}"
                    print(told, flush=True)
                continue
            reply = server.answer(data, time.monotonic())
            if reply is not None:
                sender = source
                port.sendto(reply, source)
        except (TimeoutError, ConnectionResetError):
            pass
        except KeyboardInterrupt:
            if server.state not in ("waiting", "running") or sender is None:
                return
            server.stop("stopped by the operator")


def write_log(server: RsiServer, path: str) -> str:
    """Write the log beside older ones, never over them."""
    stem = re.sub(r"\.csv$", "", path)
    for k in range(1, 10_000):
        free = f"{stem}.csv" if k == 1 else f"{stem}_{k}.csv"
        with contextlib.suppress(FileExistsError), open(free, "x", encoding="utf-8", newline="") as file:
            file.write(server.table())
            return free
    raise OSError(f"there are too many logs named {path}")


def main() -> int:
    """Serve one run."""
    parser = argparse.ArgumentParser(description="Stream a run to a KUKA controller with RSI.")
    parser.add_argument("run", help="the run's .json file")
    parser.add_argument("--port", type=int, default=PORT)
    parser.add_argument("--gap", type=int, default=5, help="steps to the next packet, at most")
    parser.add_argument(
        "--tracking", type=float, default=TRACKING, help="degrees that an axis may be off what it is told"
    )
    parser.add_argument("--log", help="CSV file; default: the run's name with _log.csv")
    given = parse(parser)
    server = RsiServer(load(given.run), given.gap, tracking=given.tracking)
    gc.disable()  # a collection in the middle of a run makes an answer late
    with bound(parser, given.listen, given.port) as port:
        print(f"waiting for {given.controller} at {given.listen} on port {port.getsockname()[1]}", flush=True)
        try:
            serve(server, port, given.controller)
        finally:
            if server.rows:
                print(f"log: {write_log(server, given.log or re.sub('[.]json$', '', given.run) + '_log.csv')}")
    told = server.reason or ("the run is complete" if server.state == "done" else "the run was not completed")
    ignored = f"{server.malformed} not understood, {server.strangers} of other senders"
    print(f"{server.state}: {told}; {len(server.rows)} packets answered, {ignored}")
    return 0 if server.state == "done" else 1


if __name__ == "__main__":
    sys.exit(main())
