"""Report on links: mass, centre and inertia of each, and its inertia ellipsoid in motion.

* Could such bodies exist? The links of the consistent model, in numbers and in motion.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from excitor.experiments.report import html
from excitor.experiments.report.evidence import Evidence, cost
from excitor.experiments.report.parameters import KNOWN_BY
from excitor.robots.arrays import FloatArray, finite, picked
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
        else picked(standard, "solver status loss")
        | picked(audit, "holds smallest_mass_matrix_eigenvalue=smallest_eigenvalue n_poses"),
        "links": links,
        "run": evidence.shown.samples.run,
        "base_capsules": html.base_capsules(robot),
        "capsules": html.moving_capsules(robot),
        "hulls": html.hulls(robot),
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
        arrays = {"center": center, "moments": moments, "axes": axes, "half_axes": half_axes(mass, moments)}
        arrays["eigenvalues"] = np.linalg.eigvalsh(pseudo_inertia(phi))
        rows.append(
            {
                "index": j,
                "link": name,
                "holds": found.holds,
                "mass": mass,
                "mass_label": labels[9],
                "data_determined": sum(label == "data-determined" for label in labels),
                **{key: array.tolist() for key, array in arrays.items()},
                **picked(found, "relative_margin triangle_margin"),
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
    chosen = np.unique(np.linspace(0, last, min(FRAMES, last + 1)).round().astype(np.int64))
    q = samples.motion.q[chosen]
    poses = link_poses(evidence.robot, q)
    found = []
    for row in links:
        T = poses[:, row["index"]]
        centers = T[:, :3, :3] @ np.array(row["center"]) + T[:, :3, 3]
        axes = T[:, :3, :3] @ np.array(row["axes"])
        found.append(np.concatenate([centers, axes.reshape(-1, 9)], axis=1))
    placed = np.stack(found, axis=1).reshape(len(q), -1) if found else np.zeros((len(q), 0))
    ellipsoids = np.rint(placed * _GRID).astype(np.int64).tolist()
    return html.frame_data(html.frames(evidence.robot, chosen / rate, q)) | {"ellipsoids": ellipsoids}


NOTHING = 1e-9  # rounding: no link is that small


def bodies_context(data: Mapping[str, Any]) -> dict[str, Any] | None:
    """Show the robot with its inertia ellipsoids, and each link's mass, centre and moments."""
    bodies = html.subtable(data, "bodies")
    if not bodies:
        return None
    fit = html.subtable(bodies, "fit")
    links = [
        {key: link[key] for key in ("link", "holds", "mass", "mass_label", "data_determined", "relative_margin")}
        | {
            "smallest": min(link["eigenvalues"], default=None),
            "center": [f"{round(1e3 * x, 1) + 0.0:.1f}".replace("-", html.MINUS) for x in link["center"]],
            "moments": [html.show(0.0 if abs(x) < NOTHING else x, 3) for x in link["moments"]],
        }
        for link in html.entries(bodies, "links")
    ]
    return {
        "fit": {**fit, "cost": cost(fit["loss"])} if fit else None,
        "refusal": bodies["refusal"],
        "smallest_inertia": bodies["smallest_inertia"],
        "run": bodies["run"],
        "links": links,
        "known_by": KNOWN_BY,
        "has_hulls": any(html.entries(bodies, "hulls")),
    }
