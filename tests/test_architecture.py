"""The house keeps its order: who may import whom, and what the command line may load."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ALLOWED = {
    "robots": {"robots"},
    "design": {"robots", "design"},
    "identify": {"robots", "identify"},
    "experiments": {"robots", "design", "identify", "experiments"},
}
MODULES = [path for room in ALLOWED for path in sorted((ROOT / room).rglob("*.py"))]


def imports(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            yield node.module


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_follow_the_house(path):
    room = path.relative_to(ROOT).parts[0]
    ours = {name.split(".")[1] for name in imports(path) if name.startswith("excitor.")}
    assert ours <= ALLOWED[room]
    assert not {"robots", "design", "identify", "experiments"} & {name.split(".")[0] for name in imports(path)}


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_files_have_a_docstring(path):
    assert ast.get_docstring(ast.parse(path.read_text())), "the first line says what the file is about"


def test_rooms_do_not_import_the_front_door():
    own = {f"excitor.{path.stem}" for path in (ROOT / "excitor").glob("*.py")}
    for path in MODULES:
        assert not own & set(imports(path)), path


def test_library_names_no_robot():
    """Robots are data: no library code knows one by name."""
    from excitor.robots.load import catalog_names

    about_one_robot = {"studies"}  # and the demo
    for path in MODULES:
        if about_one_robot & set(path.parts) or path.name == "demo.py":
            continue
        code = ast.parse(path.read_text())
        strings = {
            node.value for node in ast.walk(code) if isinstance(node, ast.Constant) and isinstance(node.value, str)
        }
        assert not strings & set(catalog_names()), path


def test_every_package_is_declared():
    import tomllib

    declared = set(tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"])
    found = {
        "excitor." + ".".join(path.parent.relative_to(ROOT).parts)
        for room in ALLOWED
        for path in (ROOT / room).rglob("__init__.py")
    }
    assert declared == found | {"excitor"}


def test_every_cited_work_is_in_the_readme():
    import re

    cited = {key for path in MODULES for key in re.findall(r"\[([A-Z][A-Za-z]+\d{4}[a-z]?)\]", path.read_text())}
    listed = set(re.findall(r"^\* `\[(\w+)\]`", (ROOT / "README.md").read_text(), re.MULTILINE))
    assert cited <= listed
