"""Meshes: made ones, their union with capsules, the public robot files, and coal as an oracle of collisions."""

import struct
from pathlib import Path

import coal
import numpy as np
import pinocchio as pin
from scipy.spatial import ConvexHull

from excitor.robots.volumes import distances

PUBLIC = Path(__file__).parents[2] / "shared" / "data" / "urdf"
UR5 = PUBLIC / "ur_description/urdf/ur5_robot.urdf"
GRIPPER = PUBLIC / "ur_description/urdf/ur5_gripper.urdf"
PANDA = PUBLIC / "panda_description/urdf/panda.urdf"


def grid(surface, n=24, m=12):
    """Triangles of a surface over the unit square."""
    u, v = np.meshgrid(np.linspace(0, 1, n + 1), np.linspace(0, 1, m + 1), indexing="ij")
    p = np.stack(surface(u, v), axis=-1)
    a, b, c, d = p[:-1, :-1], p[1:, :-1], p[1:, 1:], p[:-1, 1:]
    return np.concatenate([np.stack(t, axis=2).reshape(-1, 3, 3) for t in ((a, b, c), (a, c, d))])


def box(x, y, z):
    corners = np.array([[i, j, k] for i in (-0.5, 0.5) for j in (-0.5, 0.5) for k in (-0.5, 0.5)]) * [x, y, z]
    return corners[ConvexHull(corners).simplices]


def cylinder(r, h):
    def side(u, v):
        return r * np.cos(2 * np.pi * u), r * np.sin(2 * np.pi * u), h * (v - 0.5)

    def cap(z):
        return lambda u, v: (r * v * np.cos(2 * np.pi * u), r * v * np.sin(2 * np.pi * u), z + 0 * u)

    return np.concatenate([grid(side), grid(cap(-h / 2)), grid(cap(h / 2))])


def bent_tube(r=0.05, bend=0.3):
    def surface(u, v):
        turn, round_ = 1.6 * u, 2 * np.pi * v
        out = bend + r * np.cos(round_)
        return out * np.cos(turn), out * np.sin(turn), r * np.sin(round_)

    return grid(surface)


def volume_ratio(triangles, capsules, n=40_000):
    """Volume of the union of capsules over that of the convex hull."""
    low = np.min([np.minimum(c.start, c.end) - c.radius for c in capsules], axis=0)
    high = np.max([np.maximum(c.start, c.end) + c.radius for c in capsules], axis=0)
    points = np.random.default_rng(0).uniform(low, high, (n, 3))
    inside = np.any([distances(points, c) < c.radius for c in capsules], axis=0).mean()
    return inside * np.prod(high - low) / ConvexHull(triangles.reshape(-1, 3)).volume


def deepest(points, capsules):
    """How far the worst point lies outside of every capsule: negative if all are inside."""
    return np.min([distances(points, c) - c.radius for c in capsules], axis=0).max()


def write_stl(path, triangles):
    rows = np.zeros(len(triangles), [("normal", "<f4", 3), ("vertex", "<f4", (3, 3)), ("attribute", "<u2")])
    rows["vertex"] = triangles
    path.write_bytes(b"made".ljust(80) + struct.pack("<I", len(rows)) + rows.tobytes())


def mesh_arm(folder):
    """Write a six-joint arm with meshes of every format of ours: base, bent, boxy and round links."""
    parts = {
        "base": np.add(cylinder(0.1, 0.1), [0, 0, 0.05]),
        "turret": np.add(cylinder(0.09, 0.22), [0, 0, 0.02]),
        "upper": np.concatenate(
            [np.add(box(0.12, 0.12, 0.5), [0, 0.16, 0.2]), np.add(box(0.1, 0.1, 0.1), [0, 0.1, 0])]
        ),
        "fore": np.concatenate(
            [np.add(box(0.08, 0.08, 0.45), [0, 0.03, 0.2]), np.add(box(0.1, 0.06, 0.1), [0, 0.06, 0])]
        ),
        "roll": np.add(cylinder(0.045, 0.1), [0, 0, 0.03]),
        "pitch": np.add(cylinder(0.045, 0.1), [0, 0, 0.0])[..., [0, 2, 1]],
        "flange": np.concatenate(
            [np.add(cylinder(0.04, 0.05), [0, 0, 0.08]), np.add(bent_tube(0.01, 0.05), [0, 0, 0.12])]
        ),
    }
    for name, triangles in parts.items():
        write_stl(folder / f"{name}.stl", triangles)
    heights, axes = (0.1, 0.15, 0.45, 0.4, 0.08, 0.07), ("0 0 1", "0 1 0", "0 1 0", "0 0 1", "0 1 0", "0 0 1")
    names = list(parts)
    links = "".join(
        f'<link name="{name}"><inertial><origin xyz="0 0 0.1"/><mass value="{8 / (k + 1):.3g}"/>'
        '<inertia ixx="0.05" ixy="0" ixz="0" iyy="0.05" iyz="0" izz="0.03"/></inertial>'
        f'<collision><geometry><mesh filename="{name}.stl"/></geometry></collision></link>'
        for k, name in enumerate(names)
    )
    joints = "".join(
        f'<joint name="j{k + 1}" type="revolute"><parent link="{names[k]}"/><child link="{names[k + 1]}"/>'
        f'<origin xyz="0 0 {z}"/><axis xyz="{axis}"/>'
        '<limit lower="-2.6" upper="2.6" velocity="2" effort="200"/></joint>'
        for k, (z, axis) in enumerate(zip(heights, axes, strict=True))
    )
    path = folder / "arm.urdf"
    path.write_text(f'<robot name="arm">{links}{joints}</robot>')
    return path


class Meshes:
    """A URDF's collision meshes in coal: all pairs that no single joint connects, and boxes of the cell."""

    def __init__(self, source, robot, folder, boxes=(), margin=0.0):
        text = source.read_text().replace("package://example-robot-data/robots/", f"{PUBLIC}/")
        path = folder / "plain.urdf"
        path.write_text(text)
        self.model, self.rows = pin.buildModelFromXML(text), []
        self.shapes = pin.buildGeomFromUrdf(
            self.model, str(path), pin.GeometryType.COLLISION, package_dirs=[str(folder)]
        )
        whole, q = self.model, pin.neutral(self.model)
        for name, held in robot.held.items():
            q[whole.joints[whole.getJointId(name)].idx_q] = held.position
        self.model, self.shapes = pin.buildReducedModel(
            whole, self.shapes, [whole.getJointId(name) for name in robot.held], q
        )
        joint = [shape.parentJoint for shape in self.shapes.geometryObjects]
        parents, n = list(self.model.parents), len(joint)
        pairs = [(a, b) for b in range(n) for a in range(b)]
        pairs = [
            (a, b) for a, b in pairs if joint[a] not in (joint[b], parents[joint[b]]) and parents[joint[a]] != joint[b]
        ]
        for low, high in boxes:
            place = pin.SE3(np.eye(3), 0.5 * np.add(low, high))
            k = self.shapes.addGeometryObject(pin.GeometryObject("box", 0, place, coal.Box(*np.subtract(high, low))))
            pairs += [(a, k) for a in range(n) if joint[a] > 0]
        for pair in pairs:
            self.shapes.addCollisionPair(pin.CollisionPair(*pair))
        self.data, self.found = self.model.createData(), self.shapes.createData()
        for (_, b), request in zip(pairs, self.found.collisionRequests, strict=True):
            request.security_margin = margin if b >= n else 0.0
        # joints that follow another come last in the public files
        self.order = [robot.joint_names.index(n) if n in robot.joint_names else -1 for n in list(self.model.names)[1:]]

    def collide(self, q):
        """True where meshes collide, or come nearer to a box than the margin, (n,)."""
        return np.array([self._collides(np.asarray(one)[self.order]) for one in q], dtype=bool)

    def _collides(self, q):
        return pin.computeCollisions(self.model, self.data, self.shapes, self.found, q, True)
