"""Size and shape of the code: files, folders, cycles, long functions, and how many places a new member touches."""

import ast
import os
import re
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from excitor.experiments.figures import Figure, Report

ROOT = Path(__file__).parents[1]
ROOMS = ("excitor", "robots", "design", "identify", "experiments")
CODE_LINES = 40  # of a function
PARAMETERS = 6  # of a function
FILES = 24  # of a folder
# Decorators of kernels, which numba does not let us cut into small functions freely.
COMPILED = ("compiled", "inner", "inner_sums")
COMMAND_LINE = ("experiments/cli.py", "experiments/verbs/")  # a parameter an option
# Use the product as a user does: new members need no change there.
EQUIPMENT = ("studies", "virtual", "demo.py")

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, eq=False)
class Module:
    """A Python file of the product."""

    name: str  # as it is imported
    path: Path  # relative to the repository
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        """Syntax tree of the file."""
        return ast.parse(self.text)

    @cached_property
    def nodes(self) -> tuple[ast.AST, ...]:
        """All nodes of the syntax tree."""
        return tuple(ast.walk(self.tree))

    @property
    def is_init(self) -> bool:
        """True if the file is the `__init__` of its folder."""
        return self.path.name == "__init__.py"

    def functions(self) -> Iterator[tuple[str, Function]]:
        """Functions and methods, nested ones included, each with the name `Class.method`."""
        return _functions(self.tree, "")

    @cached_property
    def strings(self) -> set[str]:
        """String constants, docstrings aside."""
        documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
        docstrings = {
            id(node.body[0].value) for node in self.nodes if isinstance(node, documented) and _has_docstring(node)
        }
        return {
            node.value
            for node in self.nodes
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings
        }

    def constants(self) -> set[str]:
        """Names in capitals that the code uses."""
        names = {node.id for node in self.nodes if isinstance(node, ast.Name)}
        names |= {node.attr for node in self.nodes if isinstance(node, ast.Attribute)}
        return {name for name in names if name.isupper()}


def run(full: bool = False) -> Report:
    """Measure the code of this checkout; `full` repeats the import more often."""
    modules = read_modules()
    places = {kind: count_places(modules, members) for kind, members in registries().items()}
    folders = count_files(modules)
    walked = modules_walked()
    figures = [
        Figure("house.modules", _count(not module.is_init for module in modules), "files", 215, "at most"),
        Figure("house.most_files_in_a_folder", max(folders.values()), "files", FILES, "at most"),
        Figure("house.lines", sum(module.text.count("\n") for module in modules), "lines", 78_000, "at most"),
        Figure("house.cycles", len(find_cycles(import_graph(modules))), "", 0, "at most"),
        Figure("house.functions_over_40", len(long_functions(modules)), "functions", 20, "at most"),
        Figure("house.single_importers", len(single_importers(modules)), "files", 45, "at most"),
        Figure("house.places_max", max(places.values()), "files", 3, "at most"),
        Figure("house.motion_types", len(motion_types(modules)), "classes", 5, "at most"),
        Figure("house.constraint_places", places["constraint"], "files", 3, "at most"),
        Figure("house.design_modules_walked", len(walked), "files", 45, "at most"),
        Figure("house.import_s", import_seconds(25 if full else 5), "s CPU", 0.1, "at most"),
    ]
    context = {
        "what": "the product's rooms; `__init__.py` files count in lines and cycles only",
        "places": places,
        "motion types": motion_types(modules),
        "no motion types": NO_MOTION_TYPE,
        "design_modules_walked": walked,
        "cycles": [sorted(cycle) for cycle in find_cycles(import_graph(modules))],
        "folders": {str(folder): n for folder, n in folders.most_common(5)},
    }
    return Report("bench", "house", figures, context)


# What a class that holds the coefficients or the points of a motion calls them, and what evaluates it.
MOTION_FIELDS = ({"sines"}, {"knots"}, {"waypoints"}, {"amplitudes"}, {"evaluate"}, {"to", "duration"})
EVALUATE = ("at", "planned", "motion", "evaluate")
# Classes that look like a motion type and mean none of their own.
NO_MOTION_TYPE = {
    "design/motion.py:Segment": "the protocol of a run's segments, of which there are no objects",
    "design/motion.py:_Move": "a part of the one form in which files hold a run",
    "design/motion.py:_Series": "a part of the one form in which files hold a run",
    "design/programs/clients/run_motion.py:Run": "given out beside programs: it reads that form without the product",
    "design/torque.py:TorqueTrajectory": "torques over time, commanded whatever the joints do",
    "experiments/design_json.py:TorqueWaves": "the form in which design.json holds those torques",
    "design/problem.py:Genes": "which design variable is of which joint and harmonic, and the symmetries of a search",
}


def motion_types(modules: Sequence[Module]) -> list[str]:
    """Name the classes of design and experiments that mean a planned motion: they hold one, or evaluate one at `t`.

    Forms of files count as well; what is measured, the published studies, and `NO_MOTION_TYPE` do not.
    """
    found = []
    for module in modules:
        if module.path.parts[0] not in ("design", "experiments") or "studies" in module.path.parts:
            continue
        for node in (node for node in ast.walk(module.tree) if isinstance(node, ast.ClassDef)):
            fields = {ast.unparse(entry.target) for entry in node.body if isinstance(entry, ast.AnnAssign)}
            methods = [entry for entry in node.body if isinstance(entry, ast.FunctionDef) and entry.name in EVALUATE]
            evaluates = any("t" in [argument.arg for argument in method.args.args] for method in methods)
            if evaluates or any(names <= fields for names in MOTION_FIELDS):
                found.append(f"{module.path.as_posix()}:{node.name}")
    return [name for name in found if name not in NO_MOTION_TYPE]


def read_modules(root: Path = ROOT) -> list[Module]:
    """Every Python file of the product, room by room."""
    return [
        Module(_import_name(path.relative_to(root)), path.relative_to(root), path.read_text("utf-8"))
        for room in ROOMS
        for path in sorted((root / room).rglob("*.py"))
    ]


def imports(module: Module, names: set[str]) -> set[str]:
    """Modules among `names` that a module imports, at its top or inside a function."""
    found = set()
    for node in module.nodes:
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            members = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= members & names or {node.module}
    return (found & names) - {module.name}


def import_graph(modules: Sequence[Module]) -> dict[str, set[str]]:
    """Map every module to those that it imports."""
    names = {module.name for module in modules}
    return {module.name: imports(module, names) for module in modules}


def find_cycles(graph: Mapping[str, set[str]]) -> list[set[str]]:
    """Strongly connected components of more than one module [Tarjan1972]."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    cycles = []

    def visit(name: str) -> None:
        index[name] = low[name] = len(index)
        stack.append(name)
        for other in sorted(graph[name]):
            if other not in index:
                visit(other)
            if other in stack:
                low[name] = min(low[name], low[other])
        if low[name] == index[name]:
            component = set(stack[stack.index(name) :])
            del stack[stack.index(name) :]
            if len(component) > 1:
                cycles.append(component)

    for name in graph:
        if name not in index:
            visit(name)
    return cycles


def single_importers(modules: Sequence[Module]) -> list[str]:
    """Modules that exactly one other imports."""
    importers = Counter(name for found in import_graph(modules).values() for name in found)
    return [module.name for module in modules if not module.is_init and importers[module.name] == 1]


def count_files(modules: Sequence[Module]) -> Counter[Path]:
    """Python files of every folder."""
    return Counter(module.path.parent for module in modules if not module.is_init)


def prefix_families(modules: Sequence[Module]) -> list[str]:
    """`folder/word_*` where at least three files of a folder share their first word."""
    first = Counter((module.path.parent / module.path.stem.split("_")[0]).as_posix() for module in modules)
    return [f"{word}_*" for word, n in first.items() if n >= 3 and Path(word).name]


def repeated_names(modules: Sequence[Module], alternatives: Sequence[str]) -> list[str]:
    """`room/name.py` where a file name stands twice in a room, folders of alternatives and what is in them aside."""
    counted = [
        module.path
        for module in modules
        if not module.is_init and not any(module.path.is_relative_to(folder) for folder in alternatives)
    ]
    times = Counter(f"{path.parts[0]}/{path.name}" for path in counted)
    return [name for name, n in times.items() if n > 1]


def long_functions(modules: Sequence[Module]) -> dict[str, int]:
    """Map `path:function` to its code lines, where they are more than 40; kernels aside."""
    lengths = {key: code_lines(module, function) for key, module, function in _capped(modules)}
    return {key: n for key, n in lengths.items() if n > CODE_LINES}


def wide_functions(modules: Sequence[Module]) -> dict[str, int]:
    """Map `path:function` to its parameters, if more than 6; kernels and the command line's options aside."""
    widths = {
        key: n_parameters(function)
        for key, module, function in _capped(modules)
        if not module.path.as_posix().startswith(COMMAND_LINE)
    }
    return {key: n for key, n in widths.items() if n > PARAMETERS}


def code_lines(module: Module, function: Function) -> int:
    """Lines of a function's body without its docstring, blank lines and comments."""
    body = function.body[1:] if _has_docstring(function) else function.body
    if not body:
        return 0
    lines = module.text.split("\n")[body[0].lineno - 1 : function.end_lineno]
    return sum(1 for line in lines if line.strip() and not line.strip().startswith("#"))


def n_parameters(function: Function) -> int:
    """Parameters of a function, `self` aside."""
    given = function.args
    named = [*given.posonlyargs, *given.args, *given.kwonlyargs]
    return len(named) - (bool(named) and named[0].arg in ("self", "cls"))


def count_places(modules: Sequence[Module], members: Sequence[str]) -> int:
    """Count places that name a member of a kind of alternatives: files of the product, and its documentation as one.

    A file names a member if its code holds the name as a string or as a constant (`"ripple-sin"`, `RIPPLE_SIN`), or if
    it is called so; the documentation names it as code, in backticks. A member that works is named wherever it has to
    be; so the member that is named in the fewest places gives how many there have to be. Others are named more often,
    because they are defaults, or because the name is also a word of another subject (`csv`, `load`). Studies, the
    virtual robot and the demo are not counted.
    """
    product = [module for module in modules if not set(EQUIPMENT) & set(module.path.parts)]
    if "mjcf" in members:  # formats of robots and logs that are read have the names of exports
        product = [module for module in product if module.path.parts[0] == "experiments"]
    named: dict[str, int] = dict.fromkeys(members, 0)
    for module in product:
        words = module.strings | module.constants() | {module.path.stem}
        for member in members:
            constant = re.sub("[^a-z0-9]", "_", member).upper()
            named[member] += bool({member, constant} & words)
    documented = set(re.findall("`([^`\n]+)`", "\n".join(path.read_text("utf-8") for path in documentation())))
    return min(n + (member in documented) for member, n in named.items())


def documentation(root: Path = ROOT) -> list[Path]:
    """Pages of the documentation; decisions and references list no members."""
    return [root / "README.md", *sorted((root / "docs").glob("*.md"))]


def registries() -> dict[str, tuple[str, ...]]:
    """Kind of alternatives -> names of its members, each from the registry that the product uses."""
    from excitor.design.constraints.registry import CONSTRAINTS
    from excitor.design.programs.registry import NAMES
    from excitor.experiments.export.export import FORMATS as EXPORTS
    from excitor.experiments.report.page import SECTIONS
    from excitor.identify.logs.formats import FORMATS as LOGS
    from excitor.identify.methods import METHODS
    from excitor.robots.friction import TABLE

    return {
        "friction term": tuple(TABLE),
        "constraint": tuple(CONSTRAINTS),
        "target": NAMES,
        "log format": tuple(LOGS),
        "estimator": tuple(METHODS),
        "report section": tuple(SECTIONS),
        "export": tuple(EXPORTS),
    }


_WALK = """
import os, sys
folder = sys.argv[1]
sys.argv = ["excitor", "design", folder, "--json"]
from excitor.experiments.cli import main
seen = set()

def note(frame, event, _):  # compiled functions have no frame that calls them
    name = frame.f_code.co_filename
    if event == "call" and frame.f_back is not None and name not in seen and not importing(frame):
        seen.add(name)

def importing(frame):
    while frame.f_back is not None:
        if frame.f_code.co_name == "<module>":
            return True
        frame = frame.f_back
    return False

sys.setprofile(note)
try:
    main()
except SystemExit:
    pass
sys.setprofile(None)
print("\\n" + os.pathsep.join(seen))
"""
_CAMPAIGN = """robot = "tx40"
[noise]
torque = [2.6, 2.6, 2.1, 0.9, 0.9, 0.6]
[design]
evaluations = 300
"""


def modules_walked() -> list[str]:
    """Modules of the product whose functions run in `excitor design DIR`, compiled ones aside."""
    with TemporaryDirectory() as place:
        (Path(place) / "campaign.toml").write_text(_CAMPAIGN, "utf-8")
        command = [sys.executable, "-c", _WALK, place]
        done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    files = {Path(name).resolve() for name in done.stdout.splitlines()[-1].split(os.pathsep)}
    rooms = [(ROOT / room).resolve() for room in ROOMS]
    return sorted(
        path.relative_to(room.parent).as_posix()
        for path in files
        for room in rooms
        if path.is_relative_to(room) and path.name != "__init__.py"
    )


def import_seconds(rounds: int) -> float:
    """Median CPU time of `import excitor` in a new interpreter, s."""
    code = "import time; start = time.process_time(); import excitor; print(time.process_time() - start)"
    seconds = []
    for _ in range(rounds):
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
        seconds.append(float(done.stdout))
    return median(seconds)


def _count(values: Iterator[bool]) -> int:
    return sum(values)


def _import_name(path: Path) -> str:
    parts = list(path.with_suffix("").parts)
    if parts[-1] == "__init__":
        parts.pop()
    return ".".join(parts if parts[0] == "excitor" else ["excitor", *parts])


def _functions(node: ast.AST, within: str) -> Iterator[tuple[str, Function]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield within + child.name, child
            yield from _functions(child, f"{within}{child.name}.")
        else:
            yield from _functions(child, f"{within}{child.name}." if isinstance(child, ast.ClassDef) else within)


def _capped(modules: Sequence[Module]) -> Iterator[tuple[str, Module, Function]]:
    """Functions that are not compiled, by `path:function`."""
    seen: dict[str, int] = defaultdict(int)
    for module in modules:
        if module.path.as_posix().startswith("robots/kernel/"):
            continue
        for name, function in module.functions():
            if set(COMPILED) & {_decorator(node) for node in function.decorator_list}:
                continue
            key = f"{module.path.as_posix()}:{name}"
            seen[key] += 1
            yield key if seen[key] == 1 else f"{key}#{seen[key]}", module, function


def _decorator(node: ast.expr) -> str:
    if isinstance(node, ast.Call):
        return _decorator(node.func)
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def _has_docstring(node: ast.Module | ast.ClassDef | Function) -> bool:
    first = node.body[0] if node.body else None
    return isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str)
