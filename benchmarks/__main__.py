"""Speed and quality: `python -m benchmarks NAME [--full] [--json] [--data DIR] [--seed N]`; no NAME: list."""

import argparse
import ast
import sys
from importlib import import_module
from pathlib import Path

from excitor.experiments.figures import to_json
from excitor.experiments.verbs.printing import print_figures

NAMES = tuple(sorted(path.stem for path in Path(__file__).parent.glob("*.py") if not path.stem.startswith("_")))


def main() -> int:
    """Measure one subject; exit code 1 if a target is missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Speed and quality beside peers.")
    parser.add_argument("name", nargs="?", metavar="NAME", choices=NAMES, help="one of " + ", ".join(NAMES))
    parser.add_argument("--full", action="store_true", help="measure as often as the targets require, else a tenth")
    parser.add_argument("--data", type=Path, metavar="DIR", help="of compare: folder of the published recordings")
    parser.add_argument("--seed", type=int, metavar="N", help="of net: instead of the day's")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    asked = parser.parse_args()
    if asked.name is None:
        for name in NAMES:
            print(f"{name:12} {_title(name)}")
        return 0
    if asked.data is not None and asked.name != "compare":
        parser.error("--data goes with compare")
    if asked.seed is not None and asked.name != "net":
        parser.error("--seed goes with net")
    given = {key: value for key, value in (("data", asked.data), ("seed", asked.seed)) if value is not None}
    report = import_module(f"benchmarks.{asked.name}").run(asked.full, **given)
    if asked.json:
        print(to_json(report))
    else:
        print_figures(report)
    return int(any(figure.holds is False for figure in report.figures))


def _title(name: str) -> str:
    """First line of a benchmark's docstring, read without importing it."""
    text = Path(__file__).with_name(f"{name}.py").read_text("utf-8")
    return (ast.get_docstring(ast.parse(text)) or "").partition("\n")[0]


if __name__ == "__main__":
    sys.exit(main())
