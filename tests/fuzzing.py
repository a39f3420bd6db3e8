"""Damaged files at every door: each is read, or refused by a sentence of the house's own error, within seconds."""

import atexit
import json
import shutil
import signal
import sys
import tempfile
import time
import tomllib
import warnings
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as seeded
from hypothesis import strategies as st

from excitor.design.programs.registry import NAMES
from excitor.robots.errors import ExcitorError
from excitor.robots.load import catalog_names, load, robot_from_toml, robot_text

HERE = Path(__file__).parent
SLOWEST = 5  # s
LONGEST = 4000  # characters of what is said of an escape
WORDS = (
    *("", "[", "]", "[[", "{", "}", "(", ")", "<", "/>", "=", ",", ".", ":", ";", '"', "'", "\\", "\n", "\t", "\x00"),
    *("-1", "0", "1", "0x", "1e400", "-1e-400", "nan", "-inf", "9" * 400, "true", "null", "\ud7ff\u202e", "%s", "{0}"),
    *("<!DOCTYPE a [<!ENTITY b 'c'>]>", "&b;", "../../etc/passwd", "[[joint]]", "schema", "a" * 3000, "é"),
)
VALUES: tuple[Any, ...] = (
    *(
        None,
        True,
        -1,
        0,
        3,
        10**30,
        -1e300,
        1e-300,
        float("nan"),
        float("inf"),
        "",
        "x",
        "nan",
        "../x",
        "\x00",
        "a" * 3000,
    ),
    *([], [1.0], [[]], [[1.0, "x"]], {}, {"x": 1}, [{}], [None] * 3, [1e300] * 3, [-1] * 10, "2020-01-01", "1e5"),
)


HOW = ("value", "value", "value", "key", "drop", "twice")


class Late(BaseException):
    """Nothing answered in time."""


@dataclass(frozen=True, slots=True)
class Door:
    """A way in: whole texts, what reads them in a folder of their own, and whether values can be exchanged in them."""

    makes: Callable[[], list[str]]
    read: Callable[[str, Path], object]
    form: str = ""  # toml, json

    def seeds(self) -> list[str]:
        """Make the whole texts, once."""
        return _texts(self)

    def damage(self) -> st.SearchStrategy[tuple[int, bool, list[Any]]]:
        """Draw which text is changed, and a few places: of its characters, or of the values of its tree."""
        place = st.floats(0.0, 1.0, exclude_max=True)
        edit = st.tuples(place, st.sampled_from((0, 1, 1, 3, 30, 10**6)), st.sampled_from(WORDS) | place)
        which = st.integers(0, len(self.seeds()) - 1)
        found = st.tuples(which, st.just(False), st.lists(edit, min_size=1, max_size=4))
        if not self.form:
            return found
        exchange = st.tuples(place, st.sampled_from(HOW), st.integers(0, len(VALUES) - 1))
        return found | st.tuples(which, st.just(True), st.lists(exchange, min_size=1, max_size=3))

    def damaged(self, which: int, exchanges: bool, changes: list[Any]) -> str:
        """Change a text in these places."""
        text = self.seeds()[which]
        return exchanged(self.form, text, changes) if exchanges else edited_text(text, changes)


@cache
def _texts(door: Door) -> list[str]:
    return door.makes()


def edited_text(text: str, edits: list[tuple[float, int, str | float]]) -> str:
    """Replace some characters by a word, or by a piece from elsewhere in the text."""
    for share, cut, new in edits:
        at = int(share * (len(text) + 1))
        words = new if isinstance(new, str) else text[int(new * len(text)) :][:60]
        text = text[:at] + words + text[at + cut :]
    return text


def exchanged(form: str, text: str, changes: list[tuple[float, str, int]]) -> str:
    """Exchange, drop, rename or double some entries of a document, whole tables and lists as well."""
    data = tomllib.loads(text) if form == "toml" else json.loads(text)
    for share, how, which in changes:
        places = list(entries(data))
        if not places:
            break
        value = deepcopy(VALUES[which])
        owner, key = places[int(share * len(places))]
        if how == "value":
            owner[key] = value
        elif how == "twice" and isinstance(owner, list):
            owner.insert(key, deepcopy(owner[key]))
        elif how == "key" and isinstance(owner, dict):
            owner[str(value)] = owner.pop(key)
        else:
            del owner[key]
    return toml_of(data) if form == "toml" else json.dumps(data)


def entries(data: Any) -> Iterator[tuple[Any, Any]]:
    """List all entries of a tree, with what holds them."""
    for key in data if isinstance(data, dict) else range(len(data)):
        yield data, key
        if isinstance(data[key], dict | list):
            yield from entries(data[key])


def toml_of(data: Any, top: bool = True) -> str:
    """Write TOML, tables in a line; what TOML has no word for becomes a text."""
    if isinstance(data, dict):
        parts = [f"{json.dumps(str(key))} = {toml_of(value, False)}" for key, value in data.items()]
        return "\n".join(parts) if top else "{" + ", ".join(parts) + "}"
    if isinstance(data, list):
        return "[" + ", ".join(toml_of(value, False) for value in data) + "]"
    if isinstance(data, bool | int | float):
        return json.dumps(data).replace("NaN", "nan").replace("Infinity", "inf")
    return json.dumps(str(data)).replace("\\u007f", "?")


def answer(door: Door, text: str, folder: Path) -> str:
    """Read a text; return what is wrong with the answer."""

    def late(*_: object) -> None:
        raise Late

    limited = hasattr(signal, "SIGALRM")
    before = signal.signal(signal.SIGALRM, late) if limited else None
    if limited:
        signal.alarm(SLOWEST)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            door.read(text, folder)
    except ExcitorError as error:
        said = str(error)
        if not said.strip() or "Traceback" in said or len(said) > 20_000:
            return f"{type(error).__name__} of {len(said)} characters: {said[:200]!r}"
    except Late:
        return f"no answer within {SLOWEST} s"
    except Exception as error:
        trace, here = error.__traceback__, ""
        while trace is not None:
            here, trace = f"{Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}", trace.tb_next
        return f"{type(error).__name__} at {here}: {error}"
    finally:
        if limited:
            signal.alarm(0)
            signal.signal(signal.SIGALRM, before)
    return ""


def fuzz(
    name: str, *, examples: int = 40, seconds: float | None = None, seed: int | None = None
) -> tuple[list[str], int]:
    """Damage the texts of a door: some examples, always the same; or for some seconds, by a seed. List what escapes."""
    door, found, count = DOORS[name], dict[str, str](), 0
    door.seeds()  # some take a while to make
    end = time.monotonic() + (3600.0 if seconds is None else seconds)
    keep = settings(
        max_examples=examples if seconds is None else 500, deadline=None, database=None, derandomize=seed is None,
        phases=[Phase.generate], suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="excitor-fuzz-") as place:

        def one(damage: tuple[int, bool, list[Any]]) -> None:
            nonlocal count
            if time.monotonic() > end:
                return
            count += 1
            text = door.damaged(*damage)
            if wrong := answer(door, text, Path(place)):
                found.setdefault(wrong[:80], f"{name}: {wrong}: {text!r}"[:LONGEST])

        for whole in door.seeds()[:3]:
            if wrong := answer(door, whole, Path(place)):
                found[wrong] = f"{name}: whole: {wrong}"
        turn = 0
        while turn == 0 or (seconds is not None and time.monotonic() < end):
            test = keep(given(door.damage())(one))
            (test if seed is None else seeded(1000 * seed + turn)(test))()
            turn += 1
    return list(found.values()), count


# --- the doors


def _to(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    return path


def _campaign(text: str, folder: Path) -> object:
    from excitor.experiments.campaign import open_campaign
    from excitor.experiments.setup import set_up

    _to(folder / "campaign.toml", text)
    set_up(open_campaign(folder, "design"))
    return open_campaign(folder)


@cache
def _worked() -> Path:
    """Identify a small campaign, report on it and begin to watch; its folder lasts as long as this process."""
    from excitor.experiments.campaign import open_campaign
    from excitor.experiments.stages import identify_stage, report_stage
    from excitor.experiments.watch import session
    from excitor.experiments.watch.sources import write_state
    from tests.campaigns import write_campaign

    folder = Path(tempfile.mkdtemp(prefix="excitor-fuzz-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    write_campaign(folder, 20.0)
    identify_stage(folder, None, lambda _: None)
    report_stage(folder, lambda _: None)
    write_state(session.begin_session(session.open_basis(open_campaign(folder))), {"offset": 0})
    return folder


def _made(*names: str) -> Callable[[], list[str]]:
    return lambda: [(_worked() / name).read_text("utf-8") for name in names]


def _kept(*names: str) -> Callable[[], list[str]]:
    return lambda: [(HERE / name).read_text("utf-8") for name in names]


def _manifests() -> list[str]:
    """Read manifests of two runs of version 1, and one of today's."""
    import excitor

    old = _kept("experiments/version_1/series_manifest.json", "experiments/version_1/moves_manifest.json")()
    with tempfile.TemporaryDirectory(prefix="excitor-fuzz-") as name:
        cell = shutil.copytree(HERE / "goldens" / "cells" / "tx40", Path(name) / "cell")
        excitor.Campaign(cell).emit("csv")
        return [*old, next(cell.rglob("manifest.json")).read_text("utf-8")]


def _report(text: str, folder: Path) -> object:
    from excitor.experiments.report.compare import compare
    from excitor.experiments.report.data import read_report

    data = read_report(_to(folder / "report.json", text))
    return compare(data, json.loads((_worked() / "report.json").read_text("utf-8")))


@cache
def _basis() -> Any:
    from excitor.experiments.campaign import open_campaign
    from excitor.experiments.watch.session import open_basis

    return open_basis(open_campaign(_worked()))


def _watch(text: str, folder: Path) -> object:
    from excitor.experiments.watch.sources import read_state

    basis = _basis()
    _to(folder / "watch.json", text)
    return read_state(replace(basis, campaign=replace(basis.campaign, folder=folder)))


def _model(text: str, folder: Path) -> object:
    from excitor.experiments.model import read_model

    model = read_model(_to(folder / "model.json", text))
    return model.to_json(), model.to_frame(), repr(model)


def _design(text: str, folder: Path) -> object:
    from excitor.experiments.design_json import parse_design

    _to(folder / "design.json", text)
    return parse_design(folder)


def _manifest(text: str, folder: Path) -> object:
    from excitor.experiments.manifest import read_manifest

    return read_manifest(_to(folder / "manifest.json", text))


def _arms(text: str, folder: Path) -> object:
    from excitor.experiments.fleet.arms import read_table

    return read_table(_to(folder / "arms.csv", text), folder / "fleet")


def _log(text: str, folder: Path) -> object:
    """Read a log as its campaign declares it."""
    from excitor.experiments.campaign import open_campaign
    from excitor.experiments.logs import read_run

    _to(folder / "logs" / "first.csv", text)
    shutil.copy(_worked() / "campaign.toml", folder)
    shutil.copy(_worked() / "logs" / "second.csv", folder / "logs")
    campaign = open_campaign(folder)
    return read_run(campaign, campaign.content.run[0])


def _loaded(name: str) -> Callable[[str, Path], object]:
    return lambda text, folder: load(_to(folder / name, text))


def _sentence(text: str, folder: Path) -> object:
    """Read a mesh, whose refusals are ValueErrors that robot files cite."""
    from excitor.robots.files.meshes import read_mesh

    for name in ("mesh.stl", "mesh.obj", "mesh.dae"):
        try:
            read_mesh(_to(folder / name, text))
        except ValueError as error:
            if type(error) is not ValueError:
                raise
    return None


@cache
def _package(name: str) -> tuple[Any, Mapping[str, str], str, Any]:
    """Emit the example of a target; the files, the program's name, and a machine that may run it."""
    from excitor.design.programs.conformance import example
    from excitor.design.programs.package import package
    from excitor.design.programs.registry import emitter, executor
    from excitor.design.programs.target import fitting_steps
    from excitor.design.programs.verify import just_inside

    plan = example(emitter(name).TARGET)
    made = package(emitter(name), [plan])
    machine = just_inside(plan, made.target, fitting_steps(plan, made.target)[0])
    return executor(name), made.texts, made.programs[0].name, machine


def _program(target: str) -> Door:
    """Run a package one of whose files is damaged; its name stands in the first line of each seed."""

    def seeds() -> list[str]:
        return [f"{file}\n{text}" for file, text in _package(target)[1].items()]

    def read(text: str, folder: Path) -> object:
        execution, files, name, machine = _package(target)
        file, _, damaged = text.partition("\n")
        return execution.execute({**files, file: damaged} if file in files else files, name, machine)

    return Door(seeds, read)


URDF = """<robot name="arm"><link name="base"/><link name="upper"><inertial><mass value="2"/><origin xyz="0.2 0 0"/>
<inertia ixx="0.01" ixy="0" ixz="0" iyy="0.02" iyz="0" izz="0.02"/></inertial>
<collision><origin rpy="0 1.57 0"/><geometry><cylinder length="0.3" radius="0.05"/></geometry></collision></link>
<link name="fore"/><link name="finger"/>
<joint name="a" type="revolute"><parent link="base"/><child link="upper"/><axis xyz="0 1 0"/><origin xyz="0 0 0.3"/>
<limit lower="-2" upper="2" effort="50" velocity="3"/><dynamics damping="0.3" friction="1"/></joint>
<joint name="b" type="prismatic"><parent link="upper"/><child link="fore"/>
<limit lower="0" upper="1" effort="9" velocity="1"/></joint>
<joint name="c" type="revolute"><parent link="fore"/><child link="finger"/>
<mimic joint="a" multiplier="-1" offset="0.1"/>
<limit lower="-2" upper="2" effort="9" velocity="1"/></joint></robot>"""
MJCF = """<mujoco model="arm"><compiler angle="degree" autolimits="true"/><default><joint damping="0.3" armature="0.1"/>
</default><worldbody><body name="upper" pos="0 .05 .2" euler="90 20 0">
<joint name="a" axis="0 1 0" range="-170 170" ref="30"/>
<geom type="capsule" fromto="0 0 0 .3 0 0" size=".04"/><body name="slide" pos=".3 0 0" quat="0.707107 0 0.707107 0">
<joint name="d" type="slide" axis="0 0 1" range="0 .2"/><geom type="sphere" size=".05"/></body></body></worldbody>
<actuator><motor joint="a" gear="2" forcerange="-40 40"/></actuator></mujoco>"""
FACET = "facet normal 0 0 1 outer loop vertex 0 0 0 vertex {} 0 0 vertex 0 {} 0.1 endloop endfacet "
MESHES = [
    f"solid a {FACET.format(1, 2)}{FACET.format(3, 1)}endsolid a",
    "v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\nf 1 2 3\nf 1/1 3/2 -1/3\n",
    """<COLLADA xmlns="http://www.collada.org/2005/11/COLLADASchema" version="1.4.1">
<asset><unit meter="0.001"/></asset><library_geometries><geometry id="g"><mesh><source id="s">
<float_array id="f" count="9">0 0 0 1 0 0 0 1 0</float_array>
<technique_common><accessor source="#f" count="3" stride="3"/></technique_common></source><vertices id="v">
<input semantic="POSITION" source="#s"/></vertices><triangles count="1">
<input semantic="VERTEX" source="#v" offset="0"/>
<p>0 1 2</p></triangles></mesh></geometry></library_geometries><library_visual_scenes><visual_scene id="w"><node>
<instance_geometry url="#g"/></node></visual_scene></library_visual_scenes></COLLADA>""",
]
WHOLE = """robot = "rotradi"
home_deg = [10, 20, 30]
locked = []
[noise]
torque = [1, 3, 0.3]
[limits]
tool_speed_m_s = 1.5
acceleration_percent = 50
[payload]
mass = 1.2
center = [0, 0, 0.05]
[[cell.zone]]
name = "table"
keep = "out"
shape = "box"
center = [0, 0, -1]
size = [2, 2, 0.1]
[design]
schedule = "together"
base_frequency_hz = 0.5
harmonics = 3
ramp_s = 1.0
[[run]]
name = "a"
log = "a.csv"
columns = { time = "t" }
"""


def _campaign_texts() -> list[str]:
    from tests.campaigns import CAMPAIGN, PLANNED

    log = WHOLE.replace("[[run]]", '[[run]]\nname = "b"\nlog = "b.csv"\n[[run]]')
    return [CAMPAIGN, PLANNED, WHOLE, log]


DOORS: dict[str, Door] = {
    "robot.toml": Door(
        lambda: [robot_text(name) for name in catalog_names()],
        lambda text, _: robot_from_toml(text, "fuzz.toml"),
        "toml",
    ),
    "robot.urdf": Door(lambda: [URDF], _loaded("arm.urdf")),
    "robot.xml": Door(lambda: [MJCF], _loaded("arm.xml")),
    "mesh": Door(lambda: MESHES, _sentence),
    "campaign.toml": Door(_campaign_texts, _campaign, "toml"),
    "design.json": Door(_kept("goldens/cells/tx40/design.json", "experiments/version_1/design.json"), _design, "json"),
    "manifest.json": Door(_manifests, _manifest, "json"),
    "model.json": Door(_made("model.json"), _model, "json"),
    "report.json": Door(_made("report.json"), _report, "json"),
    "watch.json": Door(_made("watch.json"), _watch, "json"),
    "log.csv": Door(lambda: ["\n".join(text.splitlines()[:300]) for text in _made("logs/first.csv")()], _log),
    "arms.csv": Door(lambda: ["arm,log,serial\na,first.csv,1\nb,second.csv,2\n", "arm,folder\na,.\n"], _arms),
    **{f"programs/{name}": _program(name) for name in NAMES},
}


def main() -> None:
    """Damage texts of all doors for some seconds each (files, then programs), by a seed; print what escaped as JSON."""
    of_files, of_programs, seed = (float(word) for word in sys.argv[1:])
    found = [
        fuzz(name, seconds=of_programs if name.startswith("programs/") else of_files, seed=int(seed)) for name in DOORS
    ]
    print(
        json.dumps({"escapes": [one for escapes, _ in found for one in escapes], "examples": sum(n for _, n in found)})
    )


if __name__ == "__main__":
    main()
