"""The verb `watch`: follow logs, learn from each cycle, and report when the robot has changed."""

import json
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.markup import escape
from rich.table import Table

from excitor.experiments.campaign import open_campaign
from excitor.experiments.verbs.printing import COMPACT, echo_progress, table
from excitor.experiments.watch.live import LivePage
from excitor.experiments.watch.session import (
    MOST_ALARMS,
    CycleReport,
    Session,
    cycle_data,
    doubt_sentence,
    drift,
    open_basis,
    take,
)
from excitor.experiments.watch.sources import Source, alarm_sentence, open_source, read_state, summary_data, write_state
from excitor.robots.errors import ExcitorError

Tell = Callable[[str], None]


@dataclass(slots=True)
class WatchTotals:
    """Results of one call, updated while it watches."""

    cycles: int = 0
    alarms: list[dict[str, Any]] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    doubted: set[str] = field(default_factory=set)  # processes whose torques the model does not explain


MOST_ROWS = 12  # of parameters while watching; at the end, all
NOTABLE = 3.0  # sigmas


class Screen:
    """Shows cycles as they come: a table on a terminal, JSON lines where asked, else sentences."""

    def __init__(
        self, session: Session, tell: Tell, *, lines: bool = False, live: bool = False, page: LivePage | None = None
    ) -> None:
        self.session, self.tell, self.lines, self.page = session, tell, lines, page
        self.live: Live | None = None
        if live and not lines:
            self.live = Live(watch_table(session, MOST_ROWS), transient=True, auto_refresh=False)

    def cycle(self, report: CycleReport) -> None:
        """Show one more cycle."""
        if self.lines:
            sys.stdout.write(json.dumps(cycle_data(self.session.basis, report), allow_nan=False) + "\n")
            sys.stdout.flush()
        if self.page is not None:
            self.page.cycle(self.session, report)
        verdict = report.verdict
        if verdict.alarms or verdict.confirmed:
            words = "ALARM at" if verdict.alarms else "it has stayed:"
            self.tell(f"{words} {alarm_sentence(cycle_data(self.session.basis, report))}")
        elif verdict.passed:
            self.tell(f"cycle {report.cycle} is as before the alarm")

    def refresh(self, problems: list[str]) -> None:
        """Draw the table and the page anew."""
        if self.page is not None:
            self.page.update(self.session, problems)
        if self.live is not None:
            self.live.update(watch_table(self.session, MOST_ROWS), refresh=True)


def run_watch(
    folder: Path,
    log: Path | None = None,
    *,
    once: bool = False,
    interval: float = 1.0,
    as_json: bool = False,
    lines: bool = False,
    serve: bool = False,
    tell: Tell = echo_progress,
) -> int:
    """Watch until interrupted, or `once` the existing logs; return the exit code.

    `as_json` prints one JSON object at the end, and watches once; `lines` prints one a cycle as they come, and the
    summary as the last one; `serve` shows them on a page. 1 where, watching once, an alarm was raised or a log could
    not be used.
    """
    if not 0.0 < interval <= 86400.0:
        raise ExcitorError(f"interval is {interval:g} s, expected a time above 0 and at most a day")
    once = once or (as_json and not lines)
    if serve and once:
        raise ExcitorError("--serve shows a watch while it lasts: leave out --once and --json")
    live = sys.stdout.isatty() and not as_json
    session, seen, data = watch_logs(
        folder, log, tell=tell, once=once, interval=interval, serve=serve, lines=lines, live=live
    )
    if lines or as_json:
        print(json.dumps(data, indent=None if lines else 2, allow_nan=False))
    else:
        print_summary(session)
    return int(once and bool(seen.alarms or seen.problems))


def watch_logs(
    folder: Path, log: Path | None, *, tell: Tell, once: bool, interval: float = 1.0, serve: bool = False, **shown: bool
) -> tuple[Session, WatchTotals, dict[str, Any]]:
    """Watch until interrupted, or `once` what is there, `shown` as on a `Screen`; the last is the summary."""
    campaign = open_campaign(folder)
    session, before, note = read_state(open_basis(campaign))
    if note:
        tell(note)
    source = open_source(campaign, log, before)
    seen = WatchTotals()
    page = LivePage(session) if serve else None
    screen = Screen(session, tell, page=page, **shown)
    with screen.live or nullcontext(), page or nullcontext():
        if page is not None:
            tell(f"live page, on this computer only: {page.address}")
        try:
            _watch(session, source, screen, seen, once=once, interval=interval)
        except KeyboardInterrupt:
            tell("watching has ended")
    if not session.cycles and not seen.problems:
        tell(f"{source.path}: no whole cycle yet")
    return session, seen, summary_data(session, seen.cycles, seen.alarms, seen.problems)


def _watch(session: Session, source: Source, screen: Screen, seen: WatchTotals, *, once: bool, interval: float) -> None:
    """Poll the source repeatedly."""
    for looks in count(1):
        _look(session, source, screen, seen)
        screen.refresh(seen.problems)
        if once and (looks > 1 or not source.waits):
            return
        time.sleep(interval)


def _problem(screen: Screen, seen: WatchTotals, problem: str) -> None:
    """Print what cannot be used, and keep the last ones."""
    screen.tell(problem)
    seen.problems = [*seen.problems, problem][-MOST_ALARMS:]


def _look(session: Session, source: Source, screen: Screen, seen: WatchTotals) -> None:
    """Process new cycles; after each batch, the state is written."""
    for batch in source.news():
        for note in batch.notes:
            screen.tell(note)
        for problem in batch.problems:
            _problem(screen, seen, problem)
        for samples, log, t in batch.cycles:
            try:
                report = take(session, samples, process=batch.process, log=log, t=t, clock=t + batch.ahead)
            except (ExcitorError, ValueError) as error:  # one cycle must not end the watch
                _problem(screen, seen, str(error))
                continue
            seen.cycles += 1
            if report.foreign and report.process not in seen.doubted:
                seen.doubted.add(report.process)
                _problem(screen, seen, doubt_sentence(report))
            screen.cycle(report)
            if report.verdict.alarms or report.verdict.confirmed:
                seen.alarms = [*seen.alarms, cycle_data(session.basis, report)][-MOST_ALARMS:]
        session.left_out = source.left_out
        write_state(session, source.data())


def watch_table(session: Session, most: int | None = None) -> Table:
    """Build a table of the parameters that have drifted most, with counts of cycles."""
    rows = drift(session)
    if most is not None:
        rows = sorted(rows, key=lambda row: -abs(row["drift_sigmas"]))[:most]
    n = sum(bool(entry["alarms"]) for entry in session.alarms)
    alarms = f"{n} alarms" if n != 1 else "1 alarm"
    learning = [name for name, detector in session.detectors.items() if len(detector.first)]
    state = f"; still learning what is healthy: {', '.join(learning)}" if learning else ""
    other = f", {session.left_out} of another motion left out" if session.left_out else ""
    title = escape(f"{session.basis.model.robot_name}: {session.cycles} cycles, {alarms}{other}{state}")
    headings = ("parameter", "now", "sigma", "model", "drift", "unit")
    made = table(title, headings, left=("parameter", "unit"), no_wrap=True, **COMPACT)
    for row in rows:
        away, numbers = row["drift_sigmas"], (f"{row['value']:.4g}", f"{row['sigma']:.2g}", f"{row['model']:.4g}")
        style = "yellow" if abs(away) > NOTABLE else ""
        made.add_row(escape(row["name"]), *numbers, f"{away:+.1f} sigma", escape(row["unit"]), style=style)
    return made


def print_summary(session: Session) -> None:
    """Print all parameters and the last alarms."""
    console = Console()
    if session.cycles:
        console.print(watch_table(session))
    else:
        other = f"; {session.left_out} of another motion were left out" if session.left_out else ""
        console.print(f"no cycle was seen yet{other}", style="yellow")
    for alarm in session.alarms[-5:]:
        console.print(alarm_sentence(alarm), markup=False, highlight=False)
