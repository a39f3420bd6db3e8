"""Where things are: README's table of terms answers which file a change request leads to, two questions a request."""

import re
from fnmatch import fnmatch

import pytest

from benchmarks.house import ROOT

QUESTIONS = (  # a change request, a question, what to look for in the table, the answer
    ("friction term", "Which file holds the columns of friction terms?", "friction", "robots/friction.py"),
    (
        "friction term",
        "Which file says what is believed of a parameter before measuring?",
        "belief",
        "robots/belief.py",
    ),
    ("target", "Which file lists the controllers?", "target", "design/programs/registry.py"),
    ("target", "Which folder holds what is written for a vendor?", "vendor", "design/programs/"),
    ("log format", "Which file lists the log formats?", "log formats", "identify/logs/formats.py"),
    ("log format", "Which file differentiates measured positions?", "q̈ from q", "identify/signals.py"),
    ("constraint", "Which file states the limits of a motion?", "constraints(x)", "design/constraints*"),
    ("constraint", "Which folder proves limits between the samples?", "between the samples", "design/certify/*"),
    ("criterion", "Which file holds the criteria?", "criterion", "design/criteria*"),
    ("criterion", "Which file makes information of noise and motion?", "information", "robots/information.py"),
    ("estimator", "Which file lists the estimators?", "estimator", "identify/methods.py"),
    ("estimator", "Which file solves least squares?", "least squares", "identify/estimate.py"),
    (
        "report section",
        "Which file puts the report's sections in order?",
        "report sections",
        "experiments/report/page.py",
    ),
    ("report section", "Which folder holds the sections?", "report sections", "experiments/report/"),
    ("export", "Which file lists the exports?", "exports", "experiments/export/export.py"),
    ("export", "Which file writes C?", "structured text", "robots/codegen.py"),
    ("joint type", "Which file says what a joint is?", "joints", "robots/robot.py"),
    ("joint type", "Which file reads a joint from a robot file?", "joints", "robots/files/*.py"),
    ("parameter names", "Which file names base parameters?", "base parameters", "robots/base.py"),
    (
        "parameter names",
        "Which file orders and names all parameters?",
        "names, order and units",
        "robots/parameters.py",
    ),
    ("optimiser", "Which file knows the optimiser?", "genetic", "design/search.py"),
    ("optimiser", "Which file optimises several criteria?", "pareto", "design/pareto.py"),
    ("operating system", "Which file writes files so that a kill loses nothing?", "atomic", "experiments/files.py"),
    ("operating system", "Which file starts the command line?", "command line", "experiments/cli.py"),
)


def read_rows():
    """Rows of README's first table: what stands before the last column, and the paths in it."""
    lines = (ROOT / "README.md").read_text("utf-8").split("\n")
    first = lines.index("| symbol or term | what it is | file |") + 2
    last = next(k for k in range(first, len(lines)) if not lines[k].startswith("|"))
    rows = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[first:last]]
    return [(" ".join(cells[:-1]), re.findall("`([^`]+)`", cells[-1])) for cells in rows]


ROWS = read_rows()


@pytest.mark.parametrize(("text", "paths"), ROWS, ids=[text for text, _ in ROWS])
def test_paths_of_the_table_exist(text, paths):
    assert paths
    for path in paths:
        found = ROOT / path
        assert found.is_dir() if path.endswith("/") else found.is_file(), f"README's row {text!r}: there is no {path}"


@pytest.mark.parametrize(("request_", "question", "term", "answer"), QUESTIONS, ids=[row[1] for row in QUESTIONS])
def test_the_table_answers(request_, question, term, answer):
    said = [path for text, paths in ROWS if term.lower() in text.lower() for path in paths]
    assert any(fnmatch(path, answer) for path in said), f"{request_}: {question} The table says {said}"
    assert len(said) <= 6, f"{term!r} leads to too many files: {said}"


def test_every_request_has_two_questions():
    assert len(QUESTIONS) == 24
    assert all(sum(row[0] == request for row in QUESTIONS) == 2 for request, *_ in QUESTIONS)


def test_links_of_the_documentation_lead_somewhere():
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
    for page in pages:
        for link in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text("utf-8")):
            assert "://" in link or (page.parent / link).exists(), f"{page.relative_to(ROOT)}: {link} leads nowhere"
