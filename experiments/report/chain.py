"""What was done to the data, and by whom: processing steps with their settings, versions, hashes, commands."""

import hashlib
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from excitor.experiments.designing.file import FILE as DESIGN
from excitor.experiments.model_file import finite, provenance
from excitor.experiments.page.words import finite as number
from excitor.experiments.page.words import table
from excitor.experiments.report.evidence import Evidence
from excitor.identify.samples import Step


def processing_data(evidence: Evidence) -> dict[str, Any]:
    """List each run's steps in order, then what was done to the equations of all."""
    campaign, estimate = evidence.identified.campaign, evidence.identified.estimate
    settings, method = campaign.content.processing, _in_words(campaign.content.identify.method)
    return {
        "runs": [
            {"run": run.samples.run, "log": run.log, "steps": [_step(step) for step in run.samples.steps]}
            for run in evidence.runs
        ],
        "equations": [
            *([_step(Step("thin", {"by": " x ".join(map(str, settings.decimate))}))] if settings.decimate else []),
            _step(
                Step(
                    "leave out joints slower than a share of their limit", {"share_percent": settings.dead_zone_percent}
                )
            ),
            _step(Step("leave out turns of friction", {"before_and_after_s": settings.settling_s})),
            _step(Step(f"fit by {method}", {**estimate.settings, "equations": float(estimate.n_rows)})),
            _step(
                Step(
                    f"intervals by {evidence.identified.intervals.method}", dict(evidence.identified.intervals.settings)
                )
            ),
        ],
        "weights": [
            {
                "joint": evidence.robot.joint_names[joint],
                "run": evidence.training.regression.runs[run],
                "sigma": finite(sigma),
            }
            for (joint, run), sigma in sorted(estimate.group_sigma.items(), key=lambda item: item[0][::-1])
        ],
        "locked": [evidence.robot.joint_names[i] for i in sorted(evidence.robot.locked)],
    }


def provenance_data(
    evidence: Evidence, commands: Sequence[str], design: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Name everything that this report can be made again from."""
    campaign = evidence.identified.campaign
    known, file = provenance(campaign), campaign.folder / DESIGN
    if design is not None and file.is_file():
        known["sha256"] |= {DESIGN: hashlib.sha256(file.read_bytes()).hexdigest()}
    return known | {
        **{name: _version(name) for name in ("scipy", "cvxpy")},
        "robot": str(campaign.content.robot),
        "seed": finite(evidence.identified.intervals.settings.get("seed", float("nan"))),
        "design_seed": number(table(design or {}, "settings").get("seed")),
        "campaign_sha256": campaign.digest,
        "commands": [str(command) for command in commands],
    }


def _in_words(method: str) -> str:
    return {"ols": "least squares", "wls": "weighted least squares"}.get(method, method)


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _step(step: Step) -> dict[str, Any]:
    return {
        "name": step.name,
        "settings": {key: finite(x) if isinstance(x, float) else x for key, x in step.settings.items()},
    }
