"""Mutation testing: small faults put into one module at a time, and the fast tests that must notice them.

Our own, not mutmut or cosmic-ray: both rewrite files on disk and start Python anew for each fault (8 s of imports for
1 s of tests here), know nothing of arrays (axes, transposes, units, minimum and maximum), and cannot leave out what a
list calls equivalent. Here a fault exists only in memory: a process that has imported the libraries is forked, an
import hook serves the changed source under the module's own path, so that compiled kernels stay in their cache, and
pytest runs the tests that cover the line.
"""

import ast
import contextlib
import importlib.abc
import importlib.machinery
import json
import math
import os
import random
import re
import resource
import signal
import sys
import tempfile
import threading
import time
import tomllib
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import CodeType

ROOT = Path(__file__).parents[1]
ROOMS = ("robots", "design", "identify", "experiments")
EQUIVALENT = ROOT / "tests" / "mutants.toml"
MOST_FILES = 16  # test files that are tried for a module, the nearest first
MAPPING, LONGEST = 40.0, 30.0  # s: to find which test runs which line; of tests against one mutant, as traced
TRACING = 120.0  # s, of one file of tests
IDLE = 20_000  # lines of a function that were all seen before, after which it is traced no longer in this test
MEMORY = 8 << 30  # bytes of address space
ROUNDING = 1e-6  # a smaller constant is one of rounding: ten times it is as good, and what equals it is neither
# Not mutated: compiled kernels (interpreted, a test of them takes minutes; independent oracles check them), pages and
# help (text is judged by readers), and studies (their figures are bars of their own).
LEFT_OUT = (
    "robots/kernel/",
    "experiments/report/assets",
    "experiments/studies/",
    "experiments/verbs/",
    "experiments/demo.py",
)
CORE = (
    "design/certify/certify.py",
    "design/certify/bounds.py",
    "design/programs/verify.py",
    "design/programs/facts.py",
    "design/programs/clients/egm_client.py",
    "design/programs/clients/egm_packets.py",
    "design/programs/clients/franka_client.py",
    "design/programs/clients/j519_client.py",
    "design/programs/clients/j519_packets.py",
    "design/programs/clients/ros2_client.py",
    "design/programs/clients/rsi_server.py",
    "design/programs/clients/rtde_recorder.py",
    "design/programs/clients/run_motion.py",
    "identify/intervals.py",
    "identify/consistent.py",
    "identify/estimate.py",
    "identify/instruments.py",
    "identify/verdict.py",
    "experiments/align/align.py",
    "experiments/align/channels.py",
    "experiments/align/clock.py",
    "experiments/align/windows.py",
    "robots/simulate.py",
)


@dataclass(frozen=True, slots=True)
class Mutant:
    """One fault: a piece of source replaced by another."""

    file: str
    function: str  # qualified name; "" at the module's level
    kind: str
    lines: tuple[int, int]  # of the statement
    was: str
    becomes: str
    span: tuple[int, int]  # bytes

    @property
    def name(self) -> str:
        """Place and change, in one line."""
        change = f"{_short(self.was)} → {_short(self.becomes)} ({self.kind})"
        return f"{self.file}:{self.lines[0]} {self.function or 'module'}: {change}"

    def source(self) -> str:
        """Source of the module with the fault."""
        text = (ROOT / self.file).read_bytes()
        return (text[: self.span[0]] + self.becomes.encode() + text[self.span[1] :]).decode()


@dataclass(frozen=True, slots=True)
class Outcome:
    """Whether a fast test noticed a mutant; None: the list says why nothing could."""

    mutant: Mutant
    killed: bool | None
    reason: str
    seconds: float


def _short(text: str, most: int = 70) -> str:
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[: most // 2]}…{line[-most // 2 :]}"


_COMPARES: dict[type, type] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_TURNED: dict[type, type] = {ast.Lt: ast.Gt, ast.LtE: ast.GtE, ast.Gt: ast.Lt, ast.GtE: ast.LtE}
_SIGNS: dict[type, type] = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult}
_NAMES = {
    "min": "max",
    "max": "min",
    "minimum": "maximum",
    "maximum": "minimum",
    "argmin": "argmax",
    "argmax": "argmin",
    "any": "all",
    "all": "any",
    "floor": "ceil",
    "ceil": "floor",
    "sin": "cos",
    "cos": "sin",
    "radians": "degrees",
    "degrees": "radians",
    "first": "last",
    "eigvalsh": "eigvals",
    "nanmin": "nanmax",
    "nanmax": "nanmin",
    "triu": "tril",
    "tril": "triu",
}
# Alike in either order, or of types; without a sign.
_UNSWAPPED = frozenset(["min", "max", "minimum", "maximum", "hypot", "array_equal", "isinstance"])
_EVEN = ("abs", "absolute", "norm", "square", "sum_squares")
_UNARY = ("abs", "absolute", "sqrt")


def mutants_of(file: str) -> list[Mutant]:
    """List all faults that the operators make in a module."""
    raw = (ROOT / file).read_bytes()
    starts = [0]
    for line in raw.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    found, tree = [], ast.parse(raw)
    even = {id(inner) for inner in map(_of_even, ast.walk(tree)) if inner is not None}
    for where, statement, node in _walk(tree, "", None):
        start = starts[node.lineno - 1] + node.col_offset
        end = starts[node.end_lineno - 1] + node.end_col_offset
        was = raw[start:end].decode()
        for kind, becomes in _faults(node):
            lines = statement.lineno, _header_end(statement)
            if kind == "swap" and id(node) in even:
                continue
            if "".join(becomes.split()).strip("()") != "".join(was.split()).strip("()"):
                found.append(Mutant(file, where, kind, lines, was, becomes, (start, end)))
    return found


def _of_even(node: ast.AST) -> ast.AST | None:
    """Return what stands in an even function, whose sign nobody sees."""
    match node:
        case ast.Call(func=func, args=[inner, *_]) if getattr(func, "attr", getattr(func, "id", "")) in _EVEN:
            pass
        case ast.BinOp(left=inner, op=ast.Pow(), right=ast.Constant(value=2)):
            pass
        case _:
            return None
    return inner.value if isinstance(inner, ast.Subscript) else inner


def _compiles(mutant: Mutant) -> bool:
    with contextlib.suppress(SyntaxError):
        return bool(ast.parse(mutant.source()))
    return False


def _header_end(statement: ast.stmt) -> int:
    """Last line of a statement, of a compound one of its head; defaults of a function are seen where it runs."""
    if isinstance(statement, ast.FunctionDef):
        return statement.end_lineno or statement.lineno
    body = getattr(statement, "body", None)
    return max(statement.lineno, body[0].lineno - 1) if body else statement.end_lineno or statement.lineno


def _walk(node: ast.AST, where: str, statement: ast.stmt | None) -> Iterator[tuple[str, ast.stmt, ast.AST]]:
    """Visit what may be mutated: no annotations, messages, docstrings, assertions, nor what only types see."""
    for field, value in ast.iter_fields(node):
        if field in ("annotation", "returns", "decorator_list", "type_params") or isinstance(node, ast.JoinedStr):
            continue
        if field == "keywords" and getattr(getattr(node, "func", None), "id", "") == "zip":  # strict=True asserts
            continue
        for child in value if isinstance(value, list) else [value]:
            if not isinstance(child, ast.AST) or isinstance(
                child, ast.Raise | ast.Assert | ast.Import | ast.ImportFrom
            ):
                continue
            if isinstance(child, ast.keyword) and child.arg == "check_finite":  # of SciPy: only what it refuses
                continue
            if isinstance(child, ast.FunctionDef | ast.ClassDef):
                if child.name not in ("__repr__", "to_latex", "plot"):
                    yield from _walk(child, f"{where}.{child.name}".lstrip("."), child)
                continue
            inner = child if isinstance(child, ast.stmt) else statement
            if inner is not None and hasattr(child, "end_col_offset"):
                yield where, inner, child
            yield from _walk(child, where, inner)


def _faults(node: ast.AST) -> Iterator[tuple[str, str]]:
    """Faults of one node, as text: the operators."""
    match node:
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            bound = right.value if isinstance(right, ast.Constant) and type(right.value) is float else None
            rounding = bound is not None and 0.0 < bound < ROUNDING
            for kind, table in (("compare", _COMPARES), ("turned", _TURNED)):
                if type(op) in table and not (rounding and kind == "compare" and type(op) in _TURNED):
                    yield kind, _text(ast.Compare(left, [table[type(op)]()], [right]))
            if bound and not rounding:
                yield "threshold", _text(ast.Compare(left, [op], [ast.Constant(right.value * 10)]))
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _SIGNS and not _is_text(left, right):
            yield "sign", _text(ast.BinOp(left, _SIGNS[type(op)](), right))
            yield "dropped", _text(left)
            if isinstance(op, ast.Sub):
                yield "swap", _text(ast.BinOp(right, op, left))
        case ast.UnaryOp(op=ast.USub() | ast.Not(), operand=operand) if not isinstance(operand, ast.Constant):
            yield "sign", _text(operand)
        case ast.BoolOp(op=op, values=values):
            yield "and/or", _text(ast.BoolOp(ast.Or() if isinstance(op, ast.And) else ast.And(), values))
            yield "guard", _text(values[0])
        case (
            ast.If(test=test, body=[ast.Raise() | ast.Return() | ast.Continue() | ast.Break(), *_], orelse=[])
            | ast.If(test=test, body=[ast.Expr(ast.Yield()), *_], orelse=[])
        ):
            yield from ()  # the guard is removed by its test, below
        case ast.IfExp(test=test, body=body, orelse=other):
            yield "guard", _text(body)
            yield "swap", _text(ast.IfExp(test, other, body))
        case ast.Call(func=func, args=args, keywords=words):
            name = getattr(func, "attr", getattr(func, "id", ""))
            if name in _NAMES and not _is_text(*args):
                other = (
                    ast.Attribute(func.value, _NAMES[name])
                    if isinstance(func, ast.Attribute)
                    else ast.Name(_NAMES[name])
                )
                yield "min/max", _text(ast.Call(other, args, words))
            if name in _UNARY and len(args) == 1:
                yield "dropped", _text(args[0])
            if (
                len(args) == 2
                and all(isinstance(each, ast.Name | ast.Attribute) for each in args)
                and name not in _UNSWAPPED
            ):
                yield "swap", _text(ast.Call(func, args[::-1], words))
            for k, word in enumerate(words):
                if word.arg == "axis" and _whole(word.value) in (0, 1, -1):
                    changed = ast.keyword("axis", ast.Constant(1 if _whole(word.value) == 0 else 0))
                    yield "axis", _text(ast.Call(func, args, [*words[:k], changed, *words[k + 1 :]]))
        case ast.Attribute(value=value, attr="T"):
            yield "axis", _text(value)
        case ast.Slice(lower=lower, upper=upper, step=step) if lower is not None or upper is not None:
            for k in (lower, upper):
                if isinstance(k, ast.UnaryOp) and _whole(k) is not None:  # plain numbers are mutated as such
                    moved = ast.Constant(_whole(k) + 1)
                    yield (
                        "off by one",
                        _text(ast.Slice(moved, upper, step) if k is lower else ast.Slice(lower, moved, step)),
                    )
        case ast.Constant(value=bool() as value):
            yield "guard", str(not value)
        case ast.Constant(value=float() as value) if abs(value) >= ROUNDING:
            yield "threshold", repr(value * 10)
        case ast.Constant(value=int() as value) if value < 100:
            yield "off by one", repr(value + 1)
        case ast.AugAssign(target=target, op=op, value=value):
            yield "dropped", "pass"
            if type(op) in _SIGNS:
                yield "sign", _text(ast.AugAssign(target, _SIGNS[type(op)](), value))
        case ast.Expr(value=ast.Call() | ast.Yield() | ast.YieldFrom()):
            yield "dropped", "pass"
        case ast.Expr(value=ast.Constant()):
            yield from ()
    yield from _guards(node)


def _guards(node: ast.AST) -> Iterator[tuple[str, str]]:
    """Removed guards: an `if` without `else` that leaves is never taken."""
    if (
        isinstance(node, ast.If)
        and not node.orelse
        and isinstance(node.body[-1], ast.Raise | ast.Return | ast.Continue)
    ):
        yield "guard", "pass"


def _text(node: ast.AST) -> str:
    written = ast.unparse(ast.fix_missing_locations(node))
    return (
        f"({written})" if isinstance(node, ast.BinOp | ast.BoolOp | ast.Compare | ast.IfExp | ast.UnaryOp) else written
    )


def _is_text(*nodes: ast.AST) -> bool:
    return any(
        isinstance(each, ast.JoinedStr) or (isinstance(each, ast.Constant) and isinstance(each.value, str))
        for each in nodes
    )


def _whole(node: ast.AST) -> int | None:
    with contextlib.suppress(ValueError):
        value = ast.literal_eval(node)
        return value if type(value) is int else None
    return None


def files() -> list[str]:
    """Modules that are mutated."""
    every = (path.relative_to(ROOT).as_posix() for room in ROOMS for path in sorted((ROOT / room).rglob("*.py")))
    return [file for file in every if not file.startswith(LEFT_OUT) and not file.endswith("__init__.py")]


@cache
def _imports() -> dict[str, frozenset[str]]:
    """Which files of the product and of the tests each of them imports, also inside functions."""
    paths = [path for folder in (*ROOMS, "excitor", "tests") for path in (ROOT / folder).rglob("*.py")]
    names = {}
    for path in paths:
        file = path.relative_to(ROOT).as_posix()
        dotted = file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        names[dotted if file.startswith(("tests", "excitor")) else f"excitor.{dotted}"] = file
    found = {}
    for name, file in names.items():
        wanted = set()
        for node in ast.walk(ast.parse((ROOT / file).read_text("utf-8"))):
            if isinstance(node, ast.Import):
                wanted.update(alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module:
                wanted.update([node.module, *(f"{node.module}.{alias.name}" for alias in node.names)])
        if name.startswith("tests."):  # fixtures
            wanted.update(f"{name.rsplit('.', k)[0]}.conftest" for k in range(1, name.count(".") + 1))
        found[file] = frozenset(names[each] for each in wanted if each in names) - {file}
    return found


def nearest_tests(file: str) -> list[str]:
    """Test files that may notice a fault in a module.

    By distance along imports, less one if named alike; then by how many names they import from it, whether they
    are of its room and named like a module that imports it, and how often they name it or such a module.
    """
    graph, distance, front = _imports(), {file: 0}, {file}
    while front:
        front = {other for other, wanted in graph.items() if wanted & front and other not in distance}
        distance.update(dict.fromkeys(front, max(distance.values()) + 1))
    stem = Path(file).stem.rstrip("s")
    tests = [other for other in distance if Path(other).name.startswith("test_")]
    named = {other: stem in Path(other).stem for other in tests}
    room = f"tests/{file.partition('/')[0]}/"
    dotted = f"excitor.{file.removesuffix('.py').replace('/', '.')}"
    near = {other: (distance[other] - named[other], -_taken(other)[0][dotted]) for other in tests}
    users = {Path(other).stem for other, wanted in graph.items() if file in wanted}
    kin = {other: other.startswith(room) + any(user in other for user in users) for other in tests}
    words = re.compile(rf"\b(?:{'|'.join(map(re.escape, sorted(users | {Path(file).stem})))})\b")
    told = {other: len(words.findall(_taken(other)[1])) for other in tests}
    tests.sort(key=lambda other: (*near[other], -kin[other], -told[other], other))
    return tests[:MOST_FILES]


@cache
def _taken(test: str) -> tuple[Counter[str], str]:
    """Count the names that a test file imports, by module; and its text."""
    text = (ROOT / test).read_text("utf-8")
    counts: Counter[str] = Counter()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and node.module:
            counts[node.module] += len(node.names)
    return counts, text.lower()


class _Loader(importlib.machinery.SourceFileLoader):
    """Loads a module from other source than its file's, and keeps no byte code of it."""

    source = ""

    def get_code(self, fullname: str):
        return compile(self.source, self.path, "exec", dont_inherit=True)

    def get_data(self, path: str) -> bytes:
        return self.source.encode()


class _Hook(importlib.abc.MetaPathFinder):
    """Serves one module from changed source."""

    def __init__(self, name: str, source: str) -> None:
        self.name, self.source = name, source

    def find_spec(self, fullname, path=None, target=None):
        spec = importlib.machinery.PathFinder.find_spec(fullname, path) if fullname == self.name else None
        if spec is not None:
            spec.loader = _Loader(fullname, spec.origin)
            spec.loader.source = self.source
        return spec


def _apart(work: Callable[[], int], seconds: float) -> int | None:
    """Return the exit code of work done in a fork of this process with a group of its own; None: it took too long.

    Seconds are of CPU time, so that a busy machine does not end what is right; of the clock it has four times as many.
    """
    child = os.fork()
    if child == 0:
        code = 70
        try:
            os.setsid()
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
            resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(seconds) + math.ceil(time.process_time()),) * 2)
            null = os.open(os.environ.get("NET_LOG", os.devnull), os.O_RDWR | os.O_CREAT | os.O_APPEND)
            for stream in (0, 1, 2):
                os.dup2(null, stream)
            os.chdir(ROOT)
            code = work()
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            os._exit(code)
    end = time.monotonic() + 4.0 * seconds
    try:
        while time.monotonic() < end:
            done, status = os.waitpid(child, os.WNOHANG)
            if done:
                code = os.waitstatus_to_exitcode(status)
                return None if code in (-signal.SIGXCPU, -signal.SIGKILL) else code
            time.sleep(0.02)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


def _pytest(tests: Sequence[str], *plugins: object, first: bool) -> int:
    import pytest

    options = [
        "-o",
        "addopts=--import-mode=importlib",
        "-m",
        "not slow",
        "-n",
        "0",
        "-q",
        "-p",
        "no:cacheprovider",
        "--tb=line",
    ]
    return int(pytest.main([*options, *(["-x"] if first else []), *tests], plugins=list(plugins)))


class _Lines:
    """A plugin of pytest: which lines of the product each test runs, and how long it takes."""

    def __init__(self, path: str) -> None:
        self.rooms = tuple(f"{ROOT}/{room}/" for room in ROOMS)
        self.file = open(path, "w")  # noqa: SIM115
        self.seen: dict[str, set[int]] = {}
        self.locals: dict[CodeType, Callable | None] = {}
        self.started = 0.0

    def trace(self, frame, event, _):
        code = frame.f_code
        if code not in self.locals:
            self.locals[code] = self._local(code) if code.co_filename.startswith(self.rooms) else None
        return self.locals[code]

    def _local(self, code: CodeType) -> Callable:
        """Return what notes the lines of one function, and traces it no longer when no more of them are likely."""
        file = code.co_filename.removeprefix(f"{ROOT}/")
        left = {line for _, _, line in code.co_lines() if line}
        seen = self.seen.setdefault(file, set())
        idle = 0

        def local(frame, event, _):
            nonlocal idle
            idle += 1
            if frame.f_lineno in left:
                seen.add(frame.f_lineno)
                left.discard(frame.f_lineno)
                idle = 0
            if not left or idle > IDLE:
                self.locals[code] = None
                frame.f_trace_lines = False
            return local

        return local

    def pytest_runtest_logstart(self, nodeid):
        self.seen, self.locals = {}, {}
        self.started = time.monotonic()
        threading.settrace(self.trace)
        sys.settrace(self.trace)

    def pytest_runtest_logreport(self, report):
        if report.when == "setup" or report.failed or report.skipped:
            self.good = report.passed
        if report.when == "teardown":
            sys.settrace(None)
            threading.settrace(None)  # type: ignore[arg-type]
            if getattr(self, "good", False):
                took = time.monotonic() - self.started
                lines = {file: sorted(seen) for file, seen in self.seen.items()}
                self.file.write(json.dumps([report.nodeid, took, lines]) + "\n")
                self.file.flush()


@cache
def traced(test: str) -> list[tuple[str, float, dict[str, frozenset[int]]]]:
    """List the fast tests of a file: name, seconds, lines of each module that they run."""
    with tempfile.TemporaryDirectory(prefix="excitor-net-") as folder:
        path = Path(folder, "lines")
        _apart(lambda: _pytest([test], _Lines(str(path)), first=False), TRACING)
        with contextlib.suppress(OSError):
            found = [json.loads(line) for line in path.read_text().splitlines()]
            return [
                (name, took, {file: frozenset(seen) for file, seen in lines.items()}) for name, took, lines in found
            ]
    return []


def covering(file: str, seconds: float = MAPPING) -> list[tuple[str, float, frozenset[int]]]:
    """List the fast tests of the files that run lines of a module, the shortest first: name, seconds, lines.

    Each file of tests is traced once, however many modules ask. With a test that runs lines stand the others of its
    file, which may look at what the same fixture or cache gave.
    """
    end, found = time.monotonic() + seconds, []
    for test in nearest_tests(file):
        if time.monotonic() < end:
            known = [(name, took, lines.get(file, frozenset())) for name, took, lines in traced(test)]
            found += known if any(lines for _, _, lines in known) else []
    return sorted(found, key=lambda each: each[1])


def try_mutant(mutant: Mutant, tests: Sequence[tuple[str, float, frozenset[int]]]) -> Outcome:
    """Run the tests for a mutant, the shortest first, until one fails or all hold."""
    start = time.monotonic()
    chosen = _chosen(mutant, tests)
    if not chosen:
        return Outcome(mutant, False, "no fast test runs it", 0.0)
    dotted = f"excitor.{mutant.file.removesuffix('.py').replace('/', '.')}"

    def work() -> int:
        sys.dont_write_bytecode = True
        for name in [name for name in sys.modules if name.partition(".")[0] in ("excitor", "tests")]:
            del sys.modules[name]  # or what imported the module before would keep it as it was
        sys.meta_path.insert(0, _Hook(dotted, mutant.source()))
        return _pytest(chosen, first=True)

    code = _apart(work, 10.0 + 1.5 * LONGEST)
    reason = f"{len(chosen)} tests pass" if code == 0 else "too slow" if code is None else "a test fails"
    return Outcome(mutant, code != 0, reason, time.monotonic() - start)


def _chosen(mutant: Mutant, tests: Sequence[tuple[str, float, frozenset[int]]]) -> list[str]:
    """Name tests as long as there is time: those that run a mutant's statement, then others of their files."""
    lines = set(range(mutant.lines[0], mutant.lines[1] + 1))
    level = not any(each[2] & lines for each in tests) and ("." not in mutant.function and not _in_function(mutant))
    direct = [each for each in tests if (each[2] if level else each[2] & lines)]
    homes = {name.partition("::")[0] for name, _, _ in direct}
    others = [each for each in tests if each not in direct and each[0].partition("::")[0] in homes]
    chosen, budget = [], LONGEST
    for name, took, _ in direct + others:
        if budget > took or not chosen:
            chosen.append(name)
            budget -= took
    return chosen


def _in_function(mutant: Mutant) -> bool:
    name = mutant.function.rsplit(".", 1)[-1]
    tree = ast.parse((ROOT / mutant.file).read_text("utf-8"))
    return any(isinstance(node, ast.FunctionDef) and node.name == name for node in ast.walk(tree))


def equivalent() -> dict[tuple[str, str, str, str], str]:
    """Mutants that nothing could notice, with the reason, by file, function and change."""
    entries = tomllib.loads(EQUIVALENT.read_text("utf-8")).get("mutant", [])
    return {tuple(each[key] for key in ("file", "function", "was", "becomes")): each["because"] for each in entries}


def warm_up() -> None:
    """Import the libraries, so that forks have them."""
    import typer.testing  # noqa: F401


def sample(file: str, count: int, seed: int) -> list[Mutant]:
    """Draw mutants of a module: operators first, so that frequent ones do not crowd out the others."""
    rng = random.Random(f"{seed} {file}")
    kinds: dict[str, list[Mutant]] = {}
    for mutant in mutants_of(file):
        kinds.setdefault(mutant.kind, []).append(mutant)
    for group in kinds.values():
        rng.shuffle(group)
    drawn: list[Mutant] = []
    while kinds and len(drawn) < count:
        for kind in rng.sample(sorted(kinds), len(kinds)):
            mutant = kinds[kind].pop()
            drawn += [mutant] if _compiles(mutant) else []
            if not kinds[kind]:
                del kinds[kind]
    return drawn[:count]


def try_file(file: str, count: int, seed: int, mapping: float = MAPPING) -> Iterator[Outcome]:
    """Try a sample of a module's mutants."""
    known = equivalent()
    drawn = sample(file, count, seed)
    tests = covering(file, mapping) if drawn else []
    for mutant in drawn:
        because = known.get(
            (mutant.file, mutant.function, " ".join(mutant.was.split()), " ".join(mutant.becomes.split()))
        )
        if because:
            yield Outcome(mutant, None, because, 0.0)
            continue
        outcome = try_mutant(mutant, tests)
        if not outcome.killed:  # by the nearest; now by all others
            tried = set(_chosen(mutant, tests))
            wider = [each for each in covering(file, math.inf) if each[0] not in tried]
            outcome = try_mutant(mutant, wider) if _chosen(mutant, wider) else outcome
        yield outcome


def main() -> None:
    """Try named modules: `python -m tests.mutants COUNT SEED FILE …`."""
    warm_up()
    count, seed = int(sys.argv[1]), int(sys.argv[2])
    for file in sys.argv[3:]:
        start, done = time.monotonic(), []
        for outcome in try_file(file, count, seed):
            done.append(outcome)
            if not outcome.killed:
                print(f"  {'equivalent' if outcome.killed is None else 'SURVIVED'}: {outcome.mutant.name}", flush=True)
        judged = [each.killed for each in done if each.killed is not None]
        print(f"{file}: {sum(judged)} of {len(judged)} killed, {time.monotonic() - start:.0f} s", flush=True)


if __name__ == "__main__":
    main()
