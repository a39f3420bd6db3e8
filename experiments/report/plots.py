"""Figures (SVG, PNG, PDF) and tables (CSV, LaTeX) of a report's data, for publications."""

import csv
import io
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from excitor.experiments.files import write_atomically, write_bytes_atomically
from excitor.experiments.model import escape_latex, unit_in_latex

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMS = {"svg": {"Date": None}, "png": {}, "pdf": {"CreationDate": None}}  # without the time: equal data, equal bytes
Data = Mapping[str, Any]
Rows = list[list[Any]]


def write_figures(data: Data, folder: Path) -> list[Path]:
    """Draw parameters, errors by joint, and torques of each run: NAME.svg, NAME.png, NAME.pdf."""
    import matplotlib as mpl

    folder.mkdir(parents=True, exist_ok=True)
    written = []
    settings: Any = {"text.parse_math": False, "text.usetex": False, "svg.fonttype": "none", "svg.hashsalt": "excitor"}
    with mpl.rc_context(settings):  # names are shown as they are, never read as formulas
        for name, figure in _figures(data).items():
            for form, metadata in FORMS.items():
                drawn = io.BytesIO()
                figure.savefig(drawn, format=form, metadata=metadata, dpi=200)
                written.append(folder / f"{name}.{form}")
                write_bytes_atomically(written[-1], drawn.getvalue())
    return written


def write_tables(data: Data, folder: Path) -> list[Path]:
    """Write parameters with intervals, errors by joint, and the load: NAME.csv and NAME.tex (package booktabs)."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name, (header, rows) in _tables(data).items():
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows([header, *([_inert(cell) for cell in row] for row in rows)])
        for form, content in (("csv", text.getvalue()), ("tex", _latex(header, rows))):
            written.append(folder / f"{name}.{form}")
            write_atomically(written[-1], content)
    return written


def _figures(data: Data) -> dict[str, "Figure"]:
    from matplotlib.figure import Figure

    made: dict[str, Figure] = {}
    kept = [row for row in data.get("parameters", ()) if row["kept"]]
    if kept:
        made["parameters"] = figure = Figure((max(5.0, 0.16 * len(kept)), 3.4), layout="constrained")
        axes = figure.add_subplot()
        value, low, high = (np.array([row[key] for row in kept], dtype=float) for key in ("value", "low", "high"))
        size = np.where(value == 0.0, 1.0, np.abs(value))
        axes.errorbar(np.arange(len(kept)), value / size, [(value - low) / size, (high - value) / size], fmt=".")
        axes.set_xticks(np.arange(len(kept)), [row["name"] for row in kept], rotation=90, fontsize=6)
        axes.set_ylabel("value and 95 % interval, relative")
    for held in data.get("errors", ())[:1]:
        made["errors"] = figure = Figure((6.0, 3.4), layout="constrained")
        axes = figure.add_subplot()
        bars = {held["label"]: held["model"], **held["baselines"]}
        for k, (label, errors) in enumerate(bars.items()):
            heights = [np.nan if x is None else 100.0 * x for x in errors["relative"]]
            axes.bar(np.arange(len(heights)) + 0.8 * k / len(bars), heights, 0.8 / len(bars), label=label)
        axes.set_xticks(np.arange(len(held["joints"])) + 0.4 - 0.4 / len(bars), held["joints"], rotation=30, ha="right")
        axes.set_ylabel("torque error, % of rms")
        axes.legend(fontsize=7)
    for k, run in enumerate(data.get("runs", ())):
        made[f"torques-{k + 1}"] = _torques(run, data["robot"])
    return made


def _torques(run: Data, robot: Data) -> "Figure":
    """Draw measured and predicted torques of each joint, as bands where several samples share a point."""
    from matplotlib.figure import Figure

    n = len(run["joints"])
    figure = Figure((7.0, 1.1 * n + 0.6), layout="constrained")
    for axes, joint, name, unit in zip(
        figure.subplots(n, sharex=True, squeeze=False)[:, 0],
        run["joints"],
        robot["joints"],
        robot["torque_units"],
        strict=True,
    ):
        for key, color in (("measured", "tab:gray"), ("predicted", "tab:blue"), ("residual", "tab:red")):
            band = [np.array(joint[key][side], dtype=float) for side in ("low", "high")]
            axes.fill_between(run["time"], *band, color=color, linewidth=0.8, edgecolor=color, label=key)
        axes.set_ylabel(f"{name}\n{unit}", fontsize=6)
    figure.axes[0].legend(fontsize=6, ncols=3, loc="upper right")
    figure.axes[0].set_title(run["name"], fontsize=8)
    figure.axes[-1].set_xlabel("time, s")
    return figure


def _tables(data: Data) -> dict[str, tuple[list[str], Rows]]:
    """Collect header and rows of each table: numbers as numbers, text as text."""
    made: dict[str, tuple[list[str], Rows]] = {}
    kept = [row for row in data.get("parameters", ()) if row["kept"]]
    keys = ["name", "value", "sigma", "low", "high", "unit", "regrouping"]
    if kept:
        made["parameters"] = (keys, [[row[key] for key in keys] for row in kept])
    if data.get("errors"):
        columns = {
            name: errors
            for item in data["errors"]
            for name, errors in (
                (item["label"], item["model"]),
                *(() if item["training"] else item["baselines"].items()),
            )
        }
        joints = [*data["errors"][0]["joints"], "all"]
        lists = [[*errors["relative"], errors["total"]] for errors in columns.values()]
        made["errors"] = (["joint", *columns], [list(row) for row in zip(joints, *lists, strict=True)])
    if data.get("load"):
        load = data["load"]["at_center"]
        made["load"] = (
            keys[:-1],
            [[row.get(key) for key in ("name", "value", "sigma")] + [*row["interval"], row["unit"]] for row in load],
        )
    return made


def _latex(header: list[str], rows: Rows) -> str:
    unit = header.index("unit") if "unit" in header else -1
    words = [[unit_in_latex(escape_latex(x)) if k == unit else _in_latex(x) for k, x in enumerate(row)] for row in rows]
    form = "".join("r" if isinstance(x, int | float) else "l" for x in rows[0])
    lines = [rf"\begin{{tabular}}{{{form}}}", r"\toprule", " & ".join(map(escape_latex, header)) + r" \\", r"\midrule"]
    return "\n".join([*lines, *(" & ".join(row) + r" \\" for row in words), r"\bottomrule", r"\end{tabular}"]) + "\n"


def _in_latex(x: Any) -> str:
    return "" if x is None else escape_latex(x) if isinstance(x, str) else f"{x:.4g}"


def _inert(x: Any) -> Any:
    """Keep a spreadsheet from reading a name as a formula."""
    return f"'{x}" if isinstance(x, str) and x[:1] in ("=", "+", "-", "@") else x
