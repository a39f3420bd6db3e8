"""Clients that stream over UDP start with both addresses only, and take packets of one controller only."""

import json
import re
import socket
import sys
import time

import pytest

from excitor.design.programs.clients import addresses, egm_client, j519_client, rsi_server
from excitor.design.programs.clients.run_motion import Run
from excitor.design.programs.fanuc import stream as fanuc_j519
from excitor.design.programs.krl import rsi as krl_rsi
from excitor.design.programs.rapid import egm as rapid
from excitor.design.programs.rapid.egm_controller import FakeController, robot_message
from excitor.design.programs.run_json import run_json

CONTROLLER, STRANGER = ("192.168.1.1", 6511), ("192.168.1.7", 6511)
CLIENTS = {"egm": (egm_client, "serve"), "rsi": (rsi_server, "serve"), "j519": (j519_client, "stream")}
TARGETS = (rapid.TARGET, krl_rsi.TARGET, fanuc_j519.TARGET)


@pytest.fixture(params=CLIENTS)
def started(request, monkeypatch, tmp_path, plan_of):
    """A client's main as from the command line; which sockets it would talk through."""
    module, talk = CLIENTS[request.param]
    target = dict(zip(CLIENTS, TARGETS, strict=True))[request.param]
    plan = plan_of(
        "kr150", period=2.4, ramp=1.2, measured=1, warm_up=0, step=0.008 if request.param == "j519" else 0.004
    )
    (tmp_path / "run.json").write_text(run_json(plan, target))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("signal.signal", lambda *_: None)
    monkeypatch.setattr("gc.disable", lambda: None)
    opened = []

    def talked(*given):
        sock = next(x for x in given if isinstance(x, socket.socket))
        opened.append((sock.getsockname()[0], sock.getpeername() if request.param == "j519" else given[2]))

    monkeypatch.setattr(module, talk, talked)

    def main(*options):
        monkeypatch.setattr(sys, "argv", [f"{module.__name__.rsplit('.', 1)[1]}.py", "run.json", *options])
        return module.main()

    return main, opened


LISTEN, OBEY = ("--listen", "127.0.0.1"), ("--controller", "127.0.0.1")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ((), "state this computer's address on the controller's network with --listen"),
        (OBEY, "state this computer's address on the controller's network with --listen"),
        (LISTEN, "state the controller's address with --controller"),
        (("--listen", "0.0.0.0", *OBEY), "--listen 0.0.0.0 is not this computer's address"),
        (("--listen", "", *OBEY), "is not this computer's address"),
        ((*LISTEN, "--controller", "255.255.255.255"), "--controller 255.255.255.255 is not the controller's address"),
        ((*LISTEN, "--controller", "robot"), "--controller robot is not the controller's address"),
        (("--listen", "192.0.2.1", *OBEY), "cannot listen at 192.0.2.1"),
    ],
)
def test_without_both_addresses_nothing_starts(started, capsys, tmp_path, options, said):
    main, opened = started
    with pytest.raises(SystemExit) as error:
        main(*options)
    assert error.value.code == 2
    told = capsys.readouterr().err
    assert said in told
    assert "cannot listen" in told or ".py run.json --listen 192.168.1.100 --controller 192.168.1.1" in told
    assert not opened
    assert [path.name for path in tmp_path.iterdir()] == ["run.json"]


def test_with_both_it_talks_to_these_alone(started):
    main, opened = started
    main(*LISTEN, *OBEY, "--port", "54321")
    assert opened in ([("127.0.0.1", "127.0.0.1")], [("127.0.0.1", ("127.0.0.1", 54321))])  # J519: connected


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_the_operators_page_states_both(target):
    assert "addresses.py" in target.clients
    command = r"(RUN|<program>)\.json --listen COMPUTER_ADDRESS (--port \d+ )?--controller CONTROLLER_ADDRESS"
    assert re.search(command, " ".join(target.loading))


def test_what_stands_for_no_host_is_refused():
    given = ("127.0.0.1", "10.0.0.7", "0.0.0.0", "224.0.0.1", "255.255.255.255", "::1", "", "1.2.3", "01.2.3.4")
    assert [text for text in given if addresses._one_host(text)] == ["127.0.0.1", "10.0.0.7"]


class Wire:
    """Stands in for a socket: gives out packets with their senders, then times out."""

    def __init__(self, packets):
        self.packets, self.sent = iter(packets), []

    def settimeout(self, seconds):
        self.seconds = seconds

    def recvfrom(self, size):
        found = next(self.packets, None)
        if found is None:
            time.sleep(self.seconds)
            raise TimeoutError
        return found

    def sendto(self, data, sender):
        self.sent.append(sender)


def during(seconds, packet, sender):
    """One packet after the other for a time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        yield packet, sender
        time.sleep(0.002)
    raise AssertionError(f"it still listens after {seconds:g} s")


def mixed(packets, *rest):
    """Packets of the controller, each after one of a stranger; then the rest."""
    for packet in packets:
        yield packet, STRANGER
        yield packet, CONTROLLER
    for more in rest:
        yield from more


@pytest.mark.parametrize("sender", [STRANGER, CONTROLLER], ids=["a stranger", "packets that cannot be read"])
def test_egm_obeys_one_controller_and_notices_its_silence(plan_of, capsys, sender):
    plan = plan_of(period=2.0, ramp=1.0, measured=1, warm_up=0, swing=0.05)
    client = egm_client.EgmClient(Run(json.loads(run_json(plan, rapid.TARGET))))
    home = client.run.home
    packets = [robot_message(k, 4 * k, home, home, motors=1, egm=3) for k in range(1, 21)]
    wire = Wire(mixed(packets, during(2.0, packets[0] if sender == STRANGER else packets[0][:-1], sender)))
    egm_client.serve(wire, client, CONTROLLER[0])
    assert wire.sent == [CONTROLLER] * 20
    assert len(client.rows) == 20
    assert (client.state, client.reason) == ("stopped", "no packet of the controller came for 0.1 s")
    assert client.strangers > (20 if sender == STRANGER else 19)
    assert (client.unreadable > 5) == (sender == CONTROLLER)
    assert capsys.readouterr().out.count("packets of 192.168.1.7 are ignored; the controller is 192.168.1.1") == 1


def test_egm_ends_after_the_run_although_a_stranger_goes_on(plan_of):
    plan = plan_of(period=2.0, ramp=1.0, measured=1, warm_up=0, swing=0.05)
    client = egm_client.EgmClient(Run(json.loads(run_json(plan, rapid.TARGET))))
    robot = FakeController([float(x) for x in client.run.home])

    def packets():
        for _ in range(3500):
            yield robot.packet(), CONTROLLER
        yield from during(2.0, b"", STRANGER)

    wire = Wire(packets())
    wire.sendto = lambda data, sender: robot.take(data)
    egm_client.serve(wire, client, CONTROLLER[0])
    assert (client.state, client.reason) == ("done", "")


@pytest.mark.parametrize("address", ["192.168.1.7", "192.168.1.1"], ids=["another computer", "another port"])
def test_rsi_obeys_one_controller_and_notices_its_silence(plan_of, capsys, address):
    server = rsi_server.RsiServer(Run(json.loads(run_json(plan_of("kr150"), krl_rsi.TARGET))), silence=0.1)
    axes = " ".join(f'A{k}="{x:.4f}"' for k, x in enumerate(server.run.home, 1))
    packets = [f'<Rob Type="KUKA"><AIPos {axes}/><IPOC>{4 * k}</IPOC></Rob>'.encode() for k in range(20)]
    stranger = (address, 7000)
    wire = Wire(mixed(packets, during(3.0, packets[0], stranger)))
    rsi_server.serve(server, wire, CONTROLLER[0])
    assert wire.sent == [CONTROLLER] * 20
    assert len(server.rows) == 20
    assert server.strangers > 20
    assert "silent" in server.reason
    assert "are ignored; the controller is 192.168.1.1" in capsys.readouterr().out
