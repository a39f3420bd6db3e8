"""What does a person at a terminal see of a watch? One table that goes on; elsewhere, a line for what matters."""

import json
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from excitor.experiments.watching.session import Session, Told, drift, told_data

if TYPE_CHECKING:
    from rich.live import Live
    from rich.table import Table

Tell = Callable[[str], None]
MOST_ROWS = 12  # of parameters while watching; at the end, all
NOTABLE = 3.0  # sigmas


class Screen:
    """Shows cycles as they come: a table on a terminal, JSON lines where asked, else sentences."""

    def __init__(self, session: Session, tell: Tell, *, lines: bool, live: bool) -> None:
        self.session, self.tell, self.lines = session, tell, lines
        self.live: Live | None = _live(session) if live and not lines else None

    def __enter__(self) -> "Screen":
        if self.live is not None:
            self.live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.live is not None:
            self.live.stop()

    def cycle(self, told: Told) -> None:
        """Show one more cycle."""
        if self.lines:
            sys.stdout.write(json.dumps(told_data(self.session.basis, told), allow_nan=False) + "\n")
            sys.stdout.flush()
        verdict = told.verdict
        if verdict.alarms:
            self.tell(f"ALARM at {alarm_sentence(told_data(self.session.basis, told))}")
        elif verdict.confirmed:
            self.tell(f"it has stayed: {alarm_sentence(told_data(self.session.basis, told))}")
        elif verdict.passed:
            self.tell(f"cycle {told.cycle} is as before the alarm")

    def refresh(self) -> None:
        """Draw the table anew."""
        if self.live is not None:
            self.live.update(watch_table(self.session, MOST_ROWS), refresh=True)


def _live(session: Session) -> "Live":
    from rich.live import Live

    return Live(watch_table(session, MOST_ROWS), transient=True, auto_refresh=False)


def watch_table(session: Session, most: int | None = None) -> "Table":
    """Draw the parameters that have drifted most, with what was seen."""
    from rich.box import SIMPLE_HEAD
    from rich.markup import escape
    from rich.table import Table

    rows = drift(session)
    if most is not None:
        rows = sorted(rows, key=lambda row: -abs(row["drift_sigmas"]))[:most]
    count = sum(bool(entry["alarms"]) for entry in session.alarms)
    alarms = f"{count} alarms" if count != 1 else "1 alarm"
    learning = [name for name, detector in session.detectors.items() if len(detector.first)]
    state = f"; still learning what is healthy: {', '.join(learning)}" if learning else ""
    other = f", {session.left_out} of another motion left out" if session.left_out else ""
    table = Table(
        title=escape(f"{session.basis.model.robot}: {session.cycles} cycles, {alarms}{other}{state}"),
        title_justify="left",
        box=SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
    )
    for heading in ("parameter", "now", "sigma", "model", "drift", "unit"):
        table.add_column(heading, justify="left" if heading in ("parameter", "unit") else "right", no_wrap=True)
    for row in rows:
        away = f"{row['drift_sigmas']:+.1f} sigma"
        style = "yellow" if abs(row["drift_sigmas"]) > NOTABLE else ""
        table.add_row(
            escape(row["name"]),
            f"{row['value']:.4g}",
            f"{row['sigma']:.2g}",
            f"{row['model']:.4g}",
            away,
            escape(row["unit"]),
            style=style,
        )
    return table


def alarm_sentence(cycle: Mapping[str, Any]) -> str:
    """Say when something changed, what changed most, and what changed with it."""
    first, *others = cycle["alarms"] or cycle["confirmed"]
    also = f"; beside it: {', '.join(entry['what'] for entry in others)}" if others else ""
    residuals = {name for name in cycle["surprise"] if name.startswith("residual of ")}
    if len(residuals) > 1 and residuals <= {entry["what"] for entry in (first, *others)}:
        also += "; at every joint something else has changed too: see whether the log is still this robot's, as before"
    return f"cycle {cycle['cycle']} ({cycle['log']}, {cycle['at_s']:.1f} s): {first['sentence']}{also}"


def print_summary(session: Session) -> None:
    """Print all parameters and the last alarms."""
    from rich.console import Console

    console = Console()
    if session.cycles:
        console.print(watch_table(session))
    else:
        other = f"; {session.left_out} of another motion were left out" if session.left_out else ""
        console.print(f"no cycle was seen yet{other}", style="yellow")
    for alarm in session.alarms[-5:]:
        console.print(alarm_sentence(alarm), markup=False, highlight=False)


def summary_data(session: Session, new: int, told: list[dict[str, Any]], problems: list[str]) -> dict[str, Any]:
    """Write what was seen for scripts: of this call, and in all."""
    return {
        "watch": str(session.basis.campaign.folder),
        "robot": session.basis.model.robot,
        "new_cycles": new,
        "cycles": session.cycles,
        "left_out": session.left_out,
        "learning": sorted(name for name, detector in session.detectors.items() if len(detector.first)),
        "new_alarms": told,
        "alarms": session.alarms,
        "problems": problems,
        "parameters": drift(session),
    }
