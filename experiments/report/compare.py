"""Do two campaigns of one robot tell the same? Parameters in standard deviations, what that means, errors."""

import math
from collections.abc import Mapping
from typing import Any

from excitor.experiments.report.agreement import agreement, sentences_of
from excitor.experiments.report.read import Report, ReportedErrors, ReportedParameter, checked
from excitor.robots.errors import ExcitorError

SCHEMA = 1
KIND = "excitor comparison"


def compare(data_a: Mapping[str, Any], data_b: Mapping[str, Any]) -> dict[str, Any]:
    """Compare two reports, the contents of their report.json; ExcitorError where they are not of one robot."""
    a, b = checked(data_a, "the first report"), checked(data_b, "the second report")
    check_same_robot(a, b)
    in_a, in_b = ({p.name: p for p in report.parameters if p.kept} for report in (a, b))
    both = [name for name in in_a if name in in_b]
    other = [
        name for name in both if in_a[name].regrouping != in_b[name].regrouping or in_a[name].unit != in_b[name].unit
    ]
    rows = [difference(in_a[name], in_b[name]) for name in both if name not in other]
    result: dict[str, Any] = {
        "schema": SCHEMA,
        "kind": KIND,
        "robot": {"name": a.robot.name, "title": a.robot.title, "joints": list(a.robot.joints)},
        "names": [a.name, b.name],
        "simulated": [bool(report.simulated) for report in (a, b)],
        "parameters": rows,
        "only_in_first": [name for name in in_a if name not in in_b],
        "only_in_second": [name for name in in_b if name not in in_a],
        "different_meaning": other,
        "friction": [row for row in rows if row["part"] == "friction"],
        "errors": errors_beside(a, b),
    }
    result["equal"] = not (result["only_in_first"] or result["only_in_second"] or other) and all(
        row["difference"] == 0.0 for row in rows
    )
    result["verdict"] = agreement(result)
    return result | {"sentences": sentences_of(result)}


def check_same_robot(a: Report, b: Report) -> None:
    """Refuse reports of different robots."""
    if a.robot.name != b.robot.name:
        raise ExcitorError(
            f"the reports are of different robots, {a.robot.name!r} and {b.robot.name!r}; compare reports of one robot"
        )
    if a.robot.joints != b.robot.joints:
        raise ExcitorError(
            f"the reports call themselves of {a.robot.name!r}, but its joints are {', '.join(a.robot.joints)} in one "
            f"and {', '.join(b.robot.joints)} in the other; compare reports of one robot"
        )


def difference(a: ReportedParameter, b: ReportedParameter) -> dict[str, Any]:
    """Compare a parameter: b - a in standard deviations of the difference, and whether intervals explain it."""
    value_a, value_b = a.value or 0.0, b.value or 0.0
    change = value_b - value_a
    sigma = math.hypot(a.sigma or 0.0, b.sigma or 0.0)
    reach = math.hypot(*(0.5 * ((p.high or 0.0) - (p.low or 0.0)) for p in (a, b)))
    return {
        "name": a.name,
        "part": a.part,
        "regrouping": a.regrouping,
        "unit": a.unit,
        "first": value_a,
        "second": value_b,
        "sigma_first": a.sigma,
        "sigma_second": b.sigma,
        "difference": change,
        "relative": change / abs(value_a) if value_a else None,
        "sigmas": 0.0 if change == 0.0 else change / sigma if sigma > 0.0 else None,
        "changed": abs(change) > reach,
        "effect": abs(change / value_a) * a.contribution if value_a and a.contribution is not None else None,
    }


def errors_beside(a: Report, b: Report) -> list[dict[str, Any]]:
    """Put errors of the same kind beside each other; runs differ, and so do the torques that errors are shares of."""
    rows = []
    for training in (False, True):
        found = [next((e for e in report.errors if e.training is training), None) for report in (a, b)]
        if any(found):
            label = "training error" if training else "held-out error"
            rows.append({"label": label, "first": _by_joint(found[0]), "second": _by_joint(found[1])})
    return rows


def _by_joint(errors: ReportedErrors | None) -> dict[str, Any] | None:
    if errors is None:
        return None
    by_joint = dict(zip(errors.joints, errors.model.relative, strict=True))
    return {"total": errors.model.total, "joints": by_joint}
