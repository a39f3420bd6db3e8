"""Report on the campaign: planned against obtained results, alignment, processing, provenance.

Planned against obtained: conditions, standard deviations, periods, tracking errors and noise, joint by joint. Further:
the checks of every log, the processing steps, the versions and commands, and simulated feedforward.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from excitor.experiments.align.nouns import Alignment
from excitor.experiments.identification import mean_noise, noise_of
from excitor.experiments.report.evidence import Evidence, SeenRun, ValidationEvidence
from excitor.experiments.report.html import entries, percent, show, subtable, torque_units
from excitor.identify.regression import dynamic_regression
from excitor.identify.samples import Samples
from excitor.robots.arrays import FloatArray, finite, plain
from excitor.robots.base import base_parameters
from excitor.robots.parameters import layout
from excitor.robots.robot import Robot

MOST_SAMPLES = 3000  # of a run, for its condition number
FORESEEN = 2.0  # times the forecast: below it, as predicted


def planned_data(evidence: Evidence, design: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Compare with a design.json; none where no design is given."""
    if design is None:
        return None
    one_unit = evidence.model.currents is None  # a plan is in N m
    parameters = _parameters(evidence, subtable(design, "forecast")) if one_unit else []
    ratios = [row["ratio"] for row in parameters if row["ratio"] is not None]
    return {
        "runs": _runs(evidence, entries(design, "runs")),
        "parameters": parameters,
        "within": sum(ratio <= FORESEEN for ratio in ratios),
        "compared": len(ratios),
        "median_ratio": float(np.median(ratios)) if ratios else None,
        "tracking": tracking_rows(evidence),
        "noise_by_joint": noise_rows(evidence, design) if one_unit else [],
        "noise": str(subtable(design, "forecast").get("noise") or ""),
    }


def run_condition(robot: Robot, samples: Samples) -> float | None:
    """Condition number of a measured run's column-normalised base regressor, on at most some thousand samples."""
    step = max(1, len(samples) // MOST_SAMPLES)
    thin = Samples(samples.run, samples.motion[::step], samples.tau[::step], samples.sample_rate_hz)
    W = dynamic_regression(robot, [thin]).W
    norms = np.linalg.norm(W, axis=0)
    if not (norms > 0.0).all():
        return None
    values = np.linalg.svd(W / norms, compute_uv=False)
    return finite(values[0] / values[-1]) if values[-1] > 0.0 else None


def _runs(evidence: Evidence, plans: list[Any]) -> list[dict[str, Any]]:
    """List planned runs, then those that were measured without a plan."""
    made = {run.samples.run: run for run in evidence.runs}
    good = [plan for plan in plans if isinstance(plan, Mapping)]
    rows = [_planned_run(evidence.robot, plan, made.get(str(plan.get("name")))) for plan in good]
    names = {row["name"] for row in rows}
    return rows + [_planned_run(evidence.robot, {"name": name}, made[name]) for name in made if name not in names]


def _planned_run(robot: Robot, plan: Mapping[str, Any], run: SeenRun | None) -> dict[str, Any]:
    return {
        "name": str(plan.get("name", "")),
        "planned": len(plan) > 1,
        "measured": run is not None,
        "condition_planned": finite(plan.get("condition")),
        "condition_obtained": None if run is None or run.samples.static else run_condition(robot, run.samples),
        "periods_planned": finite(plan.get("measured_periods")),
        "periods_used": None if run is None else float(run.samples.repetitions) or None,
    }


def _parameters(evidence: Evidence, forecast: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Compare expected with obtained standard deviations; forecasts are the inflated ones where available."""
    base, names = base_parameters(evidence.robot), layout(evidence.robot).names
    own = dict(zip(evidence.model.names, evidence.model.sigma.tolist(), strict=True))
    sigma = {base.names[k]: own[names[column]] for k, column in enumerate(base.kept) if names[column] in own}
    rows = []
    for entry in entries(forecast, "parameters"):
        if not isinstance(entry, Mapping):
            continue
        inflated, white = finite(entry.get("sigma_inflated")), finite(entry.get("sigma"))
        expected, obtained = white if inflated is None else inflated, sigma.get(str(entry.get("name")))
        ratio = None if obtained is None or expected is None or expected <= 0.0 else obtained / expected
        words = {key: str(entry.get(key, "")) for key in ("name", "unit")}
        rows.append(words | {"expected": expected, "obtained": obtained, "ratio": ratio})
    return rows


def tracking_error(run: SeenRun) -> FloatArray | None:
    """Subtract the planned from the mean measured period, (n, n_joints); None where no period was averaged."""
    alignment = run.alignment
    series = None if alignment is None else alignment.expected.run.series
    if alignment is None or run.samples.static or series is None:
        return None
    n = len(run.samples)
    return run.samples.motion.q - alignment.expected.run.at(series.start + series.period * np.arange(n) / n)


def tracking_rows(evidence: Evidence) -> list[dict[str, Any]]:
    """List each run's tracking errors: root mean square and greatest, joint by joint, rad or m."""
    return [
        {"run": run.samples.run, "rms": np.sqrt(np.mean(e**2, axis=0)).tolist(), "peak": np.abs(e).max(axis=0).tolist()}
        for run in evidence.runs
        if (e := tracking_error(run)) is not None
    ]


def noise_rows(evidence: Evidence, design: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Compare the planned noise of a torque sample with that from repetitions, N m or N, by joint."""
    expected = [finite(x) for x in entries(subtable(design, "noise"), "sigma")]
    variances = [run.samples.variance for run in evidence.runs if run.role == "identify"]
    shown = [variance for variance in variances if variance is not None]
    if len(expected) != evidence.robot.n_joints or not shown:
        return []
    obtained = np.sqrt(np.mean(np.concatenate(shown), axis=0))
    return [
        {"joint": name, "expected": x, "obtained": finite(y), "ratio": finite(y / x) if x else None}
        for name, x, y in zip(evidence.robot.joint_names, expected, obtained, strict=True)
    ]


def noise_floor(evidence: Evidence, judged: ValidationEvidence) -> dict[str, Any] | None:
    """Compute the relative error due to the noise of the mean alone, a lower bound; None without repetitions.

    σ of an equation is that of a single repetition over √n; of thinned equations it is not known.
    """
    regression = judged.regression
    variance = mean_noise(evidence.campaign, evidence.samples, regression)
    if variance is None:
        return None
    rows = [regression.joint == j for j in np.unique(regression.joint)]
    rms = np.array([np.sqrt(np.mean(variance[r])) for r in rows])
    size = np.array([np.sqrt(np.mean(regression.y[r] ** 2)) for r in rows])
    relative = np.divide(rms, size, out=np.full_like(rms, np.nan), where=size > 0.0)
    return {"relative": plain(relative), "total": finite(noise_of(regression, variance)), "rmse": rms.tolist()}


LEVELS = ("unusable", "doubtful", "note")


def checked_entries(alignments: Mapping[str, Alignment]) -> list[dict[str, Any]]:
    """List the checks of every run of an emitted program, run by run."""
    return [
        {
            "run": name,
            "name": " ".join(filter(None, (f"{name}:", check.what, check.joint))),
            "unit": "" if check.unit == "1" else check.unit,
            "sentence": str(check),
            **{key: getattr(check, key) for key in ("what", "joint", "tolerance", "holds", "level")},
            "found": check.figure,
        }
        for name, alignment in alignments.items()
        for check in alignment.checks
    ]


def alignment_entry(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Convert one finding to plain data; numbers or words for found and expected, "unusable" without a level."""
    values = {key: _number_or_words(entry.get(key)) for key in ("found", "expected")}
    words = {key: str(entry.get(key) or "") for key in ("name", "run", "what", "joint", "unit", "sentence")}
    holds, level = entry.get("holds"), str(entry.get("level") or LEVELS[0])
    return {
        **values,
        **words,
        "tolerance": finite(entry.get("tolerance")),
        "holds": None if holds is None else bool(holds),
        "level": level if level in LEVELS else LEVELS[0],
    }


def _number_or_words(value: Any) -> float | str | None:
    if value is None or isinstance(value, bool):
        return None if value is None else str(value)
    number = finite(value)
    return str(value) if number is None or isinstance(value, str) else number


def planned_context(data: Mapping[str, Any]) -> dict[str, Any] | None:
    """Show the plan beside what was obtained; tracking errors in mrad and mm."""
    planned, robot = subtable(data, "planned"), subtable(data, "robot")
    if not planned:
        return None
    units = [{"m": "mm"}.get(str(unit), "mrad") for unit in entries(robot, "units")]
    return {**planned, "joints": entries(robot, "joints"), "units": units, "torque_units": torque_units(data)}


Entry = Mapping[str, Any]


def alignment_context(data: Mapping[str, Any]) -> dict[str, Any] | None:
    """Show the results of aligning the logs with the plan: what does not hold, then run by run."""
    if data.get("alignment") is None:
        return None
    found = [{**entry, "title": entry["name"]} for entry in entries(data, "alignment")]
    runs = list(dict.fromkeys(entry["run"] for entry in found))
    joints = entries(subtable(data, "robot"), "joints")
    return {
        "found": found,
        "failed": [entry for entry in found if entry["holds"] is False],
        "joints": joints,
        "n_runs": len([run for run in runs if run]),
        "runs": [_checks(run, [entry for entry in found if entry["run"] == run], joints) for run in runs],
    }


def _checks(run: str, found: Sequence[Entry], joints: Sequence[str]) -> dict[str, Any]:
    """Collect a run's checks: those of the whole run, and those of joints by what they are about."""
    kinds: dict[tuple[str, str], dict[str, Entry]] = {}
    for entry in found:
        if entry["joint"] in joints:
            kinds.setdefault((entry["what"], entry["unit"]), {})[entry["joint"]] = entry
    return {
        "run": run,
        "n_checks": len(found),
        "good": sum(entry["holds"] is not False for entry in found),
        "whole": [{**e, "title": e["what"] or e["name"]} for e in found if e["joint"] not in joints],
        "kinds": [
            {
                "what": what,
                "unit": unit,
                "joints": of_kind,
                "tolerances": list({entry["tolerance"] for entry in of_kind.values()}),
            }
            for (what, unit), of_kind in kinds.items()
        ],
    }


UNITS = {"hz": "Hz", "s": "s", "percent": "%", "deg": "°"}
NAMES = {"excitor": "excitor", "python": "Python", "numpy": "NumPy", "scipy": "SciPy", "cvxpy": "CVXPY"}
NAMES |= {"robot": "robot", "design_seed": "seed of the plan", "seed": "seed of the intervals"}


def processing_context(data: Mapping[str, Any]) -> dict[str, Any] | None:
    """Show every step with its settings, run by run."""
    processing = subtable(data, "processing")
    if not processing:
        return None
    runs = [{**run, "steps": _steps(run["steps"])} for run in processing["runs"]]
    return {**processing, "runs": runs, "equations": _steps(processing["equations"])}


def _steps(steps: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [
        {"name": step["name"], "told": [_setting(key, x) for key, x in step["settings"].items() if x != ""]}
        for step in steps
    ]


def _setting(key: str, value: Any) -> str:
    """Write a setting with its unit, which its name ends with."""
    name, _, last = key.rpartition("_")
    unit = UNITS.get(last, "") if name else ""
    number = value if isinstance(value, str) else show(value, 6)
    return f"{(name if unit else key).replace('_', ' ')} {number} {unit}".rstrip()


def provenance_context(data: Mapping[str, Any]) -> dict[str, Any] | None:
    """Show versions, digests, seed and commands."""
    known = subtable(data, "provenance")
    if not known:
        return None
    facts = [(words, known[name]) for name, words in NAMES.items() if known.get(name) is not None]
    seeds: dict[str, list[str]] = {}
    for run in entries(data, "simulated"):
        seeds.setdefault(show(run.get("seed")), []).append(str(run.get("run", "")))
    return {
        "facts": [f"{words} {show(value) if isinstance(value, float) else value}" for words, value in facts],
        "seeds": seeds,
        "commands": entries(known, "commands"),
        "sha256": subtable(known, "sha256"),
        "campaign_sha256": known.get("campaign_sha256", ""),
    }


TOOL = (
    ("tool, at equal time", "tool_rms_mm", "tool_peak_mm", "tool"),
    ("tool, from its path", "path_rms_mm", "path_peak_mm", "path"),
)
RATIOS = {  # with the identified model fed forward, over another: heading, and words
    "to_no_model": ("identified / no model", "without a model"),
    "to_prior_model": ("identified / prior model", "with the prior model"),
}


def tracking_context(data: Mapping[str, Any]) -> dict[str, Any] | None:
    """Compare the controllers; nothing where no tracking was simulated."""
    tracking = subtable(data, "tracking")
    if not tracking or tracking.get("refused"):
        return {"refused": tracking["refused"]} if tracking else None
    controllers, ratios = tracking["controllers"], subtable(tracking, "ratios")
    beside = {key: subtable(ratios, key) for key in RATIOS if subtable(ratios, key)}
    rows = [
        {
            "name": joint,
            "unit": unit,
            "errors": [found[key][j] for found in controllers for key in ("rms", "peak")],
            "ratios": [ratio["joints"][j] for ratio in beside.values()],
        }
        for j, (joint, unit) in enumerate(zip(tracking["joints"], tracking["units"], strict=True))
    ]
    rows += [
        {
            "name": name,
            "unit": "mm",
            "errors": [found[key] for found in controllers for key in (rms, peak)],
            "ratios": [ratio[key] for ratio in beside.values()],
        }
        for name, rms, peak, key in TOOL
    ]
    return {
        **{key: tracking.get(key) for key in ("cut_after_s", "motion", "robot", "bandwidth_hz")},
        "refused": "",
        "controllers": [f"{found['feed_forward']}, {what}" for found in controllers for what in ("rms", "peak")],
        "headings": [RATIOS[key][0] for key in beside],
        "shares": [f"{percent(ratio['tool'])} of that {RATIOS[key][1]}" for key, ratio in beside.items()],
        "rows": rows,
    }
