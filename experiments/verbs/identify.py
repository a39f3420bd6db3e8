"""The verbs `identify` and `report`: logs into a model and its page, and what a person is shown of them."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import typer

from excitor.experiments.campaign import FILE, InvalidCampaign, OpenCampaign, method_problems, open_campaign
from excitor.experiments.design_json import FILE as DESIGN
from excitor.experiments.design_json import read_design
from excitor.experiments.identification import Identified, code_note, fresh_model, identify, write_model
from excitor.experiments.model import FILE as MODEL
from excitor.experiments.model import Model
from excitor.experiments.payload import identify_payload, read_payload_runs
from excitor.experiments.report.compare import compare, write_comparison
from excitor.experiments.report.data import DATA, pdf, read_report, report_data, write_data
from excitor.experiments.report.evidence import Evidence, chain_commands, gather, gather_on_file, simulated_runs
from excitor.experiments.report.payload import HEADLINES, load_page, load_report_data


def run_identify(folder: Path, as_json: bool, method: str | None = None) -> None:
    """Identify, and write the model; by another method than the campaign's where one is named."""
    campaign = open_campaign(folder)
    if campaign.content.task == "payload":
        if method is not None:
            raise InvalidCampaign(campaign.folder / FILE, ["--method: goes with campaigns of the arm"])
        run_payload_identify(campaign, as_json)
        return
    if method is not None:
        campaign = by_method(campaign, method)
    result = identify(campaign, _echo)
    for path in write_model(result):
        typer.echo(f"wrote {path}", err=True)
    if note := code_note(result):
        typer.echo(note, err=True)
    if as_json:
        typer.echo(json.dumps(result.model.to_json(), indent=2, allow_nan=False))
    else:
        print_identified(result)


def by_method(campaign: OpenCampaign, method: str) -> OpenCampaign:
    """Take another method than the one that the campaign states."""
    settings = campaign.content.identify.model_copy(update={"method": method})
    if problems := method_problems(settings):
        raise InvalidCampaign(campaign.folder / FILE, problems)
    return replace(campaign, content=campaign.content.model_copy(update={"identify": settings}))


def print_identified(result: Identified) -> None:
    """Print errors beside the baselines, then the parameters with their intervals."""
    from rich.console import Console
    from rich.markup import escape

    console = Console()
    console.print(_errors_table(result))
    console.print(_parameter_table(result))
    widest = max(result.intervals.inflation)
    console.print(
        f"Intervals are 95 %, as slow as the errors are: up to {widest:.1f} times those of white residuals.",
        style="dim",
    )
    for finding in result.findings:
        console.print(
            f"{finding.level}: {escape(str(finding))}", style="yellow" if finding.level == "doubtful" else "dim"
        )
    if result.smallest_inertia <= 0.0:
        console.print(
            f"The estimated mass matrix is not positive definite (smallest eigenvalue {result.smallest_inertia:.3g}): "
            "good for the torques of motions like these, not for simulation. The consistent model is.",
            style="yellow",
        )
    if result.consistent is None:
        console.print(f"No physically consistent model: {escape(str(result.refusal))}", style="yellow")
    else:
        console.print(
            f"Physically consistent model ({result.consistent.solver}, {result.consistent.status}); it costs "
            f"{100 * result.consistent.loss:.2f} % of residual."
        )
    if result.held_out is None:
        console.print('No run has role = "validate": nothing here says how well the model predicts.', style="yellow")


def _errors_table(result: Identified) -> Any:
    from rich.markup import escape
    from rich.table import Table

    table = Table(title="Torque errors |τ - τ̂| / |τ|", title_justify="left")
    for heading in ("", *result.training.joints, "all"):
        table.add_column(escape(heading), justify="right" if heading else "left")
    for validation in (result.training, result.held_out):
        if validation is None:
            continue
        rows = {validation.label: validation.model}
        if not validation.training:
            rows |= {f"  {name}": errors for name, errors in validation.baselines.items()}
        for name, errors in rows.items():
            table.add_row(name, *(f"{x:.4f}" for x in errors.relative), f"{errors.relative_total:.4f}")
    return table


def _parameter_table(result: Identified) -> Any:
    from rich.markup import escape
    from rich.table import Table

    table = Table(title=f"{len(result.estimate.names)} parameters", title_justify="left")
    for heading in ("name", "value", "95 % interval", "unit"):
        table.add_column(heading, justify="left" if heading in ("name", "unit") else "right")
    intervals = result.intervals
    for name, unit, value, low, high in zip(
        intervals.names, intervals.units, intervals.values, intervals.low, intervals.high, strict=True
    ):
        table.add_row(escape(name), f"{value:.5g}", f"{low:.4g} … {high:.4g}", unit)
    return table


def run_report(folder: Path, as_json: bool, **given: bool) -> None:
    """Identify from the logs and write the report; beside it a PDF where that is asked for."""
    campaign = open_campaign(folder)
    folder = campaign.folder
    if campaign.content.task == "payload":
        run_payload_report(campaign, as_json, **given)
        return
    evidence = evidence_of(campaign)
    design = read_design(folder) if (folder / DESIGN).exists() else None
    commands = chain_commands(campaign, design, simulated_runs(campaign))
    data = report_data(evidence, design=design, commands=commands, tracking=given.get("tracking", False))
    _show(data, write_data(folder, data), _verdict(data), as_json, with_pdf=given.get("pdf", False))


def evidence_of(campaign: OpenCampaign) -> Evidence:
    """Take the model on file where it is fresh, else identify anew; and say which."""
    model, reason = fresh_model(campaign)
    if model is not None:
        found = gather_on_file(campaign, model, _echo)
        if found is not None:
            _tell_fresh(campaign, model)
            return found
        reason = f"the errors in {MODEL} are not those that its logs give"
    _echo(f"identified anew because {reason}")
    return gather(identify(campaign, _echo))


def _echo(sentence: str) -> None:
    typer.echo(sentence, err=True)


def run_comparison(folder: Path, other: Path, as_json: bool) -> None:
    """Compare two reports: what is repeatable, what has changed."""
    result = compare(*(read_report((path.parent if path.is_file() else path) / DATA) for path in (folder, other)))
    path = write_comparison(folder, result)
    typer.echo(f"wrote {path}", err=True)
    if as_json:
        typer.echo(json.dumps(result, indent=2, allow_nan=False))
        return
    for sentence in (result["verdict"]["headline"], *result["sentences"]):
        typer.echo(sentence)
    typer.echo(f"\nLook at {path}")


def _verdict(data: Mapping[str, Any]) -> Iterator[str]:
    """Repeat the page's first words."""
    verdict = data["verdict"]
    yield verdict["headline"]
    for use in verdict["uses"]:
        yield f"{use['use']}: {' '.join(use['reasons'])}"


def run_payload_identify(campaign: OpenCampaign, as_json: bool) -> None:
    """Identify the load, write model.json, and tell it."""
    model = identify_payload(campaign, _echo).model
    typer.echo(f"wrote {model.save(campaign.folder)}", err=True)
    if as_json:
        typer.echo(json.dumps(model.to_json(), indent=2, allow_nan=False))
        return
    print_load(model)


def run_payload_report(campaign: OpenCampaign, as_json: bool, **given: bool) -> None:
    """Write the page of the load: of the model on file where it is fresh, else identified anew."""
    model, reason = fresh_model(campaign)
    if model is not None:
        runs = read_payload_runs(campaign, _echo)
        _tell_fresh(campaign, model)
    else:
        _echo(f"identified anew because {reason}")
        found = identify_payload(campaign, _echo)
        model, runs = found.model, found.runs
    design = read_design(campaign.folder) if (campaign.folder / DESIGN).exists() else None
    commands = chain_commands(campaign, design, simulated_runs(campaign))
    data = load_report_data(campaign, model, runs, commands)
    rating = data["load"]["rating"]
    said = [HEADLINES[rating["answer"]], *(f"  {one['sentence']}" for one in rating["quantities"])]
    _show(data, write_data(campaign.folder, data, load_page), said, as_json, with_pdf=given.get("pdf", False))


def _tell_fresh(campaign: OpenCampaign, model: Model) -> None:
    written = datetime.fromtimestamp((campaign.folder / MODEL).stat().st_mtime).isoformat(" ", "minutes")
    _echo(f"{MODEL} of {written} is fresh: used")
    for finding in model.findings:
        _echo(f"{finding['level']}: {finding['sentence']}")


def _show(
    data: Mapping[str, Any], written: Sequence[Path], said: Iterable[str], as_json: bool, *, with_pdf: bool
) -> None:
    """Name the files of a report, and print its data or its first words."""
    for path in written:
        typer.echo(f"wrote {path}", err=True)
    if with_pdf:
        typer.echo(pdf(written[-1]).sentence, err=True)
    if as_json:
        typer.echo(json.dumps(data, allow_nan=False))
        return
    for sentence in said:
        typer.echo(sentence)
    typer.echo(f"\nLook at {written[-1]}")


def print_load(model: Model) -> None:
    """Print the load with its intervals, and what it means."""
    from rich.console import Console

    console = Console()
    console.print(_table(model))
    for sentence in _sentences(model.load or {}):
        console.print(sentence, markup=False, highlight=False)


def _table(model: Model) -> Any:
    from rich.table import Table

    title = f"The load on link {model.payload['link']}, about its centre of gravity"
    made = Table(title=title, title_justify="left")
    for heading in ("", "value", "95 % interval", "unit"):
        made.add_column(heading, justify="left" if heading in ("", "unit") else "right")
    for row in (model.load or {})["at_center"]:
        low, high = row["interval"]
        made.add_row(row["name"], f"{row['value']:.4g}", f"{low:.4g} … {high:.4g}", row["unit"])
    return made


def _sentences(load: Mapping[str, Any]) -> Iterator[str]:
    static = load["static"] or {}
    if "mass" in static and load["method"] == "motion":
        center = ", ".join(f"{1e3 * x:.1f}" for x in static["center"])
        yield f"By poses held alone: {static['mass']:.4g} ± {static['sigma'][0]:.2g} kg, centre ({center}) mm."
    if "refusal" in static:
        yield f"Poses held: {static['refusal']}"
    if load["refusal"]:
        yield f"No body has these data: {load['refusal']}"
    for one in load["rating"]["quantities"]:
        yield f"{one['sentence']}."
