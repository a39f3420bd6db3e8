"""From what a robot file says to a robot: expand defaults, look names up, convert units to SI."""

import math
import re
from collections.abc import Sequence

import numpy as np

from excitor.robots.arrays import BoolArray, FloatArray
from excitor.robots.files import schema
from excitor.robots.files.closing import is_closed, read_closed, refuse_loop_keys
from excitor.robots.files.drives import build_drive, square_matrix
from excitor.robots.files.expressions import combination
from excitor.robots.files.skeleton import Link, Reading, Skeleton, build_skeleton, build_tree, position_in_si
from excitor.robots.geometry import inverse, roll_pitch_yaw, translation
from excitor.robots.inertia import change_frame, frame_change_matrix, from_center_of_mass
from excitor.robots.mechanism import Mechanism
from excitor.robots.parameters import Layout, layout_of
from excitor.robots.robot import Capsule, CheckPose, ControllerAxes, DeclaredBase, Frame, Limits, Payload, Robot


def assemble(reading: Reading) -> Robot | None:
    """Build the robot, or note every reason why there is none."""
    description = reading.description
    body = build_mechanism(reading)
    if body is None or reading.problems:
        return None
    mechanism, skeleton = body
    drive = build_drive(mechanism, reading)
    if reading.problems:
        return None
    params = layout_of(mechanism.n_links, mechanism.prismatic, drive)
    check_length_names(params, reading)
    chi, known = prior_parameters(skeleton, params, reading)
    tool = build_frame("tool", description.tool, skeleton, "tool", reading)
    robot = Robot(
        name=description.name,
        title=description.title,
        mechanism=mechanism,
        drive=drive,
        limits=build_limits(skeleton, reading),
        tool=tool,
        payload=build_payload(tool, reading),
        chi=chi,
        known=known,
        assumed_zero=zeros_by_symmetry(params, reading),
        frames=build_frames(skeleton, reading),
        capsules=build_capsules(skeleton, reading),
        controllers=build_controllers(mechanism, reading),
        declared_base=build_declared_base(skeleton, params, reading),
        lengths=dict(description.lengths),
        locked=locked_joints(skeleton),
    )
    return None if reading.problems else robot


def build_mechanism(reading: Reading) -> tuple[Mechanism, Skeleton] | None:
    """Build the open or closed chain, and the skeleton that numbers its bodies."""
    if is_closed(reading.description):
        return read_closed(reading)
    refuse_loop_keys(reading)
    skeleton = build_skeleton(reading)
    return None if reading.problems else (build_tree(skeleton, reading), skeleton)


def check_length_names(params: Layout, reading: Reading) -> None:
    """Refuse lengths that printed equations could not tell from a coordinate, gravity or a parameter."""
    for name in reading.description.lengths:
        if not re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII):
            reading.note(f"lengths.{name[:40]}", "is not a name; use letters, digits and _, as in d3")
        elif re.fullmatch(r"g|d{0,2}q\d*|pi", name) or name in params.names:
            reading.note(f"lengths.{name}", "is taken, by gravity, a coordinate or a parameter; choose another name")


def body_parameters(body: schema.Body, path: str, reading: Reading) -> FloatArray:
    """Build phi of a body in its own frame."""
    xx, xy, xz, yy, yz, zz = body.inertia or [0.0] * 6
    inertia = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
    return from_center_of_mass(body.mass, reading.vector(body.center, f"{path}.center"), inertia)


def prior_parameters(skeleton: Skeleton, params: Layout, reading: Reading) -> tuple[FloatArray, BoolArray]:
    """Collect what is known about the parameters: bodies of links, then single parameters by name."""
    chi = np.zeros(len(params))
    known = np.zeros(len(params), dtype=bool)
    for path, body, link, T_link_body in skeleton.bodies:
        if link >= 0:
            chi[params.link(link)] += change_frame(body_parameters(body, path, reading), T_link_body)
            known[params.link(link)] = True
    for _, body, link, _ in skeleton.bodies:
        if link >= 0 and body.inertia is None and body.mass != 0.0:
            known[10 * link : 10 * link + 6] = False  # mass and centre alone do not make an inertia
    for name, value in reading.description.parameters.items():
        for index in parameter_indices([name], params, "parameters", reading):
            if known[index]:
                reading.note(f"parameters.{name}", "is given by its link's body already; keep one")
            chi[index] = value
            known[index] = True
    return chi, known


def zeros_by_symmetry(params: Layout, reading: Reading) -> BoolArray:
    """Mark the parameters assumed zero."""
    mask = np.zeros(len(params), dtype=bool)
    mask[parameter_indices(reading.description.assumed_zero, params, "assumed_zero", reading)] = True
    return mask


def parameter_indices(names: Sequence[str], params: Layout, path: str, reading: Reading) -> list[int]:
    """Look parameters up by name."""
    found = []
    for name in names:
        try:
            found.append(params.index(name))
        except ValueError as error:
            reading.note(path, str(error))
    return found


def build_limits(skeleton: Skeleton, reading: Reading) -> Limits:
    """Convert limits to SI; what is not stated is unlimited."""
    links = [skeleton.links[k] for k in skeleton.coordinates]
    position = np.array([in_si(link, "position", "", reading) or (-math.inf, math.inf) for link in links])
    for link, (low, high) in zip(links, position, strict=True):
        if low >= high:
            reading.note(f"{link.path}.limits.position", f"goes from {low:g} to {high:g}; the lower bound comes first")
    velocity, acceleration, jerk = (
        np.array([(in_si(link, quantity, suffix, reading) or (math.inf,))[0] for link in links])
        for quantity, suffix in (("velocity", "_s"), ("acceleration", "_s2"), ("jerk", "_s3"))
    )
    torque = [math.inf if link.joint.limits.torque is None else link.joint.limits.torque for link in links]
    return Limits(position, velocity, acceleration, jerk, np.array(torque))


def in_si(link: Link, quantity: str, suffix: str, reading: Reading) -> tuple[float, ...] | None:
    """Read a limit in whichever unit it is given; None where it is not."""
    limits = link.joint.limits
    units = {f"{quantity}_{unit}{suffix}": factor for unit, factor in (("deg", math.pi / 180), ("rad", 1), ("m", 1))}
    given = [key for key in units if getattr(limits, key) is not None]
    if len(given) > 1:
        reading.note(f"{link.path}.limits", f"gives {' and '.join(given)}; keep one")
    for key in given:
        if key.startswith(f"{quantity}_m") != link.slides:
            kind, right = ("slides", "m") if link.slides else ("turns", "deg or rad")
            reading.note(f"{link.path}.limits.{key}", f"the joint {kind}; give it in {right}")
        value = getattr(limits, key)
        return tuple(units[key] * x for x in (value if isinstance(value, list) else [value]))
    return None


def locked_joints(skeleton: Skeleton) -> dict[int, float]:
    """Find the joints held at a position, by coordinate."""
    held = {}
    for i, k in enumerate(skeleton.coordinates):
        position = position_in_si(skeleton.links[k].joint, "locked")
        if position is not None:
            held[i] = position
    return held


def build_frame(
    name: str, entry: schema.Tool | schema.NamedFrame, skeleton: Skeleton, path: str, reading: Reading
) -> Frame:
    """Place a frame on its link, the last one unless it names another."""
    platform = reading.description.platform
    last = platform.name if platform is not None else skeleton.links[-1].joint.name
    link, T_link = skeleton.frame(entry.link or last, reading, f"{path}.link")
    shift = translation(*reading.vector(entry.xyz, f"{path}.xyz"))
    turn = roll_pitch_yaw(*np.radians(reading.vector(entry.rpy_deg, f"{path}.rpy_deg")))
    return Frame(name, link, T_link @ shift @ turn)


def build_frames(skeleton: Skeleton, reading: Reading) -> tuple[Frame, ...]:
    """Collect named frames: those of fixed joints, and those given."""
    platform = reading.description.platform
    moving = {"base", *(link.joint.name for link in skeleton.links), *([] if platform is None else [platform.name])}
    fixed = [Frame(name, *place) for name, place in skeleton.frames.items() if name not in moving]
    names = [*skeleton.frames, *(entry.name for entry in reading.description.frame)]
    for k, entry in enumerate(reading.description.frame):
        if names.count(entry.name) > 1:
            reading.note(f"frame[{k + 1}].name", f"{entry.name!r} names another frame or joint already; choose another")
    given = [
        build_frame(entry.name, entry, skeleton, f"frame[{k + 1}]", reading)
        for k, entry in enumerate(reading.description.frame)
    ]
    return (*fixed, *given)


def build_payload(tool: Frame, reading: Reading) -> Payload | None:
    """Move the payload from the tool's frame to its link's."""
    payload = reading.description.payload
    if payload is None:
        return None
    if tool.link < 0:
        reading.note(
            "payload", "the tool rides on the base, so no joint carries the payload; let tool.link name a link"
        )
    return Payload(tool.link, change_frame(body_parameters(payload, "payload", reading), tool.T_link_frame))


def build_capsules(skeleton: Skeleton, reading: Reading) -> tuple[Capsule, ...]:
    """Place capsules on their links."""
    capsules = []
    for k, entry in enumerate(reading.description.capsule):
        path = f"capsule[{k + 1}]"
        link, T = skeleton.frame(entry.link, reading, f"{path}.link")
        start, end = (reading.vector(point, path) @ T[:3, :3].T + T[:3, 3] for point in (entry.start, entry.end))
        capsules.append(Capsule(link, start, end, entry.radius))
    return tuple(capsules)


def build_controllers(mechanism: Mechanism, reading: Reading) -> dict[str, ControllerAxes]:
    """Read how controllers count the joints; degrees and millimetres become SI."""
    unit = np.where(mechanism.prismatic, 1e-3, math.pi / 180.0)
    n = mechanism.n_joints
    controllers = {}
    for name, entry in reading.description.controllers.items():
        path = f"controllers.{name}"
        counts = {"axes": len(entry.axes), "signs": len(entry.signs or [0] * n), "zero": len(entry.zero or [0] * n)}
        counts |= {f"pose[{k + 1}].shows": len(pose.shows) for k, pose in enumerate(entry.pose)}
        for key, count in counts.items():
            if count != n:
                reading.note(f"{path}.{key}", f"has {count} entries, expected one for each of the {n} joints")
        if entry.signs is not None and entry.matrix is not None:
            reading.note(path, "gives both signs and matrix; keep one")
        if reading.problems:
            continue
        matrix = np.diag(entry.signs) if entry.signs else square_matrix(entry.matrix, n, f"{path}.matrix", reading)
        zero = unit * np.array(entry.zero or [0.0] * n)
        poses = tuple(CheckPose(unit * np.array(pose.shows), np.array(pose.tool)) for pose in entry.pose)
        controllers[name] = ControllerAxes(name, tuple(entry.axes), matrix, zero, poses)
    return controllers


def build_declared_base(skeleton: Skeleton, params: Layout, reading: Reading) -> DeclaredBase | None:
    """Read a paper's base parameters, and turn them into the frames of our links."""
    declared = reading.description.declared_base
    if declared is None:
        return None
    rows = np.zeros((len(declared.parameters), len(params)))
    names = frozenset(params.names)
    for k, (name, text) in enumerate(declared.parameters.items()):
        try:
            for parameter, factor in combination(text, names, reading.description.lengths).items():
                rows[k, params.index(parameter)] = factor
        except ValueError as error:
            reading.note(f"declared_base.parameters.{name}", str(error))
    for link_name, entry in declared.frames.items():
        path = f"declared_base.frames.{link_name}"
        frame = build_frame(link_name, entry.model_copy(update={"link": link_name}), skeleton, path, reading)
        if frame.link >= 0:
            columns = params.link(frame.link)
            rows[:, columns] = rows[:, columns] @ frame_change_matrix(inverse(frame.T_link_frame))
    return DeclaredBase(tuple(declared.parameters), rows, declared.source)
