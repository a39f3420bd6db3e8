"""The verb `compare`: all methods on one campaign's data, into compare.html and compare.json."""

import json
import shlex
from collections.abc import Sequence
from pathlib import Path

import typer

from excitor.experiments.campaign import FILE, open_campaign
from excitor.experiments.comparing.compare import compare
from excitor.experiments.comparing.data import compare_data
from excitor.experiments.comparing.page import compare_page
from excitor.experiments.comparing.terminal import print_compared
from excitor.experiments.files import write_atomically

PAGE, DATA = "compare.html", "compare.json"


def run_compare(folder: Path, as_json: bool, methods: Sequence[str] = ()) -> None:
    """Compare methods and write what came of it; all of them unless some are named."""
    campaign = open_campaign(folder)
    compared = compare(campaign, methods, lambda sentence: typer.echo(sentence, err=True))
    data = compare_data(compared)
    texts = {PAGE: compare_page(data), DATA: json.dumps(data, indent=2, allow_nan=False) + "\n"}
    for name, text in texts.items():  # the data last: they tell that the page is up to date
        write_atomically(campaign.folder / name, text)
        typer.echo(f"wrote {campaign.folder / name}", err=True)
    if as_json:
        typer.echo(json.dumps(data, indent=2, allow_nan=False))
        return
    print_compared(data)
    typer.echo(f"\nLook at {campaign.folder / PAGE}")
    taken = compared.recommendation.method
    if taken is not None and taken != campaign.content.identify.method:
        once = shlex.join(["excitor", "identify", str(folder), "--method", taken])
        typer.echo(f'To take this model: method = "{taken}" under [identify] in {FILE}; or, once, {once}')
