"""Sources of cycles: one growing log, or a folder in which logs appear; and the state of a watch.

Growing logs are read in parts, each line and file once, in bounded memory. The state is in watch.json, written
atomically, so that a watch resumes after a restart.
"""

import hashlib
import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from excitor.experiments.campaign import OpenCampaign, Run
from excitor.experiments.files import read_json, typed, write_atomically
from excitor.experiments.logs import read_run_aligned
from excitor.experiments.watch import session as watch
from excitor.identify.change import Detector, begin
from excitor.identify.log import Log, joint_side
from excitor.identify.logs.declared import ColumnMap
from excitor.identify.logs.formats import FORMATS, sniff
from excitor.identify.logs.opened import LONGEST_LINE, check_file
from excitor.identify.logs.read import read_log
from excitor.identify.recursive import Recursive
from excitor.identify.samples import Samples
from excitor.robots.arrays import FloatArray, locked, picked
from excitor.robots.errors import ExcitorError, InvalidLog
from excitor.robots.robot import Robot

BLIND = 20.0  # cycles' time without a cycle of the watched motion, after which that is reported


@dataclass(frozen=True, eq=False, slots=True)
class Batch:
    """Cycles that came together, and messages about them."""

    cycles: tuple[tuple[Samples, str, float], ...] = ()  # samples, log, s
    process: str = ""
    ahead: float = 0.0  # s that the clock of the day is ahead of the log's
    notes: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()  # what cannot be used


@dataclass(frozen=True, slots=True)
class Place:
    """Read position of a growing log: the byte after the last line read, and a digest to recognise the log."""

    offset: int = 0
    row: int = 0  # lines before the offset
    head: str = ""  # digest of its first bytes ...
    head_bytes: int = 0  # ... so many


@dataclass(frozen=True, eq=False, slots=True)
class Piece:
    """Consecutive samples on the joint side."""

    t: FloatArray  # (n_samples,), s
    q: FloatArray  # (n_samples, n_joints)
    tau: FloatArray
    rate: float
    before: Place  # where the samples begin
    after: Place  # and ends


@dataclass(slots=True)
class GrowingLog:
    """A text log that grows."""

    campaign: OpenCampaign
    path: Path
    run: Run
    declared: ColumnMap
    cutter: watch.Cutter
    place: Place = field(default_factory=Place)
    begun: list[tuple[int, Place]] = field(default_factory=list)  # of waiting samples: first index, and place
    added: int = 0
    skipping: int = 0  # samples that were dealt with before a restart
    checked: bool = False
    came: int = 0  # samples that were dealt with when the last cycle came
    blind: bool = False  # True if it was reported that none has come for long
    bad: tuple[int, int] = (0, 0)  # the row behind those left out last, and how many they were
    waits: bool = False

    @property
    def left_out(self) -> int:
        """Count the cycles that were another motion."""
        return self.cutter.left_out

    def news(self) -> Iterator[Batch]:
        """Read new lines in parts; a log that is rotated may be absent for a moment."""
        if not self.path.exists():
            return
        try:
            yield from self._news()
        except FileNotFoundError:
            return

    def _news(self) -> Iterator[Batch]:
        if moved(self.path, self.place):
            self.place, self.skipping, self.checked = Place(), 0, False
            watch.begin_segment(self.cutter)
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
        """Read the rows before a bad row or a gap; skip a bad row."""
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
        count = max(lines + 1, 2 * before if first == behind else 0)  # many are not read and reported one by one
        self.place = skip(self.path, self.place, self.declared, count)
        last = self.place.row
        self.bad = last + 1, count
        watch.begin_segment(self.cutter, same_log=True)
        yield Batch(problems=(f"{error}; left out" + (f", up to row {last}" if last > first else ""),))

    def _taken(self, piece: Piece) -> Batch:
        """Cut new samples into cycles."""
        self.place = piece.after
        t, q, tau = piece.t[self.skipping :], piece.q[self.skipping :], piece.tau[self.skipping :]
        skipped, self.skipping = min(self.skipping, len(piece.t)), max(0, self.skipping - len(piece.t))
        if not len(t):
            return Batch()
        notes = []
        if not watch.follows(self.cutter, t):
            notes.append(f"{self.path.name}: samples are missing before {t[0]:.3f} s; cycles are cut anew from there")
            watch.begin_segment(self.cutter, same_log=True)
        self.begun.append((self.added - skipped, piece.before))
        watch.add(self.cutter, t, q, tau, piece.rate, name=str(self.path))
        self.added += len(t)
        cycles = tuple(
            (watch.samples_of(self.campaign, self.run, one), self.path.name, one.t) for one in watch.cut(self.cutter)
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
            "place": asdict(place),
            "dealt_with": dealt_with,
            "cutter": cutter_data(self.cutter),
        }


@dataclass(slots=True)
class LogFolder:
    """A folder in which logs appear, each complete when it does not change any more."""

    campaign: OpenCampaign
    path: Path
    ignored: frozenset[str]  # names of logs that the model was made from
    taken: set[str] = field(default_factory=set)
    growing: dict[str, str] = field(default_factory=dict)
    cutters: dict[str, watch.Cutter] = field(default_factory=dict)

    @property
    def left_out(self) -> int:
        """Count the cycles that were another motion."""
        return sum(cutter.left_out for cutter in self.cutters.values())

    @property
    def waits(self) -> bool:
        """True if there are logs that were not checked twice."""
        return any(name not in self.ignored for name in self.growing)

    def news(self) -> Iterator[Batch]:
        """Read each complete log."""
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
        run = watch.run_of(self.campaign, path)
        declared = watch.declared_of(self.campaign, run)
        if run.program is not None:
            folder = self.campaign.folder.resolve()
            if not path.resolve().is_relative_to(folder):
                raise InvalidLog(path, "is of a program, and is outside of the campaign's folder; copy it to logs/")
            own = run.model_copy(update={"log": path.resolve().relative_to(folder).as_posix()})
            samples, _ = read_run_aligned(self.campaign, own)
            began = path.stat().st_mtime - len(samples) / samples.sample_rate_hz
            return Batch(((samples, path.name, 0.0),), run.name, ahead=began)
        cutter = self.cutters.setdefault(run.name, cutter_of(self.campaign, run))
        watch.begin_segment(cutter)
        log = read_log(path, declared, self.campaign.robot.joint_names)
        piece = _piece(self.campaign.robot, log, Place(), Place())
        ahead = path.stat().st_mtime - float(piece.t[-1])
        watch.add(cutter, piece.t, piece.q, piece.tau, piece.rate, name=str(path))
        cycles = tuple(
            (watch.samples_of(self.campaign, run, cycle), path.name, cycle.t) for cycle in watch.cut(cutter, ended=True)
        )
        watch.begin_segment(cutter)
        notes = () if cycles else (f"{path.name} holds no whole cycle of the motion that is watched",)
        return Batch(cycles, run.name, ahead=ahead, notes=notes)

    def data(self) -> dict[str, Any]:
        """Write which logs were taken."""
        cutters = {name: cutter_data(cutter) for name, cutter in self.cutters.items()}
        return {"log": str(self.path.resolve()), "taken": sorted(self.taken), "cutters": cutters}


Source = GrowingLog | LogFolder  # each gives new cycles whenever it is asked, and goes on after a restart


def open_source(campaign: OpenCampaign, log: Path | None, before: Mapping[str, Any]) -> Source:
    """Open the source to watch, and resume where its last watch ended."""
    path = campaign.folder / "logs" if log is None else log
    if not path.exists():
        hint = "name a log, or a folder of logs, with --log" if log is None else "name one that is there"
        raise ExcitorError(f"{path}: does not exist; {hint}")
    inside = sorted(entry for entry in path.glob("[!.]*")) if log is None else []
    if inside and all(entry.is_dir() for entry in inside):
        names = ", ".join(entry.name for entry in inside)
        raise ExcitorError(
            f"{path}: holds folders only ({names}), which are not looked into; name one, such as --log {inside[0]}"
        )
    known = before if before.get("log") == str(path.resolve()) else {}
    try:
        return _folder(campaign, path, log is None, known) if path.is_dir() else _file(campaign, path, known)
    except (KeyError, TypeError, AttributeError) as error:
        raise ExcitorError(
            f"{campaign.folder / 'watch.json'}: is damaged ({str(error)[:200]}); delete it to learn anew"
        ) from None


def cutter_of(campaign: OpenCampaign, run: Run) -> watch.Cutter:
    """Build a cutter with the settings of a run of the campaign."""
    margin = campaign.content.processing.drop_ends
    return watch.Cutter(run.period_s, run.cycle_s or 0.0, margin, drop=run.drop_periods)


def _file(campaign: OpenCampaign, path: Path, known: Mapping[str, Any]) -> GrowingLog:
    run = watch.run_of(campaign, path)
    if run.program is not None:
        raise InvalidLog(path, "is of a program, which is held against its plan when it is complete; watch its folder")
    source = GrowingLog(campaign, path, run, watch.declared_of(campaign, run), cutter_of(campaign, run))
    if known:
        source.place, source.skipping = place_of(known["place"]), max(0, int(known["dealt_with"]))
        restore_cutter(source.cutter, known["cutter"])
    return source


def _folder(campaign: OpenCampaign, path: Path, own: bool, known: Mapping[str, Any]) -> LogFolder:
    folder = path.resolve()
    logs = [(campaign.folder / run.log).resolve() for run in campaign.content.run]
    ignored = frozenset(log.name for log in logs if log.parent == folder) if own else frozenset()
    source = LogFolder(campaign, path, ignored, {str(mark) for mark in known.get("taken", [])})
    for run in campaign.content.run:
        if run.name in known.get("cutters", {}):
            source.cutters[run.name] = cutter_of(campaign, run)
            restore_cutter(source.cutters[run.name], known["cutters"][run.name])
    return source


PIECE = 1 << 20  # bytes read at once
HEAD = 4096  # bytes at the beginning by which a file is known again
LEAST_LINES = 20  # at once: fewer do not determine the rate
NO_LOGS = (".json", ".toml", ".html", ".md", ".pdf", ".py", ".c", ".urdf")  # other files in campaigns' folders


def moved(path: Path, place: Place) -> bool:
    """Return True if a log is not the one read so far: shorter, or begun anew."""
    size = check_file(path, 2**62)
    return size < place.offset or (place.head_bytes > 0 and _head(path, place.head_bytes) != place.head)


def read_on(
    path: Path, place: Place, robot: Robot, declared: ColumnMap, *, most_lines: int | None = None
) -> Piece | None:
    """Read the next whole lines of a growing log; None where there are too few. A cut last line is left alone."""
    heading_end, headings = _headings(path, declared)
    if heading_end is None:
        return None
    if place.offset < heading_end:
        place = Place(heading_end, int(declared.header))
    with path.open("rb") as file:
        file.seek(place.offset)
        block = file.read(PIECE)
    end = block.rfind(b"\n") + 1
    if not end and len(block) > LONGEST_LINE:
        raise InvalidLog(path, f"has a line of more than {LONGEST_LINE} characters: not a table of samples")
    body = block[:end] if most_lines is None else b"".join(block[:end].splitlines(keepends=True)[:most_lines])
    if body.count(b"\n") < LEAST_LINES:
        return None
    after = _behind(path, place, body)
    late = 0.0
    if declared.time is None and declared.sample_rate_hz is not None:
        late = (place.row - int(declared.header)) / declared.sample_rate_hz
    return _piece(robot, _decoded(path, place.row, headings + body, declared, robot), place, after, late)


def _piece(robot: Robot, log: Log, before: Place, after: Place, late: float = 0.0) -> Piece:
    """Bring a part of a log to the joint side; it begins `late` seconds later than its own rows tell."""
    measured = joint_side(robot, log)
    t = log.start_s + np.arange(len(measured.q)) / measured.sample_rate_hz + late
    return Piece(t, measured.q, measured.tau, measured.sample_rate_hz, before, after)


def skip(path: Path, place: Place, declared: ColumnMap, lines: int) -> Place:
    """Leave out the next lines of a growing log."""
    heading_end, _ = _headings(path, declared)
    if place.offset < (heading_end or 0):
        place = Place(heading_end or 0, int(declared.header))
    with path.open("rb") as file:
        file.seek(place.offset)
        taken = [file.readline(LONGEST_LINE) for _ in range(lines)]
    body = b"".join(line for k, line in enumerate(taken) if not k or line.endswith(b"\n"))  # the last may not be whole
    return _behind(path, place, body)


def new_logs(folder: Path, taken: set[str], growing: dict[str, str]) -> tuple[list[Path], dict[str, str]]:
    """List a folder's new logs that have not changed since the last check, the oldest first.

    `growing` are the marks of the last look, by name; the second result is what to give next time. Names that have
    left the folder leave `taken`, which so never outgrows the folder.
    """
    found: dict[str, tuple[int, str]] = {}
    for entry in os.scandir(folder):
        if entry.name.startswith(".") or Path(entry.name).suffix in NO_LOGS or not entry.is_file():
            continue
        seen = entry.stat()
        found[entry.name] = (seen.st_mtime_ns, f"{seen.st_size} {seen.st_mtime_ns}")
    marks = {f"{name} {mark}" for name, (_, mark) in found.items()}
    taken &= marks
    waiting = {name: mark for name, (_, mark) in found.items() if f"{name} {mark}" not in taken}
    ready = [name for name, mark in waiting.items() if growing.get(name) == mark]
    ready.sort(key=lambda name: (found[name][0], name))
    return [folder / name for name in ready], waiting


def mark_of(path: Path) -> str:
    """Return a file's mark, which changes if the file changes."""
    seen = path.stat()
    return f"{path.name} {seen.st_size} {seen.st_mtime_ns}"


def check_followed(path: Path, declared: ColumnMap) -> None:
    """Refuse formats that cannot be read while they grow; an empty file may still be begun."""
    if any(entry.file for entry in declared.signals):
        raise InvalidLog(path, "is one of several files of a log, which are not followed; put whole logs in a folder")
    if not check_file(path, 2**62):
        return
    format = declared.format or ("csv" if declared.signals else next(iter(sniff(path)), "none"))
    if format not in FORMATS or not FORMATS[format].grows:
        known = "is of no known format" if format not in FORMATS else f"is {format}"
        followed = ", ".join(name for name, form in FORMATS.loaded().items() if form.grows)
        sentence = f"{known}, which cannot be read while it grows ({followed} can)"
        raise InvalidLog(path, f"{sentence}; name the folder that complete logs are put in")


def _headings(path: Path, declared: ColumnMap) -> tuple[int | None, bytes]:
    """Find the line of headings: where it ends, and what it is; None while it is not whole."""
    if not declared.header:
        return 0, b""
    with path.open("rb") as file:
        line = file.readline(LONGEST_LINE + 1)
    if len(line) > LONGEST_LINE:
        raise InvalidLog(path, f"has a line of more than {LONGEST_LINE} characters: not a table of samples")
    return (len(line), line) if line.endswith(b"\n") else (None, b"")


def _decoded(path: Path, row: int, text: bytes, declared: ColumnMap, robot: Robot) -> Log:
    """Read a part of a log with the log's own reader; errors are reported with the log's name and rows."""
    with tempfile.TemporaryDirectory(prefix="excitor-") as folder:
        piece = Path(folder) / (path.name or "log")
        piece.write_bytes(text)
        try:
            return read_log(piece, declared, robot.joint_names)
        except InvalidLog as error:
            sentence = str(error).removeprefix(error.path)
            sentence = sentence.split(": ", 1)[-1] if error.row is not None else sentence.removeprefix(": ")
            sentence = sentence.replace(str(piece), str(path))
            at = None if error.row is None else error.row + row - int(declared.header)
            raise InvalidLog(path, sentence, at) from None


def _behind(path: Path, place: Place, body: bytes) -> Place:
    """Return the read position after some lines."""
    size = min(place.offset + len(body), HEAD)
    return Place(place.offset + len(body), place.row + body.count(b"\n"), _head(path, size), size)


def _head(path: Path, size: int) -> str:
    with path.open("rb") as file:
        return hashlib.sha256(file.read(size)).hexdigest()


FILE = "watch.json"
SCHEMA = 1
_ESTIMATE = ("values", "V", "d", "variance", "squares")
_ARRAYS = ("first", "level", "trend", "spread", "reference", "wander", "sums", "last", "alike")


def write_state(session: watch.Session, source: Mapping[str, Any]) -> None:
    """Write what was learned, and how far the source was read."""
    data = {
        "schema": SCHEMA,
        "robot": session.basis.campaign.robot.name,
        "model_sha256": session.basis.model_digest,
        **{key: getattr(session, key) for key in ("cycles", "left_out", "alarms", "ended")},
        "estimate": picked(session.estimate, f"{' '.join(_ESTIMATE)} updates=n_updates"),
        "detectors": {name: _detector_data(detector) for name, detector in session.detectors.items()},
        "source": dict(source),
    }
    write_atomically(session.basis.campaign.folder / FILE, json.dumps(data, allow_nan=False) + "\n")


def read_state(basis: watch.Basis) -> tuple[watch.Session, dict[str, Any], str]:
    """Read the state: session, source, and a note where nothing can be resumed."""
    path = basis.campaign.folder / FILE
    fresh = watch.begin_session(basis)
    if not path.exists():
        return fresh, {}, ""
    data = read_json(path, SCHEMA, made_by=f"excitor watch {typed(basis.campaign.folder)}")
    if data.get("model_sha256") != basis.model_digest or data.get("robot") != basis.campaign.robot.name:
        return fresh, {}, "model.json has changed since the last watch: everything is learned anew"
    try:
        session = watch.Session(
            basis,
            _estimate(data["estimate"], fresh.estimate),
            {str(name): _detector(entry, basis) for name, entry in data["detectors"].items()},
            int(data["cycles"]),
            int(data["left_out"]),
            [dict(alarm) for alarm in data["alarms"] if alarm_sentence(alarm)],  # raises if one is damaged
            {str(name): float(t) for name, t in data["ended"].items()},
        )
        return session, dict(data["source"]), ""
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ExcitorError(f"{path}: is damaged ({str(error)[:200]}); delete it to learn anew") from None


def place_of(data: Mapping[str, Any]) -> Place:
    """Read how far a growing log was read."""
    place = Place(int(data["offset"]), int(data["row"]), str(data["head"]), int(data["head_bytes"]))
    if min(place.offset, place.row, place.head_bytes) < 0:
        raise ValueError("a place is negative")
    return place


def cutter_data(cutter: watch.Cutter) -> dict[str, Any]:
    """Write how cycles are cut; samples that wait are read again."""
    template = None if cutter.template is None else np.round(cutter.template, 9).tolist()
    return picked(cutter, "period rate begins lost sure left_out") | {"template": template}


def restore_cutter(cutter: watch.Cutter, data: Mapping[str, Any]) -> None:
    """Restore how cycles were cut, if the period is still the same."""
    if data["period"] != cutter.period:
        return
    cutter.rate = float(data["rate"])
    cutter.begins = None if data["begins"] is None else float(data["begins"])
    cutter.left_out = int(data["left_out"])
    cutter.lost = bool(data["lost"]) and data["template"] is not None
    cutter.sure = bool(data.get("sure", True))
    if data["template"] is not None:
        cutter.template = _array(data["template"], None)


def _detector_data(detector: Detector) -> dict[str, Any]:
    arrays = {name: getattr(detector, name).tolist() for name in (*_ARRAYS, "suspected")}
    return picked(detector, "seen=n_cycles since worth=effective_cycles stepped warming") | arrays


def _detector(data: Mapping[str, Any], basis: watch.Basis) -> Detector:
    new = begin(basis.what.groups)
    suspected = np.array(data["suspected"], dtype=bool)
    if suspected.shape != (len(new.groups),):
        raise ValueError("a detector is of another robot")
    found: dict[str, Any] = {name: _array(data[name], getattr(new, name).shape) for name in _ARRAYS if name != "first"}
    found |= {
        "n_cycles": int(data["seen"]),
        "since": max(1, int(data["since"])),
        "effective_cycles": float(data["worth"]),
        "stepped": bool(data["stepped"]),
        "warming": int(data["warming"]),
        "first": np.array(data["first"], dtype=float).reshape(-1, len(new.level)),
    }
    return replace(new, suspected=suspected, **found)


def _estimate(data: Mapping[str, Any], fresh: Recursive) -> Recursive:
    found: dict[str, Any] = {key: locked(_array(data[key], getattr(fresh, key).shape)) for key in _ESTIMATE}
    if not ((found["d"] > 0.0).all() and (found["variance"] > 0.0).all()):
        raise ValueError("its covariance is not positive")
    return replace(fresh, **found, n_updates=int(data["updates"]))


def _array(values: Any, shape: tuple[int, ...] | None) -> FloatArray:
    array = np.array(values, dtype=float)
    if (shape is not None and array.shape != shape) or not np.isfinite(array).all():
        raise ValueError(f"an array has shape {array.shape}, expected {shape} finite numbers")
    return array


def alarm_sentence(cycle: Mapping[str, Any]) -> str:
    """Describe when a change was found, what changed most, and what changed with it."""
    first, *others = cycle["alarms"] or cycle["confirmed"]
    also = f"; beside it: {', '.join(entry['what'] for entry in others)}" if others else ""
    residuals = {name for name in cycle["surprise"] if name.startswith("residual of ")}
    if len(residuals) > 1 and residuals <= {entry["what"] for entry in (first, *others)}:
        also += "; at every joint something else has changed too: see whether the log is still this robot's, as before"
    return f"cycle {cycle['cycle']} ({cycle['log']}, {cycle['at_s']:.1f} s): {first['sentence']}{also}"


def summary_data(session: watch.Session, new: int, alarms: list[dict[str, Any]], problems: list[str]) -> dict[str, Any]:
    """Write the watch's results for scripts: of this call, and in all."""
    return {
        "watch": str(session.basis.campaign.folder),
        "robot": session.basis.model.robot_name,
        "new_cycles": new,
        "cycles": session.cycles,
        "left_out": session.left_out,
        "learning": sorted(name for name, detector in session.detectors.items() if len(detector.first)),
        "new_alarms": alarms,
        "alarms": session.alarms,
        "problems": problems,
        "parameters": watch.drift(session),
    }
