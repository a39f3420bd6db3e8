"""The verb `watch`: follow logs, learn from each cycle, and report when the robot has changed."""

import json
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from excitor.experiments.campaign import open_campaign
from excitor.experiments.watch.session import MOST_ALARMS, Session, cycle_data, doubt_sentence, open_basis, take
from excitor.experiments.watch.sources import (
    Screen,
    Source,
    Tell,
    open_source,
    print_summary,
    read_state,
    summary_data,
    write_state,
)
from excitor.robots.errors import ExcitorError


@dataclass(slots=True)
class WatchTotals:
    """Results of one call, updated while it watches."""

    cycles: int = 0
    alarms: list[dict[str, Any]] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    doubted: set[str] = field(default_factory=set)  # processes whose torques the model does not explain


def run_watch(
    folder: Path,
    log: Path | None = None,
    *,
    once: bool = False,
    interval: float = 1.0,
    as_json: bool = False,
    lines: bool = False,
    tell: Tell = lambda sentence: print(sentence, file=sys.stderr),
) -> int:
    """Watch until interrupted, or `once` the existing logs; return the exit code.

    `as_json` prints one JSON object at the end, and watches once; `lines` prints one a cycle as they come, and the
    summary as the last one. 1 where, watching once, an alarm was raised or a log could not be used.
    """
    if not 0.0 < interval <= 86400.0:
        raise ExcitorError(f"interval is {interval:g} s, expected a time above 0 and at most a day")
    once = once or (as_json and not lines)
    live = sys.stdout.isatty() and not as_json
    session, totals, data = watch_logs(folder, log, tell=tell, once=once, interval=interval, lines=lines, live=live)
    if lines:
        print(json.dumps(data, allow_nan=False))
    elif as_json:
        print(json.dumps(data, indent=2, allow_nan=False))
    else:
        print_summary(session)
    return int(once and bool(totals.alarms or totals.problems))


def watch_logs(
    folder: Path,
    log: Path | None,
    *,
    tell: Tell,
    once: bool,
    interval: float = 1.0,
    lines: bool = False,
    live: bool = False,
) -> tuple[Session, WatchTotals, dict[str, Any]]:
    """Watch until interrupted, or `once` what is there; the last is the summary for scripts."""
    campaign = open_campaign(folder)
    basis = open_basis(campaign)
    session, before, note = read_state(basis)
    if note:
        tell(note)
    source = open_source(campaign, log, before)
    totals = WatchTotals()
    with Screen(session, tell, lines=lines, live=live) as screen:
        try:
            _watch(session, source, screen, totals, once=once, interval=interval)
        except KeyboardInterrupt:
            tell("watching has ended")
    if not session.cycles and not totals.problems:
        tell(f"{source.path}: no whole cycle yet")
    return session, totals, summary_data(session, totals.cycles, totals.alarms, totals.problems)


def _watch(
    session: Session, source: Source, screen: Screen, totals: WatchTotals, *, once: bool, interval: float
) -> None:
    """Poll the source repeatedly."""
    looks = 0
    while True:
        _look(session, source, screen, totals)
        screen.refresh()
        looks += 1
        if once and (looks > 1 or not source.waits):
            return
        time.sleep(interval)


def _problem(screen: Screen, totals: WatchTotals, problem: str) -> None:
    """Print what cannot be used, and keep the last ones."""
    screen.tell(problem)
    totals.problems = [*totals.problems, problem][-MOST_ALARMS:]


def _look(session: Session, source: Source, screen: Screen, totals: WatchTotals) -> None:
    """Process new cycles; after each batch, the state is written."""
    for batch in source.news():
        for note in batch.notes:
            screen.tell(note)
        for problem in batch.problems:
            _problem(screen, totals, problem)
        for samples, log, t in batch.cycles:
            try:
                report = take(session, samples, process=batch.process, log=log, t=t, clock=t + batch.ahead)
            except (ExcitorError, ValueError) as error:  # one cycle must not end the watch
                _problem(screen, totals, str(error))
                continue
            totals.cycles += 1
            if report.foreign and report.process not in totals.doubted:
                totals.doubted.add(report.process)
                _problem(screen, totals, doubt_sentence(report))
            screen.cycle(report)
            if report.verdict.alarms or report.verdict.confirmed:
                totals.alarms = [*totals.alarms, cycle_data(session.basis, report)][-MOST_ALARMS:]
        session.left_out = source.left_out
        write_state(session, source.data())
