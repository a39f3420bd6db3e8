"""The files of a VAL3 application: its programs' code, its data, and what is wrong with either."""

import xml.etree.ElementTree as ET
from collections.abc import Mapping
from dataclasses import dataclass

from excitor.design.programs.execution import ProgramError

_SPACE = "{http://www.staubli.com/robotics/VAL3/"
LONGEST_NAME = 15
Value = float | bool | str | list[float] | dict[str, float | str]

_JOINTS = ("j1", "j2", "j3", "j4", "j5", "j6")
_DESCRIPTOR: dict[str, float | str] = {
    "accel": 100.0, "vel": 100.0, "decel": 100.0, "tmax": 99999.0, "rmax": 99999.0, "tvel": 99999.0, "rvel": 99999.0,
    "blend": "joint", "leave": 50.0, "reach": 50.0,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Variable:
    """A datum, a local or a parameter: always an array."""

    name: str
    kind: str
    values: list[Value]


@dataclass(frozen=True, slots=True)
class Code:
    """A program as written."""

    name: str
    file: str
    line: int  # of the file that the code begins in
    text: str
    parameters: tuple[Variable, ...]
    locals: tuple[Variable, ...]


@dataclass(frozen=True, slots=True)
class Application:
    """A whole application."""

    data: Mapping[str, Variable]
    programs: Mapping[str, Code]


def read(files: Mapping[str, str], name: str) -> Application:
    """Read the application called `name` from its folder."""
    project_file = f"{name}/{name}.pjx"
    project = _parse(files, project_file, "Project/3}Project")
    data: dict[str, Variable] = {}
    for element in project.iter(f"{_SPACE}Project/3}}Data"):
        _add_data(files, f"{name}/{_needed(element, 'file', project_file)}", data)
    programs: dict[str, Code] = {}
    for element in project.iter(f"{_SPACE}Project/3}}Program"):
        file = _needed(element, "file", project_file)
        code = _code(files, f"{name}/{file}")
        if file != f"{code.name}.pgx":
            raise ProgramError(f"{name}/{file}", None, f"it holds a program called {code.name!r}")
        programs[code.name] = code
    for needed in ("start", "stop"):
        if needed not in programs:
            raise ProgramError(project_file, None, f"the application has no program called {needed!r}")
    return Application(data, programs)


def _parse(files: Mapping[str, str], file: str, root: str) -> ET.Element:
    if file not in files:
        raise ProgramError(file, None, "the application's folder has no such file")
    text = files[file].removeprefix("\ufeff")
    if "<!DOCTYPE" in text or "<!ENTITY" in text:
        raise ProgramError(file, None, "document types and entities are not read")
    try:
        element = ET.fromstring(text.encode())
    except ET.ParseError as error:
        raise ProgramError(file, error.position[0], f"no well-formed XML: {error}") from None
    if element.tag != _SPACE + root:
        raise ProgramError(file, None, f"the root is {element.tag!r}, expected {_SPACE + root!r}")
    return element


def _needed(element: ET.Element, attribute: str, file: str) -> str:
    value = element.get(attribute)
    if value is None:
        raise ProgramError(file, None, f"a {element.tag.split('}')[-1]} has no attribute {attribute!r}")
    return value


def _add_data(files: Mapping[str, str], file: str, data: dict[str, Variable]) -> None:
    for element in _parse(files, file, "Data/2}Database").iter(f"{_SPACE}Data/2}}Data"):
        variable = _variable(element, file)
        if variable.name in data:
            raise ProgramError(file, None, f"{variable.name!r} is there twice")
        data[variable.name] = variable


def _code(files: Mapping[str, str], file: str) -> Code:
    root = _parse(files, file, "Program/2}Programs")
    program = root.find(f"{_SPACE}Program/2}}Program")
    code = None if program is None else program.find(f"{_SPACE}Program/2}}Code")
    if program is None or code is None:
        raise ProgramError(file, None, "it holds no program with code")
    parameters = tuple(_variable(x, file) for x in program.iter(f"{_SPACE}Param/1}}Parameter"))
    names = tuple(_variable(x, file) for x in program.iter(f"{_SPACE}Program/2}}Local"))
    before = files[file].split("<Code>")[0].count("\n") + 1
    return Code(_needed(program, "name", file), file, before, code.text or "", parameters, names)


def _variable(element: ET.Element, file: str) -> Variable:
    name, kind = _needed(element, "name", file), _needed(element, "type", file)
    if len(name) > LONGEST_NAME or not name.isidentifier() or not name.isascii():
        raise ProgramError(file, None, f"{name!r} is no name of at most {LONGEST_NAME} letters, digits and underscores")
    text = element.get("size", "1").split(",")[0]
    if not text.isdigit() or int(text) < 1:
        raise ProgramError(file, None, f"{name!r} has size {text!r}, expected a number above 0")
    values: list[Value] = [default(kind) for _ in range(int(text))]
    for value in element:
        key = value.get("key", "")
        if not key.isdigit() or int(key) >= len(values):
            raise ProgramError(file, None, f"{name!r} of size {text} has a value with key {key!r}")
        values[int(key)] = _value(kind, value, f"{name}[{key}]", file)
    return Variable(name, kind, values)


def default(kind: str) -> Value:
    """Give what a datum of a type is where nothing is stated."""
    if kind in ("jointRx", "joint"):
        return [0.0] * len(_JOINTS)
    if kind == "mdesc":
        return dict(_DESCRIPTOR)
    if kind == "bool":
        return False
    return 0.0 if kind == "num" else ""


def _value(kind: str, element: ET.Element, where: str, file: str) -> Value:
    given = {key: text for key, text in element.attrib.items() if key != "key"}
    if kind in ("jointRx", "joint"):
        unknown = set(given) - set(_JOINTS)
        if unknown:
            raise ProgramError(file, None, f"{where} is a joint and has no {', '.join(sorted(unknown))}")
        return [_number(given.get(axis, "0"), where, file) for axis in _JOINTS]
    if kind == "mdesc":
        unknown = set(given) - set(_DESCRIPTOR)
        if unknown:
            raise ProgramError(file, None, f"{where} is a motion descriptor and has no {', '.join(sorted(unknown))}")
        numbers = {key: _number(text, where, file) for key, text in given.items() if key != "blend"}
        return {**_DESCRIPTOR, **numbers, "blend": given.get("blend", "joint").lower()}
    if kind == "num":
        return _number(given.get("value", "0"), where, file)
    if kind == "bool":
        return given.get("value", "false") == "true"
    return given.get("value", given.get("link", ""))


def _number(text: str, where: str, file: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ProgramError(file, None, f"{where} holds {text!r}, expected a number with a point") from None
