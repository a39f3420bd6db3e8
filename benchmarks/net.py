"""Benchmark of the tests: small faults in the code that the fast tests notice, doors, damaged models, and memory."""

import contextlib
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import IO

from excitor.experiments.figures import Figure, Report
from tests.doors import CASES, answer, prepared
from tests.mutants import CORE, ROOT, Outcome, files, try_file, warm_up

LEAST = {True: (85.0, 95.0), False: (75.0, 75.0)}  # percent of all, and of the core's
MUTANTS = {True: 240, False: 60}
SECONDS = {True: 3000.0, False: 300.0}  # of mutants; one that is running is finished
TRIED = {True: 150, False: 15}  # mutants that figures are worth anything of
EACH = {True: 6, False: 4}  # mutants of a module
FUZZ = {True: (60.0, 20.0), False: (5.0, 2.0)}  # s a kind of file, and a target's programs
SOAK = {True: 2000, False: 100}


def run(full: bool = False, seed: int | None = None) -> Report:
    """Sample faults by the seed of the day; `full` takes four times as many, and asks for more of them."""
    seed = date.today().toordinal() if seed is None else seed
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
        Figure("net.soak_growth_mb", soak(SOAK[full]), "MB", 20.0, "at most"),
    ]
    survivors = [f"{each.mutant.name}: {each.reason}" for each in judged if not each.killed]
    equivalent = [f"{each.mutant.name}: {each.reason}" for each in outcomes if each.killed is None]
    context = {"seed": seed, "survivors": survivors, "equivalent": equivalent, "cases": bad, "escapes": escapes}
    return Report("bench", "net", figures, context)


def mutate(full: bool, seed: int) -> Iterator[Outcome]:
    """Try mutants of modules drawn at random, every third of them of the core, until there are enough or time is up."""
    rng = random.Random(seed)
    core, others = list(CORE), [file for file in files() if file not in CORE]
    rng.shuffle(core)
    rng.shuffle(others)
    end, count, turn = time.monotonic() + SECONDS[full], 0, 0
    while count < MUTANTS[full] and time.monotonic() < end and (core or others):
        pool = core if core and (turn % 3 == 0 or not others) else others
        turn += 1
        for outcome in try_file(pool.pop(), EACH[full], seed, mapping=20.0):
            yield outcome
            count += outcome.killed is not None
            if time.monotonic() > end:
                break


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


def soak(rounds: int) -> float:
    """Growth of the resident memory, MB, over robots that are loaded and asked for their torques again and again."""
    import numpy as np

    from excitor.robots.dynamics import inverse_dynamics
    from excitor.robots.load import catalog_names, load
    from excitor.robots.parameters import prior
    from excitor.robots.robot import Motion

    names = [name for name in catalog_names() if name != "kr150"][:4]

    def once(k: int) -> None:
        robot = load(names[k % len(names)])
        with contextlib.suppress(ValueError):
            inverse_dynamics(robot, Motion(*np.zeros((3, 240, robot.n_joints))), prior(robot))

    for k in range(10):
        once(k)
    before = _resident()
    for k in range(rounds):
        once(k)
    return _resident() - before


def _resident() -> float:
    """Resident memory, MB; where /proc is missing, its peak."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
