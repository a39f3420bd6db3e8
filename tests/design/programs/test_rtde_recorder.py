"""The recorder for Universal Robots against a controller that is not one, on the same machine."""

import socket
import struct
import threading

import numpy as np
import pytest

from excitor.design.programs.clients import rtde_recorder
from excitor.design.programs.clients.rtde_recorder import FIELDS

KINDS = {"timestamp": "DOUBLE", "speed_scaling": "DOUBLE", "target_speed_fraction": "DOUBLE"} | {
    "runtime_state": "UINT32",
    "output_int_register_24": "INT32",
}


class Controller:
    """Answers one client, and sends rows of marks; 125 Hz at most, as a CB3."""

    def __init__(self, marks, *, fraction=1.0, scaling=None, lose=(), missing=()):
        self.marks, self.fraction, self.scaling, self.lose, self.missing = marks, fraction, scaling or {}, lose, missing
        self.server = socket.create_server(("127.0.0.1", 0))
        self.port = self.server.getsockname()[1]
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()

    def _serve(self):
        client, _ = self.server.accept()
        with client:
            while True:
                head = client.recv(3, socket.MSG_WAITALL)
                if len(head) < 3:
                    return
                size, kind = struct.unpack(">HB", head)
                body = client.recv(size - 3, socket.MSG_WAITALL) if size > 3 else b""
                if kind == 79:
                    slow_enough = struct.unpack(">d", body[:8])[0] <= 125.0
                    kinds = [
                        "NOT_FOUND" if name in self.missing else KINDS.get(name, "VECTOR6D")
                        for name in body[8:].decode().split(",")
                    ]
                    answer = bytes([1 if slow_enough else 0]) + ",".join(kinds).encode()
                else:
                    answer = b"\x01"
                client.sendall(struct.pack(">HB", 3 + len(answer), kind) + answer)
                if kind == 83:
                    self._send(client)
                    return

    def _send(self, client):
        for k, mark in enumerate(self.marks):
            values = {
                "timestamp": [100.0 + 0.008 * k],
                "speed_scaling": [self.scaling.get(k, 1.0)],
                "target_speed_fraction": [self.fraction],
                "runtime_state": [2],
                "output_int_register_24": [mark],
            }
            row = b"\x01"
            for name in FIELDS:
                code = {"UINT32": "I", "INT32": "i"}.get(KINDS.get(name, ""), "d")
                numbers = values.get(name, [k + 0.1 * j for j in range(6)])
                row += struct.pack(f">{len(numbers)}{code}", *numbers)
            if k in self.lose:
                continue
            package = struct.pack(">HB", 3 + len(row), 85) + row
            try:
                client.sendall(package[:7])
                client.sendall(package[7:])
            except OSError:
                return


def record(tmp_path, controller):
    path = tmp_path / "run.csv"
    code = rtde_recorder.main(["127.0.0.1", str(path), "--port", str(controller.port)])
    controller.thread.join(5.0)
    controller.server.close()
    return code, path


MARKS = [1003] + [0] * 4 + [2] * 5 + [3] * 10 + [1001] * 20 + [4] * 10 + [5] * 5 + [0] * 5


def test_records_a_run(tmp_path, capsys):
    code, path = record(tmp_path, Controller(MARKS))
    out, told = capsys.readouterr()
    assert code == 0
    assert "Ready" in told
    assert "56 rows at 125 Hz, 0 lost, 0 at reduced speed" in out
    header, *_ = path.read_text().splitlines()
    assert "actual_q_0,actual_q_1" in header
    assert header.startswith("timestamp,target_q_0")
    table = np.genfromtxt(path, delimiter=",", names=True)
    assert table["output_int_register_24"].tolist() == MARKS[:56]
    assert table["actual_q_5"] == pytest.approx(np.arange(56) + 0.5)


def test_refuses_a_slider_below_full(tmp_path, capsys):
    code, _ = record(tmp_path, Controller(MARKS, fraction=0.5))
    told = capsys.readouterr().err
    assert code == 1
    assert "slider is at 50 %" in told
    assert "Ready" not in told


def test_reports_scaled_speed_and_lost_rows(tmp_path, capsys):
    code, _ = record(tmp_path, Controller(MARKS, scaling={1: 0.3, 25: 0.8, 26: 0.9}, lose=(30, 31, 40)))
    out, told = capsys.readouterr()
    assert code == 1
    assert "scaled to 80 % at mark 1001" in told
    assert "3 lost, 2 at reduced speed" in out


def test_reports_what_a_controller_does_not_send(tmp_path, capsys):
    code, _ = record(tmp_path, Controller(MARKS, missing=("actual_current",)))
    assert code == 1
    assert "does not send actual_current" in capsys.readouterr().err


def test_a_connection_that_ends_is_reported(tmp_path, capsys):
    code, _ = record(tmp_path, Controller(MARKS[:20]))
    assert code == 1
    assert "ended the connection" in capsys.readouterr().err


def test_ends_where_the_program_gave_up(tmp_path, capsys):
    code, _ = record(tmp_path, Controller([-1] * 3 + [0] * 4 + [2] * 5 + [1001] * 8 + [-1] * 30))
    out, told = capsys.readouterr()
    assert code == 1
    assert "21 rows" in out  # what an earlier program left behind is no end
    assert "gave up" in told
