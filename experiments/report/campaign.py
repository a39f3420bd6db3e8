"""Sections of the report on the campaign: planned against obtained results, alignment, processing, provenance.

Planned against obtained: conditions, standard deviations, periods, tracking errors and noise, joint by joint. Further
sections: the checks of every log, the processing steps, the versions and commands, and simulated feedforward.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from markupsafe import Markup

from excitor.experiments.align.nouns import Alignment
from excitor.experiments.identification import mean_noise
from excitor.experiments.report.evidence import Evidence, SeenRun, ValidationEvidence
from excitor.experiments.report.html import (
    NONE,
    Cell,
    card,
    element,
    entries,
    joined,
    number_cell,
    percent,
    show,
    subtable,
    unit_words,
)
from excitor.experiments.report.html import (
    table as html_table,
)
from excitor.identify.regression import dynamic_regression
from excitor.identify.samples import Samples
from excitor.robots.arrays import FloatArray, finite
from excitor.robots.base import base_parameters
from excitor.robots.parameters import layout
from excitor.robots.robot import Motion, Robot

MOST_SAMPLES = 3000  # of a run, for its condition number
FORESEEN = 2.0  # times the forecast: below it, as predicted


def planned_data(evidence: Evidence, design: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Compare with a design.json; none where no design is given."""
    if design is None:
        return None
    parameters = _parameters(evidence, subtable(design, "forecast"))
    ratios = [row["ratio"] for row in parameters if row["ratio"] is not None]
    return {
        "runs": _runs(evidence, entries(design, "runs")),
        "parameters": parameters,
        "within": sum(ratio <= FORESEEN for ratio in ratios),
        "compared": len(ratios),
        "median_ratio": float(np.median(ratios)) if ratios else None,
        "tracking": tracking_rows(evidence),
        "noise_by_joint": noise_rows(evidence, design),
        "noise": str(subtable(design, "forecast").get("noise") or ""),
    }


def run_condition(robot: Robot, samples: Samples) -> float | None:
    """Condition number of a measured run's column-normalised base regressor, on at most some thousand samples."""
    step = max(1, len(samples) // MOST_SAMPLES)
    motion = samples.motion
    thin = Samples(
        samples.run,
        Motion(motion.q[::step], motion.dq[::step], motion.ddq[::step]),
        samples.tau[::step],
        samples.sample_rate_hz,
    )
    W = dynamic_regression(robot, [thin]).W
    norms = np.linalg.norm(W, axis=0)
    if not (norms > 0.0).all():
        return None
    values = np.linalg.svd(W / norms, compute_uv=False)
    return finite(values[0] / values[-1]) if values[-1] > 0.0 else None


def _runs(evidence: Evidence, plans: list[Any]) -> list[dict[str, Any]]:
    """List planned runs, then those that were measured without a plan."""
    measured = {run.samples.run: run for run in evidence.runs}
    good = [plan for plan in plans if isinstance(plan, Mapping)]
    rows = [_planned_run(evidence.robot, plan, measured.get(str(plan.get("name")))) for plan in good]
    names = {row["name"] for row in rows}
    return rows + [
        _planned_run(evidence.robot, {"name": name}, measured[name]) for name in measured if name not in names
    ]


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
        expected = white if inflated is None else inflated
        obtained = sigma.get(str(entry.get("name")))
        both = expected is not None and obtained is not None and expected > 0.0
        rows.append(
            {
                "name": str(entry.get("name", "")),
                "unit": str(entry.get("unit", "")),
                "expected": expected,
                "obtained": obtained,
                "ratio": obtained / expected if both and obtained is not None and expected is not None else None,
            }
        )
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
    rows = []
    for run in evidence.runs:
        error = tracking_error(run)
        if error is not None:
            rms, peak = np.sqrt(np.mean(error**2, axis=0)), np.abs(error).max(axis=0)
            rows.append({"run": run.samples.run, "rms": rms.tolist(), "peak": peak.tolist()})
    return rows


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
    total = np.sqrt(np.sum(variance) / np.sum(regression.y**2))
    relative = np.divide(rms, size, out=np.full_like(rms, np.nan), where=size > 0.0)
    return {"relative": [finite(x) for x in relative], "total": finite(total), "rmse": rms.tolist()}


LEVELS = ("unusable", "doubtful", "note")


def checked_entries(alignments: Mapping[str, Alignment]) -> list[dict[str, Any]]:
    """List the checks of every run of an emitted program, run by run."""
    return [
        {
            "run": name,
            "what": check.what,
            "joint": check.joint,
            "name": " ".join(filter(None, (f"{name}:", check.what, check.joint))),
            "found": check.figure,
            "tolerance": check.tolerance,
            "unit": "" if check.unit == "1" else check.unit,
            "holds": check.holds,
            "level": check.level,
            "sentence": str(check),
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


def planned_section(data: Mapping[str, Any]) -> Markup:
    """Compare the plan with what was obtained."""
    planned, robot = subtable(data, "planned"), subtable(data, "robot")
    if not planned:
        return Markup("")
    parts: list[Markup] = [element("h3", "Runs"), _runs_table(planned)]
    for made in (_tracking(planned, robot), _noise(planned, robot), _deviations(planned)):
        parts += made
    return card("planned", "Planned and achieved", *parts)


def _runs_table(planned: Mapping[str, Any]) -> Markup:
    headings = [
        ("run", ""),
        ("", ""),
        ("condition number planned", "n"),
        ("obtained", "n"),
        ("periods planned", "n"),
        ("usable", "n"),
    ]
    keys = ("condition_planned", "condition_obtained", "periods_planned", "periods_used")
    rows = [
        (
            "" if run.get("measured") else "fails",
            [
                element("b", str(run.get("name", ""))),
                ("measured" if run.get("planned") else "not planned") if run.get("measured") else "not measured",
                *(number_cell(show(run.get(key)), run.get(key)) for key in keys),
            ],
        )
        for run in entries(planned, "runs")
    ]
    return html_table(headings, rows, class_="pinned")


def _tracking(planned: Mapping[str, Any], robot: Mapping[str, Any]) -> list[Markup]:
    """Write each joint's tracking error against the plan, in mrad and mm."""
    found = entries(planned, "tracking")
    if not found:
        return []
    units = [{"m": "mm"}.get(str(unit), "mrad") for unit in entries(robot, "units")]
    headings = [("run", ""), ("", ""), *((str(joint), "n") for joint in entries(robot, "joints"))]
    rows = []
    for run in found:
        for key, words in (("rms", "rms"), ("peak", "peak")):
            errors = zip(entries(run, key), units, strict=False)
            cells = [number_cell(f"{show(1e3 * x, 3)} {unit}", x) for x, unit in errors]
            rows.append(("", [element("b", str(run.get("run", ""))) if key == "rms" else "", words, *cells]))
    hint = "Mean measured period less the planned one: what the controller did not follow, noise averaged out."
    return [
        element("h3", "Tracking error"),
        element("p", hint, class_="hint"),
        html_table(headings, rows, class_="pinned"),
    ]


def _noise(planned: Mapping[str, Any], robot: Mapping[str, Any]) -> list[Markup]:
    found = entries(planned, "noise_by_joint")
    if not found:
        return []
    units = dict(zip(entries(robot, "joints"), entries(robot, "torque_units"), strict=False))
    headings = [("joint", ""), ("expected", "n"), ("obtained", "n"), ("unit", ""), ("obtained / expected", "n")]
    rows = [
        (
            "" if (row.get("ratio") or 0.0) <= 2.0 else "beyond",
            [
                element("b", str(row.get("joint", ""))),
                *(number_cell(show(row.get(key), 3), row.get(key)) for key in ("expected", "obtained")),
                Cell(str(units.get(row.get("joint"), "")), "u"),
                number_cell(show(row.get("ratio"), 3), row.get("ratio")),
            ],
        )
        for row in found
    ]
    source = f" Expected: {planned.get('noise')}." if planned.get("noise") else ""
    hint = f"Standard deviation of one torque sample; obtained: what does not repeat between periods.{source}"
    made = html_table(headings, rows, class_="narrow")
    return [element("h3", "Torque noise"), element("p", hint, class_="hint"), made]


def _deviations(planned: Mapping[str, Any]) -> list[Markup]:
    if not entries(planned, "parameters"):
        return []
    sentence = (
        f"{planned.get('within')} of {planned.get('compared')} parameters are known as well as foreseen, within a "
        f"factor of 2; the median of obtained over expected is {show(planned.get('median_ratio'), 3)}."
    )
    return [element("h3", "Standard deviations of parameters"), element("p", sentence), _parameters_table(planned)]


def _parameters_table(planned: Mapping[str, Any]) -> Markup:
    headings = [("parameter", ""), ("expected", "n"), ("obtained", "n"), ("unit", ""), ("obtained / expected", "n")]
    rows = [
        (
            "" if (row.get("ratio") or 0.0) <= 2.0 else "beyond",
            [
                element("b", str(row.get("name", ""))),
                *(number_cell(show(row.get(key), 3), row.get(key)) for key in ("expected", "obtained")),
                Cell(unit_words(row.get("unit")), "u"),
                number_cell(show(row.get("ratio"), 3), row.get("ratio")),
            ],
        )
        for row in entries(planned, "parameters")
    ]
    return html_table(headings, rows, sortable=True, class_="narrow")


Entry = Mapping[str, Any]
HINT = (
    "Results of comparing each log with its program. The tolerance is the allowed distance of a value "
    "from what the plan, or the prior model, expects."
)
HEADINGS = [("", ""), ("what", ""), ("found", "n"), ("tolerance", "n"), ("unit", ""), ("in words", "")]


def alignment_section(data: Mapping[str, Any]) -> Markup:
    """List the results of aligning the logs with the plan."""
    if data.get("alignment") is None:
        return Markup("")
    found = [entry for entry in entries(data, "alignment") if isinstance(entry, Mapping)]
    failed = [entry for entry in found if entry.get("holds") is False]
    runs = list(dict.fromkeys(str(entry.get("run") or "") for entry in found))
    joints = [str(joint) for joint in entries(subtable(data, "robot"), "joints")]
    parts = [element("p", _told(found, failed, [run for run in runs if run]))]
    if failed:
        parts.append(html_table(HEADINGS, [_row(entry, str(entry.get("name", ""))) for entry in failed]))
    for number, run in enumerate(runs):
        of_run = [entry for entry in found if str(entry.get("run") or "") == run]
        parts.append(_run(run, of_run, joints, opened=number == 0))
    return card("alignment", "Alignment of the logs with the plan", *parts, hint=HINT)


def _told(found: Sequence[Entry], failed: Sequence[Entry], runs: Sequence[str]) -> str:
    if not found:
        return "Nothing was checked."
    of = f" of {len(runs)} run{'' if len(runs) == 1 else 's'}" if runs else ""
    if not failed:
        return f"Yes: all {len(found)} checks{of} hold."
    return f"{len(failed)} of {len(found)} checks{of} do not hold."


def _run(run: str, found: Sequence[Entry], joints: Sequence[str], *, opened: bool) -> Markup:
    """Write a run's checks: those of the whole run as a list, those of joints as a table."""
    whole = [entry for entry in found if entry.get("joint") not in joints]
    shown = [html_table(HEADINGS, [_row(entry, str(entry.get("what") or entry.get("name", ""))) for entry in whole])]
    if len(whole) < len(found):
        shown.append(_by_joint([entry for entry in found if entry.get("joint") in joints], joints))
    good = sum(entry.get("holds") is not False for entry in found)
    title = f"{run or 'All checks'}: {good} of {len(found)} hold"
    return element("details", element("summary", title), *shown, open="" if opened else None)


def _by_joint(found: Sequence[Entry], joints: Sequence[str]) -> Markup:
    kinds = list(dict.fromkeys((str(entry.get("what")), str(entry.get("unit"))) for entry in found))
    headings = [("of each joint", ""), *((joint, "n") for joint in joints), ("tolerance", "n"), ("unit", "")]
    rows = []
    for what, unit in kinds:
        of_kind = {str(e.get("joint")): e for e in found if (str(e.get("what")), str(e.get("unit"))) == (what, unit)}
        tolerances = {entry.get("tolerance") for entry in of_kind.values()}
        tolerance = tolerances.pop() if len(tolerances) == 1 else None
        allowed = "by joint" if tolerances else show(tolerance, 3)
        cells = [_figure(of_kind.get(joint)) for joint in joints]
        rows.append(("", [what, *cells, Cell(allowed, "n"), Cell(unit_words(unit), "u")]))
    return html_table(headings, rows, class_="pinned")


def _figure(entry: Entry | None) -> Cell:
    if entry is None:
        return Cell("", "n")
    told = element("span", _words(entry.get("found"), 3), title=str(entry.get("sentence", "")))
    return Cell(told, "n bad" if entry.get("holds") is False else "n")


def _row(entry: Entry, name: str) -> tuple[str, list[Any]]:
    holds = entry.get("holds")
    mark = NONE if holds is None else "✓" if holds else "✗"
    allowed = entry.get("tolerance") if entry.get("tolerance") is not None else entry.get("expected")
    return "fails" if holds is False else "", [
        Cell(mark, None if holds is None else "ok" if holds else "bad"),
        name,
        *(_value(value) for value in (entry.get("found"), allowed)),
        Cell(unit_words(entry.get("unit")), "u"),
        Cell(str(entry.get("sentence", "")), "told"),
    ]


def _value(value: Any) -> Cell:
    return Cell(value, "n") if isinstance(value, str) else number_cell(show(value), value)


def _words(value: Any, digits: int) -> str:
    return value if isinstance(value, str) else show(value, digits)


UNITS = {"hz": "Hz", "s": "s", "percent": "%", "deg": "°"}
NAMES = (
    ("excitor", "excitor"),
    ("Python", "python"),
    ("NumPy", "numpy"),
    ("SciPy", "scipy"),
    ("CVXPY", "cvxpy"),
    ("robot", "robot"),
    ("seed of the plan", "design_seed"),
    ("seed of the intervals", "seed"),
)


def processing_section(data: Mapping[str, Any]) -> Markup:
    """List every step with its settings, run by run."""
    processing = subtable(data, "processing")
    runs = [
        element(
            "details",
            element("summary", f"{run.get('run', '')}, from {run.get('log', '')}"),
            _steps(entries(run, "steps")),
            open="" if k == 0 else None,
        )
        for k, run in enumerate(entries(processing, "runs"))
    ]
    weights = [
        (
            "",
            [str(row.get("joint", "")), str(row.get("run", "")), number_cell(show(row.get("sigma")), row.get("sigma"))],
        )
        for row in entries(processing, "weights")
    ]
    headings = [("joint", ""), ("run", ""), ("standard deviation that its equations were divided by", "n")]
    locked = [str(name) for name in entries(processing, "locked")]
    return card(
        "processing",
        "Processing of the data",
        *runs,
        element("h3", "The equations of all runs"),
        _steps(entries(processing, "equations")),
        element("p", f"Held still: {', '.join(locked)}.") if locked else "",
        element("details", element("summary", "Weights"), html_table(headings, weights)),
    )


def _steps(steps: list[Any]) -> Markup:
    return element("ol", *(_step(step) for step in steps), class_="steps")


def _step(step: Mapping[str, Any]) -> Markup:
    told = [_setting(str(key), value) for key, value in subtable(step, "settings").items() if value != ""]
    return element("li", element("b", str(step.get("name", ""))), ": " if told else "", "; ".join(told))


def _setting(key: str, value: Any) -> str:
    """Write a setting with its unit, which its name ends with."""
    name, _, last = key.rpartition("_")
    unit = UNITS.get(last, "") if name else ""
    number = value if isinstance(value, str) else show(value, 6)
    return f"{(name if unit else key).replace('_', ' ')} {number} {unit}".rstrip()


def provenance_section(data: Mapping[str, Any]) -> Markup:
    """Write versions, digests, seed and commands."""
    known = subtable(data, "provenance")
    facts = [(key, known[name]) for key, name in NAMES if known.get(name) is not None]
    words = ", ".join(f"{key} {show(value) if isinstance(value, float) else value}" for key, value in facts)
    rows = [("", [str(name), element("code", str(digest))]) for name, digest in subtable(known, "sha256").items()]
    seeds: dict[str, list[str]] = {}
    for run in entries(data, "simulated"):
        seeds.setdefault(show(run.get("seed")), []).append(str(run.get("run", "")))
    simulated = [f"Simulated, with seed {seed}: {', '.join(runs)}." for seed, runs in seeds.items()]
    commands = [str(command) for command in entries(known, "commands")]
    return card(
        "provenance",
        "Provenance",
        element("p", f"Made with {words}."),
        *(element("p", sentence) for sentence in simulated),
        joined([element("h3", "Commands"), element("pre", "\n".join(commands))]) if commands else "",
        element("h3", "Files that were read, SHA-256"),
        html_table([("file", ""), ("digest", "")], rows, class_="hashes"),
        element("p", f"Campaign and robot together: {known.get('campaign_sha256', '')}", class_="hint"),
    )


TOOL = (
    ("tool, at equal time", "tool_rms_mm", "tool_peak_mm", "tool"),
    ("tool, from its path", "path_rms_mm", "path_peak_mm", "path"),
)


def tracking_section(data: Mapping[str, Any]) -> Markup:
    """Compare the controllers; nothing where no tracking was simulated."""
    tracking = subtable(data, "tracking")
    if not tracking:
        return Markup("")
    title = "How well would it be followed?"
    if tracking.get("refused"):
        return card("tracking", title, element("p", f"No tracking was simulated: {tracking['refused']}"))
    controllers = [found for found in entries(tracking, "controllers") if isinstance(found, Mapping)]
    parts = [
        element("p", _tracking_sentence(tracking)),
        _table(tracking, controllers),
        element("p", _limits(tracking), class_="hint"),
    ]
    return card("tracking", title, *parts, hint="Simulated: a virtual robot under PD control, torques fed forward.")


def _tracking_sentence(tracking: Mapping[str, Any]) -> str:
    """Describe the reduction of the tracking error at the tool."""
    ratios = subtable(tracking, "ratios")
    words = [
        f"{percent(subtable(ratios, key).get('tool'))} of that {beside}"
        for key, beside in (("to_no_model", "without a model"), ("to_prior_model", "with the prior model"))
        if subtable(ratios, key)
    ]
    return f"With the identified model fed forward, the tool's rms error is {' and '.join(words)}."


def _table(tracking: Mapping[str, Any], controllers: list[Mapping[str, Any]]) -> Markup:
    names = [str(found.get("feed_forward", "")) for found in controllers]
    headings = [("error", ""), *((f"{name}, {what}", "n") for name in names for what in ("rms", "peak")), ("unit", "")]
    ratios = subtable(tracking, "ratios")
    beside = [key for key in ("to_no_model", "to_prior_model") if subtable(ratios, key)]
    words = {"to_no_model": "identified / no model", "to_prior_model": "identified / prior model"}
    headings += [(words[key], "n") for key in beside]
    rows = []
    units = entries(tracking, "units")
    for j, joint in enumerate(entries(tracking, "joints")):
        pairs = [(entries(found, "rms")[j], entries(found, "peak")[j]) for found in controllers]
        shares = [entries(subtable(ratios, key), "joints")[j] for key in beside]
        rows.append(_tracking_row(str(joint), pairs, str(units[j]), shares))
    for name, rms, peak, key in TOOL:
        pairs = [(found.get(rms), found.get(peak)) for found in controllers]
        rows.append(_tracking_row(name, pairs, "mm", [subtable(ratios, which).get(key) for which in beside]))
    return html_table(headings, rows)


def _tracking_row(name: str, pairs: list[tuple[Any, Any]], unit: str, shares: list[Any]) -> tuple[str, list[Any]]:
    numbers = [number_cell(show(value, 3), value) for pair in pairs for value in pair]
    ratios = [number_cell(show(share, 3), share) for share in shares]
    return "", [element("b", name), *numbers, Cell(unit_words(unit), "u"), *ratios]


def _limits(tracking: Mapping[str, Any]) -> str:
    cut = tracking.get("cut_after_s")
    only = f", its first {show(cut, 3)} s" if cut else ""
    return (
        f"Followed was {tracking.get('motion', '')}{only}, by {tracking.get('robot', '')}. The position loop has "
        f"{show(tracking.get('bandwidth_hz'), 3)} Hz and does not integrate, so gravity shows in full without a "
        "model. Real controllers integrate, and gain less by a model: compare models with each other, not with none."
    )
