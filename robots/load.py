"""Loading of robots: find, read and check a robot file. Every problem is reported at once, with its key path."""

import tomllib
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from excitor.robots.errors import InvalidRobot
from excitor.robots.files.toml import robot_from_data
from excitor.robots.robot import Robot

LARGEST_FILE = 2_000_000  # bytes; a robot is one page


def load(source: str | Path) -> Robot:
    """Load a robot.

    Args:
        source: name in the catalogue (`excitor robots` lists it), or path of a .toml or .urdf file.

    InvalidRobot lists every problem of the file with its key.

    >>> import excitor as ex
    >>> ex.load_robot("tx40").n_joints
    6
    """
    return load_with_notes(source)[0]


def load_with_notes(source: str | Path) -> tuple[Robot, tuple[tuple[str, str], ...]]:
    """Load a robot, and list what of a URDF was changed or left out: (where, sentence) for each."""
    text = robot_text(source)
    if _is_toml(source):
        return robot_from_toml(text, source), ()
    from excitor.robots.files.urdf import read_urdf, robot_from

    urdf = read_urdf(text, source)
    return robot_from(urdf, source), urdf.notes


def with_random_lengths(source: str | Path, seed: int = 0) -> Robot | None:
    """Load a robot with all its named lengths changed at random, by up to a tenth; None if it names none.

    A property that also holds for the changed robot does not depend on coincidences of lengths.
    """
    data = toml_data(robot_text(source), source) if _is_toml(source) else {}
    lengths = data.get("lengths")
    if not lengths:
        return None
    factors = np.random.default_rng(seed).uniform(0.9, 1.1, size=len(lengths))
    changed = {name: float(value * factor) for (name, value), factor in zip(lengths.items(), factors, strict=True)}
    return robot_from_data({**data, "lengths": changed}, source)


def catalog_names() -> tuple[str, ...]:
    """Name the robots that come with Excitor."""
    files = resources.files("excitor.robots.catalog").iterdir()
    return tuple(sorted(file.name.removesuffix(".toml") for file in files if file.name.endswith(".toml")))


def robot_text(source: str | Path) -> str:
    """Read the text of a robot file, of the catalogue or at a path."""
    name = str(source)
    if name in catalog_names():
        return (resources.files("excitor.robots.catalog") / f"{name}.toml").read_text("utf-8")
    if Path(source).suffix.lower() not in (".toml", ".urdf", ".xml"):
        names = ", ".join(catalog_names())
        near = [other for other in catalog_names() if name.lower().replace("o", "0") == other.lower().replace("o", "0")]
        if near:
            names = f"did you mean {near[0]}?"
        raise InvalidRobot(name, [f"is not a robot of the catalogue ({names}), nor the path of a .toml or .urdf file"])
    return read_text(Path(source))


def _is_toml(source: str | Path) -> bool:
    return str(source) in catalog_names() or Path(source).suffix.lower() == ".toml"


def read_text(path: Path) -> str:
    """Read a small UTF-8 file; failures are reported as sentences."""
    try:
        if not path.is_file():
            what = "is a folder, expected a file" if path.is_dir() else "does not exist"
            raise InvalidRobot(path, [what])
        if path.stat().st_size > LARGEST_FILE:
            size = path.stat().st_size / 1e6
            raise InvalidRobot(
                path, [f"is {size:.0f} MB, expected at most {LARGEST_FILE / 1e6:.0f} MB: not a robot file"]
            )
        return path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidRobot(path, [f"byte {error.start} is not UTF-8 text; save the file as UTF-8"]) from None
    except (OSError, ValueError) as error:
        raise InvalidRobot(path, [f"cannot be read: {error}"]) from None


def robot_from_toml(text: str, source: str | Path) -> Robot:
    """Read a robot from TOML text."""
    return robot_from_data(toml_data(text, source), source)


def toml_data(text: str, source: str | Path) -> dict[str, Any]:
    """Parse TOML; syntax errors are reported as sentences."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InvalidRobot(source, [f"is not TOML: {str(error)[:300]}"]) from None
    except RecursionError:
        raise InvalidRobot(source, ["nests tables too deeply to be read; a robot needs three levels"]) from None
    except (ValueError, OverflowError) as error:
        raise InvalidRobot(source, [f"is not TOML that can be read: {str(error)[:200]}"]) from None
