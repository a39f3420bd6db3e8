"""The verb `identify`: a campaign's logs into a model, and what a person is shown of it."""

import json
from dataclasses import replace
from pathlib import Path

import typer

from excitor.experiments.campaign import FILE, InvalidCampaign, OpenCampaign, method_problems, open_campaign
from excitor.experiments.identification import identify
from excitor.experiments.identify_page import print_identified
from excitor.experiments.model_file import code_note, model_data, write_model


def run_identify(folder: Path, as_json: bool, method: str | None = None) -> None:
    """Identify, and write the model; by another method than the campaign's where one is named."""
    campaign = open_campaign(folder)
    if campaign.content.task == "payload":
        from excitor.experiments.payload.command import run_identify as identify_load

        if method is not None:
            raise InvalidCampaign(campaign.folder / FILE, ["--method: goes with campaigns of the arm"])
        identify_load(campaign, as_json)
        return
    if method is not None:
        campaign = by_method(campaign, method)
    result = identify(campaign, lambda sentence: typer.echo(sentence, err=True))
    for path in write_model(result):
        typer.echo(f"wrote {path}", err=True)
    if note := code_note(result):
        typer.echo(note, err=True)
    if as_json:
        typer.echo(json.dumps(model_data(result), indent=2, allow_nan=False))
    else:
        print_identified(result)


def by_method(campaign: OpenCampaign, method: str) -> OpenCampaign:
    """Take another method than the one that the campaign states."""
    settings = campaign.content.identify.model_copy(update={"method": method})
    if problems := method_problems(settings):
        raise InvalidCampaign(campaign.folder / FILE, problems)
    return replace(campaign, content=campaign.content.model_copy(update={"identify": settings}))
