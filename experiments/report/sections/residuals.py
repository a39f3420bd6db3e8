"""Does what the model leaves look like noise? And what the torques are made of."""

from collections.abc import Mapping
from typing import Any

from markupsafe import Markup

from excitor.experiments.page.words import entries, percent, show, table
from excitor.experiments.report.html import Cell, card, chart, element, joined, number_cell
from excitor.experiments.report.html import table as html_table


def residuals_section(data: Mapping[str, Any]) -> Markup:
    """Show residuals' histogram, correlation in time and trend over velocity, joint by joint."""
    blocks = [_block(entry, k, table(data, "robot")) for k, entry in enumerate(entries(data, "residuals"))]
    hint = (
        "Left: how often residuals of a size occur, beside a normal distribution. Middle: correlation with what comes "
        "a lag later; within the dashed lines it looks white. Right: mean residual over velocity with its spread; "
        "a trend, or a step at 0, is friction that the model does not have. Residuals that are alike in time tell "
        "less: the table says how many samples count as one."
    )
    return card("residuals", "What the model leaves", *blocks, hint=hint)


def _block(entry: Mapping[str, Any], number: int, robot: Mapping[str, Any]) -> Markup:
    units = dict(zip(entries(robot, "joints"), entries(robot, "torque_units"), strict=False))
    title = "Residuals on training data" if entry.get("training") else "Residuals on validation data (not seen)"
    rows = [
        (
            "",
            [
                str(joint.get("joint", "")),
                number_cell(show(table(joint, "histogram").get("sigma"), 3), table(joint, "histogram").get("sigma")),
                Cell(units.get(joint.get("joint"), ""), "u"),
                number_cell(
                    percent(table(joint, "histogram").get("beyond_three_sigma")),
                    table(joint, "histogram").get("beyond_three_sigma"),
                ),
                "yes" if table(joint, "autocorrelation").get("white") else "no",
                number_cell(
                    show(table(joint, "autocorrelation").get("inflation"), 3),
                    table(joint, "autocorrelation").get("inflation"),
                ),
            ],
        )
        for joint in entries(entry, "joints")
    ]
    headings = [
        ("joint", ""),
        ("root mean square", "n"),
        ("unit", ""),
        ("beyond three deviations (normal: 0.27 %)", "n"),
        ("white", ""),
        ("samples that count as one", "n"),
    ]
    inner = joined([html_table(headings, rows), chart("residuals", data_entry=number)])
    if number == 0:
        return joined([element("h3", title), inner])
    return element("details", element("summary", title), inner)


def split_section(data: Mapping[str, Any]) -> Markup:
    """Show what torques are made of in one run."""
    split = table(data, "split")
    robot = table(data, "robot")
    joints = entries(split, "joints")
    names = list(table(joints[0], "parts")) if joints else []
    keys = [element("span", name, class_=f"key p{k}") for k, name in enumerate(names)]
    cells = [_shares(str(name), joint, names) for name, joint in zip(entries(robot, "joints"), joints, strict=False)]
    headings = [
        ("joint", ""),
        ("root mean square of each part", ""),
        *((name, "n") for name in names),
        ("predicted", "n"),
        ("unit", ""),
    ]
    units = entries(robot, "torque_units")
    rows = [("", [*row, Cell(unit, "u")]) for row, unit in zip(cells, units, strict=False)]
    hint = (
        f"Predicted torques of run {split.get('run', '')!s}, "
        f"{'which the model has not seen' if split.get('role') == 'validate' else 'which is training data'}, by their "
        "cause; they add up to the prediction. Inertia of a rotor that regroups with a link's counts as the link's. "
        "Drag across to zoom."
    )
    return card(
        "split",
        "What the torques are made of",
        element("p", *keys, element("span", "measured", class_="key k-measured"), class_="legend"),
        html_table(headings, rows, class_="shares"),
        chart("split", class_="plots"),
        hint=hint,
    )


def _shares(name: str, joint: Mapping[str, Any], names: list[str]) -> list[Any]:
    rms = table(joint, "rms")
    total = sum(rms.get(part) or 0.0 for part in names) or 1.0
    bars = [
        element("b", class_=f"p{k}", style=f"width:{100 * (rms.get(part) or 0.0) / total:.2f}%", title=part)
        for k, part in enumerate(names)
    ]
    whole = joint.get("rms_predicted")
    numbers = [number_cell(show(rms.get(part), 3), rms.get(part)) for part in names]
    return [element("b", name), Cell(element("i", *bars), "stack"), *numbers, number_cell(show(whole, 3), whole)]
