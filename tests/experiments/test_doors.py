"""Hostile files and wrong calls from the command line: a sentence and an error object, in time, without a traceback."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from tests.doors import CASES, answer, prepared


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return prepared(tmp_path_factory.mktemp("doors"))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes with names here")
@pytest.mark.parametrize("case", CASES, ids=str)
def test_hostile_files_and_wrong_calls_are_answered(place, case):
    assert answer(place, case) == ""


def command(*arguments):
    return [sys.executable, "-c", "from excitor.experiments.cli import main; main()", *arguments]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no full device here")
@pytest.mark.parametrize(
    "arguments", [["robots", "--json"], ["robots", "nothing", "--json"], ["design", "--json"]], ids=str
)
def test_a_full_device_is_a_sentence(arguments):
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            command(*arguments), stdout=full, stderr=subprocess.PIPE, text=True, timeout=60, check=False
        )
    assert done.returncode in (1, 2)
    assert done.stderr.strip()
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr


def test_an_interrupt_is_no_traceback(place):
    """Once in the work of a verb, where it is told from other errors by its exit code."""
    process = subprocess.Popen(
        [*command("watch", "cell", "--log", "cell/missing", "--json")[:2], INTERRUPTED], cwd=place.parent,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout.readline() == "ready\n"
    time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 130, err
    assert json.loads(out) == {"error": ["interrupted"]}
    assert "Traceback" not in err


INTERRUPTED = """
import signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs inherit that it is ignored
from excitor.experiments import cli, status
def wait(*_, **__):
    print("ready", flush=True)
    time.sleep(20)
status.stages = wait
sys.argv = ["excitor", "status", "cell", "--json"]
import excitor.experiments.campaign as campaign
campaign.open_campaign = wait
status.open_campaign = wait
cli.main()
"""


def test_what_is_written_is_on_the_device_before_its_name(tmp_path, monkeypatch):
    from excitor.experiments import files

    done = []
    sync, rename = os.fsync, os.replace
    monkeypatch.setattr(files.os, "fsync", lambda handle: (done.append("content"), sync(handle)))
    monkeypatch.setattr(files.os, "replace", lambda a, b: (done.append("name"), rename(a, b)))
    files.write_atomically(tmp_path / "a.json", "{}")
    assert done == ["content", "name"]
    assert (tmp_path / "a.json").read_text() == "{}"


OFFLINE = """
import socket, sys
def refused(*_): raise SystemExit("reached for the network")
socket.socket.connect = socket.socket.connect_ex = socket.socket.bind = socket.getaddrinfo = refused
from excitor.experiments.cli import main
main()
"""


@pytest.mark.parametrize(
    "verb", [pytest.param(["robots", "tx40"], marks=pytest.mark.slow), ["identify", "cell"]], ids=str
)
def test_verbs_do_without_a_network(place, verb):
    done = subprocess.run(
        [sys.executable, "-c", OFFLINE, *verb], cwd=place, capture_output=True, text=True, timeout=120, check=False
    )
    assert "reached for the network" not in done.stderr
    assert done.stdout or done.stderr
