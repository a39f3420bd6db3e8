"""Damaged, hostile and absurd files: each gives a sentence with its file within two seconds, and little memory."""

import resource
import signal
import subprocess
import sys
import time

import pytest

from benchmarks.readers import fuzz
from excitor.identify.logs import read as readers
from excitor.identify.logs.formats import FORMATS, read_raw
from excitor.robots.errors import InvalidLog
from tests.damaged_logs import CASES, LARGEST, RTDE, SEEDS, SLOWEST, Malformed, all_malformed, answers, ask_all


@pytest.fixture(scope="module", autouse=True)
def started():
    """What runs apart takes half a second to start, once."""
    import tempfile
    from pathlib import Path

    with tempfile.TemporaryDirectory() as folder:
        SEEDS["parquet"][0](Path(folder))
        read_raw(Path(folder) / "log")
        SEEDS["matlab"][1](Path(folder))
        read_raw(Path(folder) / "log")


@pytest.mark.parametrize("case", CASES)
def test_a_sentence_in_little_time(tmp_path, case):
    write, words = CASES[case]
    path = tmp_path / "log.dat"
    write(path)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.process_time()
    with pytest.raises(InvalidLog, match=words) as caught:
        read_raw(path)  # a child that reads has its own bound, SECONDS of CPU
    assert time.process_time() - start < 2.0
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024 < 600.0  # MB
    assert str(tmp_path) in str(caught.value)
    assert caught.value.row is None or f"row {caught.value.row}:" in str(caught.value)


def test_a_library_that_does_not_end_is_ended_after_its_cpu_time():
    code = "from excitor.identify.logs.arrays import _limit_cpu; _limit_cpu(0.2)\nwhile True: pass"
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == -signal.SIGPROF


@pytest.mark.slow
def test_every_reader_meets_every_way_of_being_malformed():
    """In a process of its own, which tells how much memory it took."""
    told = ask_all()
    assert [answer for answer in told.answers if answer.wrong] == []
    assert len(told.answers) > 200
    assert max(answer.seconds for answer in told.answers) < SLOWEST
    assert 20.0 < told.memory < LARGEST
    ways = {(file.reader, file.name.partition(": ")[2]) for file in all_malformed()}
    for reader in FORMATS:
        for way in ("cut off at 50 %", "binary", "an archive in an archive", "2 GB of nothing", "a pipe", "empty"):
            assert (reader, way) in ways


@pytest.mark.parametrize(
    ("raised", "wrong"),
    [
        (KeyError("x"), "KeyError"),
        (InvalidLog("elsewhere.csv", "is odd"), "does not name the file"),
        (None, "was read"),
    ],
)
def test_an_answer_that_is_no_sentence_is_found(monkeypatch, raised, wrong):
    def reads(path, reader):
        if raised is not None:
            raise raised

    def written(folder):
        return folder / "log"

    monkeypatch.setattr("tests.damaged_logs.read_raw", reads)
    found, _ = answers([Malformed("x", None, written, "words")])
    assert wrong in found[0].wrong


def test_what_a_file_calls_its_channels_is_clipped_and_spelled():
    told = str(InvalidLog("log.csv", f"has no channel {'x' * 5000} beside \x1b[2J"))
    assert len(told) < 200
    assert "\x1b" not in told
    assert "\\x1b[2J" in told


@pytest.mark.parametrize("name", FORMATS)
def test_damaged_bytes_give_sentences_and_nothing_else(name):
    found = fuzz(name, 0.12, seed=1)
    assert found.failures == ()
    assert found.examples >= 20
    assert found.refused > 0
    assert found.slowest < 2.0


def test_the_fuzz_finds_what_is_no_sentence(monkeypatch):
    """A reader that fails with anything else is found, with the bytes that do it."""
    true = readers.read_raw

    def fails(path, format=None):
        try:
            return true(path, format)
        except InvalidLog:
            raise KeyError("found") from None

    monkeypatch.setattr("benchmarks.readers.read_raw", fails)
    found = fuzz("csv", 0.3, seed=0)
    assert found.failures
    assert "KeyError: 'found'" in found.failures[0]


def test_an_unknown_format_is_reported(tmp_path):
    (tmp_path / "log").write_text(RTDE)
    with pytest.raises(InvalidLog, match="format is 'excel', expected one of ros_bag, kuka_trace"):
        read_raw(tmp_path / "log", "excel")


@pytest.mark.parametrize("name", [name for name in FORMATS if name not in ("csv", "ur_rtde")])
def test_a_format_that_is_named_wrongly(tmp_path, name):
    (tmp_path / "log").write_text(RTDE)
    with pytest.raises(InvalidLog):
        read_raw(tmp_path / "log", name)
