"""Where do cycles come from? One log that grows, or a folder in which logs appear."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from excitor.experiments.campaign import OpenCampaign, Run
from excitor.experiments.processing import read_run_aligned
from excitor.experiments.watching.cutting import Cutter, add, begin_stretch, cut, follows
from excitor.experiments.watching.follow import (
    LEAST_LINES,
    Piece,
    Place,
    check_followed,
    mark_of,
    moved,
    new_logs,
    read_on,
    read_whole,
    skip,
)
from excitor.experiments.watching.session import declared_of, run_of, samples_of
from excitor.experiments.watching.state import cutter_data, place_data, place_of, restore_cutter
from excitor.identify.logs.table import ColumnMap
from excitor.identify.samples import Samples
from excitor.robots.errors import ExcitorError, InvalidLog

BLIND = 20.0  # cycles' time without a cycle of the motion that is watched, after which that is told


@dataclass(frozen=True, eq=False, slots=True)
class Batch:
    """Cycles that came together, and what is to be told about them."""

    cycles: tuple[tuple[Samples, str, float], ...] = ()  # samples, log, s
    process: str = ""
    ahead: float = 0.0  # s that the clock of the day is ahead of the log's
    notes: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()  # what cannot be used


class Source(Protocol):
    """Gives what is new; can be asked again and again, and go on after a restart."""

    path: Path

    @property
    def left_out(self) -> int:
        """Count the cycles that were another motion."""

    @property
    def waits(self) -> bool:
        """Tell whether something is there that may not be complete yet."""

    def news(self) -> Iterator[Batch]:
        """Give what has come since the last time; after each batch, `data` is what has been dealt with."""

    def data(self) -> dict[str, Any]:
        """Write how far it was read."""


@dataclass(slots=True)
class Growing:
    """A text log that grows."""

    campaign: OpenCampaign
    path: Path
    run: Run
    declared: ColumnMap
    cutter: Cutter
    place: Place = field(default_factory=Place)
    begun: list[tuple[int, Place]] = field(default_factory=list)  # of waiting pieces: first sample, and where
    added: int = 0
    skipping: int = 0  # samples that were dealt with before a restart
    checked: bool = False
    came: int = 0  # samples that were dealt with when the last cycle came
    blind: bool = False  # whether it was told that none has come for long
    bad: tuple[int, int] = (0, 0)  # the row behind those left out last, and how many they were
    waits: bool = False

    @property
    def left_out(self) -> int:
        """Count the cycles that were another motion."""
        return self.cutter.left_out

    def news(self) -> Iterator[Batch]:
        """Read on, piece by piece; a log that is rotated may be away for a moment."""
        if not self.path.exists():
            return
        try:
            yield from self._news()
        except FileNotFoundError:
            return

    def _news(self) -> Iterator[Batch]:
        if moved(self.path, self.place):
            self.place, self.skipping, self.checked = Place(), 0, False
            begin_stretch(self.cutter)
            yield Batch(notes=(f"{self.path.name} begins anew: read from its start",))
        if not self.checked:
            check_followed(self.path, self.declared)
            self.checked = True
        while True:
            try:
                piece = read_on(self.path, self.place, self.campaign.robot, self.declared)
            except InvalidLog as error:
                yield from self._around(error)
                continue
            if piece is None:
                return
            yield self._taken(piece)

    def _around(self, error: InvalidLog) -> Iterator[Batch]:
        """Take what stands before a bad row or a gap; leave out a bad row."""
        first = max(self.place.row, int(self.declared.header)) + 1
        lines = -1 if error.row is None else error.row - first
        if lines < 0 or not (self.place.offset or lines >= LEAST_LINES):
            raise error
        if lines >= LEAST_LINES:
            piece = read_on(self.path, self.place, self.campaign.robot, self.declared, most_lines=lines)
            if piece is not None:
                yield self._taken(piece)
                return
        behind, before = self.bad
        count = max(lines + 1, 2 * before if first == behind else 0)  # many are not read and told one by one
        self.place = skip(self.path, self.place, self.declared, count)
        last = self.place.row
        self.bad = last + 1, count
        begin_stretch(self.cutter, same_log=True)
        yield Batch(problems=(f"{error}; left out" + (f", up to row {last}" if last > first else ""),))

    def _taken(self, piece: Piece) -> Batch:
        """Cut a piece into cycles."""
        self.place = piece.after
        t, q, tau = piece.t[self.skipping :], piece.q[self.skipping :], piece.tau[self.skipping :]
        skipped, self.skipping = min(self.skipping, len(piece.t)), max(0, self.skipping - len(piece.t))
        if not len(t):
            return Batch()
        notes = []
        if not follows(self.cutter, t):
            notes.append(f"{self.path.name}: samples are missing before {t[0]:.3f} s; cycles are cut anew from there")
            begin_stretch(self.cutter, same_log=True)
        self.begun.append((self.added - skipped, piece.before))
        add(self.cutter, t, q, tau, piece.rate, name=str(self.path))
        self.added += len(t)
        cycles = tuple(
            (samples_of(self.campaign, self.run, cycle), self.path.name, cycle.t) for cycle in cut(self.cutter)
        )
        if cycles:
            self.came, self.blind = self.cutter.gone, False
        if not self.blind and self.cutter.template is not None:
            missed = (self.cutter.gone - self.came) / len(self.cutter.template)
            if missed > BLIND:
                self.blind = True
                notes.append(
                    f"{self.path.name}: before {t[-1]:.1f} s the motion that is watched has not come for {missed:.0f} "
                    "cycles: the robot stands or works on something else, and is not watched meanwhile"
                )
        while len(self.begun) > 1 and self.begun[1][0] <= self.cutter.gone:
            self.begun.pop(0)
        return Batch(cycles, self.run.name, notes=tuple(notes))

    def data(self) -> dict[str, Any]:
        """Write from where to read again, so that the samples that wait come back."""
        place, dealt_with = self.place, 0
        if self.cutter.waiting and self.begun:
            first, before = self.begun[0]
            place = replace(before, head=self.place.head, head_bytes=self.place.head_bytes)
            dealt_with = max(self.cutter.gone - first, 0)
        return {
            "log": str(self.path.resolve()),
            "place": place_data(place),
            "dealt_with": dealt_with,
            "cutter": cutter_data(self.cutter),
        }


@dataclass(slots=True)
class Appearing:
    """A folder in which logs appear, each complete when it does not change any more."""

    campaign: OpenCampaign
    path: Path
    ignored: frozenset[str]  # names of logs that the model was made from
    taken: set[str] = field(default_factory=set)
    growing: dict[str, str] = field(default_factory=dict)
    cutters: dict[str, Cutter] = field(default_factory=dict)

    @property
    def left_out(self) -> int:
        """Count the cycles that were another motion."""
        return sum(cutter.left_out for cutter in self.cutters.values())

    @property
    def waits(self) -> bool:
        """Tell whether logs are there that were not looked at twice."""
        return any(name not in self.ignored for name in self.growing)

    def news(self) -> Iterator[Batch]:
        """Take each complete log."""
        ready, self.growing = new_logs(self.path, self.taken, self.growing)
        for path in ready:
            self.growing.pop(path.name, None)
            if path.name in self.ignored:
                continue
            try:
                mark = mark_of(path)
                batch = self._read(path)
            except FileNotFoundError:  # moved away meanwhile
                continue
            except (ExcitorError, ValueError, OSError) as error:
                batch = Batch(problems=(str(error),))
            self.taken.add(mark)
            yield batch

    def _read(self, path: Path) -> Batch:
        run = run_of(self.campaign, path)
        declared = declared_of(self.campaign, run)
        if run.program is not None:
            folder = self.campaign.folder.resolve()
            if not path.resolve().is_relative_to(folder):
                raise InvalidLog(path, "is of a program, and lies outside of the campaign's folder; copy it to logs/")
            log = path.resolve().relative_to(folder).as_posix()
            samples, _ = read_run_aligned(self.campaign, run.model_copy(update={"log": log}))
            began = path.stat().st_mtime - len(samples) / samples.sample_rate_hz
            return Batch(((samples, path.name, 0.0),), run.name, ahead=began)
        cutter = self.cutters.setdefault(run.name, cutter_of(self.campaign, run))
        begin_stretch(cutter)
        piece = read_whole(path, self.campaign.robot, declared)
        ahead = path.stat().st_mtime - float(piece.t[-1])
        add(cutter, piece.t, piece.q, piece.tau, piece.rate, name=str(path))
        cycles = tuple((samples_of(self.campaign, run, cycle), path.name, cycle.t) for cycle in cut(cutter, ended=True))
        begin_stretch(cutter)
        notes = () if cycles else (f"{path.name} holds no whole cycle of the motion that is watched",)
        return Batch(cycles, run.name, ahead=ahead, notes=notes)

    def data(self) -> dict[str, Any]:
        """Write which logs were taken."""
        cutters = {name: cutter_data(cutter) for name, cutter in self.cutters.items()}
        return {"log": str(self.path.resolve()), "taken": sorted(self.taken), "cutters": cutters}


def open_source(campaign: OpenCampaign, log: Path | None, before: Mapping[str, Any]) -> Growing | Appearing:
    """Open what is to be watched, and go on where the last watch of it ended."""
    path = campaign.folder / "logs" if log is None else log
    if not path.exists():
        hint = "name a log, or a folder of logs, with --log" if log is None else "name one that is there"
        raise ExcitorError(f"{path}: does not exist; {hint}")
    if log is None and path.is_dir() and (inside := folders_only(path)):
        raise ExcitorError(
            f"{path}: holds folders only ({', '.join(inside)}), which are not looked into; name one, such as "
            f"--log {path / inside[0]}"
        )
    known = before if before.get("log") == str(path.resolve()) else {}
    try:
        return _folder(campaign, path, log is None, known) if path.is_dir() else _file(campaign, path, known)
    except (KeyError, TypeError, AttributeError) as error:
        raise ExcitorError(
            f"{campaign.folder / 'watch.json'}: is damaged ({str(error)[:200]}); delete it to learn anew"
        ) from None


def folders_only(folder: Path) -> list[str]:
    """Name what is in a folder that holds other folders and nothing else."""
    inside = sorted(entry for entry in folder.iterdir() if not entry.name.startswith("."))
    return [entry.name for entry in inside] if inside and all(entry.is_dir() for entry in inside) else []


def cutter_of(campaign: OpenCampaign, run: Run) -> Cutter:
    """Cut cycles as a run of the campaign says."""
    margin = campaign.content.processing.drop_ends
    return Cutter(run.period_s, run.cycle_s or 0.0, margin, drop=run.drop_periods)


def _file(campaign: OpenCampaign, path: Path, known: Mapping[str, Any]) -> Growing:
    run = run_of(campaign, path)
    if run.program is not None:
        raise InvalidLog(path, "is of a program, which is held against its plan when it is complete; watch its folder")
    source = Growing(campaign, path, run, declared_of(campaign, run), cutter_of(campaign, run))
    if known:
        source.place, source.skipping = place_of(known["place"]), max(0, int(known["dealt_with"]))
        restore_cutter(source.cutter, known["cutter"])
    return source


def _folder(campaign: OpenCampaign, path: Path, own: bool, known: Mapping[str, Any]) -> Appearing:
    folder = path.resolve()
    logs = [(campaign.folder / run.log).resolve() for run in campaign.content.run]
    ignored = frozenset(log.name for log in logs if log.parent == folder) if own else frozenset()
    source = Appearing(campaign, path, ignored, {str(mark) for mark in known.get("taken", [])})
    for run in campaign.content.run:
        if run.name in known.get("cutters", {}):
            source.cutters[run.name] = cutter_of(campaign, run)
            restore_cutter(source.cutters[run.name], known["cutters"][run.name])
    return source
