"""With which commands can a report be made again? Each stage's, from what the stages say of themselves."""

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from excitor.experiments.campaign import OpenCampaign
from excitor.experiments.page.words import table


def chain_commands(
    campaign: OpenCampaign, design: Mapping[str, Any] | None, simulated: Sequence[Mapping[str, Any]] = ()
) -> tuple[str, ...]:
    """List the commands from the plan to the report, for this campaign's folder."""
    where = shlex.quote(campaign.folder.resolve().name)
    targets = dict.fromkeys(run.program.partition("/")[0] for run in campaign.content.run if run.program is not None)
    said = [] if design is None else [f"excitor design {where}{_search(table(design, 'settings'))}"]
    said += [f"excitor emit {where}" + "".join(f" --target {shlex.quote(name)}" for name in targets)] if targets else []
    said += list(dict.fromkeys(_simulation(where, run) for run in simulated))
    return (*said, f"excitor identify {where}", f"excitor report {where}")


def _search(settings: Mapping[str, Any]) -> str:
    """Repeat what decides a search: its seed, and how much it may try."""
    keys = ("seed", "evaluations", "seconds")
    return "".join(f" --{key} {settings[key]}" for key in keys if isinstance(settings.get(key), int | float))


def _simulation(where: str, run: Mapping[str, Any]) -> str:
    seed = "" if run.get("seed") is None else f" --seed {run['seed']}"
    told = "; ".join(run.get("faults", ()))
    wrong = f"  # faults: {told}" if told else ""
    return f"excitor simulate {where} --target {shlex.quote(str(run['target']))}{seed}{wrong}"
