"""How a planned campaign becomes one self-contained page: motion, limits, search, certificate, forecast.

The page holds text of strangers (names, the campaign file). Jinja2 escapes what becomes HTML, `embed` what becomes
data, the script writes text nodes only, and a content security policy admits no script but ours.
"""

from collections.abc import Mapping
from typing import Any

from excitor.experiments.page.assemble import joined_script, script_hash, text
from excitor.experiments.page.embed import embed
from excitor.experiments.page.words import entries, percent, seen, show, table
from excitor.experiments.plan_page.embed import motion_data
from excitor.experiments.plan_page.tables import certificate_rows, forecast_rows, periods, tier_counts, tightest

PACKAGE = "excitor.experiments.plan_page"
SHARED_SCRIPTS = (
    "camera.js",
    "raster.js",
    "zones.js",
    "scene.js",
    "svg.js",
    "orbit.js",
    "tables.js",
    "matrix_charts.js",
)
SCRIPTS = ("motion_charts.js", "search_charts.js", "page.js")
UNTITLED = "unnamed"


def plan_page(plan: Mapping[str, Any]) -> str:
    """Write a plan, given as plain data, as one HTML page; parts that are missing are left out."""
    from jinja2 import Environment, StrictUndefined

    script = joined_script(SHARED_SCRIPTS, SCRIPTS, PACKAGE)
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, finalize=_finished
    )
    environment.filters.update(show=show, percent=percent, periods=periods)
    return environment.from_string(text("page.html", PACKAGE)).render(
        **_head(plan),
        runs=[_run(run, number) for number, run in enumerate(entries(plan, "runs"))],
        forecast=_forecast(plan),
        has_pareto=bool(entries(plan, "pareto")),
        zones=_zones(plan),
        campaign_text=_string(plan.get("campaign_text")),
        style=text("page.css"),
        script=script,
        script_hash=script_hash(script),
        data=embed(_data(plan)),
    )


def _finished(value: Any) -> Any:
    """Let no text hide or turn what stands beside it; what is markup already stays as it is."""
    return seen(value) if type(value) is str else value


def _head(plan: Mapping[str, Any]) -> dict[str, Any]:
    robot, verdict = table(plan, "robot"), table(plan, "verdict")
    names = {_string(joint) for joint in entries(robot, "joints")}
    return {
        "name": _string(plan.get("name")) or UNTITLED,
        "version": _string(plan.get("version")),
        "robot": _string(robot.get("title")) or _string(robot.get("name")) or UNTITLED,
        "n_joints": len(entries(robot, "joints")),
        "go": verdict.get("go"),
        "reasons": [_sentence(_string(reason), names) for reason in entries(verdict, "reasons")],
    }


def _run(run: Mapping[str, Any], number: int) -> dict[str, Any]:
    """Collect what the page says of a run in words and tables; its curves are data for the script."""
    rows = certificate_rows(entries(run, "certificate"))
    return {
        "number": number,
        "name": _string(run.get("name")) or f"run {number + 1}",
        "kind": _string(run.get("kind")),
        "note": _string(run.get("note")),
        "duration": run.get("duration_s"),
        "condition": run.get("condition"),
        "condition_weighted": run.get("condition_weighted"),
        "ready": run.get("ready"),
        "certificate": rows,
        "tightest": tightest(rows),
        "has_motion": bool(entries(run, "time")),
        "has_history": bool(entries(run, "history")),
        "has_spectrum": bool(entries(run, "spectrum")),
        "has_correlation": bool(entries(table(run, "correlation"), "names")),
    }


def _forecast(plan: Mapping[str, Any]) -> dict[str, Any] | None:
    forecast = table(plan, "forecast")
    if not forecast:
        return None
    rows = forecast_rows(entries(forecast, "parameters"))
    robot = table(plan, "robot")
    verdict = {_string(reason) for reason in entries(table(plan, "verdict"), "reasons")}  # which says them already
    units = {
        _string(joint): "N" if unit == "m" else "N m"
        for joint, unit in zip(entries(robot, "joints"), entries(robot, "units"), strict=False)
    }
    return {
        "noise": _string(forecast.get("noise")),
        "rows": rows,
        "tiers": tier_counts(rows),
        "torque_error": [
            {key: row.get(key) for key in ("joint", "sigma", "relative")}
            | {"unit": units.get(_string(row.get("joint")), "N m or N")}
            for row in entries(forecast, "torque_error")
        ],
        "sentences": [said for said in map(_string, entries(forecast, "sentences")) if said not in verdict],
        "unidentifiable": [_string(name) for name in entries(forecast, "unidentifiable")],
    }


def _zones(plan: Mapping[str, Any]) -> list[dict[str, str]]:
    return [
        {key: _string(zone.get(key)) for key in ("name", "keep", "kind", "bodies")} for zone in entries(plan, "zones")
    ]


def _data(plan: Mapping[str, Any]) -> dict[str, Any]:
    """Choose what the script draws."""
    robot = table(plan, "robot")
    return {
        "joints": [_string(name) for name in entries(robot, "joints")],
        "units": [_string(unit) for unit in entries(robot, "units")],
        "zones": entries(plan, "zones"),
        "base_capsules": entries(plan, "base_capsules"),
        "runs": [motion_data(run) for run in entries(plan, "runs")],
        "pareto": entries(plan, "pareto"),
    }


def _sentence(text: str, names: set[str]) -> str:
    """Begin with a capital letter, but for what begins with a joint's name."""
    return text if text.partition(" ")[0].strip(",:;") in names else text[:1].upper() + text[1:]


def _string(value: Any) -> str:
    return "" if value is None else str(value)
