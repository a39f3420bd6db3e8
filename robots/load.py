"""Loading of robots: find, read and check a robot file. Every problem is reported at once, with its key path."""

import errno
import tomllib
from dataclasses import dataclass, replace
from functools import reduce
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from excitor.robots.errors import InvalidRobot, did_you_mean
from excitor.robots.files import overlay, presets
from excitor.robots.files.bounded import parse_toml, read_bounded
from excitor.robots.files.folders import ALLOW, inside
from excitor.robots.files.parts import unclear, with_friction
from excitor.robots.files.toml import robot_from_data
from excitor.robots.files.xml import parse_xml
from excitor.robots.robot import Robot

if TYPE_CHECKING:
    from excitor.robots.files.urdf import Urdf

LARGEST_FILE = 2_000_000  # bytes; a robot is one page
SUFFIXES = (".toml", ".urdf", ".xml")
_OTHERS = {  # files of robots that are not read, and what makes one that is
    ".xacro": "is a macro; run `xacro {name} > {stem}.urdf`, then load {stem}.urdf",
    ".sdf": "is SDF; convert it: `sdf2mjcf {name} {stem}.xml` (pip install sdformat-mjcf), or load the URDF behind it",
    ".usd": "is USD; export a URDF or an MJCF from the program that wrote it",
}
_LONGEST_PATH = 1000
_DEEPEST = 4

Table = dict[str, Any]
Note = tuple[str, str]  # where, and a sentence


def load(source: str | Path, preset: str | None = None) -> Robot:
    """Load a robot.

    Args:
        source: name in the catalogue (`excitor robots` lists it), or path of a .toml or .urdf file.
        preset: figures of the arm that are used where the file states none: by default those of the arm with the
            geometry of a URDF, else a name (`excitor robots --presets` lists them) or "none".

    InvalidRobot lists every problem of the file with its key.

    >>> import excitor as ex
    >>> ex.load_robot("tx40").n_joints
    6
    """
    return load_with_notes(source, preset)[0]


def load_with_notes(source: str | Path, preset: str | None = None) -> tuple[Robot, tuple[Note, ...]]:
    """Load a robot, and list what of a URDF was changed, assumed or left out: (where, sentence) for each."""
    content = read_content(source, preset)
    robot = robot_of(content)
    branching = unclear_part(content)
    return robot, (*content.notes, *part_notes(robot), *([("moving joints", branching)] if branching else ()))


def part_notes(robot: Robot) -> tuple[Note, ...]:
    """List the joints of the file that are held, and those whose range is assumed."""
    held = ", ".join(f"{name} at {joint}" for name, joint in robot.held.items())
    belongs = "what they carry belongs to the links that carry them, and programs, logs and models have the others only"
    stated = "moving = [...], and held_deg or held_m of joints, in a robot file state others"
    endless = ", ".join(robot.continuous)
    assumed = "without stops, so a working range of one turn each way about home is assumed"
    given = "limits = { position_deg = [...] } of the joint in a robot file states another"
    notes = {"held joints": f"{held}; {belongs}; {stated}", "continuous joints": f"{endless}: {assumed}; {given}"}
    return tuple(note for note, names in zip(notes.items(), (held, endless), strict=True) if names)


@dataclass(frozen=True)
class Content:
    """The content of a robot file, put over that of its base if it names one."""

    source: str | Path
    data: Table
    notes: tuple[Note, ...]
    layers: tuple[tuple[str | Path, str, Table], ...]  # (file or catalogue name, text, own tables), the base first
    urdf: "Urdf | None" = None  # which all the rest is put over
    preset: object = None  # that the file requests
    applied: presets.Applied | None = None

    @property
    def text(self) -> str:
        """The texts of the file and of what it is based on, and what a preset gives."""
        given = [] if self.applied is None else [repr(self.applied.tables)]
        return "\0".join([text for _, text, _ in reversed(self.layers)] + given)

    @property
    def files(self) -> tuple[Path, ...]:
        """The files it was read from, the base first."""
        return tuple(Path(source) for source, _, _ in self.layers if str(source) not in catalog_names())

    @property
    def urdf_file(self) -> Path | None:
        """The URDF that it is based on, or is."""
        return Path(self.layers[0][0]) if self.urdf is not None and self.urdf.language == "URDF" else None


def unclear_part(content: Content) -> str:
    """Say that a URDF's moving joints branch, and which lines choose some; empty where it is clear what moves."""
    moving = unclear(content.data) if content.urdf is not None else []
    if not moving:
        return ""
    name, names = Path(content.source).name, ", ".join(f'"{name}"' for name in moving)
    where = "it" if len(content.layers) > 1 else f'a robot file with base = "{name}" (excitor init writes one)'
    return (
        f"the moving joints of {name} branch: state moving = [{names}] (or all of them) in {where}; the others are "
        "held at held_deg or held_m of each [[joint]], else in the middle of their range"
    )


def read_content(source: str | Path, preset: str | None = None) -> Content:
    """Read a robot file, its base and its preset; problems are reported as for `load`."""
    content = _read_content(source, ())
    requested = content.preset if preset is None else preset
    return content if content.urdf is None and requested is None else _with_preset(content, requested)


def _with_preset(content: Content, requested: object) -> Content:
    """Put a preset's figures below what files state, but a URDF's limits only where they are not stricter."""
    try:
        robot = robot_of(content)
    except InvalidRobot:
        return content  # reported when the robot is built
    match, sentence = presets.find(robot, content.source, requested)
    if match is None:
        return replace(content, notes=(*content.notes, ("preset", sentence))) if sentence else content
    base, overlays = content.layers[0][2], [own for _, _, own in content.layers[1:]]
    given = presets.applied(base, robot, match, stricter=content.urdf is not None)
    below = content.data if any(map(overlay.states_held, overlays)) else base  # lists there count moving joints
    data = reduce(overlay.merged, [given.tables, *overlays], below)
    return replace(content, data=data, notes=(("preset", given.note), *content.notes), applied=given)


def _read_content(source: str | Path, above: tuple[Path, ...]) -> Content:
    text = robot_text(source)
    if not _is_toml(source):
        urdf = _read_xml(text, source)
        return Content(source, urdf.data, urdf.notes, ((source, text, urdf.data),), urdf)
    data = toml_data(text, source)
    preset = data.pop("preset", None)
    if "base" not in data:
        return Content(source, data, (), ((source, text, data),), preset=preset)
    named = data.pop("base")
    base = _read_content(_base_source(named, source, above), (*above, Path(source).resolve()))
    links = {} if base.urdf is None else base.urdf.links
    robot_of(base)  # its own problems first
    below = base.urdf.whole if "moving" in data and base.urdf is not None else base.data
    problems = list(overlay.contradictions(below, data, str(named), links))
    if problems:
        raise InvalidRobot(source, problems)
    data = overlay.in_joint_names(data, links, [joint["name"] for joint in below["joint"]])
    put = overlay.merged(below, data)
    if overlay.states_held(data):
        if base.urdf is None or len(base.layers) > 1:  # lists there count joints that are held here
            sentence = (
                f"which joints are held is for {named} to say: write it whole (excitor robots --to toml), and edit"
            )
            raise InvalidRobot(source, [f"moving, held_deg, held_m: {sentence}"])
        chosen = {key: put[key] for key in ("joint", "moving") if key in put}
        put = overlay.merged(with_friction(below | chosen, base.urdf.dynamics), data)
    answered = {*data, *(("transmission",) if "drive" in data else ())}
    notes = tuple(note for note in base.notes if note[0] not in answered)
    preset = base.preset if preset is None else preset
    return Content(source, put, notes, (*base.layers, (source, text, data)), base.urdf, preset)


def _read_xml(text: str, source: str | Path) -> "Urdf":
    """Read a URDF or MJCF file, whichever its outermost element says it is."""
    outermost = parse_xml(text, source).tag
    if outermost == "mujoco":
        from excitor.robots.files.mjcf import read_mjcf

        return read_mjcf(text, source)
    if outermost == "sdf":
        raise InvalidRobot(source, [_OTHERS[".sdf"].format(name=Path(source).name, stem=Path(source).stem)])
    from excitor.robots.files.urdf import read_urdf

    return read_urdf(text, source)


def _base_source(named: object, source: str | Path, above: tuple[Path, ...]) -> str | Path:
    """Find what a robot file names as its base: of the catalogue, or a file in its own folder."""
    if named in catalog_names():
        return str(named)
    folder = Path(source).parent
    if not isinstance(named, str) or not named.endswith(SUFFIXES) or len(named) > _LONGEST_PATH:
        hint = overlay.expected(named, catalog_names())
        where = f"nor the path of a .toml or .urdf file; {hint}"
        raise InvalidRobot(source, [f"base: {str(named)[:60]!r} is no robot of the catalogue, {where}"])
    path = folder / named
    try:
        place, own, exists = path.resolve(), Path(source).resolve(), path.is_file()
    except (OSError, ValueError, RuntimeError) as error:
        raise InvalidRobot(source, [f"base: {named[:60]!r} cannot be found: {error}"]) from None
    if not inside(folder, named):
        raise InvalidRobot(source, [f"base: {named!r} is outside the file's own folder{ALLOW}"])
    if place in (*above, own) or len(above) >= _DEEPEST:
        raise InvalidRobot(source, [f"base: {named!r} is based on itself, or on more than {_DEEPEST} files in a row"])
    if not exists:
        raise InvalidRobot(source, [f"base: {named!r} does not exist in {folder}"])
    return path


def robot_of(content: Content) -> Robot:
    """Build the robot; problems are reported in the words of the file that they come from."""
    own = content.layers[-1][2] if len(content.layers) > 1 else None
    inherited = _inherited(content.data, own)
    if content.applied is not None:
        inherited |= content.applied.tables.get("parameters", {}).keys()
    try:
        return robot_from_data(content.data, content.source, inherited)
    except InvalidRobot as error:
        problems = error.problems
    if own is not None:
        raise InvalidRobot(content.source, [overlay.by_name(problem, content.data) for problem in problems])
    in_its_words = str if content.urdf is None else content.urdf.in_its_words
    raise InvalidRobot(content.source, [in_its_words(problem) for problem in problems])


def _inherited(data: Table, own: Table | None) -> frozenset[str]:
    """Name the base's parameters, and declared base, which a file that changes drives or friction may leave behind."""
    if own is None:
        return frozenset()
    stated = own.get("parameters", {})
    kept = [*data.get("parameters", {}), *data.get("assumed_zero", ())]
    names = {name for name in kept if name not in stated and name not in own.get("assumed_zero", ())}
    return frozenset(names | ({"declared_base"} - own.keys()))


def with_random_lengths(source: str | Path, seed: int = 0) -> Robot | None:
    """Load a robot with all its named lengths changed at random, by up to a tenth; None if it names none.

    A property that also holds for the changed robot does not depend on coincidences of lengths.
    """
    content = read_content(source)
    lengths = content.data.get("lengths")
    if not lengths:
        return None
    factors = np.random.default_rng(seed).uniform(0.9, 1.1, size=len(lengths))
    changed = {name: float(value * factor) for (name, value), factor in zip(lengths.items(), factors, strict=True)}
    return robot_of(replace(content, data={**content.data, "lengths": changed}))


def catalog_names() -> tuple[str, ...]:
    """Name the robots that come with Excitor."""
    files = resources.files("excitor.robots.catalog").iterdir()
    return tuple(sorted(file.name.removesuffix(".toml") for file in files if file.name.endswith(".toml")))


def robot_text(source: str | Path) -> str:
    """Read the text of a robot file, of the catalogue or at a path."""
    name = str(source)
    if name in catalog_names():
        return (resources.files("excitor.robots.catalog") / f"{name}.toml").read_text("utf-8")
    suffix = Path(source).suffix.lower()
    if suffix in _OTHERS:
        stem = Path(source).stem.removesuffix(".urdf")
        raise InvalidRobot(name, [_OTHERS[suffix].format(name=name[:_LONGEST_PATH], stem=stem[:_LONGEST_PATH])])
    if suffix not in SUFFIXES:
        names = did_you_mean(name, catalog_names(), "") or ", ".join(catalog_names())
        sentence = f"is not a robot of the catalogue ({names}), nor the path of a .toml, .urdf or MJCF .xml file"
        raise InvalidRobot(name, [sentence])
    return read_text(Path(source))


def _is_toml(source: str | Path) -> bool:
    return str(source) in catalog_names() or Path(source).suffix.lower() == ".toml"


def read_text(path: Path) -> str:
    """Read a small UTF-8 file; failures are reported as sentences."""
    try:
        return read_bounded(path, LARGEST_FILE).decode("utf-8-sig")
    except FileNotFoundError:
        raise InvalidRobot(path, ["does not exist"]) from None
    except UnicodeDecodeError as error:
        raise InvalidRobot(path, [f"byte {error.start} is not UTF-8 text; save the file as UTF-8"]) from None
    except OSError as error:
        if error.errno == errno.EFBIG:
            raise InvalidRobot(path, [f"{error.strerror}: not a robot file"]) from None
        raise InvalidRobot(path, [f"cannot be read: {error.strerror or error}"]) from None
    except ValueError:  # no system has such a name
        raise InvalidRobot(path, ["does not exist"]) from None


def robot_from_toml(text: str, source: str | Path) -> Robot:
    """Read a robot from TOML text."""
    return robot_from_data(toml_data(text, source), source)


def toml_data(text: str, source: str | Path) -> dict[str, Any]:
    """Parse TOML; syntax errors are reported as sentences."""
    try:
        return parse_toml(text)
    except tomllib.TOMLDecodeError as error:
        raise InvalidRobot(source, [f"is not TOML: {str(error)[:300]}"]) from None
    except RecursionError:
        raise InvalidRobot(source, ["nests tables too deeply to be read; a robot needs three levels"]) from None
    except (ValueError, OverflowError) as error:
        raise InvalidRobot(source, [f"is not TOML that can be read: {str(error)[:200]}"]) from None
