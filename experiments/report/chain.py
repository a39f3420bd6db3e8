"""What was done to the data, and by whom: processing steps with their settings, versions, hashes, commands."""

from collections.abc import Sequence
from typing import Any

from excitor.experiments.model_file import finite, provenance
from excitor.experiments.report.evidence import Evidence
from excitor.identify.samples import Step


def processing_data(evidence: Evidence) -> dict[str, Any]:
    """List each run's steps in order, then what was done to the equations of all."""
    campaign, estimate = evidence.identified.campaign, evidence.identified.estimate
    settings = campaign.content.processing
    return {
        "runs": [
            {"run": run.samples.run, "log": run.log, "steps": [_step(step) for step in run.samples.steps]}
            for run in evidence.runs
        ],
        "equations": [
            _step(Step("thin", {"by": " x ".join(map(str, settings.decimate)) or "not at all"})),
            _step(Step("leave out slow joints", {"below_percent_of_speed_limit": settings.dead_zone_percent})),
            _step(Step(f"fit by {estimate.method}", {**estimate.settings, "equations": float(estimate.n_rows)})),
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


def provenance_data(evidence: Evidence, commands: Sequence[str]) -> dict[str, Any]:
    """Name everything that this report can be made again from."""
    campaign = evidence.identified.campaign
    return provenance(evidence.identified) | {
        "seed": finite(evidence.identified.intervals.settings.get("seed", float("nan"))),
        "campaign_sha256": campaign.digest,
        "commands": [str(command) for command in commands],
    }


def _step(step: Step) -> dict[str, Any]:
    return {
        "name": step.name,
        "settings": {key: finite(x) if isinstance(x, float) else x for key, x in step.settings.items()},
    }
