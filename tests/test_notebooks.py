"""Notebooks of examples/notebooks: without outputs, and every cell runs."""

import ast
import json
from pathlib import Path

import matplotlib as mpl
import pytest

NOTEBOOKS = sorted((Path(__file__).parent.parent / "examples" / "notebooks").glob("*.ipynb"))


def cells_of(path):
    return [
        "".join(cell["source"]) for cell in json.loads(path.read_text("utf-8"))["cells"] if cell["cell_type"] == "code"
    ]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_kept_without_outputs(path):
    cells = json.loads(path.read_text("utf-8"))["cells"]
    assert not any(cell.get("outputs") or cell.get("execution_count") for cell in cells)
    assert all(ast.parse(source).body for source in cells_of(path))


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_every_cell_of_a_notebook_runs(path):
    mpl.use("agg")
    names = {"__name__": "notebook"}
    for source in cells_of(path):
        exec(compile(source, path.name, "exec"), names)
