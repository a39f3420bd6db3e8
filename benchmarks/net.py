"""Benchmark of the tests: small faults in the code that the fast tests notice, doors, damaged files, and long work."""

import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from datetime import date
from itertools import repeat
from multiprocessing import get_context
from pathlib import Path
from typing import IO

from benchmarks._soak import soak
from excitor.experiments.figures import Figure, Report
from tests.doors import CASES, answer, prepared
from tests.mutants import CORE, ROOT, Outcome, files, try_file, warm_up

LEAST = {True: (85.0, 95.0), False: (75.0, 100.0)}  # percent of all, and of the core's
MUTANTS = {True: 240, False: 60}
SECONDS = {True: 3000.0, False: 300.0}  # of mutants; one that is running is finished
TRIED = {True: 150, False: 15}  # mutants that figures are worth anything of
EACH = {True: 6, False: 4}  # mutants of a module
FUZZ = {True: (60.0, 20.0), False: (5.0, 2.0)}  # s a kind of file, and a target's programs


def run(full: bool = False, seed: int | None = None) -> Report:
    """Sample faults, in full four times as many by the seed of the day; else by one seed, to be repeated."""
    seed = (date.today().toordinal() if full else 0) if seed is None else seed
    warm_up()
    with tempfile.TemporaryFile("w+", encoding="utf-8") as said:
        command = [sys.executable, "-m", "tests.fuzzing", *map(str, FUZZ[full]), str(seed)]
        fuzzing = subprocess.Popen(
            command, cwd=ROOT, stdout=said, stderr=subprocess.STDOUT, text=True
        )  # on the other core
        outcomes = list(mutate(full, seed))
        escapes, examples = escaped(fuzzing, said)
    judged = [each for each in outcomes if each.killed is not None]
    core = [each for each in judged if each.mutant.file in CORE]
    bad = doors()
    grown, left = soak(full)
    least, least_core = LEAST[full]
    figures = [
        Figure("net.mutants", len(judged), "", TRIED[full], "at least"),
        Figure("net.mutants_killed_percent", percent(judged), "%", least, "at least"),
        Figure("net.core_mutants", len(core)),
        Figure("net.core_killed_percent", percent(core), "%", least_core, "at least"),
        Figure("net.cases", len(CASES)),
        Figure("net.cases_bad", len(bad), target=0, bound="equal"),
        Figure("net.fuzzed", examples),
        Figure("net.fuzz_escapes", len(escapes), target=0, bound="equal"),
        Figure(
            "net.soak_growth_mb", max(grown.values()), f"MB by {max(grown, key=lambda x: grown[x])}", 20.0, "at most"
        ),
        Figure("net.soak_left", len(left), "handles, processes and temporary files", 0, "equal"),
    ]
    survivors = [f"{each.mutant.name}: {each.reason}" for each in judged if not each.killed]
    equivalent = [f"{each.mutant.name}: {each.reason}" for each in outcomes if each.killed is None]
    context = {"seed": seed, "survivors": survivors, "equivalent": equivalent, "cases": bad, "escapes": escapes}
    context |= {"soak_mb": grown, "soak_left": left}
    return Report("bench", "net", figures, context)


def mutate(full: bool, seed: int) -> Iterator[Outcome]:
    """Try mutants of modules drawn at random, every third of them of the core, until there are enough or time is up."""
    rng = random.Random(seed)
    core, others = list(CORE), [file for file in files() if file not in CORE]
    rng.shuffle(core)
    rng.shuffle(others)
    drawn = [file for k, file in enumerate(core) for file in (file, *others[2 * k : 2 * k + 2])]
    drawn += others[2 * len(core) :]
    end, count = time.monotonic() + SECONDS[full], 0
    with ProcessPoolExecutor(2, get_context("fork")) as pool:
        for outcomes in pool.map(_tried, drawn, repeat(EACH[full]), repeat(seed), repeat(end)):
            yield from outcomes
            count += sum(each.killed is not None for each in outcomes)
            if count >= MUTANTS[full] or time.monotonic() > end:
                pool.shutdown(cancel_futures=True)
                return


def _tried(file: str, most: int, seed: int, end: float) -> list[Outcome]:
    """Try mutants of a module until time is up."""
    outcomes: list[Outcome] = []
    if time.monotonic() < end:
        for outcome in try_file(file, most, seed, mapping=20.0):
            outcomes.append(outcome)
            if time.monotonic() > end:
                break
    return outcomes


def percent(outcomes: list[Outcome]) -> float:
    """Share of mutants that a test noticed; where none was tried there is nothing to praise."""
    return 100.0 * sum(bool(each.killed) for each in outcomes) / len(outcomes) if outcomes else 0.0


def doors() -> list[str]:
    """Answer every hostile file from the command line; list what was no sentence, or came late."""
    with tempfile.TemporaryDirectory(prefix="excitor-doors-") as folder:
        place = prepared(Path(folder))
        return [f"{case}: {wrong}" for case in CASES if (wrong := answer(place, case))]


def escaped(fuzzing: "subprocess.Popen[str]", said: IO[str]) -> tuple[list[str], int]:
    """Wait for the process that damages files; what is no sentence has escaped, and so has what ended the process."""
    fuzzing.wait()
    said.seek(0)
    text = said.read()
    if fuzzing.returncode:
        return [f"the process ended with {fuzzing.returncode}: {text[-2000:]}"], 0
    found = json.loads(text.splitlines()[-1])
    return found["escapes"], found["examples"]
