"""How is a run made that was advised: the lines of campaign.toml, and the commands."""

import json
from collections.abc import Sequence
from pathlib import Path

from excitor.experiments.campaign import OpenCampaign, Run
from excitor.experiments.designing.file import FILE as DESIGN
from excitor.experiments.designing.file import read_design
from excitor.experiments.page.words import table


def again(campaign: OpenCampaign, run: Run) -> tuple[str, ...]:
    """Say how a run is measured once more and identified together with what there is."""
    folder, log = campaign.folder, _free(campaign, run)
    first = (
        f"run program {run.program} on the robot again; keep its recording as {log}"
        if run.program
        else f"record {run.name!r} again in the same way; keep the recording as {log}"
    )
    told = names_runs(campaign)
    added = run.model_copy(update={"name": _unused(campaign, run.name), "log": log})
    listed = [added] if told else [*campaign.content.run, added]
    lines = [line for entry in listed for line in _run_lines(entry)]
    return (first, "in campaign.toml, at its end:", *lines, f"excitor identify {folder}")


def further(campaign: OpenCampaign, asked: Sequence[str] | str) -> tuple[str, ...]:
    """Say how a further run is designed, so that those measured stay as they are."""
    folder = campaign.folder
    before = list(campaign.content.design.further)
    entry = asked if isinstance(asked, str) else list(asked)
    targets = sorted({run.program.partition("/")[0] for run in campaign.content.run if run.program})
    lines = [
        "in campaign.toml, under [design]:",
        f"further = {json.dumps([*before, entry], ensure_ascii=False)}",
        _design_command(folder),
        f"excitor emit {folder} --target {targets[0] if targets else 'NAME'}",
        f"run only the new program, further_{len(before) + 1}; put its recording beside the others",
    ]
    if isinstance(asked, str):
        lines.append(
            'in campaign.toml, under [identify]: weights = "joint and run", as slow runs have noise of their own'
        )
    return (*lines, f"excitor identify {folder}")


def names_runs(campaign: OpenCampaign) -> bool:
    """Tell whether campaign.toml names its runs, or takes logs where they lie."""
    return "[[run]]" in campaign.text.replace(" ", "")


def _design_command(folder: Path) -> str:
    """Repeat the search's own budget and seed, which make the same motions again."""
    words = ["excitor", "design", str(folder)]
    if (folder / DESIGN).is_file():
        settings = table(read_design(folder), "settings")
        for key in ("seed", "evaluations"):
            if isinstance(settings.get(key), int):
                words += [f"--{key}", str(settings[key])]
        if settings.get("seconds") is not None:
            return (
                f"{' '.join(words)} --seconds {settings['seconds']:g}   (a budget in seconds does not make the same "
                "motions again: then all runs must be measured anew)"
            )
    return f"{' '.join(words)}   (the same seed and evaluations make the same motions again)"


def _run_lines(run: Run) -> list[str]:
    """Write a run as campaign.toml has it."""
    given = run.model_dump(exclude_defaults=True)
    return ["[[run]]", *(f"{key} = {_toml(value)}" for key, value in given.items())]


def _toml(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)


def _free(campaign: OpenCampaign, run: Run) -> str:
    """Find a name for the next recording beside the last one."""
    path = Path(run.log)
    taken = {entry.log for entry in campaign.content.run}
    names = (path.with_name(f"{path.stem}_{k}{path.suffix}").as_posix() for k in range(2, 10_000))
    return next(name for name in names if name not in taken and not (campaign.folder / name).exists())


def _unused(campaign: OpenCampaign, name: str) -> str:
    taken = {entry.name for entry in campaign.content.run}
    return next(full for full in (f"{name} {k}" for k in range(2, 10_000)) if full not in taken)
