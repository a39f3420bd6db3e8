"""Record a Universal Robots controller over RTDE to a CSV file. Needs Python 3.10 alone.

    python3 rtde_recorder.py 192.168.0.10 run.csv

Start it before the program asks for the recorder. It says when it is ready, refuses a speed slider below 100 %, tells
when the controller scales the speed down, and stops by itself after the run, or where the program gives up.
Interrupt it with Ctrl-C at any time: the robot program does not notice.
"""

from __future__ import annotations

import argparse
import csv
import socket
import struct
import sys
from collections.abc import Iterator
from typing import Any

PORT, TIMEOUT = 30004, 5.0  # s
FIELDS = (
    "timestamp",
    "target_q",
    "target_qd",
    "target_qdd",
    "target_current",
    "target_moment",
    "actual_q",
    "actual_qd",
    "actual_current",
    "joint_temperatures",
    "speed_scaling",
    "target_speed_fraction",
    "runtime_state",
    "output_int_register_24",  # or another one that the program's page names
)
MARK = FIELDS[-1]
_FORMATS = {
    "BOOL": "?",
    "UINT8": "B",
    "UINT32": "I",
    "UINT64": "Q",
    "INT32": "i",
    "DOUBLE": "d",
    "VECTOR3D": "3d",
    "VECTOR6D": "6d",
    "VECTOR6INT32": "6i",
    "VECTOR6UINT32": "6I",
}
_VERSION, _SETUP, _START, _PAUSE, _DATA, _MESSAGE = 86, 79, 83, 80, 85, 77  # kinds of packages
STANDING = (0, 7)  # of the register: no part of the run
LONGEST, LETTERS = 1e6, 200  # s between two rows; of a message
ABORTED = -1  # of the register: the program gave up


class RecorderError(Exception):
    """A recording that cannot be made, with the remedy."""


class Recorder:
    """A connection to a controller, which sends its state at a fixed rate."""

    def __init__(self, host: str, port: int = PORT, rate: float | None = None, register: int = 24) -> None:
        self._socket = socket.create_connection((host, port), TIMEOUT)
        self._rest = b""
        self._fields = (*FIELDS[:-1], f"output_int_register_{register}")
        self.unreadable = 0  # rows of another length
        self.header: list[str] = []
        self.rate = 0.0
        try:
            self._agree([rate] if rate else [500.0, 125.0])
        except (RecorderError, OSError):
            self.close()
            raise

    def _agree(self, rates: list[float]) -> None:
        if self._ask(_VERSION, struct.pack(">H", 2)) != b"\x01":
            raise RecorderError("the controller does not know version 2 of RTDE; update PolyScope to 3.9, 5.3 or newer")
        self.rate, kinds = self._setup(rates)
        unknown = [name for name, kind in zip(self._fields, kinds, strict=False) if kind not in _FORMATS]
        if unknown:
            raise RecorderError(f"the controller does not send {', '.join(unknown)}; update PolyScope")
        self._row = struct.Struct(">B" + "".join(_FORMATS[kind] for kind in kinds))
        for name, kind in zip(self._fields, kinds, strict=False):
            n = int(_FORMATS[kind][:-1] or 1)
            name = name if name in FIELDS else "mark"
            self.header += [name] if n == 1 else [f"{name}_{j}" for j in range(n)]

    def rows(self) -> Iterator[tuple[Any, ...]]:
        """Start, and give one row after the other until the connection ends."""
        if self._ask(_START) != b"\x01":
            raise RecorderError("the controller does not start to send; is another client in its way?")
        while True:
            kind, body = self._package()
            if kind == _DATA and len(body) == self._row.size:
                yield self._row.unpack(body)[1:]
            else:
                self.unreadable += kind == _DATA

    def close(self) -> None:
        """End the connection."""
        self._socket.close()

    def _setup(self, rates: list[float]) -> tuple[float, list[str]]:
        kinds: list[str] = []
        for rate in rates:  # a CB3 sends 125 rows a second at most
            answer = self._ask(_SETUP, struct.pack(">d", rate) + ",".join(self._fields).encode())
            kinds = answer[1:].decode("ascii", "replace").split(",")
            if answer[:1] != b"\x00" and len(kinds) == len(self._fields):
                return rate, kinds
        missing = [name for name, kind in zip(self._fields, kinds, strict=False) if kind not in _FORMATS]
        raise RecorderError(f"the controller refuses what is asked for ({', '.join(missing) or 'the rate'})")

    def _ask(self, kind: int, body: bytes = b"") -> bytes:
        self._socket.sendall(struct.pack(">HB", 3 + len(body), kind) + body)
        while True:
            answered, answer = self._package()
            if answered == kind:
                return answer

    def _package(self) -> tuple[int, bytes]:
        size, kind = struct.unpack(">HB", self._bytes(3))
        body = self._bytes(size - 3)
        if kind == _MESSAGE:
            said = "".join(x for x in body[:LETTERS].decode("utf-8", "replace") if x.isprintable())
            print("controller:", said, file=sys.stderr)  # never the codes that a terminal obeys
        return kind, body

    def _bytes(self, n: int) -> bytes:
        if n < 0:
            raise RecorderError("what answers is no RTDE; check address and port")
        while len(self._rest) < n:
            received = self._socket.recv(65536)
            if not received:
                raise RecorderError("the controller ended the connection")
            self._rest += received
        taken, self._rest = self._rest[:n], self._rest[n:]
        return taken


class Watch:
    """Follows a recording: which sentence to tell, and when the run is over."""

    def __init__(self, header: list[str], rate: float) -> None:
        self._columns = {name: k for k, name in enumerate(header)}
        self._mark = MARK if MARK in self._columns else "mark"
        self._step = 1.0 / rate
        self._before: float | None = None
        self.rows = self.lost = self.slow = 0
        self.began = self.over = self.aborted = self._stood = False

    def see(self, row: tuple[Any, ...]) -> str:
        """Take in a row; a sentence for the operator, or nothing."""
        fraction, scaling, mark, t = (
            row[self._columns[name]] for name in ("target_speed_fraction", "speed_scaling", self._mark, "timestamp")
        )
        self.rows += 1
        if self.rows == 1 and fraction < 0.9999:
            raise RecorderError(f"the speed slider is at {100.0 * fraction:.0f} %; set it to 100 %, and start again")
        if self._before is not None and abs(t - self._before) < LONGEST:  # no time at all where a row is spoilt
            self.lost += max(0, round((t - self._before) / self._step) - 1)
        self._before = t
        running = mark not in (*STANDING, ABORTED, 1, 6)
        self._stood = self._stood or mark in STANDING  # what an earlier run left behind is no beginning
        self.began = self.began or (running and self._stood)
        self.aborted = self._stood and mark == ABORTED
        self.over = self.aborted or (self.began and mark in STANDING)
        if self.rows == 1:
            return "Ready: continue the program."
        if self.aborted:
            return "The program gave up: read its message on the pendant, and repeat the run."
        if running and min(fraction, scaling) < 0.9999:
            self.slow += 1
            if self.slow == 1:
                return f"The speed is scaled to {100.0 * min(fraction, scaling):.0f} % at mark {mark}: repeat the run."
        return ""


def record(recorder: Recorder, path: str) -> Watch:
    """Write rows until the run is over; what was seen."""
    watch = Watch(recorder.header, recorder.rate)
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(recorder.header)
        try:
            for row in recorder.rows():
                told = watch.see(row)
                if told:
                    print(told, file=sys.stderr, flush=True)
                writer.writerow(row)
                if watch.over:
                    break
        except KeyboardInterrupt:
            print("Interrupted.", file=sys.stderr)
    return watch


def main(arguments: list[str] | None = None) -> int:
    """Record one run."""
    parser = argparse.ArgumentParser(description="Record a Universal Robots controller over RTDE.")
    parser.add_argument("host", help="address of the controller")
    parser.add_argument("path", help="CSV file to write")
    parser.add_argument("--port", type=int, default=PORT)
    parser.add_argument("--rate", type=float, help="rows a second; by default 500, or 125 of an older controller")
    parser.add_argument("--register", type=int, default=24, help="output integer register of the marks")
    given = parser.parse_args(arguments)
    try:
        recorder = Recorder(given.host, given.port, given.rate, given.register)
        try:
            watch = record(recorder, given.path)
        finally:
            recorder.close()
    except (RecorderError, OSError) as error:
        print(f"{given.path}: {error}", file=sys.stderr)
        return 1
    print(f"{given.path}: {watch.rows} rows at {recorder.rate:g} Hz, {watch.lost} lost, {watch.slow} at reduced speed")
    return 0 if watch.over and not (watch.slow or watch.aborted) else 1


if __name__ == "__main__":
    sys.exit(main())
