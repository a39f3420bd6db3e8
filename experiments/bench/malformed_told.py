"""What do malformed files give? All are read in one process of its own, so that what it fills of memory is theirs."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from excitor.experiments.bench.malformed_every import Malformed, all_malformed
from excitor.experiments.bench.reader_seeds import SEEDS
from excitor.identify.logs.read import FORMATS, read_raw
from excitor.robots.errors import ExcitorError, InvalidLog

SLOWEST = 2.0  # s in which a damaged file must be told
LARGEST = 600.0  # MB that reading a damaged file may fill
_PATIENCE = 600.0  # s until a process that hangs is given up


@dataclass(frozen=True, slots=True)
class Answer:
    """What one file gave."""

    name: str
    sentence: str  # empty: it was read
    seconds: float
    wrong: str  # why that is not good; empty where it is


@dataclass(frozen=True, slots=True)
class Told:
    """What all files gave, and how much memory that took, MB."""

    answers: tuple[Answer, ...]
    memory: float  # the most that reading one file added, with all of the process that reads apart


def ask_all() -> Told:
    """Read every malformed file in another process."""
    done = subprocess.run(
        [sys.executable, "-P", "-m", __name__], capture_output=True, text=True, check=False, timeout=_PATIENCE
    )
    if done.returncode != 0:
        told = (done.stderr.splitlines() or ["without a word"])[-1][:500]
        raise ExcitorError(f"the process that reads malformed files ended: {told}; it needs excitor[matlab,parquet]")
    data = json.loads(done.stdout)
    return Told(tuple(Answer(**answer) for answer in data["answers"]), data["memory"])


def answers(files: Iterable[Malformed]) -> tuple[list[Answer], float]:
    """Read files, one after the other, each in a folder of its own; tell the most memory that one took, MB."""
    found, most = [], 0.0
    for file in files:
        folder = Path(tempfile.mkdtemp(prefix="excitor-malformed-"))
        own = folder / "own"
        own.mkdir()
        try:
            path = file.write(own)
            before = _peak(fresh=True)
            found.append(_answer(file, path))
            most = max(most, _peak() - before + _peak_apart())
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    return found, most


def _peak(fresh: bool = False) -> float:
    """Tell the most memory that this process has filled, MB; `fresh`: counted from now on, where the system can."""
    import resource

    try:
        if fresh:
            Path("/proc/self/clear_refs").write_text("5")
        return _filled("self")
    except (OSError, IndexError):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)


def _peak_apart() -> float:
    """Tell the same of the process that reads apart, its libraries included; 0 where the system does not tell."""
    try:
        children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
        return max(map(_filled, children), default=0.0)
    except (OSError, IndexError):
        return 0.0


def _filled(process: str) -> float:
    return float(Path(f"/proc/{process}/status").read_text().split("VmHWM:")[1].split()[0]) / 2**10


def _answer(file: Malformed, path: Path) -> Answer:
    sentence = wrong = ""
    start = time.monotonic()
    try:
        read_raw(path, file.reader)
    except InvalidLog as error:
        sentence = str(error)
    except BaseException as error:  # that is what is looked for
        wrong = f"{type(error).__name__}: {error}"[:500]
    seconds = time.monotonic() - start
    if not wrong:
        wrong = _wrong(file, path, sentence)
    if not wrong and seconds > SLOWEST:
        wrong = f"took {seconds:.1f} s"
    return Answer(file.name, sentence.replace(str(path.parent), ""), seconds, wrong)


def _wrong(file: Malformed, path: Path, sentence: str) -> str:
    if not sentence:
        return "" if file.legible else "was read"
    if str(path.parent) not in sentence:
        return f"does not name the file: {sentence[:200]}"
    if not re.search(file.words, sentence):
        return f"says something else: {sentence[:200]}"
    return "" if len(sentence) < 2000 and sentence.isprintable() else f"is no sentence: {sentence[:200]!r}"


def main() -> None:
    """Read all of them, and print what they gave."""
    with tempfile.TemporaryDirectory(prefix="excitor-malformed-") as name:  # libraries and what runs apart start first
        for k, write in enumerate(write for seeds in SEEDS.values() for write in seeds):
            own = Path(name) / str(k)
            own.mkdir()
            write(own)
            read_raw(min(own.iterdir()))
    found, memory = answers(all_malformed())
    print(json.dumps({"answers": [asdict(answer) for answer in found], "memory": memory}))


assert set(SEEDS) == set(FORMATS), "every reader has a seed"

if __name__ == "__main__":
    main()
