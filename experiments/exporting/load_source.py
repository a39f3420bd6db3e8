"""Where do a load's data come from? An identified payload, a link of the identified model, or what was stated."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from excitor.experiments.campaign import OpenCampaign
from excitor.experiments.exporting.load import Load, Origin, check_covariance, check_known, load_of
from excitor.experiments.exporting.model_read import ReadModel, read_model
from excitor.experiments.model_json import FILE
from excitor.robots.arrays import FloatArray
from excitor.robots.errors import ExcitorError
from excitor.robots.inertia import from_center_of_mass, inverse
from excitor.robots.parameters import layout
from excitor.robots.robot import Frame, Robot

LINK = "link"
_FLANGES = ("flange", "tool0")
Found = tuple[FloatArray, FloatArray | None, Origin]


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which load is asked for."""

    from_link: str | None = None  # what moves with this link, else the payload
    flange: str | None = None  # name of the frame that is the flange
    point: bool = False  # without inertia


def find_load(campaign: OpenCampaign, wanted: Wanted) -> Load:
    """Take the link that is asked for, else the identified payload, else the stated one; check that it is known."""
    robot = campaign.robot
    place = flange_of(robot, wanted.flange)
    if wanted.from_link is not None:
        phi, covariance, origin = _of_link(read_model(campaign.folder, robot), wanted.from_link, place)
    elif (model := _model(campaign)) is not None and model.data.get("payload"):
        phi, covariance, origin = _identified(model, place)
    elif campaign.content.payload is not None and campaign.content.task == "arm":
        phi, covariance, origin = _stated(campaign, place)
    elif robot.payload is not None:
        T = _to(place, robot.payload.link)
        phi, covariance = robot.payload.phi, None
        origin = Origin("payload", f"stated in the file of {robot.name}", place.name, T)
    else:
        raise ExcitorError(
            f"{campaign.folder}: knows of no load: {FILE} holds no identified payload and campaign.toml states none "
            "in [payload]; or name a link of the model with --from-link"
        )
    load = load_of(phi, covariance, replace(origin, point=wanted.point))
    check_known(load)
    return load


def _model(campaign: OpenCampaign) -> ReadModel | None:
    return read_model(campaign.folder, campaign.robot, arm=False) if (campaign.folder / FILE).exists() else None


def flange_of(robot: Robot, name: str | None) -> Frame:
    """Find the flange: the frame of that name, else one called flange or tool0, else the tool's."""
    frames = {frame.name: frame for frame in (*robot.frames, robot.tool)}
    if name is not None and name not in frames:
        raise ExcitorError(f"--flange: no frame of {robot.name} is named {name!r}; it has {', '.join(frames)}")
    chosen = [frames[known] for known in (name, *_FLANGES) if known in frames]
    return chosen[0] if chosen else robot.tool


def _to(place: Frame, link: int, T_link_frame: FloatArray | None = None) -> FloatArray:
    """Find T_flange_frame of a frame that rides on a link."""
    if place.link != link:
        raise ExcitorError(f"the frame {place.name} does not ride on the link that carries the load; name the flange")
    own = np.eye(4) if T_link_frame is None else T_link_frame
    return np.asarray(inverse(place.T_link_frame) @ own)


def _stated(campaign: OpenCampaign, place: Frame) -> Found:
    robot, body = campaign.robot, campaign.content.payload
    assert body is not None
    xx, xy, xz, yy, yz, zz = body.inertia
    tensor = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
    phi = from_center_of_mass(body.mass, np.array(body.center), tensor)
    T = _to(place, robot.tool.link, robot.tool.T_link_frame)
    return phi, None, Origin("payload", "stated in campaign.toml", place.name, T)


def _of_link(model: ReadModel, name: str, place: Frame) -> Found:
    """Take what moves with a link as one body: the link, its tool and its payload."""
    robot = model.robot
    names = robot.mechanism.link_names
    if name not in names:
        raise ExcitorError(f"--from-link: no link is named {name!r}; expected one of {', '.join(names)}")
    j = names.index(name)
    columns = layout(robot).link(j)
    guessed = model.labels[columns].count("prior")
    source = f"all that moves with link {name}, from model.json" + (
        f"; {guessed} of its 10 parameters are the prior's, not the data's" if guessed else ""
    )
    covariance = model.data["standard"].get("link_covariances", {}).get(name)
    read = None if covariance is None else _square(covariance, f"{model.path}: standard.link_covariances.{name}")
    return model.consistent()[columns], read, Origin(name, source, place.name, _to(place, j))


def _identified(model: ReadModel, place: Frame) -> Found:
    """Read the block payload: link, frame, phi (10), covariance (10 x 10); frame is "link", or a frame on that link."""
    robot, path, block = model.robot, model.path, model.data["payload"]
    if not isinstance(block, dict):
        raise ExcitorError(f"{path}: payload is {str(block)[:80]!r}, expected link, frame, phi and covariance")
    missing = [key for key in ("link", "frame", "phi", "covariance") if key not in block]
    if missing:
        raise ExcitorError(f"{path}: payload lacks {', '.join(missing)}; identify again")
    if block["link"] not in robot.mechanism.link_names:
        raise ExcitorError(f"{path}: payload.link is {str(block['link'])[:80]!r}, which is no link of {robot.name}")
    link = robot.mechanism.link_names.index(block["link"])
    phi = _numbers(block["phi"], (10,), f"{path}: payload.phi")
    covariance = _square(block["covariance"], f"{path}: payload.covariance")
    T = _to(place, link, _own(robot, link, block, path))
    return phi, covariance, Origin("payload", "identified, from model.json", place.name, T)


def _own(robot: Robot, link: int, block: dict[str, Any], path: Path) -> FloatArray:
    if block["frame"] == LINK:
        return np.eye(4)
    for frame in (robot.tool, *robot.frames):
        if frame.name == block["frame"] and frame.link == link:
            return frame.T_link_frame
    raise ExcitorError(
        f"{path}: payload.frame is {str(block['frame'])[:80]!r}, expected {LINK!r} or a frame that rides on "
        f"{block['link']}"
    )


def _square(value: Any, where: str) -> FloatArray:
    covariance = _numbers(value, (10, 10), where)
    check_covariance(covariance, where)
    return covariance


def _numbers(value: Any, shape: tuple[int, ...], where: str) -> FloatArray:
    try:
        array = np.array(value, dtype=float)
    except (TypeError, ValueError, OverflowError):
        array = np.empty(0)
    if array.shape != shape or not np.isfinite(array).all():
        raise ExcitorError(f"{where}: expected {' x '.join(map(str, shape))} numbers")
    return array
