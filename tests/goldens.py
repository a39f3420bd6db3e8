"""Golden outputs: everything the command line writes, at fixed seeds, before and after a change of the code.

    python tests/goldens.py write BEFORE                 all of it, some four minutes of one core
    python tests/goldens.py write BEFORE tx40 code       only these jobs; the fast ones are "robots" and "emission"
    python tests/goldens.py compare BEFORE AFTER         bit for bit
    python tests/goldens.py compare BEFORE AFTER --numbers [--relative 1e-9] [--absolute 0] [--jobs tx40 code]

Before a refactoring `write` a folder outside the repository, after it another one, and `compare` the two: a move or a
merge of modules changes nothing. Where the arithmetic itself was rewritten, `--numbers` compares the JSON trees with a
tolerance and names the largest deviation of each file. `write AFTER --inputs BEFORE` puts the design.json and the logs
of BEFORE in the place of its own before they are used, so that a deviation of the search or of the virtual robot does
not reach the programs and the models. Both folders must be written on the same machine with the same libraries: other
processors round differently.

What is written: FOLDER/index.json, the SHA-256 of everything; FOLDER/JOB/NAME.json, what a verb printed with `--json`
and its exit code; FOLDER/JOB/CELL/..., the JSON files of a campaign's folder. Of programs, pages, code and logs only
the SHA-256 is kept. FOLDER/inputs holds design.json and logs as they were, for `--inputs`. A job that fails is recorded
with the error it fails with, and the others go on. Left out: the keys in VOLATILE and the cells of
compare.html that show them, the version of Excitor, and the temporary folder's path.

Jobs on recordings need the published data: `--data DIR` (folders tx40 and qrc350), or a folder shared/data above the
repository. Without them they are skipped, which is printed. LONG jobs run only if they are named.

The fast jobs are committed beside this file, in goldens/, and compared by test_goldens.py. After an intended change
of what they print: `python tests/goldens.py write tests/goldens robots emission`. Programs are emitted from the designs
in goldens/cells, which go stale when the file of their robot changes: then `python tests/goldens.py cells` first.

Only the command `excitor` is used here, through its entry point, and nothing is imported from the package, so that
this file outlives any reorganisation of modules.
"""

import argparse
import contextlib
import hashlib
import importlib.metadata
import io
import json
import math
import os
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
COMMITTED = HERE / "goldens"
INDEX = "index.json"
INPUTS = "inputs"
VOLATILE = {"cpu_s"}  # keys whose values are times taken
DAY = 1.7e9  # s: when logs were written
MISSING = object()

# ---------------------------------------------------------------------------------------------------------- campaigns
SHORT = """
[design]
base_frequency_hz = 0.2
harmonics = 3
settle_s = 0.5
ramp_s = 1.0
hold_s = 0.5
warm_up_periods = 1
measured_periods = 2
controller_sample_s = 0.01
"""
STEPS_OF_8_MS = """
[design]
base_frequency_hz = 0.25
harmonics = 3
settle_s = 0.4
ramp_s = 0.8
hold_s = 0.4
warm_up_periods = 1
measured_periods = 2
controller_sample_s = 0.008
"""
ROTRADI = 'robot = "rotradi"\nhome_deg = [10, 20, 30]\n[noise]\ntorque = [0.3, 0.3, 0.1]\n' + SHORT
TX40 = (
    """robot = "tx40"
home_deg = [0, 0, 90, 0, 0, 0]
[noise]
torque = [0.5, 0.5, 0.3, 0.1, 0.1, 0.1]
[limits]
tool_speed_m_s = 1.5
[cell]
tool_radius_m = 0.05
[[cell.zone]]
name = "table"
keep = "out"
shape = "half-space"
point = [0.0, 0.0, 0.0]
normal = [0.0, 0.0, 1.0]
clearance_m = 0.05
[[cell.zone]]
name = "wall"
keep = "out"
shape = "box"
low = [-0.7, 0.35, 0.0]
high = [0.7, 0.45, 1.2]
"""
    + STEPS_OF_8_MS
)
FIVE_BAR = 'robot = "five-bar-vertical"\n[noise]\ntorque = [0.1, 0.1]\n' + SHORT
PAYLOAD = """robot = "kr150"
task = "payload"
home_deg = [0, 0, 0, 0, 0, 0]
[payload]
mass = 80
center = [0.02, 0.0, 0.15]
inertia = [2.0, 0.0, 0.0, 2.0, 0.0, 2.0]
[rated]
mass = 110
[limits]
torque_percent = 70.0
[cell]
tool_radius_m = 0.05
[noise]
torque = [160, 200, 120, 36, 36, 22]
[design]
schedule = "payload-pair"
joints = ["A3", "A4", "A5", "A6"]
model = "load"
base_frequency_hz = 0.2
harmonics = 3
controller_sample_s = 0.008
settle_s = 0.4
ramp_s = 2.0
warm_up_periods = 0
measured_periods = 2
hold_s = 0.4
"""
TORQUE = """robot = "rotradi"
home_deg = [0, 0, 0]
[noise]
torque = [0.5, 1.5, 0.15]
[design]
excitation = "torque"
[design.torque]
duration_s = 1.0
fade_s = 0.4
coast_s = 1.0
band_rad_s = [3.0, 12.0]
"""
VARIANTS = {  # of the rotradi's campaign: what is added to [design]
    "single": 'schedule = "single"\n',
    "locked-sequence": 'schedule = "locked-sequence"\n',
    "gentle-first": 'schedule = "gentle-first"\n',
    "d": 'criterion = "d"\n',
    "a": 'criterion = "a"\n',
    "e": 'criterion = "e"\n',
    "power": 'model = "power"\n',
    "restarts": 'method = "restarts"\n',
    "front": 'front = ["condition", "torque"]\n',
    "static-poses": "static_poses = 4\n",
    "friction-sweeps": "friction_sweeps = true\n",
}
WRONG = {  # campaigns that are refused
    "unknown-key": 'robot = "rotradi"\n[design]\nharmonic = 3\n[limit]\ntorque_percent = 120\n',
    "unknown-robot": 'robot = "tx50"\n',
    "not-toml": 'robot = "rotradi\n',
    "infeasible": 'robot = "rotradi"\n[limits]\nvelocity_percent = 1\ntorque_percent = 1\n' + SHORT,
}
URDF_CAMPAIGN = 'robot = "arm.urdf"\n[noise]\ntorque = [0.3, 0.3]\n' + SHORT
_LINK = """<link name="{0}"><inertial><origin xyz="0.15 0.01 0" rpy="0 0 0.1"/><mass value="{1}"/>
<inertia ixx="0.02" ixy="0" ixz="0.001" iyy="0.1" iyz="0" izz="0.1"/></inertial></link>
"""
_JOINT = """<joint name="{0}" type="revolute"><parent link="{1}"/><child link="{2}"/><origin xyz="{3}" rpy="0 0 0"/>
<axis xyz="0 1 0"/><limit lower="-2" upper="2" velocity="3" effort="{4}"/><dynamics damping="0.5" friction="1"/></joint>
"""
URDF = (
    '<robot name="two-link">\n<link name="base"/>\n'
    + _LINK.format("upper", 6.0)
    + _LINK.format("fore", 3.0)
    + _JOINT.format("shoulder", "base", "upper", "0 0 0.5", 120)
    + _JOINT.format("elbow", "upper", "fore", "0.3 0 0", 60)
    + "</robot>\n"
)
DECLARED = """robot = "rotradi"
[log]
format = "client_csv"
[[log.signals]]
kind = "position"
side = "joint"
unit = "rad"
columns = ["position:base_joint", "position:shoulder", "position:elbow"]
[[log.signals]]
kind = "torque"
side = "joint"
unit = "N m"
columns = ["effort:base_joint", "effort:shoulder", "effort:elbow"]
[[run]]
name = "excitation"
log = "excitation.csv"
period_s = 5.0
drop_periods = 1
[[run]]
name = "validation"
log = "validation.csv"
role = "validate"
[processing]
lowpass_hz = 10.0
decimate = [4]
"""  # the rotradi's logs, read as a stranger's
JOINTS = ", ".join(f'"Joint_{k}"' for k in range(1, 7))
TX40_RECORDING = f"""robot = "tx40"
[log]
sample_rate_hz = 5000.0
[[log.signals]]
kind = "position"
side = "motor"
unit = "rad"
columns = [{JOINTS}]
[[log.signals]]
kind = "torque"
side = "motor"
unit = "N m"
columns = [{JOINTS}]
file = "curr_data.csv"
[[run]]
name = "first half"
log = "pos_read_data.csv"
to_s = 4.7
[[run]]
name = "second half"
log = "pos_read_data.csv"
role = "validate"
from_s = 4.7
[processing]
lowpass_hz = 50.0
true_cutoff = false
decimate = [10, 10]
"""
QRC350_RECORDING = """robot = "qrc350"
[matlab]
q = "q_meas.average_rect"
dq = "dq_meas.average_rect"
ddq = "ddq_meas.average_rect"
tau = "tau_meas.average"
time = "time_vec_save"
variance = "tau_meas.variance"
[processing]
lowpass_hz = 15.0
dead_zone_percent = 0.0
[[run]]
name = "A"
log = "trajectory_a.mat"
[[run]]
name = "C"
log = "trajectory_c.mat"
role = "validate"
"""
EXACT = ("csv", "urscript", "rapid", "twincat", "franka", "ros2", "krl", "krl-rsi", "fanuc-j519")
APPROXIMATE = ("rapid-move", "val3", "fanuc")
METHODS = ("ols", "wls", "irls", "ridge", "tls", "rls", "ml", "iv", "filtered dynamic", "energy", "power")
EXPORTS = ("mjcf", "urdf", "py", "c")
LOADS = ("kuka", "abb", "fanuc", "ur")
VERBS = (
    "robots",
    "init",
    "design",
    "emit",
    "verify",
    "simulate",
    "identify",
    "report",
    "compare",
    "next",
    "watch",
    "export",
    "study",
    "bench",
    "status",
    "demo",
)


# --------------------------------------------------------------------------------------------------- running the verbs
@dataclass
class Net:
    """Where goldens are written, and what has been so far."""

    folder: Path
    data: Path | None = None
    inputs: Path | None = None
    index: dict[str, str] = field(default_factory=dict)
    job: str = ""

    def verb(self, name: str, *arguments: object) -> Any:
        """Run a verb with `--json`, keep what it prints and its exit code as NAME.json."""
        code, text = excitor(*arguments, "--json")
        return self.keep(name, code, parsed(text))

    def text(self, name: str, *arguments: object) -> None:
        """Run a verb without `--json`, keep what it prints."""
        code, text = excitor(*arguments)
        self.keep(name, code, clean(text).splitlines())

    def keep(self, name: str, code: object, printed: object) -> Any:
        """Store one printed answer."""
        self.store(f"{self.job}/{name}.json", {"exit": code, "printed": printed})
        return printed

    def store(self, name: str, tree: object) -> None:
        """Store a JSON tree, normalised, and its digest."""
        text = json.dumps(normalised(tree), sort_keys=True, separators=(",", ":"), ensure_ascii=False) + "\n"
        self.index[name] = hashlib.sha256(text.encode()).hexdigest()
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8", newline="\n")

    def files(self, cell: Path, json_too: bool = True) -> None:
        """Keep the digest of every file of a campaign's folder, and the JSON files themselves."""
        for path in sorted(path for path in cell.rglob("*") if path.is_file()):
            name = f"{self.job}/{path.as_posix()}"
            if path.suffix == ".json" and json_too:
                self.store(name, parsed(path.read_text("utf-8")))
            elif path.name == "compare.html":
                self.index[name] = digest(without_times(path).encode())
            else:
                self.index[name] = digest(path.read_bytes())

    def hand_over(self, *names: str) -> None:
        """Keep what the next verbs read as it is; with `--inputs`, put the earlier one in its place."""
        for name in names:
            there = self.folder / INPUTS / self.job / name
            earlier = self.inputs / INPUTS / self.job / name if self.inputs is not None else None
            if earlier is not None and earlier.exists():
                replace(earlier, Path(name))
            if Path(name).exists():
                replace(Path(name), there)
            for k, path in enumerate(sorted(Path(name).rglob("*"))):
                os.utime(path, (DAY + 60 * k, DAY + 60 * k))  # a watch orders logs by their time


def replace(source: Path, target: Path) -> None:
    """Copy a file or a folder to where another one may lie."""
    if source.is_dir():
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(source, target)
    else:
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)


def excitor(*arguments: object) -> tuple[object, str]:
    """Run the command line in this process: its exit code and its standard output; a crash is recorded as such."""
    (entry,) = importlib.metadata.entry_points(group="console_scripts", name="excitor")
    out, given = io.StringIO(), sys.argv
    sys.argv = ["excitor", *map(str, arguments)]
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
            entry.load()()
    except SystemExit as stop:
        return stop.code or 0, out.getvalue()
    except Exception as error:
        return f"crashed with {type(error).__name__}: {clean(str(error))}", out.getvalue()
    finally:
        sys.argv = given
    return 0, out.getvalue()


def parsed(text: str) -> Any:
    """Read JSON; what is none is kept as lines."""
    try:
        return json.loads(text)
    except ValueError:
        return clean(text).splitlines()


def clean(text: str) -> str:
    """Take the temporary folder and the version out of a text."""
    version = importlib.metadata.version("excitor")
    text = text.replace(str(Path.cwd()), "FOLDER")
    return text.replace(f"Excitor {version}", "Excitor VERSION").replace(f'"excitor": "{version}"', '"excitor": ""')


def normalised(tree: Any) -> Any:
    """Take out of a tree what differs from run to run."""
    if isinstance(tree, dict):
        return {k: "VERSION" if k == "excitor" else normalised(v) for k, v in tree.items() if k not in VOLATILE}
    if isinstance(tree, list):
        return [normalised(entry) for entry in tree]
    return clean(tree) if isinstance(tree, str) else tree


def digest(content: bytes) -> str:
    """Digest a file; of a text, without the temporary folder and the version."""
    with contextlib.suppress(UnicodeDecodeError):
        content = clean(content.decode()).encode()
    return hashlib.sha256(content).hexdigest()


def without_times(page: Path) -> str:
    """Read the page of a comparison without the cells of times taken, which compare.json beside it lists."""
    methods = json.loads(page.with_suffix(".json").read_text("utf-8"))["methods"]
    taken = {repr(method.get("cpu_s")) for method in methods}
    text = page.read_text("utf-8")
    return re.sub(r'data-number="([^"]*)">[^<]*', lambda cell: "" if cell[1] in taken else cell[0], text)


def cell(name: str, campaign: str) -> Path:
    """Make a campaign's folder in the working directory."""
    folder = Path(name)
    folder.mkdir()
    (folder / "campaign.toml").write_text(campaign, "utf-8", newline="\n")
    return folder


# ---------------------------------------------------------------------------------------------------------------- jobs
def robots(net: Net) -> None:
    """Write the catalogue: every robot's page."""
    for entry in net.verb("list", "robots")["robots"]:
        net.verb(entry["name"], "robots", entry["name"])


def emission(net: Net) -> None:
    """Write programs for every target from the committed designs."""
    for name in ("tx40", "iiwa"):
        folder = Path(shutil.copytree(COMMITTED / "cells" / name, name))
        emit(net, folder, EXACT if name == "tx40" else ("franka",), keep=False)
        if name == "tx40":
            emit(net, folder, APPROXIMATE, keep=False)
        net.files(folder, json_too=False)
    for path in sorted(Path("tx40/programs/csv").glob("*.csv")):  # twelve decimals: the last depends on the processor
        net.index[f"{net.job}/{path.as_posix()}"] = digest(rounded(path.read_text("utf-8")).encode())
    net.index.pop(f"{net.job}/tx40/programs/csv/manifest.json", None)  # which holds digests of these files


def rounded(table: str) -> str:
    """Round the numbers of a table to nine decimals."""
    return re.sub(r"-?\d+\.\d+", lambda number: repr(round(float(number[0]), 9) + 0.0), table)


def emit(net: Net, folder: Path, targets: Iterable[str] = (), keep: bool = True) -> None:
    """Emit for targets one by one, so that one that stops leaves the others; none named: all that keep times."""
    for target in targets or ("all",):
        roughly = ("--approximate", "--spacing", "0.05") if target in APPROXIMATE else ()
        code, text = excitor("emit", folder, "--target", target, *roughly, "--json")
        printed = parsed(text)
        if not keep and isinstance(printed, dict):
            printed = [entry["refused"] for entry in printed.get("targets", [])]
        net.keep(f"{folder.name}-emit-{target}", code, printed)


def code(net: Net) -> None:
    """Write models as code and in closed form, what they cost, what locking loses."""
    for name in ("tx40", "kr150", "palletiser", "rotradi"):
        for language in ("c", "st", "python"):
            net.text(f"{name}-{language}", "robots", name, "--export", language)
        net.verb(f"{name}-counts", "robots", name, "--counts")
    net.text("rotradi-equations", "robots", "rotradi", "--equations")
    net.verb("tx40-locked", "robots", "tx40", "--lock", "j1", "--lock", "j2")
    for name in ("tx40", "delta"):
        net.text(f"{name}-page", "robots", name)


def texts(net: Net) -> None:
    """Write the help of all verbs, the campaigns that init begins, and how wrong ones are refused."""
    net.text("help", "--help")
    for verb in VERBS:
        net.text(f"help-{verb}", verb, "--help")
    net.verb("studies", "study")
    for robot, task in (("tx40", "arm"), ("five-bar", "arm"), ("3-rrr", "arm"), ("kr150", "payload")):
        net.verb(f"init-{robot}", "init", f"init-{robot}", "--robot", robot, "--task", task)
        net.files(Path(f"init-{robot}"))
    for name, campaign in WRONG.items():
        folder = cell(name, campaign)
        net.verb(f"wrong-{name}-design", "design", folder, "--evaluations", 100)
        for verb in ("emit --target csv", "simulate", "identify", "next", "status"):
            first, *rest = verb.split()
            net.verb(f"wrong-{name}-{first}", first, folder, *rest)


def designs(net: Net) -> None:
    """Write designs of many kinds of one small robot."""
    for name, settings in VARIANTS.items():
        folder = cell(name, ROTRADI + settings)
        net.verb(f"design-{name}", "design", folder, "--evaluations", 100, "--seed", 2)
        net.files(folder)
    folder = cell("tx40-sweeps", TX40 + "static_poses = 3\nfriction_sweeps = true\n")
    net.verb("design-tx40-sweeps", "design", folder, "--evaluations", 60, "--seed", 2)
    net.files(folder)
    folder = cell("torque", TORQUE)
    net.verb("design-torque", "design", folder, "--evaluations", 40, "--seed", 3)
    emit(net, folder)
    net.files(folder)


def chain(net: Net, folder: Path, evaluations: int, targets: Sequence[str], driven: Sequence[str]) -> None:
    """Take a campaign from its design to a model: programs for targets, logs of some of them."""
    net.verb("design", "design", folder, "--evaluations", evaluations, "--seed", 1)
    net.hand_over(f"{folder}/design.json")
    emit(net, folder, targets)
    net.verb("verify", "verify", folder)
    net.verb("simulate", "simulate", folder, *options("--target", driven), "--seed", 4)
    net.hand_over(f"{folder}/logs")
    net.verb("identify", "identify", folder)


def rotradi(net: Net) -> None:
    """Take the direct-drive arm through every verb."""
    folder = cell("rotradi", ROTRADI)
    chain(net, folder, 200, ["all"], ["ros2"])
    net.verb("report", "report", folder, "--tracking")
    net.verb("compare", "compare", folder, *options("--method", METHODS))
    net.verb("next", "next", folder, "--seed", 5)
    for form in (*EXPORTS, *LOADS):
        link = ("--from-link", "elbow") if form in LOADS else ()
        net.verb(f"export-{form}", "export", folder, "--format", form, *link)
    net.verb("status", "status", folder)
    net.verb("watch", "watch", folder, "--log", folder / "logs/ros2", "--once")
    net.files(folder)
    declared = cell("declared", DECLARED)
    for name in ("excitation.csv", "validation.csv"):
        shutil.copyfile(folder / "logs/ros2" / name, declared / name)
    net.verb("declared-identify", "identify", declared)
    net.verb("declared-report", "report", declared)
    net.verb("declared-watch", "watch", declared, "--log", declared / "excitation.csv", "--once")
    net.verb("report-of-two", "report", folder, declared)
    net.files(declared)


def options(name: str, values: Iterable[str]) -> list[str]:
    """Repeat an option."""
    return [word for value in values for word in (name, value)]


def tx40(net: Net) -> None:
    """Take a six-axis arm in a cell to a report."""
    folder = cell("tx40", TX40)
    chain(net, folder, 200, ["urscript", "rapid", "krl-rsi", "fanuc-j519"], ["urscript", "rapid", "krl-rsi"])
    net.verb("report", "report", folder)
    net.files(folder)


def five_bar(net: Net) -> None:
    """Take a closed chain to a report."""
    folder = cell("five-bar", FIVE_BAR)
    chain(net, folder, 60, ["csv", "ros2"], ["ros2"])
    net.verb("report", "report", folder)
    net.files(folder)


def urdf(net: Net) -> None:
    """Take an arm that a URDF describes to a URDF with its model."""
    folder = cell("urdf", URDF_CAMPAIGN)
    (folder / "arm.urdf").write_text(URDF, "utf-8", newline="\n")
    net.verb("robot", "robots", folder / "arm.urdf")
    chain(net, folder, 100, ["ros2"], ["ros2"])
    for form in EXPORTS:
        net.verb(f"export-{form}", "export", folder, "--format", form)
    net.files(folder)


def payload(net: Net) -> None:
    """Take a payload campaign of a large robot to a report."""
    folder = cell("payload", PAYLOAD)
    chain(net, folder, 100, ["krl-rsi"], ["krl-rsi"])
    net.verb("report", "report", folder)
    for form in LOADS:
        net.verb(f"export-{form}", "export", folder, "--format", form)
    net.files(folder)


def recording(robot: str, names: Sequence[str], campaign: str, compared: Sequence[str]) -> Callable[[Net], None]:
    """Make a job that identifies from a published recording."""

    def job(net: Net) -> None:
        if net.data is None or not all((net.data / robot / name).is_file() for name in names):
            raise Skipped(f"no {' and '.join(names)} in {net.data}/{robot}; give their folder with --data")
        folder = cell(robot, campaign)
        for name in names:
            shutil.copyfile(net.data / robot / name, folder / name)
        net.verb("identify", "identify", folder)
        net.verb("report", "report", folder)
        net.verb("compare", "compare", folder, *options("--method", compared))
        net.verb("next", "next", folder, "--seed", 5)
        for name in names:
            (folder / name).unlink()
        net.files(folder)

    return job


def study(name: str, data: str | None = None) -> Callable[[Net], None]:
    """Make a job that reproduces a paper."""

    def job(net: Net) -> None:
        if data is not None and (net.data is None or not (net.data / data).is_dir()):
            raise Skipped(f"no folder {net.data}/{data}; give it with --data")
        given = ("--data", net.data / data) if data is not None and net.data is not None else ()
        net.verb("figures", "study", name, *given)

    return job


class Skipped(Exception):
    """A job whose data are not there."""


JOBS: dict[str, Callable[[Net], None]] = {
    "robots": robots,
    "emission": emission,
    "code": code,
    "texts": texts,
    "designs": designs,
    "rotradi": rotradi,
    "tx40": tx40,
    "five-bar": five_bar,
    "urdf": urdf,
    "payload": payload,
    "tx40-recording": recording(
        "tx40", ("pos_read_data.csv", "curr_data.csv"), TX40_RECORDING, ("wls", "irls", "filtered dynamic", "power")
    ),
    "qrc350-recording": recording(
        "qrc350", ("trajectory_a.mat", "trajectory_c.mat"), QRC350_RECORDING, ("wls", "ols", "ridge", "rls")
    ),
}
LONG = {
    "tx40-study": study("tx40-power-model", "tx40"),
    "qrc350-study": study("qrc350-in-process", "qrc350"),
    "kr150-study": study("kr150-load"),
    "rotradi-study": study("rotradi-five-schemes"),
    "parallel-study": study("parallel-drive-gains"),
}


def write(folder: Path, names: Sequence[str] = (), data: Path | None = None, inputs: Path | None = None) -> None:
    """Run jobs, each in a temporary folder of its own, and write what they leave and its index."""
    folder = folder.resolve()
    net = Net(folder, data and data.resolve(), inputs and inputs.resolve())
    if (folder / INDEX).is_file():
        net.index = json.loads((folder / INDEX).read_text("utf-8"))
    folder.mkdir(parents=True, exist_ok=True)
    os.environ |= {"COLUMNS": "100", "TERM": "dumb", "NO_COLOR": "1"}
    for name in names or JOBS:
        began = time.process_time()
        net.job = name
        net.index = {key: value for key, value in net.index.items() if not key.startswith(f"{name}/")}
        shutil.rmtree(folder / name, ignore_errors=True)
        with tempfile.TemporaryDirectory(prefix="goldens-") as place, contextlib.chdir(place):
            try:
                (JOBS | LONG)[name](net)
                told = f"{sum(key.startswith(f'{name}/') for key in net.index)} files"
            except Skipped as reason:
                told = f"skipped: {reason}"
            except Exception as error:  # what a verb printed is not what a job goes on with
                net.keep("stopped", 1, f"{type(error).__name__}: {clean(str(error))}")
                told = f"stopped: {type(error).__name__}: {error}"
        print(f"{name:20} {time.process_time() - began:6.1f} s CPU  {told}", file=sys.stderr)
        (folder / INDEX).write_text(json.dumps(net.index, indent=0, sort_keys=True) + "\n", "utf-8", newline="\n")


def design_cells() -> None:
    """Design the committed cells again, cut to their first run and without the forecast's tables, for size."""
    for folder in sorted((COMMITTED / "cells").iterdir()):
        code, text = excitor("design", folder, "--evaluations", 100, "--seed", 1, "--fresh", "--json")
        if code:
            raise SystemExit(f"{folder}: design failed:\n{text}")
        (folder / "plan.html").unlink()
        design = json.loads((folder / "design.json").read_text("utf-8"))
        design |= {key: design[key][:1] for key in ("runs", "order")}
        design["forecast"] = {k: [] if isinstance(v, list) else v for k, v in design["forecast"].items()}
        text = json.dumps(design, separators=(",", ":"), ensure_ascii=False) + "\n"
        (folder / "design.json").write_text(text, "utf-8", newline="\n")


# ----------------------------------------------------------------------------------------------------------- comparing
@dataclass
class Tolerance:
    """How far numbers may be apart: of the larger one, or of the largest in their list; and in any case."""

    relative: float = 1e-9
    absolute: float = 0.0


def compare(a: Path, b: Path, tolerance: Tolerance | None = None, jobs: Sequence[str] = ()) -> list[str]:
    """List the differences of two folders; with a tolerance, numbers of JSON files may be that far apart."""
    first, second = (
        {key: value for key, value in index_of(folder).items() if not jobs or key.partition("/")[0] in jobs}
        for folder in (a, b)
    )
    found = [f"{name}: only in {a}" for name in sorted(first.keys() - second.keys())]
    found += [f"{name}: only in {b}" for name in sorted(second.keys() - first.keys())]
    for name in sorted(key for key in first.keys() & second.keys() if first[key] != second[key]):
        if not ((a / name).is_file() and (b / name).is_file()):
            found.append(f"{name}: differs; only its SHA-256 is kept")
        elif tolerance is None:
            found.append(f"{name}: differs")
        else:
            trees = (json.loads((folder / name).read_text("utf-8")) for folder in (a, b))
            found += [f"{name}: {sentence}" for sentence in tree_differences(*trees, tolerance)]
    return found


def index_of(folder: Path) -> dict[str, str]:
    """Read the digests of a folder."""
    index: dict[str, str] = json.loads((folder / INDEX).read_text("utf-8"))
    return index


def tree_differences(a: Any, b: Any, tolerance: Tolerance) -> Iterator[str]:
    """Name missing and new keys, values that differ, and of the numbers the one that differs most."""
    worst, beyond, n = (0.0, "", 0.0, 0.0), 0, 0
    for path, x, y, scale in leaves(a, b):
        if x is MISSING or y is MISSING:
            yield f"{path} is {'new' if x is MISSING else 'missing'}"
        elif is_number(x) and is_number(y):
            n += 1
            apart = abs(x - y)
            deviation = apart / scale if apart > tolerance.absolute else 0.0
            beyond += deviation > tolerance.relative
            worst = max(worst, (deviation, path, x, y))
        elif x != y or type(x) is not type(y):
            yield f"{path} is {json.dumps(y)[:100]}, was {json.dumps(x)[:100]}"
    if beyond:
        deviation, path, x, y = worst
        yield f"{beyond} of {n} numbers differ; the most, by {deviation:.1e}: {path} is {y!r}, was {x!r}"


def leaves(a: Any, b: Any, path: str = "", scale: float = 0.0) -> Iterator[tuple[str, Any, Any, float]]:
    """Walk two trees together: where, both values, and the magnitude that a deviation is relative to."""
    if isinstance(a, dict) and isinstance(b, dict):
        for key in sorted(a.keys() | b.keys()):
            yield from leaves(a.get(key, MISSING), b.get(key, MISSING), f"{path}.{key}".lstrip("."))
    elif isinstance(a, list) and isinstance(b, list):
        scale = max((abs(x) for x in (*a, *b) if is_number(x)), default=0.0)
        for k in range(max(len(a), len(b))):
            yield from leaves(*(x[k] if k < len(x) else MISSING for x in (a, b)), f"{path}[{k}]", scale)
    else:
        own = max(abs(a), abs(b)) if is_number(a) and is_number(b) else 0.0
        yield path, a, b, max(scale, own) or 1.0


def is_number(value: object) -> bool:
    """Tell numbers from truth values."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def largest_deviations(a: Path, b: Path) -> Mapping[str, float]:
    """Find the largest relative deviation of numbers in each stored file that differs."""
    first, second = index_of(a), index_of(b)
    found = {}
    for name in sorted(key for key in first.keys() & second.keys() if first[key] != second[key]):
        if (a / name).is_file() and (b / name).is_file():
            trees = (json.loads((folder / name).read_text("utf-8")) for folder in (a, b))
            apart = (abs(x - y) / scale for _, x, y, scale in leaves(*trees) if is_number(x) and is_number(y))
            found[name] = max(apart, default=0.0)
    return found


def main() -> int:
    """Write or compare, as the command line says."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    verbs = parser.add_subparsers(dest="verb", required=True)
    writing = verbs.add_parser("write", help="run jobs and write what they print")
    writing.add_argument("folder", type=Path)
    writing.add_argument("names", nargs="*", choices=[[], *JOBS, *LONG], metavar="NAME", help="; ".join([*JOBS, *LONG]))
    above = (parent / "shared" / "data" for parent in HERE.parents)
    writing.add_argument("--data", type=Path, default=next((path for path in above if path.is_dir()), None))
    writing.add_argument("--inputs", type=Path, help="take design.json and logs from this folder")
    verbs.add_parser("cells", help="design the committed cells again")
    comparing = verbs.add_parser("compare", help="list differences; exit code 1 if there are any")
    comparing.add_argument("a", type=Path)
    comparing.add_argument("b", type=Path)
    comparing.add_argument("--numbers", action="store_true", help="numbers of JSON files may differ by the tolerance")
    comparing.add_argument("--relative", type=float, default=1e-9)
    comparing.add_argument("--absolute", type=float, default=0.0)
    comparing.add_argument("--jobs", nargs="+", default=[], metavar="NAME", help="only these")
    given = parser.parse_args()
    if given.verb == "write":
        if given.inputs is not None and given.inputs.resolve() == given.folder.resolve():
            parser.error("--inputs is the folder that is written; name another one")
        write(given.folder, given.names, given.data, given.inputs)
        return 0
    if given.verb == "cells":
        design_cells()
        return 0
    tolerance = Tolerance(given.relative, given.absolute) if given.numbers else None
    found = compare(given.a, given.b, tolerance, given.jobs)
    for sentence in found:
        print(sentence)
    if tolerance is not None:
        for name, deviation in largest_deviations(given.a, given.b).items():
            print(f"{name}: largest relative deviation {deviation:.1e}", file=sys.stderr)
    print(f"{len(found)} differences in {len(index_of(given.a))} and {len(index_of(given.b))} files", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    sys.exit(main())
