"""Rigid-body dynamics by pinocchio, an oracle independent of ours."""

import numpy as np
import pinocchio as pin

from excitor.robots.inertia import frame_change_matrix

# pinocchio: m mx my mz Ixx Ixy Iyy Ixz Iyz Izz; ours: XX XY XZ YY YZ ZZ MX MY MZ M
PINOCCHIO_ORDER = [4, 5, 7, 6, 8, 9, 1, 2, 3, 0]


class Oracle:
    """A pinocchio model of a tree; its joint frames stand where ours stand before `after`."""

    def __init__(self, tree):
        self.tree = tree
        self.model = pin.Model()
        self.model.gravity.linear = np.array(tree.gravity)
        for j in range(tree.n_links):
            kind = pin.JointModelPrismaticUnaligned if tree.sliding[j] else pin.JointModelRevoluteUnaligned
            parent = int(tree.parents[j])
            placement = tree.before[j] if parent < 0 else tree.after[parent] @ tree.before[j]
            place = pin.SE3(placement[:3, :3].copy(), placement[:3, 3].copy())
            self.model.addJoint(parent + 1, kind(tree.axis[j].copy()), place, f"joint{j}")
        self.data = self.model.createData()
        self.into_joint = [frame_change_matrix(T) for T in tree.after]

    def states(self, motion):
        G = self.tree.coupling
        return zip(motion.q @ G.T + self.tree.offset, motion.dq @ G.T, motion.ddq @ G.T, strict=True)

    def regressor(self, motion):
        n = self.tree.n_links
        out = []
        for q, v, a in self.states(motion):
            Y = pin.computeJointTorqueRegressor(self.model, self.data, q, v, a).reshape(n, n, 10)[..., PINOCCHIO_ORDER]
            out.append(np.einsum("ti,tjp->ijp", self.tree.coupling, self.link_columns(Y)).reshape(-1, 10 * n))
        return np.array(out)

    def energy_regressor(self, motion):
        out = []
        for q, v, _ in self.states(motion):
            kinetic = pin.computeKineticEnergyRegressor(self.model, self.data, q, v)
            potential = pin.computePotentialEnergyRegressor(self.model, self.data, q)
            h = (kinetic + potential).reshape(-1, 10)[:, PINOCCHIO_ORDER]
            out.append(self.link_columns(h[None])[0].ravel())
        return np.array(out)

    def link_columns(self, Y):
        return np.stack([Y[:, j] @ X for j, X in enumerate(self.into_joint)], axis=1)

    def give(self, phi):
        for j, (X, body) in enumerate(zip(self.into_joint, phi, strict=True)):
            p = X @ body
            mass, lever = p[9], p[6:9] / p[9]
            S = pin.skew(lever)
            inertia = np.array([[p[0], p[1], p[2]], [p[1], p[3], p[4]], [p[2], p[4], p[5]]]) + mass * S @ S
            self.model.inertias[j + 1] = pin.Inertia(mass, lever, inertia)

    def articulated_bodies(self, motion, phi, tau):
        self.give(phi)
        data = self.model.createData()
        return np.array(
            [pin.aba(self.model, data, q, v, t) for (q, v, _), t in zip(self.states(motion), tau, strict=True)]
        )

    def mass_matrix_and_bias(self, motion, phi):
        self.give(phi)
        G = self.tree.coupling
        data = self.model.createData()
        for q, v, _ in self.states(motion):
            # not crba: it takes joints numbered depth first for granted
            still, weight = np.zeros_like(v), pin.rnea(self.model, data, q, 0 * v, 0 * v)
            M = np.array([pin.rnea(self.model, data, q, still, unit) - weight for unit in np.eye(len(v))])
            yield G.T @ M @ G, G.T @ pin.rnea(self.model, data, q, v, still)

    def poses(self, motion):
        out = []
        for q, _, _ in self.states(motion):
            pin.forwardKinematics(self.model, self.data, q)
            out.append([self.data.oMi[j + 1].homogeneous @ T for j, T in enumerate(self.tree.after)])
        return np.array(out)
