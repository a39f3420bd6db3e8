"""Pages: templates with escaped text, embedded data, and numbers with units.

All pages extend `assets/base.html` and use the macros of `assets/macros.html`. Styles and scripts are part of the page,
which needs no network; its content security policy admits no other script. Data inside a page are rounded and finite,
and cannot end the element that holds them.
"""

import base64
import hashlib
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import numpy as np
from markupsafe import Markup

from excitor.robots.arrays import FloatArray, finite
from excitor.robots.dynamics import frame_pose, link_poses
from excitor.robots.robot import Capsule, Robot

if TYPE_CHECKING:
    from jinja2 import Environment

ASSETS = "excitor.experiments.report.assets"


Data = Mapping[str, Any]  # plain data, as JSON has it


def text(name: str) -> str:
    """Read a style, a script or a template."""
    return files(ASSETS).joinpath(name).read_text(encoding="utf-8")


SCRIPTS = ("charts.js", "scene.js", "page.js")  # of pages with a robot in motion


def page(
    template: str,
    context: Mapping[str, Any],
    *,
    scripts: Iterable[str] = (),
    styles: Iterable[str] = (),
    data: tuple[str, Any] = ("", None),
) -> str:
    """Write a page with its styles, the scripts that it runs, and the data that these draw, by the element's id."""
    script = "\n".join(["'use strict';", *map(text, scripts)]) if scripts else ""
    made = environment().get_template(template)
    return made.render(
        context,
        style=Markup("\n".join(map(text, ("page.css", *styles)))),
        script=Markup(script),
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        drawn_id=data[0],
        embedded=embed(data[1]),
    )


@cache
def environment() -> "Environment":
    """Make the templates' environment: all that is printed is escaped, and no filter marks text as markup."""
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    made = Environment(
        loader=FunctionLoader(text),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_printed,
    )
    del made.filters["safe"]
    made.filters.update(show=show, percent=percent, beside=beside, unit=unit_words)
    made.filters.update(tier=tier, bar=bar, numeric=_numeric)
    made.globals.update(zip=zip, NONE=NONE, CHARTS=CHARTS)
    macros = vars(made.get_template("macros.html").module)
    made.globals.update({name: macro for name, macro in macros.items() if not name.startswith("_")})
    return made


def _printed(value: Any) -> Any:
    """Write what is missing as a dash, and characters that hide or reverse text by their code points."""
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return NONE
    return seen(value) if type(value) is str else value


def _numeric(names: Iterable[Any]) -> list[tuple[str, str]]:
    """Make headings of columns of numbers."""
    return [(str(name), "n") for name in names]


def robot_data(robot: Robot) -> dict[str, Any]:
    """Describe the robot and its joints, with the units of their positions and torques."""
    sliding = [bool(x) for x in robot.mechanism.prismatic]
    return {
        "name": robot.name,
        "title": robot.title or robot.name,
        "joints": list(robot.joint_names),
        "units": ["m" if x else "rad" for x in sliding],
        "torque_units": ["A" if robot.drive.in_amperes else "N" if x else "N m" for x in sliding],
    }


STICK = 0.02  # m: radius that links are drawn with where a robot states no capsules


def base_capsules(robot: Robot) -> list[dict[str, Any]]:
    """List the capsules that stand still."""
    return [
        {"start": capsule.start.tolist(), "end": capsule.end.tolist(), "radius": capsule.radius}
        | _origin(capsule)
        | (hull(capsule) or {})
        for capsule in robot.capsules
        if capsule.link < 0
    ]


def moving_capsules(robot: Robot) -> list[dict[str, Any]]:
    """List the capsules that move, or sticks where a robot states none, in the order of `frames`."""
    return [
        {"link": robot.mechanism.link_names[capsule.link], "radius": capsule.radius} | _origin(capsule)
        for capsule in robot.capsules
        if capsule.link >= 0
    ] or [{"link": name, "radius": STICK} for name in robot.mechanism.link_names]


MOST_CORNERS = 400  # of a hull that is drawn


def hulls(robot: Robot) -> list[dict[str, Any] | None]:
    """List what the moving capsules contain, in their order: hulls of parts of meshes; None where that is not known."""
    links = _drawn_links(robot)
    moving = [(capsule, hull(capsule)) for capsule in robot.capsules if capsule.link >= 0]
    return [found and found | {"pose": links.index(capsule.link)} for capsule, found in moving] if links else []


def hull(capsule: Capsule) -> dict[str, Any] | None:
    """Triangles of the convex hull of what a capsule contains, in tenths of a millimetre of its link's frame."""
    from scipy.spatial import ConvexHull, QhullError

    try:
        corners = capsule.corners
        step = 1.0 / GRID
        while len(corners) > MOST_CORNERS:
            step *= 2.0
            corners = np.unique(np.round(capsule.corners / step), axis=0) * step
        found = ConvexHull(corners)
    except (QhullError, ValueError):  # none, or flat
        return None
    used, faces = np.unique(found.simplices, return_inverse=True)
    points = np.rint(corners[used] * GRID).astype(np.int64)
    return {"points": points.ravel().tolist(), "faces": faces.ravel().tolist()}


def _drawn_links(robot: Robot) -> list[int]:
    """List the links that have hulls."""
    return sorted({capsule.link for capsule in robot.capsules if capsule.link >= 0 and len(capsule.corners)})


def _origin(capsule: Capsule) -> dict[str, bool]:
    return {"assumed": True} if capsule.origin == "assumed" else {}


def frames(robot: Robot, time: FloatArray, q: FloatArray) -> dict[str, Any]:
    """Place the robot's capsules and its tool in the base frame."""
    poses = link_poses(robot, q)
    capsules = [capsule for capsule in robot.capsules if capsule.link >= 0]
    ends: FloatArray = np.zeros((len(q), len(capsules), 6))
    for k, capsule in enumerate(capsules):
        T = poses[:, capsule.link]
        ends[:, k, :3] = T[:, :3, :3] @ capsule.start + T[:, :3, 3]
        ends[:, k, 3:] = T[:, :3, :3] @ capsule.end + T[:, :3, 3]
    if not capsules:
        ends = _skeleton(poses)
    tool = frame_pose(robot, q)[:, :3, 3]
    placed = {"time": time.tolist(), "capsules": ends.tolist(), "tool": tool.tolist()}
    links = _drawn_links(robot)
    return placed | ({"poses": poses[:, links, :3, :].reshape(len(q), -1).tolist()} if links else {})


def _skeleton(poses: FloatArray) -> FloatArray:
    """Draw lines between the frames of a robot that states no capsules."""
    origins = poses[:, :, :3, 3]
    before = np.concatenate([np.zeros((len(poses), 1, 3)), origins[:, :-1]], axis=1)
    return np.concatenate([before, origins], axis=2)


MAPPED = 90  # columns that a map can show


def correlation_map(names: Sequence[str], C: FloatArray) -> dict[str, Any]:
    """Write cosines between columns, of as many as a map can show."""
    return {"names": list(names[:MAPPED]), "matrix": np.round(C[:MAPPED, :MAPPED], 3).tolist()}


CHARTS = (
    "In every chart: point, or tap, to read values; drag across to zoom in, then drag to move; double-click for all. "
    "Two fingers, or the wheel with Ctrl, zoom too; on the keyboard plus and minus, arrows with Shift, and 0 for all. "
    "CSV and SVG save a chart's data and picture."
)
DIGITS = 5  # of every number that is drawn
GRID = 1e4  # positions of bodies are whole tenths of a millimetre


def embed(data: Any) -> Markup:
    """Write data as JSON that may stand inside a script element: no `<`, `>` or `&` in it."""
    text = json.dumps(compact(data), allow_nan=False, separators=(",", ":"))
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)


def compact(value: Any) -> Any:
    """Round floats to significant digits; NaN and infinities become null; arrays become lists."""
    if isinstance(value, str):
        return seen(value)
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, float):
        return _rounded(value)
    if isinstance(value, Mapping):
        return {seen(str(key)): compact(entry) for key, entry in value.items()}
    if hasattr(value, "tolist"):
        return compact(value.tolist())
    if isinstance(value, (list, tuple)):
        return [compact(entry) for entry in value]
    return seen(str(value))


def frame_data(frames: Mapping[str, Any]) -> dict[str, Any]:
    """Write where the bodies are, in tenths of a millimetre.

    Capsules (n_frames, 6 n_capsules), tool (n_frames, 3) and, where links have hulls, poses: rows of their transforms,
    (n_frames, 12 n_links).
    """
    capsules, tool = compact(entries(frames, "capsules")), compact(entries(frames, "tool"))
    poses = [[_on_grid(x) for x in compact(frame)] for frame in entries(frames, "poses")]
    return ({"poses": poses} if poses else {}) | {
        "time": entries(frames, "time"),
        "capsules": [[_on_grid(x) for ends in frame for x in ends] for frame in capsules],
        "tool": [[_on_grid(x) for x in point] for point in tool],
    }


def _rounded(value: float) -> float | int | None:
    if not math.isfinite(value):
        return None
    rounded = float(f"{value:.{DIGITS}g}")
    return int(rounded) if rounded.is_integer() and abs(rounded) < 1e15 else rounded


def _on_grid(value: float | None) -> int | None:
    return None if value is None else round(value * GRID)


GOOD, FAIR = 0.02, 0.10  # relative deviation below which a parameter is well or fairly known
NONE, MINUS = "\N{EN DASH}", "\N{MINUS SIGN}"
# Characters that reverse the text after them, or are invisible, or are no text.
UNSEEN = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"
)
RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def subtable(data: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """Return a nested table, empty where it is missing."""
    value = data.get(key)
    return value if isinstance(value, Mapping) else {}


def entries(data: Mapping[str, Any], key: str) -> list[Any]:
    """Return a list, empty where it is missing."""
    value = data.get(key)
    return [] if value is None else list(value)


def torque_units(data: Mapping[str, Any]) -> dict[str, str]:
    """Map the joints of a report to the units of their torques."""
    robot = subtable(data, "robot")
    return dict(zip(entries(robot, "joints"), entries(robot, "torque_units"), strict=False))


def show(value: Any, digits: int = 4) -> str:
    """Write a number for people; a dash where there is none."""
    number = finite(value)
    if number is None:
        return NONE
    digit, _, power = f"{number:.{digits}g}".partition("e")
    raised = "·10" + str(int(power)).translate(RAISED) if power else ""
    return digit.replace("-", MINUS) + raised


def seen(words: str) -> str:
    """Replace characters that hide or reverse text by their code points: a name must not change the text around it."""
    return UNSEEN.sub(lambda found: f"\\u{ord(found[0]):04x}", words)


def beside(value: Any, sigma: Any) -> str:
    """Write a number to the digit that its standard deviation leaves: two digits of that, four without one."""
    number, deviation = finite(value), finite(sigma)
    if number is None or deviation is None or deviation <= 0.0 or abs(number) >= 1e5 or deviation < 1e-9:
        return show(value)
    decimals = min(9, max(0, 1 - math.floor(math.log10(deviation))))
    return f"{round(number, decimals) + 0.0:.{decimals}f}".replace("-", MINUS)


def percent(value: Any) -> str:
    """Write a share as a percentage of two digits; a dash where there is none."""
    number = finite(value)
    if number is None:
        return NONE
    if abs(number) >= 10.0:
        return "over 1000 %" if number > 0 else f"under {MINUS}1000 %"
    text = f"{100 * number:.0f}" if abs(number) >= 0.1 else f"{100 * number:.2g}"
    return text.replace("-", MINUS) + " %"


def unit_words(unit: Any) -> str:
    """Write powers in a unit as raised digits: kg m2 becomes kg m²."""
    return re.sub(r"(?<=[a-z])[23]\b", lambda power: power[0].translate(RAISED), str(unit or ""))


def tier(relative: float | None) -> str:
    """Name the accuracy tier of a parameter's expected deviation."""
    if relative is None:
        return "open"
    return "good" if abs(relative) < GOOD else "fair" if abs(relative) < FAIR else "poor"


def bar(relative: float | None) -> float:
    """Map 0.1 % … 100 % to 0 … 100 on a logarithmic scale: deviations span decades."""
    if relative is None:
        return 0.0
    return round(100.0 * min(1.0, max(0.02, math.log10(max(abs(relative), 1e-6) / 1e-3) / 3.0)), 1)
