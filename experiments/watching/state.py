"""How does a watch go on after a restart? All it has learned lies in watch.json, written whole or not at all."""

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from excitor.experiments.files import read_json, write_atomically
from excitor.experiments.watching.cutting import Cutter
from excitor.experiments.watching.follow import Place
from excitor.experiments.watching.session import Basis, Session, begin_session
from excitor.experiments.watching.show import alarm_sentence
from excitor.identify.change import Detector, begin
from excitor.identify.recursive import Recursive
from excitor.robots.arrays import FloatArray, locked
from excitor.robots.errors import ExcitorError

FILE = "watch.json"
SCHEMA = 1
_ARRAYS = ("first", "level", "trend", "spread", "reference", "wander", "sums", "last", "alike")


def write_state(session: Session, source: Mapping[str, Any]) -> None:
    """Write what was learned, and how far the source was read."""
    estimate = session.estimate
    data = {
        "schema": SCHEMA,
        "robot": session.basis.campaign.robot.name,
        "model_sha256": session.basis.model_digest,
        "cycles": session.cycles,
        "left_out": session.left_out,
        "alarms": session.alarms,
        "ended": session.ended,
        "estimate": {
            "values": estimate.values.tolist(),
            "V": estimate.V.tolist(),
            "d": estimate.d.tolist(),
            "variance": estimate.variance.tolist(),
            "squares": estimate.squares.tolist(),
            "updates": estimate.n_updates,
        },
        "detectors": {name: _detector_data(detector) for name, detector in session.detectors.items()},
        "source": dict(source),
    }
    write_atomically(session.basis.campaign.folder / FILE, json.dumps(data, allow_nan=False) + "\n")


def read_state(basis: Basis) -> tuple[Session, dict[str, Any], str]:
    """Read what was learned: session, source, and a note where nothing can be gone on with."""
    path = basis.campaign.folder / FILE
    fresh = begin_session(basis)
    if not path.exists():
        return fresh, {}, ""
    data = read_json(path, SCHEMA, made_by=f"excitor watch {basis.campaign.folder}")
    if data.get("model_sha256") != basis.model_digest or data.get("robot") != basis.campaign.robot.name:
        return fresh, {}, "model.json has changed since the last watch: everything is learned anew"
    try:
        session = Session(
            basis,
            _estimate(data["estimate"], fresh.estimate),
            {str(name): _detector(entry, basis) for name, entry in data["detectors"].items()},
            int(data["cycles"]),
            int(data["left_out"]),
            [_alarm(alarm) for alarm in data["alarms"]],
            {str(name): float(t) for name, t in data["ended"].items()},
        )
        return session, dict(data["source"]), ""
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ExcitorError(f"{path}: is damaged ({str(error)[:200]}); delete it to learn anew") from None


def place_data(place: Place) -> dict[str, Any]:
    """Write how far a growing log was read."""
    return {"offset": place.offset, "row": place.row, "head": place.head, "head_bytes": place.head_bytes}


def place_of(data: Mapping[str, Any]) -> Place:
    """Read how far a growing log was read."""
    place = Place(int(data["offset"]), int(data["row"]), str(data["head"]), int(data["head_bytes"]))
    if min(place.offset, place.row, place.head_bytes) < 0:
        raise ValueError("a place is negative")
    return place


def cutter_data(cutter: Cutter) -> dict[str, Any]:
    """Write how cycles are cut; samples that wait are read again."""
    return {
        "period": cutter.period,
        "rate": cutter.rate,
        "begins": cutter.begins,
        "lost": cutter.lost,
        "sure": cutter.sure,
        "left_out": cutter.left_out,
        "template": None if cutter.template is None else np.round(cutter.template, 9).tolist(),
    }


def restore_cutter(cutter: Cutter, data: Mapping[str, Any]) -> None:
    """Take up how cycles were cut, if they still are to be cut so."""
    if data["period"] != cutter.period:
        return
    cutter.rate = float(data["rate"])
    cutter.begins = None if data["begins"] is None else float(data["begins"])
    cutter.left_out = int(data["left_out"])
    cutter.lost = bool(data["lost"]) and data["template"] is not None
    cutter.sure = bool(data.get("sure", True))
    if data["template"] is not None:
        cutter.template = _array(data["template"], None)


def _detector_data(detector: Detector) -> dict[str, Any]:
    return {
        "seen": detector.seen,
        "since": detector.since,
        "worth": detector.worth,
        "suspected": detector.suspected.tolist(),
        "stepped": detector.stepped,
        "warming": detector.warming,
        **{name: getattr(detector, name).tolist() for name in _ARRAYS},
    }


def _detector(data: Mapping[str, Any], basis: Basis) -> Detector:
    new = begin(basis.what.groups)
    n = len(new.level)
    arrays = {name: _array(data[name], getattr(new, name).shape) for name in _ARRAYS if name != "first"}
    first = np.array(data["first"], dtype=float).reshape(-1, n)
    suspected = np.array(data["suspected"], dtype=bool)
    if suspected.shape != (len(new.groups),):
        raise ValueError("a detector is of another robot")
    return Detector(
        groups=new.groups,
        seen=int(data["seen"]),
        since=max(1, int(data["since"])),
        worth=float(data["worth"]),
        suspected=suspected,
        stepped=bool(data["stepped"]),
        warming=int(data["warming"]),
        first=first,
        **arrays,
    )


def _alarm(data: Mapping[str, Any]) -> dict[str, Any]:
    alarm = dict(data)
    alarm_sentence(alarm)  # what cannot be told is damaged
    return alarm


def _estimate(data: Mapping[str, Any], fresh: Recursive) -> Recursive:
    n = len(fresh.names)
    d, variance = _array(data["d"], (n,)), _array(data["variance"], (n,))
    if not ((d > 0.0).all() and (variance > 0.0).all()):
        raise ValueError("its covariance is not positive")
    return Recursive(
        fresh.names,
        locked(_array(data["values"], (n,))),
        locked(_array(data["V"], (n, n))),
        locked(d),
        locked(variance),
        locked(_array(data["squares"], (2,))),
        int(data["updates"]),
    )


def _array(values: Any, shape: tuple[int, ...] | None) -> FloatArray:
    array = np.array(values, dtype=float)
    if (shape is not None and array.shape != shape) or not np.isfinite(array).all():
        raise ValueError(f"an array has shape {array.shape}, expected {shape} finite numbers")
    return array
