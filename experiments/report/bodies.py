"""Section of the report on links: mass, centre and inertia of each, and its inertia ellipsoid in motion.

* Could such bodies exist? The links of the consistent model, in numbers and in motion.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from markupsafe import Markup

from excitor.experiments.report.evidence import Evidence, cost
from excitor.experiments.report.html import (
    MINUS,
    NONE,
    Cell,
    base_capsules,
    card,
    element,
    entries,
    frame_data,
    frames,
    joined,
    moving_capsules,
    number_cell,
    opened,
    show,
    subtable,
)
from excitor.experiments.report.html import (
    table as html_table,
)
from excitor.experiments.report.parameters import KNOWN_BY
from excitor.robots.arrays import FloatArray, finite
from excitor.robots.dynamics import link_poses
from excitor.robots.inertia import about_center_of_mass, check_consistency, pseudo_inertia
from excitor.robots.parameters import layout

FRAMES = 300
LONGEST = 60.0  # s of motion that are shown
_GRID = 1e4  # rotations are drawn to a ten-thousandth


def bodies_data(evidence: Evidence) -> dict[str, Any]:
    """Write the links of the physically consistent model, and the robot in motion with their ellipsoids."""
    robot, standard, audit = evidence.robot, evidence.model.standard, evidence.audit
    links = link_rows(evidence)
    return {
        "refusal": None if standard is not None else evidence.model.refusal,
        "smallest_inertia": finite(evidence.model.smallest_inertia),
        "fit": None
        if standard is None or audit is None
        else {
            "solver": standard.solver,
            "status": standard.status,
            "loss": finite(standard.loss),
            "holds": audit.holds,
            "smallest_mass_matrix_eigenvalue": finite(audit.smallest_eigenvalue),
            "n_poses": audit.n_poses,
        },
        "links": links,
        "run": evidence.shown.samples.run,
        "base_capsules": base_capsules(robot),
        "capsules": moving_capsules(robot),
        "frames": motion_frames(evidence, links),
    }


def link_rows(evidence: Evidence) -> list[dict[str, Any]]:
    """Describe each link that has a body; its ellipsoid has uniform density and the link's mass and inertia."""
    standard, robot = evidence.model.standard, evidence.robot
    if standard is None:
        return []
    rows = []
    for name in standard.links:
        j = robot.mechanism.link_names.index(name)
        columns = layout(robot).link(j)
        phi, labels = standard.values[columns], standard.labels[columns]
        found = check_consistency(phi)
        mass, center, inertia = about_center_of_mass(phi)
        moments, axes = np.linalg.eigh(inertia)
        if np.linalg.det(axes) < 0.0:
            axes = axes * np.array([1.0, 1.0, -1.0])
        rows.append(
            {
                "index": j,
                "link": name,
                "holds": found.holds,
                "mass": mass,
                "mass_label": labels[9],
                "data_determined": sum(label == "data-determined" for label in labels),
                "center": center.tolist(),
                "moments": moments.tolist(),
                "axes": axes.tolist(),
                "half_axes": half_axes(mass, moments).tolist(),
                "eigenvalues": np.linalg.eigvalsh(pseudo_inertia(phi)).tolist(),
                "relative_margin": finite(found.relative_margin),
                "triangle_margin": finite(found.triangle_margin),
            }
        )
    return rows


def half_axes(mass: float, moments: FloatArray) -> FloatArray:
    """Compute half axes of the uniform ellipsoid with these principal moments: I_a = m (b² + c²) / 5, m."""
    squares = 2.5 / mass * (moments.sum() - 2.0 * moments)
    return np.asarray(np.sqrt(np.maximum(squares, 0.0)))


def motion_frames(evidence: Evidence, links: list[dict[str, Any]]) -> dict[str, Any]:
    """Compute poses of capsules, tool and ellipsoids during the shown run: centres and axes in the base frame."""
    samples = evidence.shown.samples
    rate = 1.0 if samples.static else samples.sample_rate_hz
    last = min(len(samples) - 1, int(LONGEST * rate))
    picked = np.unique(np.linspace(0, last, min(FRAMES, last + 1)).round().astype(np.int64))
    q = samples.motion.q[picked]
    poses = link_poses(evidence.robot, q)
    found = []
    for row in links:
        T = poses[:, row["index"]]
        centers = T[:, :3, :3] @ np.array(row["center"]) + T[:, :3, 3]
        axes = T[:, :3, :3] @ np.array(row["axes"])
        found.append(np.concatenate([centers, axes.reshape(-1, 9)], axis=1))
    placed = np.stack(found, axis=1).reshape(len(q), -1) if found else np.zeros((len(q), 0))
    return frame_data(frames(evidence.robot, picked / rate, q)) | {
        "ellipsoids": np.rint(placed * _GRID).astype(np.int64).tolist()
    }


TIMES = "\N{MULTIPLICATION SIGN}"
NOTHING = 1e-9  # rounding: no link is that small


def bodies_section(data: Mapping[str, Any]) -> Markup:
    """Write the robot with its inertia ellipsoids, and each link's mass, centre and moments."""
    bodies = subtable(data, "bodies")
    links = entries(bodies, "links")
    words = [element("p", sentence) for sentence in _words(bodies)]
    hint = (
        "Each ellipsoid is the body of even density that has the link's mass and inertia, where the centre of mass is; "
        "the robot's volumes are the glass around it. An ellipsoid far outside its link is a parameter that no torque "
        "showed. Drag to turn, wheel with Ctrl to zoom, double-click to reset."
    )
    return card("bodies", "Links and their inertia", *words, _viewer(bodies), _table(links), hint=hint)


def _words(bodies: Mapping[str, Any]) -> list[str]:
    fit = subtable(bodies, "fit")
    if not fit:
        return [
            f"There is no physically consistent model: {bodies.get('refusal', '')}. Shown is the robot alone.",
            "Smallest eigenvalue of the estimated mass matrix over random poses: "
            f"{show(bodies.get('smallest_inertia'))}.",
        ]
    holds = (
        "Every link could exist and the mass matrix is positive definite"
        if fit.get("holds")
        else ("Not every link could exist, or the mass matrix is not positive definite")
    )
    return [
        f"{holds} in {fit.get('n_poses')} random poses (smallest eigenvalue "
        f"{show(fit.get('smallest_mass_matrix_eigenvalue'))}). Solved by {fit.get('solver')}, {fit.get('status')}; "
        f"consistency costs {cost(fit.get('loss'))} of residual."
    ]


def _viewer(bodies: Mapping[str, Any]) -> Markup:
    views = [
        element("button", words, type="button", data_view=key)
        for key, words in (("3d", "3-D"), ("front", "front"), ("side", "side"), ("top", "top"))
    ]
    speeds = [
        element("button", words, type="button", data_speed=speed)
        for speed, words in (("0.25", f"¼{TIMES}"), ("1", f"1{TIMES}"), ("5", f"5{TIMES}"))
    ]
    clock = element("output", id="clock")
    scrub = opened("input", type="range", id="scrub", min=0, max=1000, value=0, aria_label="Time")
    return element(
        "div",
        element(
            "div",
            element("canvas", id="scene", tabindex=0, aria_label="The robot in motion"),
            element("div", *views, id="views"),
            id="canvas-box",
        ),
        element("div", element("button", "▶ Play", type="button", id="play"), scrub, clock, id="controls"),
        element(
            "div",
            element("span", f"run {bodies.get('run', '')}", id="phase"),
            element("span", *speeds, class_="choice", id="speeds"),
            element("span", "mass from the data", class_="key e-data"),
            element("span", "mass from the prior", class_="key e-prior"),
            id="options",
        ),
        id="viewer",
    )


def _table(links: list[Any]) -> Markup:
    if not links:
        return Markup("")
    headings = [
        ("", ""),
        ("link", ""),
        ("mass, kg", "n"),
        ("mass known by", ""),
        ("from the data", "n"),
        ("centre of mass in the link's frame, mm", "n"),
        ("principal moments, kg m²", "n"),
        ("smallest eigenvalue", "n"),
        ("margin", "n"),
    ]
    rows = [("holds" if link.get("holds") else "fails", _row(link)) for link in links]
    hint = (
        "A body exists exactly where all four eigenvalues of its pseudo-inertia are positive. The margin is the "
        "smallest eigenvalue after scaling to unit diagonal: 0 is the edge of what can exist."
    )
    return joined([html_table(headings, rows, class_="links"), element("p", hint, class_="hint")])


def _row(link: Mapping[str, Any]) -> list[Any]:
    holds, smallest = bool(link.get("holds")), min(entries(link, "eigenvalues"), default=None)
    return [
        Cell("✓" if holds else "✗", "ok" if holds else "bad"),
        element("b", str(link.get("link", ""))),
        number_cell(show(link.get("mass")), link.get("mass")),
        KNOWN_BY.get(str(link.get("mass_label")), NONE),
        number_cell(f"{link.get('data_determined')} of 10", None),
        number_cell(_millimetres(entries(link, "center")), None),
        number_cell(_several(entries(link, "moments")), None),
        number_cell(show(smallest, 3), smallest),
        number_cell(show(link.get("relative_margin"), 2), link.get("relative_margin")),
    ]


def _millimetres(numbers: list[Any]) -> str:
    return ",\N{NO-BREAK SPACE} ".join(f"{round(1e3 * x, 1) + 0.0:.1f}".replace("-", MINUS) for x in numbers)


def _several(numbers: list[Any]) -> str:
    return ",\N{NO-BREAK SPACE} ".join(show(0.0 if abs(x) < NOTHING else x, 3) for x in numbers)
