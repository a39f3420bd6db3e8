"""No module imports one that imports it back, lazily or not; production code knows nothing of the virtual robot."""

import ast
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest
from pydantic import ValidationError

ROOT = Path(__file__).parents[1]
ROOMS = ("robots", "design", "identify", "experiments")
# What runs or compares with a virtual robot; all else must work on a real one.
MAY_SIMULATE = {
    "experiments/simulate.py",
    "experiments/tracking.py",
    "experiments/demo.py",
    "experiments/verbs/simulate.py",
}


def module(path):
    parts = ["excitor", *path.relative_to(ROOT).with_suffix("").parts]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported(path, modules):
    """Modules of the package that a file imports anywhere, a lazy import in a function included."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            full = [f"{node.module}.{alias.name}" for alias in node.names]
            names = [name if name in modules else node.module for name in full]
        else:
            continue
        yield from (name for name in names if name in modules)


def cycle_of(edges):
    """A cycle of a graph as the list of its nodes, or nothing: what is left when leaves are cut off repeatedly."""
    left = {node: set(others) - {node} for node, others in edges.items()}
    while leaves := [node for node, others in left.items() if not others & left.keys()]:
        for node in leaves:
            del left[node]
    if not left:
        return []
    way = [next(iter(sorted(left)))]
    while way[-1] not in way[:-1]:
        way.append(min(left[way[-1]] & left.keys()))
    return way[way.index(way[-1]) :]


def edges_of(rooms):
    paths = {module(path): path for room in rooms for path in sorted((ROOT / room).rglob("*.py"))}
    return {name: set(imported(path, paths)) for name, path in paths.items()}


def test_no_modules_import_each_other():
    edges = edges_of(ROOMS)
    assert len(edges) > 150
    assert cycle_of(edges) == []


def test_a_cycle_is_found():
    assert cycle_of({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": set()}) == ["b", "c", "b"]
    assert cycle_of({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == []


def test_production_code_does_not_import_the_virtual_robot():
    edges = edges_of(ROOMS)
    virtual = {name for name in edges if name.startswith("excitor.experiments.virtual")}
    assert len(virtual) > 2
    may = {module(ROOT / path) for path in MAY_SIMULATE}
    wrong = {
        name
        for name, others in edges.items()
        if others & virtual and name not in may | virtual and not name.startswith("excitor.experiments.studies.")
    }
    assert wrong == set()


def test_design_does_not_load_identification():
    """Of `identify`, designing needs what campaign.toml may declare of logs, and nothing else."""
    code = (
        "import sys, excitor.experiments.verbs.design, excitor.experiments.report.plan\n"
        "print(*sorted(name for name in sys.modules if name.startswith('excitor.identify.')))"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert told == ["excitor.identify.logs", "excitor.identify.logs.declared"]


def test_campaigns_know_every_way_to_judge_a_reduction():
    from excitor.experiments.campaign import Identification
    from excitor.identify.reduce import Acceptance

    for word in (*get_args(Acceptance), None):
        assert Identification(acceptance=word).acceptance == word
    with pytest.raises(ValidationError):
        Identification(acceptance="other")
