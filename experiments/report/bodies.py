"""Could a body have these parameters? Each link's mass, centre and inertia, and where its ellipsoid is as it moves."""

from typing import Any

import numpy as np

from excitor.experiments.model_file import finite
from excitor.experiments.page.bodies import base_capsules, frames, moving_capsules
from excitor.experiments.page.embed import frame_data
from excitor.experiments.report.evidence import Evidence
from excitor.robots.arrays import FloatArray
from excitor.robots.dynamics import link_poses
from excitor.robots.inertia import about_center_of_mass, check_consistency, pseudo_inertia
from excitor.robots.parameters import layout

FRAMES = 300
LONGEST = 60.0  # s of motion that are shown
_GRID = 1e4  # rotations are drawn to a ten-thousandth


def bodies_data(evidence: Evidence) -> dict[str, Any]:
    """Write the links of the physically consistent model, and the robot in motion with their ellipsoids."""
    robot, consistent = evidence.robot, evidence.identified.consistent
    links = link_rows(evidence)
    return {
        "refusal": None if consistent is not None else str(evidence.identified.refusal),
        "smallest_inertia": finite(evidence.identified.smallest_inertia),
        "fit": None
        if consistent is None
        else {
            "solver": consistent.solver,
            "status": consistent.status,
            "loss": finite(consistent.loss),
            "holds": consistent.audit.holds,
            "smallest_mass_matrix_eigenvalue": finite(consistent.audit.smallest_eigenvalue),
            "n_poses": consistent.audit.n_poses,
        },
        "links": links,
        "run": evidence.shown.samples.run,
        "base_capsules": base_capsules(robot),
        "capsules": moving_capsules(robot),
        "frames": motion_frames(evidence, links),
    }


def link_rows(evidence: Evidence) -> list[dict[str, Any]]:
    """Describe each link that has a body; a link's ellipsoid is that of even density with its mass and inertia."""
    consistent, robot = evidence.identified.consistent, evidence.robot
    if consistent is None:
        return []
    rows = []
    for j in consistent.links.tolist():
        columns = layout(robot).link(j)
        phi, labels = consistent.chi[columns], consistent.labels[columns]
        found = check_consistency(phi)
        mass, center, inertia = about_center_of_mass(phi)
        moments, axes = np.linalg.eigh(inertia)
        if np.linalg.det(axes) < 0.0:
            axes = axes * np.array([1.0, 1.0, -1.0])
        rows.append(
            {
                "index": j,
                "link": robot.mechanism.link_names[j],
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
    """Half axes of the ellipsoid of even density with these principal moments: I_a = m (b² + c²) / 5, m."""
    squares = 2.5 / mass * (moments.sum() - 2.0 * moments)
    return np.asarray(np.sqrt(np.maximum(squares, 0.0)))


def motion_frames(evidence: Evidence, links: list[dict[str, Any]]) -> dict[str, Any]:
    """Place capsules, tool and ellipsoids at moments of the shown run: centres and axes in the base frame."""
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
