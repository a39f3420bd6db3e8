"""What torques of closed chains tell: counts of base parameters, and their regroupings as published."""

import tomllib
from dataclasses import replace

import numpy as np
import pytest

from excitor.robots.base import base_parameters, random_motion
from excitor.robots.dynamics import inverse_dynamics, regressor
from excitor.robots.files.schema import combination
from excitor.robots.files.toml import robot_from_data
from excitor.robots.inertia import change_frame
from excitor.robots.load import load, robot_text
from excitor.robots.parameters import layout
from excitor.robots.robot import Payload

PARALLEL = ("five-bar", "five-bar-vertical", "orthoglide-rod", "orthoglide", "delta", "delta-full", "3-rrr")


def changed(name, **tables):
    """A catalogue robot with top-level keys replaced."""
    return robot_from_data({**tomllib.loads(robot_text(name)), **tables}, name)


COUNTS = {
    "five-bar": (7, 4),
    "five-bar-vertical": (11, 4),
    "orthoglide-rod": (8, 6),
    "orthoglide": (35, 6),
    "delta": (13, 6),
    "delta-full": (40, 6),
    "3-rrr": (13, 6),
}


@pytest.mark.parametrize("name", PARALLEL)
def test_counts_of_base_parameters(name):
    base = base_parameters(load(name))
    friction = [n for n in base.names if n.startswith(("Fv", "Fc"))]
    assert (len(base) - len(friction), len(friction)) == COUNTS[name]
    assert base.gap[0] > 1e-5
    assert base.gap[1] < 1e-12


@pytest.mark.parametrize(
    ("name", "gravity", "count"),
    [
        ("orthoglide", [0, 0, 0], 34),
        ("orthoglide", [5.0, 3.0, -7.9], 37),
        ("orthoglide-rod", [0, 0, 0], 7),
        ("orthoglide-rod", [5.0, 3.0, -7.9], 10),
        ("delta", [0, 0, 0], 7),
        ("delta", [5.0, 3.0, -7.9], 13),
        ("delta-full", [0, 0, 0], 34),
        ("delta-full", [5.0, 3.0, -7.9], 40),
    ],
)
def test_counts_by_the_direction_of_gravity(name, gravity, count):
    base = base_parameters(changed(name, gravity=gravity))
    assert sum(not n.startswith(("Fv", "Fc")) for n in base.names) == count


FIVE_BAR = {
    "ZZ1R": "ZZ1 + Ia1 + L1^2 M2 - (L1/L2)(L1/L2) ZZ2",
    "ZZ3R": "ZZ3 + Ia2 + L1^2 M4 - (L1/L2)(L1/L2) ZZ4",
    "MX2R": "MX2 - ZZ2/L2",
    "MX4R": "MX4 - ZZ4/L2",
    "MY2": "MY2",
    "MY4": "MY4",
    "M5R": "M5 + (ZZ2 + ZZ4)/L2^2",
}
VERTICAL = {"MX1R": "MX1 + L1 M2 - L1/L2^2 ZZ2", "MX3R": "MX3 + L1 M4 - L1/L2^2 ZZ4", "MY1": "MY1", "MY3": "MY3"}


def full_leg(first):
    """Rows ZZ_2R … MX_4 of a full leg whose second body has number first + 1."""
    c, b, d, e = (first + k for k in (1, 2, 3, 4))
    MX = f"(MX{b} + MX{e})"
    return [
        f"ZZ{c} + YY{b} + YY{d} + YY{e} - L {MX}",
        f"MX{c}",
        f"MY{c} + MZ{b} + MZ{d} + MZ{e}",
        f"XX{b} + XX{e} - YY{b} - YY{e} + L {MX}",
        f"XY{b} + XY{e}",
        f"XZ{b} + XZ{e} - L MZ{d}",
        f"YZ{b} + YZ{e}",
        f"ZZ{b} + ZZ{e} - L {MX}",
        f"MY{b} + MY{e}",
        f"MX{d}",
    ]


def rod(first):
    """K of a leg whose rod is body first + 1, half of its inertia across under either name."""
    return f"MX{first + 1}/L - 0.5 (YY{first + 1} + ZZ{first + 1})/L^2"


def sheet(name):
    if name.startswith("five-bar"):
        return [*FIVE_BAR.values(), *(VERTICAL.values() if name == "five-bar-vertical" else ())]
    rows = []
    for k in range(3):
        if name == "orthoglide":
            s, c, b, _, e = (5 * k + j for j in range(1, 6))
            Ia = "" if k == 2 else f" + Ia{k + 1}"
            rows += [f"M{s}{Ia} + M{c} + M{b} + M{e} - (MX{b} + MX{e})/L", *full_leg(s)]
        elif name == "delta-full":
            s, c, b, _, e = (5 * k + j for j in range(1, 6))
            borne = f"(M{c} + M{b} + M{e} - (MX{b} + MX{e})/L)"
            rows += [f"ZZ{s} + Ia{k + 1} + L1^2 {borne}", f"MX{s} + L1 {borne}", f"MY{s}", *full_leg(s)]
        elif name == "delta":
            s = 2 * k + 1
            spread = f"0.5 (YY{s + 1} + ZZ{s + 1})/L^2"
            rows += [f"ZZ{s} + Ia{k + 1} + L1^2 (M{s + 1} - 2 MX{s + 1}/L + {spread})", rod(s)]
            rows += [f"MX{s} + L1 (M{s + 1} - MX{s + 1}/L)", f"MY{s}"]
        else:
            s = 2 * k + 1
            spread = f"0.5 (YY{s + 1} + ZZ{s + 1})/L^2"
            Ia = "" if k == 2 else f" + Ia{k + 1}"
            inertia = "" if k == 2 else f" - MX{s + 1}/L + {spread}"
            rows += [f"M{s}{Ia} + M{s + 1} - MX{s + 1}/L{inertia}", rod(s)]
    if name == "orthoglide-rod":
        rows += ["Ia3 - MX6/L + 0.5 (YY6 + ZZ6)/L^2"]
    if name == "orthoglide":
        rows += ["Ia3"]
    if name in ("orthoglide", "delta-full"):
        legs = [5 * k + 1 for k in range(3)]
        return [*rows, "M16" + "".join(f" + (MX{s + 2} + MX{s + 4})/L + M{s + 3}" for s in legs)]
    return [*rows, "M7" + "".join(f" + 0.5 (YY{2 * k} + ZZ{2 * k})/L^2" for k in (1, 2, 3))]


@pytest.mark.parametrize("name", [n for n in PARALLEL if n != "3-rrr"])
def test_regroupings_as_published(name):
    """The textbook's combinations are seen by every torque, and span all that is inertial."""
    robot = load(name)
    params, base = layout(robot), base_parameters(robot)
    names = frozenset(params.names)
    rows = np.zeros((len(sheet(name)), len(params)))
    for row, text in zip(rows, sheet(name), strict=True):
        for parameter, factor in combination(text, names, robot.lengths).items():
            row[params.index(parameter)] = factor
    assert len(rows) == COUNTS[name][0] == np.linalg.matrix_rank(rows)
    for row, text in zip(rows, sheet(name), strict=True):
        rest = row - np.linalg.lstsq(base.regrouping.T, row, rcond=None)[0] @ base.regrouping
        assert np.linalg.norm(rest) < 1e-9 * np.linalg.norm(row), text


def test_a_payload_adds_to_the_platform():
    robot = load("3-rrr")
    motion = random_motion(robot, 30)
    here = change_frame(np.array([2e-3, 0, 0, 2e-3, 0, 3e-3, 0.02, 0.01, 0, 1.2]), robot.tool.T_link_frame)
    loaded = replace(robot, payload=Payload(robot.tool.link, here))
    columns = layout(robot).link(robot.mechanism.link_names.index("platform"))
    extra = regressor(robot, motion)[:, :, columns] @ here
    np.testing.assert_allclose(inverse_dynamics(loaded, motion) - inverse_dynamics(robot, motion), extra, atol=1e-12)
    seen = np.linalg.norm(regressor(robot, motion)[:, :, columns], axis=(0, 1)) > 1e-9
    assert [layout(robot).names[columns][k] for k in np.flatnonzero(seen)] == ["ZZ7", "MX7", "MY7", "M7"]
