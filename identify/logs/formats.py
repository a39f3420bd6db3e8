"""All log formats behind one interface: found by a file's content, or named; every one gives a `Recording`."""

import re
import tempfile
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path

import numpy as np

from excitor.identify.log import Recording
from excitor.identify.logs.declared import UNITS
from excitor.identify.logs.opened import HEAD, LogFormat, check_file, head
from excitor.robots.errors import ExcitorError, InvalidLog, choice
from excitor.robots.plugins import Members

_SURE = 2


def sniff(path: Path) -> list[str]:
    """List the formats that a file's content fits, the best first.

    Formats of installed packages are asked where no other one is sure; a broken one matters where none fits.
    """
    start = head(path)
    scores = {name: int(form.fits(start)) for name, form in FORMATS.loaded().items()}
    if _SURE not in scores.values():
        broken: list[ExcitorError] = []
        for name in [name for name in FORMATS if name not in scores]:
            try:
                scores[name] = int(FORMATS[name].fits(start))
            except ExcitorError as error:
                broken.append(error)
        if broken and not any(scores.values()):
            raise broken[0]
    return sorted((name for name, score in scores.items() if score), key=lambda name: -scores[name])


def read_raw(path: Path, format: str | None = None) -> Recording:
    """Read a file's recording; InvalidLog states the fault, with the row where there is one."""
    if format is None:
        if not path.is_dir() and not check_file(path, 2**62):
            raise InvalidLog(path, "is empty")
        found = sniff(path)
        if not found:
            raise InvalidLog(path, f"is of no known format{_hint(path)}; known are {', '.join(FORMATS)}")
        format = found[0]
    if format not in FORMATS:
        raise InvalidLog(path, f"format is {format!r}, expected one of {choice(format, FORMATS)}")
    return FORMATS[format].read(path)


def log_files(path: Path) -> list[Path]:
    """List the files that a log consists of, for its digest."""
    found = sniff(path)
    return FORMATS[found[0]].files(path) if found else [path]


def _hint(path: Path) -> str:
    """Return a clause on why a file is not text; empty if there is none."""
    start = head(path)
    if b"\0" in start.data:
        return ", and no text: it contains zero bytes (UTF-16? save it as UTF-8)"
    if len(start.data) == HEAD and b"\n" not in start.data and b"\r" not in start.data:
        return f": its first line has more than {HEAD} characters"
    return ""


def check_log_format(form: LogFormat) -> None:
    """Run the conformance suite of log formats; ExcitorError lists everything that a format does not fulfil.

    Args:
        form: a LogFormat.

    It reads its example twice alike, into channels of finite numbers with units that are known, on times that never go
    back. Its example is told to be its own, and those of other formats are not. Of the example emptied, cut, filled
    with other bytes or with numbers that are none it reads what is right, or it refuses by an InvalidLog that names the
    file.

    >>> import excitor as ex
    >>> ex.check_log_format(ex.LogFormat("lines", lambda head: 2, lambda path: None, lambda path: path.write_text("")))
    Traceback (most recent call last):
    excitor.robots.errors.ExcitorError: log format 'lines': its example cannot be read: ...
    """
    problems = list(_named(form))
    with tempfile.TemporaryDirectory(prefix="excitor-") as name:
        if not problems:
            problems = list(_reads(form, Path(name)) or _recognises(form, Path(name)) or _refuses(form, Path(name)))
    if problems:
        raise ExcitorError(f"log format {getattr(form, 'name', form)!r}: {'; '.join(problems)}")


def _named(form: LogFormat) -> Iterator[str]:
    if not isinstance(form, LogFormat):
        yield f"is {type(form).__name__}, expected a LogFormat(name, fits, read, example)"
        return
    if not isinstance(form.name, str) or not re.fullmatch(r"[a-z][a-z0-9_-]*", form.name):
        yield f"its name is {form.name!r}, expected small letters, digits, dashes"
    yield from (f"{key} cannot be called" for key in ("fits", "read", "example") if not callable(getattr(form, key)))


def _example(form: LogFormat, folder: Path) -> Path:
    path = folder / form.name / "log"
    if not path.exists():
        path.parent.mkdir(exist_ok=True)
        form.example(path)
    return path


def _reads(form: LogFormat, folder: Path) -> list[str]:
    """Read the example twice."""
    try:
        path = _example(form, folder)
        first, second = form.read(path), form.read(path)
    except Exception as error:  # whatever a reader from elsewhere does
        return [f"its example cannot be read: {type(error).__name__}: {error}"]
    return _faults(first, form, path) or ([] if _same(first, second) else ["reads its example differently again"])


def _faults(found: Recording, form: LogFormat, path: Path) -> list[str]:
    """List what is wrong with a recording, whichever file it is of."""
    if not isinstance(found, Recording):
        return [f"read gives {type(found).__name__}, expected a Recording"]
    problems = []
    if (found.path, found.format) != (str(path), form.name):
        problems.append(f"its recording is of {found.path!r} and of the format {found.format!r}")
    names = [channel.name for channel in found.channels]
    if not names or len(set(names)) < len(names):
        problems.append("its recording has two channels of one name, or none")
    for channel in found.channels:
        t, own = channel.t, path.name == "log"  # of damaged logs, the columns that are used are judged later
        if own and not (np.isfinite(channel.values).all() and (t is None or np.isfinite(t).all())):
            problems.append(f"{channel.name} or its time has numbers that are not finite")
        elif own and t is not None and (np.diff(t) < 0.0).any():
            problems.append(f"the time of {channel.name} goes back")
        units = UNITS.get(channel.kind or "")
        if units is not None and channel.unit is not None and channel.unit not in units:
            problems.append(
                f"{channel.name} is a {channel.kind} in {channel.unit!r}, expected one of {', '.join(units)}"
            )
    return problems


def _same(first: Recording, second: Recording) -> bool:
    return [channel.name for channel in first.channels] == [channel.name for channel in second.channels] and all(
        np.array_equal(a.values, b.values) for a, b in zip(first.channels, second.channels, strict=True)
    )


def _recognises(form: LogFormat, folder: Path) -> list[str]:
    """Recognise its own example, and no other format's, as `sniff` would."""
    problems = []
    known: Mapping[str, LogFormat] = {**FORMATS.loaded(), form.name: form}
    for name, owner in known.items():
        try:
            start = head(_example(owner, folder))
        except ImportError:  # a library that writes or reads it is not installed
            continue
        scores = {key: int(one.fits(start)) for key, one in known.items() if form.name in (name, key) or key == name}
        best = max(scores, key=lambda key: scores[key])
        if not scores[best] or best != name:
            taken = f"that of {best}" if scores[best] else "that of no format"
            problems.append(f"the example of {name} is taken for {taken}; fits must give 2 for its own files alone")
    return problems


def _refuses(form: LogFormat, folder: Path) -> list[str]:
    """Damage the example, and read what is left of it."""
    whole = _example(form, folder).read_bytes()
    problems = []
    for k, (what, damaged) in enumerate(_damages(whole).items()):
        path = folder / form.name / f"damaged-{k}"
        path.write_bytes(damaged)
        try:
            problems += [f"{what}: {fault}" for fault in _faults(form.read(path), form, path)]
        except InvalidLog as error:
            if str(folder) not in str(error):
                problems.append(f"{what}: the refusal does not name the file: {error}")
        except Exception as error:
            problems.append(f"{what}: raises {type(error).__name__} ({error}); raise InvalidLog to refuse")
        else:
            if not damaged or what == "other bytes":
                problems.append(f"{what}: is read, expected an InvalidLog")
    return problems


def _damages(whole: bytes) -> dict[str, bytes]:
    """Damage a whole file in every way that a log may be damaged."""
    half = len(whole) // 2
    numbers = list(re.finditer(rb"(?<![\w.])-?\d+(\.\d+)?(?![\w.])", whole[half:]))
    damages = {
        "empty": b"",
        "other bytes": np.random.default_rng(0).bytes(2000),
        "bytes overwritten": whole[:half] + b"\xff" * 16 + whole[half + 16 :],
        "a word in it": whole[:half] + b"word" + whole[half:],
        **{f"cut at {share} %": whole[: share * len(whole) // 100] for share in (10, 50, 90)},
    }
    if b"\0" not in whole and numbers:
        start, end = (half + at for at in numbers[len(numbers) // 2].span())
        damages |= {f"{text} in it": whole[:start] + text.encode() + whole[end:] for text in ("nan", "inf", "1e400")}
    return damages


_MODULES = (  # of equal fits the first wins: the particular ones come before the general
    "ros", "kuka", "matlab", "npz", "parquet", "twincat", "ours", "abb", "fanuc", "franka", "ur", "table",
)  # fmt: skip
_BUILTIN: tuple[LogFormat, ...] = tuple(import_module(f"excitor.identify.logs.{name}").FORMAT for name in _MODULES)
FORMATS: Members[LogFormat] = Members("excitor.log_formats", {form.name: form for form in _BUILTIN}, check_log_format)
