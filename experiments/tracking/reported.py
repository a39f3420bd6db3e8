"""The tracking section's data in a report: of in-process campaigns always, of others where it is asked for."""

from typing import Any

from excitor.experiments.report.evidence import Evidence
from excitor.experiments.tracking.data import FittedModel, in_process, tracking_data


def reported_tracking(evidence: Evidence, asked: bool) -> dict[str, Any] | None:
    """Simulate tracking of a process, or of the validation motion; None where the campaign has no use for it."""
    identified = evidence.identified
    if not (asked or in_process(identified.campaign)):
        return None
    estimate, consistent = identified.estimate, identified.consistent
    fitted = FittedModel(
        evidence.robot,
        tuple(estimate.names),
        estimate.values,
        identified.intervals.covariance,
        None if consistent is None else consistent.chi,
    )
    cycles = {run.name for run in identified.campaign.content.run if run.cycle_s}
    order = sorted(evidence.runs, key=lambda run: (run.samples.run not in cycles, run.role != "validate"))
    return tracking_data(identified.campaign, fitted, [run.samples for run in order])
