"""Page of a designed campaign: motion, limits, search, certificate, and forecast, as plain data and as plan.html.

Certificate rows are sorted by margin, forecast rows by relative deviation.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Any

import numpy as np

from excitor.design.certify.certify import Certificate
from excitor.design.search import STAGES
from excitor.design.torque import held_torques
from excitor.experiments.design_json import margin_data, phases_data
from excitor.experiments.plan import CampaignDesign, DesignedRun, SearchedRun
from excitor.experiments.report import html
from excitor.experiments.setup import Setup
from excitor.robots.arrays import FloatArray, finite, picked
from excitor.robots.dynamics import inverse_dynamics
from excitor.robots.robot import Motion, Robot

DRAWN = ("phases", "time", "q", "dq", "ddq", "tau", "limits", "capsules", "history", "spectrum", "correlation")


def motion_data(run: Mapping[str, Any]) -> dict[str, Any]:
    """Select the data drawn of a run."""
    data = {key: run[key] for key in DRAWN if run.get(key) is not None}
    return data | {
        key: html.frame_data(html.subtable(run, key)) for key in ("frames", "approach") if html.subtable(run, key)
    }


UNTITLED = "unnamed"


def plan_page(plan: Mapping[str, Any]) -> str:
    """Write a plan, given as plain data, as one HTML page; parts that are missing are left out."""
    context = {
        **_head(plan),
        "runs": [_run(run, number) for number, run in enumerate(html.entries(plan, "runs"))],
        "forecast": _forecast(plan),
        "has_hulls": any(html.entries(plan, "hulls")),
        "has_pareto": bool(html.entries(plan, "pareto")),
        "zones": [
            {key: _string(zone.get(key)) for key in ("name", "keep", "kind", "bodies")}
            for zone in html.entries(plan, "zones")
        ],
        "campaign_text": _string(plan.get("campaign_text")),
        "periods": periods,
    }
    return html.page("plan.html", context, scripts=html.SCRIPTS, data=("plan", _data(plan)))


def _head(plan: Mapping[str, Any]) -> dict[str, Any]:
    robot, verdict = html.subtable(plan, "robot"), html.subtable(plan, "verdict")
    names = {_string(joint) for joint in html.entries(robot, "joints")}
    return {
        "name": _string(plan.get("name")) or UNTITLED,
        "version": _string(plan.get("version")),
        "robot": _string(robot.get("title")) or _string(robot.get("name")) or UNTITLED,
        "n_joints": len(html.entries(robot, "joints")),
        "go": verdict.get("go"),
        **{
            key: [_sentence(_string(reason), names) for reason in html.entries(verdict, key)]
            for key in ("reasons", "remarks", "assumed", "unwatched")
        },
    }


def _run(run: Mapping[str, Any], number: int) -> dict[str, Any]:
    """Collect a run's texts and tables; its curves are data for the script."""
    rows = certificate_rows(html.entries(run, "certificate"))
    return {
        "number": number,
        "name": _string(run.get("name")) or f"run {number + 1}",
        "kind": _string(run.get("kind")),
        "note": _string(run.get("note")),
        "duration": run.get("duration_s"),
        **{key: run.get(key) for key in ("condition", "condition_weighted", "ready")},
        "family": html.entries(run, "family"),
        "certificate": rows,
        "tightest": tightest(rows),
        "has_motion": bool(html.entries(run, "time")),
        **{f"has_{key}": bool(html.entries(run, key)) for key in ("history", "spectrum")},
        "has_correlation": bool(html.entries(html.subtable(run, "correlation"), "names")),
    }


def _forecast(plan: Mapping[str, Any]) -> dict[str, Any] | None:
    forecast = html.subtable(plan, "forecast")
    if not forecast:
        return None
    rows = forecast_rows(html.entries(forecast, "parameters"))
    counts = Counter(row["tier"] for row in rows)
    robot = html.subtable(plan, "robot")
    verdict = {
        _string(reason) for reason in html.entries(html.subtable(plan, "verdict"), "reasons")
    }  # which says them already
    units = {
        _string(joint): "N" if unit == "m" else "N m"
        for joint, unit in zip(html.entries(robot, "joints"), html.entries(robot, "units"), strict=False)
    }
    return {
        "noise": _string(forecast.get("noise")),
        "rows": rows,
        "tiers": [{"tier": key, "text": text, "count": n} for key, text in TIERS.items() if (n := counts[key])],
        "torque_error": [
            {key: row.get(key) for key in ("joint", "sigma", "relative")}
            | {"unit": units.get(_string(row.get("joint")), "N m or N")}
            for row in html.entries(forecast, "torque_error")
        ],
        "sentences": [said for said in map(_string, html.entries(forecast, "sentences")) if said not in verdict],
        "unidentifiable": [_string(name) for name in html.entries(forecast, "unidentifiable")],
    }


def _data(plan: Mapping[str, Any]) -> dict[str, Any]:
    """Select the data that the script draws."""
    robot = html.subtable(plan, "robot")
    return {
        "joints": [_string(name) for name in html.entries(robot, "joints")],
        "units": [_string(unit) for unit in html.entries(robot, "units")],
        "zones": html.entries(plan, "zones"),
        **{key: html.entries(plan, key) for key in ("base_capsules", "hulls")},
        "runs": [motion_data(run) for run in html.entries(plan, "runs")],
        "pareto": html.entries(plan, "pareto"),
    }


def _sentence(text: str, names: set[str]) -> str:
    """Capitalise the first letter, unless the sentence begins with a joint's name or a key of campaign.toml."""
    first = text.partition(" ")[0].strip(",:;")
    return text if first in names or "_" in first or "." in first else text[:1].upper() + text[1:]


def _string(value: Any) -> str:
    return "" if value is None else str(value)


MOST_PERIODS = 1000.0
TIERS = {"good": "below 2 %", "fair": "2 to 10 %", "poor": "10 % and worse", "open": "not known"}


def certificate_rows(items: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Sort certificate rows: failing ones first, then by margin relative to the limit."""
    rows = [
        {
            "name": str(item.get("name", "")),
            "unit": html.unit_words(item.get("unit")),
            **{key: finite(item.get(key)) for key in ("limit", "worst", "margin")},
            "relative": relative_margin(item),
            "proof": str(item.get("proof") or ""),
            "holds": bool(item.get("holds")),
        }
        for item in items
    ]
    return sorted(rows, key=lambda row: (row["holds"], math.inf if row["relative"] is None else row["relative"]))


def relative_margin(item: Mapping[str, Any]) -> float | None:
    """Divide a margin by its limit, or by the worst value where the limit is zero."""
    margin, limit, worst = (finite(item.get(key)) for key in ("margin", "limit", "worst"))
    scale = abs(limit) if limit else abs(worst or 0.0)
    return None if margin is None or scale == 0.0 else margin / scale


def tightest(rows: Sequence[Mapping[str, Any]], count: int = 6) -> list[dict[str, Any]]:
    """Choose the rows with least margin, with the share of the limit that is left as a bar between 0 and 100."""
    return [
        {**row, "bar": round(100.0 * min(1.0, max(0.0, row["relative"])), 1)}
        for row in rows
        if row["relative"] is not None
    ][:count]


def forecast_rows(parameters: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Collect each parameter's forecast, with its tier and the length of its bar in percent."""
    numbers = ("prior", "sigma", "sigma_inflated", "relative", "relative_inflated", "periods_needed")
    rows = []
    for parameter in parameters:
        row: dict[str, Any] = {key: finite(parameter.get(key)) for key in numbers}
        row |= {key: str(parameter.get(key) or "") for key in ("name", "label")}
        row["unit"] = html.unit_words(parameter.get("unit"))
        deciding = row["relative"] if row["relative_inflated"] is None else row["relative_inflated"]
        rows.append(row | {"tier": html.tier(deciding), "bar": html.bar(deciding), "deciding": deciding})
    return rows


def periods(needed: float | None) -> str:
    """Write the number of periods that a parameter needs; "over 1000" above a thousand."""
    return "over 1000" if needed is not None and needed > MOST_PERIODS else html.show(needed)


CHART_SAMPLES = 600
FRAMES = 360
WAY_FRAMES = 60
_LONGEST_SHOWN = 600.0  # s of a slow run


def plan_data(designed: CampaignDesign) -> dict[str, Any]:
    """Collect the page's data."""
    setup, robot = designed.setup, designed.setup.robot
    scene = setup.constraints.scene
    return {
        "name": setup.campaign.folder.resolve().name,
        "version": version("excitor"),
        "campaign_text": setup.campaign.text,
        "robot": {key: entry for key, entry in html.robot_data(robot).items() if key != "torque_units"},
        "verdict": verdict(designed),
        "zones": [
            picked(zone, "name keep") | picked(zone.shape, "kind T=T_base_shape size") | {"bodies": zone.bodies}
            for zone in (scene.zones if scene is not None else ())
        ],
        "base_capsules": html.base_capsules(robot),
        "hulls": html.hulls(robot),
        "runs": [
            *(_run_data(setup, run) for run in designed.searched if run.plan.same_as is None),
            *(_run_data(setup, run) for run in designed.slow),
        ],
        "forecast": _forecast_data(designed),
        **_pareto(designed),
    }


def verdict(designed: CampaignDesign) -> dict[str, Any]:
    """Return go or no-go, and the reasons."""
    go = designed.go
    assumed = [check.sentence for check in designed.checks if check.name == "assumed volumes" and check.holds]
    reasons = [check.sentence for check in designed.checks] if go else list(designed.reasons)
    reasons = [reason for reason in reasons if reason not in assumed]
    limits = [f"Not checked, or not as stated: {note}" for note in designed.notes]
    return {
        "go": go,
        "reasons": reasons,
        "remarks": list(designed.setup.remarks),
        "assumed": assumed,
        "unwatched": limits,
    }


def _run_data(setup: Setup, run: DesignedRun) -> dict[str, Any]:
    """Describe a run, of a slow one its first minutes."""
    motion, searched = run.run, isinstance(run, SearchedRun)
    shown = motion.duration if searched else min(motion.duration, _LONGEST_SHOWN)
    time, frame_time = np.linspace(0.0, shown, CHART_SAMPLES), np.linspace(0.0, shown, FRAMES)
    short = "" if shown == motion.duration else f" Shown are the first {shown / 60:.0f} minutes."
    robot = run.robot if isinstance(run, SearchedRun) else setup.robot
    data = {
        "name": run.plan.name,
        "kind": "validation" if searched and run.plan.role != "identify" else run.plan.kind,
        "note": run.plan.note + short,
        "duration_s": motion.duration,
        "phases": phases_data(motion) if searched else [],
        "frames": html.frames(robot, frame_time, motion.at(frame_time)),
        **_charts(setup, robot, time, motion.motion(time)),
        **_proven(robot, run.certificate),
    }
    return data | (_searched(run, time) if isinstance(run, SearchedRun) else {})


def _searched(run: SearchedRun, time: FloatArray) -> dict[str, Any]:
    """Describe what a search found: its progress, its columns, its way from home, its torques."""
    keys = "value condition duration_s=duration torque_share=torque clearance_m=clearance"
    data = picked(run, "condition condition_weighted") | {
        "family": [
            {key: finite(x) for key, x in picked(one, keys).items()} | {"chosen": k == run.picked}
            for k, one in enumerate(run.family)
        ],
        "history": _history(run),
        "spectrum": [float(x) for x in run.spectrum],
        "correlation": html.correlation_map(run.columns, run.correlation),
    }
    if run.torques is not None:
        held = np.rint(time / run.run.sample_time).astype(int)
        data["tau"] = held_torques([run.torques])[0][:, held].tolist()
        data["note"] = " ".join((run.plan.note, *run.certificate.notes))
    way = run.certificate.way
    if way is not None and way.duration > 0.0:
        t = np.linspace(0.0, way.duration, WAY_FRAMES)
        data["approach"] = html.frames(run.robot, t, way.at(t))
    return data


def _charts(setup: Setup, robot: Robot, time: FloatArray, motion: Motion) -> dict[str, Any]:
    limits = setup.constraints.limits
    return {
        "time": time.tolist(),
        **{key: getattr(motion, key).T.tolist() for key in ("q", "dq", "ddq")},
        "tau": inverse_dynamics(robot, motion).T.tolist(),
        "limits": {
            "q": [pair.tolist() if np.isfinite(pair).all() else None for pair in limits.position],
            **picked(limits, "dq=velocity ddq=acceleration tau=torque"),
        },
    }


def _proven(robot: Robot, certificate: Certificate) -> dict[str, Any]:
    return {
        "capsules": html.moving_capsules(robot),
        "certificate": [margin_data(item) for item in certificate.items],
        **picked(certificate, "notes ready"),
    }


def _history(run: SearchedRun) -> list[dict[str, Any]]:
    return [
        {"evaluations": row[0], "best": finite(row[1]), "feasible_share": float(row[2]), "stage": STAGES[int(row[3])]}
        for row in run.found.history
    ]


def _forecast_data(designed: CampaignDesign) -> dict[str, Any]:
    foreseen = designed.forecast
    return {
        "noise": foreseen.noise,
        "parameters": [
            {
                **picked(p, "name unit"),
                "prior": finite(p.value) if p.stated else None,
                **picked(p, "sigma sigma_inflated relative relative_inflated periods_needed=periods"),
                "label": "essential" if p.essential else "below the noise",
            }
            for p in foreseen.parameters
        ],
        "torque_error": [
            picked(t, "joint sigma=error_inflated")
            | {"relative": finite(t.error_inflated / t.rms if t.rms > 0.0 else None)}
            for t in foreseen.torques
        ],
        "sentences": [*(check.sentence for check in designed.checks), *(a.sentence for a in foreseen.advice)],
        "unidentifiable": list(foreseen.unidentifiable),
    }


def _pareto(designed: CampaignDesign) -> dict[str, Any]:
    """List the front that the first run was picked from."""
    front = designed.searched[0].front if designed.searched else None
    if front is None:
        return {}
    names = {"duration": "duration_s", "torque": "peak_torque_share", "tool speed": "tool_speed_m_s"}
    points = [
        {names.get(key, key): float(value) for key, value in zip(front.objectives, point, strict=True)}
        | {"chosen": k == front.chosen}
        for k, point in enumerate(front.points)
    ]
    return {"pareto": points}
