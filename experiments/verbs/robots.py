"""The verb `robots`: list them, show one, write its model as code.

A robot is shown with its joints, limits, base parameters, unidentifiable parameters and warnings; its model as code,
closed forms, or operation counts.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from excitor.experiments.verbs.printing import COMPACT, echo_json, echo_progress, table
from excitor.robots.arrays import picked
from excitor.robots.base import Base, LockedLoss, base_parameters, declared_transform, lost_when_locked, regroupings
from excitor.robots.cell import volumes_sentence
from excitor.robots.errors import ExcitorError, RankDeficient, choice
from excitor.robots.lint import Finding, lint
from excitor.robots.load import load_with_notes, read_content, with_random_lengths
from excitor.robots.parameters import layout, prior
from excitor.robots.robot import Robot


def show_model(source: str, export: str | None, equations: bool, out: Path | None, as_json: bool) -> None:
    """Write code, equations or operation counts of a robot's model."""
    if equations and (Path(source).suffix == ".json" or Path(source).is_dir()):
        write(identified_equations(Path(source)), out, as_json)
        return
    robot, warnings = model(source)
    for warning in warnings:
        echo_progress(warning)
    if export is not None:
        write(code(robot, export), out, as_json)
    elif equations:
        write(equations_code(robot), out, as_json)
    elif as_json:
        echo_json(counts(robot))
    else:
        print_counts(counts(robot))


def write_robot(source: str, out: Path | None, as_json: bool) -> None:
    """Write a robot as one whole robot file."""
    from excitor.robots.files.write import robot_toml

    if out is not None and out.exists() and any(out.samefile(file) for file in read_content(source).files):
        raise ExcitorError(f"{out}: is what {source} is read from, and would be lost; give --out another name")
    write(robot_toml(source), out, as_json)


def list_robots(as_json: bool) -> None:
    """List the catalogue."""
    from excitor.robots.load import catalog_names, load

    found = [load(name) for name in catalog_names()]
    if as_json:
        rows = [{"name": robot.name, "title": robot.title, "n_joints": robot.n_joints} for robot in found]
        echo_json({"robots": rows})
        return
    for robot in found:
        typer.echo(f"{robot.name:17} {robot.n_joints} joints   {robot.title}")
    typer.echo("\nShow one with: excitor robots NAME. Your own: a .toml, .urdf or MJCF .xml file.")


def list_presets(as_json: bool) -> None:
    """List the presets of arms; for scripts with every figure and the document that states it."""
    from excitor.robots.files.presets import presets

    if as_json:
        found = [{"name": x.name, **x.data, "unknown": x.unknown, "sources": x.sources} for x in presets().values()]
        echo_json({"presets": found})
        return
    for one in presets().values():
        typer.echo(f"{one.name:14} {one.data['title']}; unknown: {', '.join(one.unknown)}")
    typer.echo("\nA URDF of the same geometry gets these figures where it states none. With their sources: --json.")


def show_robot(source: str, lock: list[str], parameters: bool, as_json: bool) -> bool:
    """Show one robot; False if it should not be used as it is."""
    page = robot_page(source, lock)
    if as_json:
        echo_json(as_data(page))
    else:
        print_page(page, parameters)
    return not page.has_errors


def write(text: str, out: Path | None, as_json: bool) -> None:
    """Write text to a file or to the screen."""
    from excitor.experiments.files import write_atomically

    if out is not None:
        write_atomically(out, text)
        echo_progress(f"wrote {out}")
    if as_json:
        echo_json({"out": None if out is None else str(out), "text": text})
    elif out is None:
        typer.echo(text)


@dataclass(frozen=True)
class RobotPage:
    """Everything shown of one robot."""

    robot: Robot
    base: Base
    numbers: tuple[str, ...]  # regroupings with numbers
    forms: tuple[str, ...]  # regroupings in the robot's named lengths
    findings: tuple[Finding, ...]
    locked: LockedLoss | None
    held: Mapping[int, float]  # where joints are locked, by the file or for this page
    declared: str | None

    @property
    def has_errors(self) -> bool:
        """True if the robot should not be used as it is."""
        return any(finding.level == "error" for finding in self.findings)


def robot_page(source: str, locked: Sequence[str] = ()) -> RobotPage:
    """Load a robot and collect its page, also with joints locked at the middle of their range."""
    robot, notes = load_with_notes(source)
    base = base_parameters(robot)
    positions = {**lock_positions(robot, locked), **robot.locked}
    loss = lost_when_locked(replace(robot, locked={}), positions) if locked else None
    return RobotPage(
        robot=robot,
        base=base,
        numbers=regroupings(robot, base),
        forms=regroupings(robot, base, with_random_lengths(source)),
        findings=lint(robot, notes),
        locked=loss,
        held=positions,
        declared=declared_sentence(robot, base),
    )


def lock_positions(robot: Robot, names: Sequence[str]) -> dict[int, float]:
    """Return joints locked at the middle of their range, or at 0 where it is unlimited."""
    positions = {}
    for name in names:
        if name not in robot.joint_names:
            known = choice(name, robot.joint_names)
            raise ValueError(f"--lock {name}: no joint has that name; expected some of {known}")
        i = robot.joint_names.index(name)
        interval = robot.limits.position[i]
        positions[i] = float(interval.mean()) if np.isfinite(interval).all() else 0.0
    return positions


def as_data(page: RobotPage) -> dict[str, Any]:
    """Write a page for scripts; infinite limits are null."""
    robot, base = page.robot, page.base
    rank = (len(base), *base.gap, base.tolerance)
    data: dict[str, Any] = {
        **picked(robot, "name title"),
        "joints": [
            {"name": name, "kind": kind, "unit": unit, "locked": page.held.get(i)}
            for i, (name, kind, unit) in enumerate(joint_kinds(robot))
        ],
        "links": list(robot.mechanism.link_names),
        "limits": picked(robot.limits, "position velocity acceleration jerk torque"),
        "base_parameters": _base_data(page),
        "declared_base": page.declared,
        **picked(base, "unidentifiable=without_effect only_combined"),
        "rank": dict(zip(("count", "last_kept", "first_dropped", "tolerance"), rank, strict=True)),
        "volumes": [picked(capsule, "link part origin radius") for capsule in robot.capsules],
        "findings": [picked(finding, "level where sentence") for finding in page.findings],
    }
    if page.locked is not None:
        forms = zip(page.locked.base.names, regroupings(robot, page.locked.base), strict=True)
        listed = [{"name": name, "regrouping": form} for name, form in forms]
        data["locked"] = {"base_parameters": listed, "lost": list(page.locked.lost)}
    return data


def _base_data(page: RobotPage) -> list[dict[str, Any]]:
    base, names = page.base, layout(page.robot).names
    keys = ("name", "regrouping", "closed_form", "unit", "prior")
    columns = zip(base.names, page.numbers, page.forms, base.units, prior_values(page.robot, base), strict=True)
    return [
        dict(zip(keys, entry, strict=True)) | {"terms": {names[k]: float(row[k]) for k in np.flatnonzero(row)}}
        for entry, row in zip(columns, base.regrouping, strict=True)
    ]


def prior_values(robot: Robot, base: Base) -> list[float | None]:
    """Evaluate base parameters from the prior; None where a part is not known."""
    values = base.values(np.where(robot.assumed_zero, 0.0, prior(robot)))
    unknown = (base.regrouping != 0.0) @ (~robot.known & ~robot.assumed_zero)
    return [None if part else float(value) for value, part in zip(values, unknown, strict=True)]


def declared_sentence(robot: Robot, base: Base) -> str | None:
    """Describe whether the robot's declared base set spans the same space; lint explains where it does not."""
    if robot.declared_base is None:
        return None
    count = len(robot.declared_base.names)
    try:
        declared_transform(robot, base)
    except RankDeficient:
        return f"Declared base set: {count} parameters, which do not span the same space"
    return f"Declared base set: {count} parameters, spanning the same space ({robot.declared_base.source})"


def joint_kinds(robot: Robot) -> list[tuple[str, str, str]]:
    """List joints with their kind and unit."""
    return [
        (name, "prismatic" if slides else "revolute", "m" if slides else "rad")
        for name, slides in zip(robot.joint_names, robot.mechanism.prismatic, strict=True)
    ]


def print_page(page: RobotPage, parameters: bool = False) -> None:
    """Print a page for people: findings, joints, volumes, notes; base parameters where requested."""
    console = Console()
    robot, base = page.robot, page.base
    console.print(f"[bold]{escape(robot.title or robot.name)}[/]  {robot.n_joints} joints, {len(base)} base parameters")
    for finding in page.findings:
        if finding.level != "note":
            color = "red" if finding.level == "error" else "yellow"
            console.print(f"[{color}]{finding.level}[/] {escape(finding.where)}: {escape(finding.sentence)}")
    console.print(_limits_table(page))
    volumes = volumes_sentence(robot)
    console.print(escape(volumes[0].upper() + volumes[1:]))
    if parameters:
        _print_parameters(page, console)
    else:
        console.print("Base parameters and their regroupings: --parameters", style="dim")
    if page.locked is not None:
        print_locked(page, page.locked, console.print)
    snapped = [finding for finding in page.findings if finding.where.endswith("origin rpy")]
    if snapped:
        console.print(f"note: angles of {len(snapped)} joints are read as multiples of pi/12", style="dim")
    for finding in page.findings:
        if finding.level == "note" and finding not in snapped:
            console.print(escape(f"note: {finding.where}: {finding.sentence}"), style="dim")


def _print_parameters(page: RobotPage, console: Console) -> None:
    base = page.base
    console.print(_base_table(page))
    console.print(
        f"Rank {len(base)}: last kept column {base.gap[0]:.1e}, first dropped {base.gap[1]:.1e} "
        f"(relative residuals; tolerance {base.tolerance:g})",
        style="dim",
    )
    if base.without_effect:
        console.print(f"Unidentifiable: {', '.join(base.without_effect)}")
    if base.only_combined:
        console.print(f"Identifiable only in combinations: {', '.join(base.only_combined)}")
    if page.declared is not None:
        console.print(escape(page.declared))


def print_locked(page: RobotPage, locked: LockedLoss, echo: Callable[[str], Any]) -> None:
    """Print the parameters that runs with these joints locked can identify, and those lost."""
    echo(f"\nWith these joints locked, {len(locked.base)} combinations can be identified:")
    forms = regroupings(page.robot, locked.base)
    echo(escape("; ".join(form for form in forms) or "none"))
    echo(f"Not identifiable, of the robot's base parameters: {escape(', '.join(locked.lost)) or 'none'}")


def _limits_table(page: RobotPage) -> Table:
    """Make the table of limits: names of joints are whole, and what no joint has is left out."""
    robot, limits = page.robot, page.robot.limits
    rows = []
    for i, (name, kind, _) in enumerate(joint_kinds(robot)):
        scale, unit = (1.0, "m") if kind == "prismatic" else (180.0 / np.pi, "°")
        low, high = scale * limits.position[i]
        rates = [_limit(scale * limits.velocity[i], f"{unit}/s"), _limit(scale * limits.acceleration[i], f"{unit}/s²")]
        span = f"{low:.4g} … {high:.4g} {unit}" if np.isfinite(low) or np.isfinite(high) else "free"
        force = _limit(limits.torque[i], "N" if kind == "prismatic" else "N m")
        held = f"{scale * page.held[i]:.4g} {unit}" if i in page.held else ""
        rows.append((escape(name), span, *rates, force, held))
    headings = ("joint", "position", "velocity", "acceleration", "torque", "locked at")
    shown = [k for k in range(len(headings)) if any(row[k] for row in rows)]
    cells = [[row[k] for k in shown] for row in rows]
    return table("Joints", [headings[k] for k in shown], cells, left=("joint",), no_wrap=True, **COMPACT)


def _base_table(page: RobotPage) -> Table:
    base = page.base
    columns = (base.names, page.forms, prior_values(page.robot, base), base.units)
    rows = [
        (escape(name), escape("" if form == name else form), "" if value is None else f"{value:.4g}", unit)
        for name, form, value, unit in zip(*columns, strict=True)
    ]
    headings = ("name", "regroups", "prior", "unit")
    return table("Base parameters", headings, rows, left=("name", "regroups", "unit"), **COMPACT)


def _limit(value: float, unit: str) -> str:
    return f"{value:.4g} {unit}" if np.isfinite(value) else "not given"


def model(source: str) -> tuple[Robot, list[str]]:
    """Load a robot whose model may be written, and what its reader must know; ExcitorError if it must not."""
    robot, notes = load_with_notes(source)
    errors = [finding for finding in lint(robot, notes) if finding.level == "error"]
    if errors:
        reasons = "\n".join(f"{finding.where}: {finding.sentence}" for finding in errors)
        raise ExcitorError(f"{source}: no model is written of a robot that cannot be right:\n{reasons}")
    unknown = unknown_parameters(robot)
    warnings = [f"taken as 0 because the file does not give them: {', '.join(unknown)}"] if unknown else []
    # held joints still feel torque: the model is that of the free robot
    return replace(robot, locked={}), warnings


def unknown_parameters(robot: Robot) -> list[str]:
    """List the parameters that affect torques but are not in the robot's file."""
    base = base_parameters(replace(robot, locked={}))
    needed = np.any(base.regrouping != 0.0, axis=0) & ~robot.known & ~robot.assumed_zero
    return [name for name, missing in zip(layout(robot).names, needed, strict=True) if missing]


def code(robot: Robot, language: str) -> str:
    """Write the inverse dynamics in a language, with a comment on its parameters."""
    from excitor.robots.codegen import SIGN_WIDTH, comment_lines, inverse_dynamics_code

    base = base_parameters(robot)
    chi = base.standard(base.values(np.where(robot.assumed_zero, 0.0, prior(robot))))
    text = inverse_dynamics_code(robot, language, chi=chi)
    lines = [
        f"Written by Excitor {version('excitor')} for {robot.name}; joints in order: {', '.join(robot.joint_names)}",
        "SI units and radians, torques on the joint side"
        + ("" if robot.payload is None else "; the payload is counted with its link"),
        f"Signs of velocities are smoothed: tanh(v / width), width {SIGN_WIDTH:g} where the robot states none",
    ]
    unknown = unknown_parameters(robot)
    if unknown:
        lines.append(f"Taken as 0 because the robot file does not give them: {', '.join(unknown)}")
    lines += [f"{name} = {text_}" for name, text_ in base_legend(robot)]
    return "\n".join(comment_lines(line, language) for line in lines) + "\n" + text


def equations_code(robot: Robot) -> str:
    """Write M, c, g and friction in closed form, its parameters being base parameters."""
    from excitor.robots.symbolic import closed_form, text

    printed = text(closed_form(robot, kept=base_names(robot)))
    legend = base_legend(robot)
    for name, _ in legend:
        printed = re.sub(rf"\b{re.escape(name.removesuffix('R'))}\b", name, printed)
    if not legend:
        return printed
    return printed + "\nwhere\n" + "".join(f"{name} = {form}\n" for name, form in legend)


def identified_equations(path: Path) -> str:
    """Write the closed form of an identified robot, with the values of its base parameters and their 95 % intervals."""
    from excitor.experiments.model import read_model

    found = read_model(path)
    robot = found.own_robot()
    regrouped = {name.removesuffix("R"): name for name, _ in base_legend(robot)}
    rows = zip(found.names, found.values, found.sigma, found.units, strict=True)
    values = [f"{regrouped.get(name, name)} = {x:.6g} ± {1.96 * sigma:.2g} {unit}" for name, x, sigma, unit in rows]
    return "\n".join([equations_code(robot), f"identified, as {found.where} has it", *values, ""])


def base_legend(robot: Robot) -> list[tuple[str, str]]:
    """List the definitions of the regrouped parameters."""
    base = base_parameters(robot)
    forms = regroupings(robot, base)
    return [(name, form) for name, form in zip(base.names, forms, strict=True) if name.endswith("R") and form != name]


def counts(robot: Robot) -> dict[str, Any]:
    """Count the operations of the dynamic and of the power model, side by side."""
    from excitor.robots.codegen import operation_counts

    kept = base_names(robot)
    return {"name": robot.name, "columns": len(kept), **asdict(operation_counts(robot, kept=kept))}


def print_counts(data: dict[str, Any]) -> None:
    """Print counts as a small table."""
    rows = {
        "torque": "inverse dynamics, parameters known",
        "regressor": "dynamic model: Y with tau = Y beta",
        "energy": "power model: h with H = h beta",
        "power": "power model: dh/dt and friction power",
    }
    typer.echo(f"{data['name']}, {data['columns']} base parameters, operations a sample")
    typer.echo(f"{'':40} {'+':>6} {'*':>6} {'sin, tanh, …':>14}")
    for key, title in rows.items():
        count = data[key]
        typer.echo(f"{title:40} {count['additions']:6d} {count['multiplications']:6d} {count['functions']:14d}")


def base_names(robot: Robot) -> list[str]:
    """Name the standard parameters that base parameters are grouped on."""
    names = layout(robot).names
    return [names[k] for k in base_parameters(robot).kept]
