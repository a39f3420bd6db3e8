"""Rules of the code: rooms, import directions, sizes, and who may print or name a file on disk."""

import ast
import re
import tomllib
from importlib import import_module
from pathlib import Path

import pytest

from benchmarks.house import (
    FILES,
    ROOMS,
    ROOT,
    count_files,
    find_cycles,
    import_graph,
    imports,
    long_functions,
    prefix_families,
    read_modules,
    repeated_names,
    wide_functions,
)

ALLOWED = {
    "robots": {"robots"},
    "design": {"robots", "design"},
    "identify": {"robots", "identify"},
    "experiments": {"robots", "design", "identify", "experiments"},
    "excitor": {"robots", "design", "identify", "experiments"},
}
ALTERNATIVES = (  # folders whose files are members of one kind, each named by its part or by what it is about
    *(
        f"design/programs/{vendor}"
        for vendor in ("fanuc", "franka", "krl", "rapid", "ros2", "twincat", "urscript", "val3")
    ),
    "design/constraints",
    "identify/logs",
    "experiments/export",
    "experiments/report",
    "experiments/studies",
    "experiments/verbs",
)
CODECS = {  # file on disk -> the module that reads and writes it, and so the only one that states its name
    "campaign.toml": "experiments/campaign.py",
    "design.json": "experiments/design_json.py",
    "manifest.json": "experiments/manifest.py",
    "model.json": "experiments/model.py",
}
PRINTERS = (  # the command line, the demo, and programs that run beside a controller on their own
    "experiments/cli.py",
    "experiments/demo.py",
    "experiments/verbs/",
    "design/programs/clients/",
)
STAND_IN_USERS = ("experiments/virtual/", "experiments/simulate.py", "experiments/studies/", "experiments/demo.py")
MOST_EXCEPTIONS = 20
MODULES = read_modules()
EXCEPTIONS = tomllib.loads((Path(__file__).parent / "house_exceptions.toml").read_text("utf-8"))


def each_module(test):
    return pytest.mark.parametrize("module", MODULES, ids=lambda module: module.path.as_posix())(test)


def check_exceptions(found, allowed, rule):
    """Compare what breaks a rule with the list of exceptions, in both directions."""
    new, fixed = sorted(set(found) - set(allowed)), sorted(set(allowed) - set(found))
    assert not new, f"{rule}: {', '.join(new)}"
    assert not fixed, f"no longer needed in tests/house_exceptions.toml, delete: {', '.join(fixed)}"


def imported(module):
    for node in module.nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module.path}: relative import"
            yield node.module


def lists(table):
    """All lists of exceptions, by name, those of file names included."""
    flat = {key: value for key, value in table.items() if isinstance(value, list)}
    return [*flat.items(), *table["file_names"].items()]


@each_module
def test_imports_follow_the_rooms(module):
    ours = {name.split(".")[1] for name in imported(module) if name.startswith("excitor.")}
    assert ours <= ALLOWED[module.path.parts[0]]
    assert not set(ALLOWED) - {"excitor"} & {name.split(".")[0] for name in imported(module)}


@each_module
def test_files_have_a_docstring(module):
    assert ast.get_docstring(module.tree), "the first line says what the file is about"


@pytest.mark.parametrize(("name", "entries"), lists(EXCEPTIONS))
def test_exceptions_are_few_and_sorted(name, entries):
    assert len(entries) <= MOST_EXCEPTIONS, f"{name}: at most {MOST_EXCEPTIONS} exceptions"
    assert entries == sorted(set(entries)), f"{name}: sort the exceptions, without duplicates"


def test_functions_are_short():
    found = long_functions(MODULES)
    check_exceptions(found, EXCEPTIONS["functions_over_40_lines"], "more than 40 code lines, cut it in two")


def test_functions_have_few_parameters():
    found = wide_functions(MODULES)
    check_exceptions(
        found, EXCEPTIONS["functions_over_6_parameters"], "more than 6 parameters, group those that go together"
    )


def test_folders_are_small():
    crowded = {str(folder): n for folder, n in count_files(MODULES).items() if n > FILES}
    assert not crowded, f"more than {FILES} files in a folder: {crowded}"


def test_files_of_a_subject_are_one_file_or_a_folder():
    assert not prefix_families(MODULES), "three files of a folder share their first word: merge them, or make a folder"


def test_no_file_name_stands_twice_in_a_room():
    missing = [folder for folder in ALTERNATIVES if not (ROOT / folder).is_dir()]
    assert not missing, f"these folders of alternatives are gone, take them out of the list: {missing}"
    assert not repeated_names(MODULES, ALTERNATIVES)


@pytest.mark.parametrize(("name", "owner"), CODECS.items())
def test_a_file_on_disk_has_one_codec(name, owner):
    found = {module.path.as_posix() for module in MODULES if name in module.strings} - {owner}
    check_exceptions(
        found, EXCEPTIONS["file_names"][name], f"{name!r} is read and written by {owner} alone; import from it"
    )


def test_codecs_exist():
    assert all((ROOT / owner).is_file() for owner in CODECS.values())


def test_the_virtual_robot_is_for_trying_out_only():
    names = {module.name for module in MODULES if "virtual" in module.path.parts}
    found = {
        module.path.as_posix()
        for module in MODULES
        if not module.path.as_posix().startswith(STAND_IN_USERS) and imports(module, names)
    }
    check_exceptions(found, EXCEPTIONS["modules_that_import_virtual"], "imports the virtual robot")


def test_modules_import_each_other_in_one_direction():
    found = {name for cycle in find_cycles(import_graph(MODULES)) for name in cycle}
    check_exceptions(found, EXCEPTIONS["modules_in_import_cycles"], "in a cycle of imports, lazy ones counted")


def prints(module):
    """Whether a module calls print, typer.echo, or a rich console."""
    calls = [ast.unparse(node.func) for node in module.nodes if isinstance(node, ast.Call)]
    return any(
        re.fullmatch(r"print|(typer|click)\.echo|echo|Console|.*[cC]onsole\.Console|sys\.std(out|err)\.write", call)
        for call in calls
    )


def test_only_the_command_line_prints():
    found = {m.path.as_posix() for m in MODULES if not m.path.as_posix().startswith(PRINTERS) and prints(m)}
    check_exceptions(found, EXCEPTIONS["modules_that_print"], "prints; return it, and print under experiments/verbs/")


def test_rooms_do_not_import_the_front_door():
    assert [path.name for path in (ROOT / "excitor").glob("*.py")] == ["__init__.py"]
    assert not [module.path for module in MODULES if "excitor" in imported(module)]


def test_library_names_no_robot():
    """Robots are data: no library code knows one by name."""
    from excitor.robots.load import catalog_names

    about_one_robot = {"studies", "demo.py"}
    for module in MODULES:
        if not about_one_robot & set(module.path.parts):
            assert not module.strings & set(catalog_names()), module.path


def test_every_package_is_declared():
    declared = set(tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["setuptools"]["packages"])
    assert declared == {module.name for module in MODULES if module.is_init}
    with_files = {path.parent for room in ROOMS for path in (ROOT / room).rglob("*.py")}
    assert all((folder / "__init__.py").is_file() for folder in with_files)


def test_every_cited_work_is_listed():
    key = r"\[([A-Z][A-Za-z]+\d{4}[a-z]?)\]"
    product = {name for module in MODULES for name in re.findall(key, module.text)}
    others = {name for path in (ROOT / "benchmarks").glob("*.py") for name in re.findall(key, path.read_text("utf-8"))}
    listed = re.findall(r"^\* `\[(\w+)\]`", (ROOT / "docs/references.md").read_text("utf-8"), re.MULTILINE)
    assert len(listed) == len(set(listed))
    assert product | others <= set(listed)


def public_names(module):
    """Names that a module defines at its top."""
    defined = (ast.FunctionDef, ast.ClassDef)
    names = {node.name for node in module.tree.body if isinstance(node, defined)}
    return names | {
        target.id
        for node in module.tree.body
        if isinstance(node, ast.Assign | ast.AnnAssign)
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if isinstance(target, ast.Name)
    }


def members(folder, protocol):
    """Modules under a folder that define all names of a protocol."""
    return {
        module.name for module in MODULES if module.path.is_relative_to(folder) and protocol <= public_names(module)
    }


def test_the_registry_of_targets_is_their_folder():
    from excitor.design.programs.registry import NAMES, emitter, executor

    emitters = {emitter(name).__name__ for name in NAMES}
    assert emitters == members("design/programs", {"TARGET"})
    assert all(callable(executor(name).execute) for name in NAMES)


def test_the_registry_of_log_formats_is_their_folder():
    from excitor.identify.logs.formats import FORMATS

    forms = {import_module(name).FORMAT for name in members("identify/logs", {"FORMAT"})}
    assert forms == set(FORMATS.loaded().values())
    assert all(name == form.name for name, form in FORMATS.loaded().items())


def test_the_registry_of_studies_is_their_folder():
    from excitor.experiments.studies import STUDIES

    assert set(STUDIES.values()) == members("experiments/studies", {"run"})
