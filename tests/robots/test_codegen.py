"""Generated code against the compiled kernel, in every language that is generated."""

import ctypes
import importlib.util
import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from excitor.robots.arrays import FloatArray
from excitor.robots.codegen import (
    SIGN_WIDTH,
    Routine,
    comment,
    identifier,
    inverse_dynamics_code,
    operation_counts,
    python_source,
    start_trace,
    traced_energy,
    traced_power,
    traced_regressor,
)
from excitor.robots.dynamics import energy_regressor, inverse_dynamics, power_regressor, regressor
from excitor.robots.errors import ExcitorError
from excitor.robots.parameters import layout
from excitor.robots.robot import DriveTrain, Frame, FrictionTerm, Limits, Motion, Robot, RotorInertia
from excitor.robots.simulate import with_friction_width
from excitor.robots.tree import Tree

HOSTILE = 'evil */ int x; /* *) END_VAR (* \n#include "x"\\\n{pragma} \'\'\' """ ??/ ë'


def rot_x(angle: float, shift: list[float]) -> FloatArray:
    c, s = np.cos(angle), np.sin(angle)
    return np.array([[1, 0, 0, shift[0]], [0, c, -s, shift[1]], [0, s, c, shift[2]], [0, 0, 0, 1]])


def mdh(alpha: float, d: float, r: float) -> FloatArray:
    """Modified DH: Rx(alpha) Tx(d), then Tz(r) along the joint."""
    return rot_x(alpha, [d, -r * np.sin(alpha), r * np.cos(alpha)])


def arm(before: list[FloatArray], **changes: object) -> Tree:
    n = len(before)
    fields: dict[str, object] = {
        "joint_names": tuple(f"j{i + 1}" for i in range(n)),
        "link_names": tuple(f"l{i + 1}" for i in range(n)),
        "parents": np.arange(n) - 1,
        "before": before,
        "axis": np.tile([0.0, 0.0, 1.0], (n, 1)),
        "after": np.tile(np.eye(4), (n, 1, 1)),
        "sliding": np.zeros(n, dtype=bool),
        "coupling": np.eye(n),
        "offset": np.zeros(n),
        "gravity": [0.0, 0.0, -9.81],
    }
    return Tree(**{**fields, **changes})  # type: ignore[arg-type]


def robot_of(tree: Tree, rotors: tuple[RotorInertia, ...], friction: tuple[FrictionTerm, ...], name: str) -> Robot:
    """A robot whose parameters are all known: random, for no physics is asked of them here."""
    n = tree.n_joints
    free = np.full(n, np.inf)
    drive = DriveTrain(np.eye(n), np.full((n, 4), np.nan), np.ones(n), rotors, friction)
    extra = {element.parameter for element in (*rotors, *friction)}
    n_params = 10 * tree.n_links + len(extra)
    return Robot(
        name=name,
        mechanism=tree,
        drive=drive,
        limits=Limits(np.stack([-free, free], axis=1), free, free, free, free),
        tool=Frame("tool", tree.n_links - 1, np.eye(4)),
        payload=None,
        chi=np.random.default_rng(len(name)).normal(size=n_params),
        known=np.ones(n_params, dtype=bool),
        assumed_zero=np.zeros(n_params, dtype=bool),
    )


def term(parameter: str, model: str, senses: FloatArray, **more: float) -> FrictionTerm:
    return FrictionTerm(parameter, model, senses, senses, **more)  # type: ignore[arg-type]


def planar() -> Robot:
    """Rotradi's geometry, and one of every friction that one instant's motion decides."""
    tree = arm([mdh(0, 0, 0), mdh(np.pi / 2, 0, 0), mdh(0, 0.45, 0)], offset=[0.0, -np.pi / 2, 0.0])
    e = np.eye(3)
    friction = (
        *(term(f"Fv{i + 1}", "viscous", e[i]) for i in range(3)),
        *(term(f"Fs{i + 1}", "coulomb", e[i], width=0.005) for i in range(3)),
        term("off1", "offset", e[0]),
        term("Fr1", "sqrt", e[0], width=0.1),
        term("Fst2", "stribeck", e[1], width=0.1, scale=0.3),
        term("Rs2", "ripple-sin", e[1], scale=4.0),
        term("Rc3", "ripple-cos", e[2], scale=50.0),
        term("Fl3", "load", e[2], width=0.02),
    )
    rotors = tuple(RotorInertia(f"Ia{i + 1}", e[i], e[i]) for i in range(2))
    return robot_of(tree, rotors, friction, "rotradi")


def tx40_like() -> Robot:
    """Six revolute joints, modified DH, and a wrist whose sixth rotor turns at q5 + q6."""
    h = np.pi / 2
    geometry = [(0, 0, 0), (-h, 0, 0), (0, 0.225, 0.035), (h, 0, 0.225), (-h, 0, 0), (h, 0, 0)]
    e = np.eye(6)
    wrist = e[4] + e[5]
    rotors = (*(RotorInertia(f"Ia{i + 1}", e[i], e[i]) for i in range(2, 5)), RotorInertia("Ia6", wrist, wrist))
    friction = (
        *(term(f"Fv{i + 1}", "viscous", e[i]) for i in range(6)),
        *(term(f"Fs{i + 1}", "coulomb", e[i], width=0.01) for i in range(6)),
        term("Fvm6", "viscous", wrist),
        term("Fsm6", "coulomb", wrist, width=0.01),
    )
    return robot_of(arm([mdh(*row) for row in geometry]), rotors, friction, "tx40-like")


def qrc_like() -> Robot:
    """Standard DH: constants behind the joints, angles geared together, one general twist."""
    h = np.pi / 2
    after = [rot_x(alpha, [a, 0.0, d]) for alpha, a, d in
             [(h, 0.16, 0.0), (0, 0.7, 0.0), (h, 0.15, 0), (-h, 0, 0.8), (0.7, 0, 0), (0, 0, 0.1)]]  # fmt: skip
    coupling = np.eye(6)
    coupling[2, 1], coupling[4, 3], coupling[5, 4] = -1.0, 0.02, -0.3
    tree = arm([np.eye(4)] * 6, after=after, coupling=coupling, offset=[0.0, h, 0.0, 0.3, -h, np.pi])
    e = np.eye(6)
    friction = tuple(term(f"fc{i + 1}", "coulomb", e[i], width=1e-3) for i in range(6))
    rotors = tuple(RotorInertia(f"JA{i + 1}", e[i], e[i]) for i in range(6))
    return robot_of(tree, rotors, friction, "qrc-like")


def branching() -> Robot:
    """A tree with a slide, free axes and a joint without a coordinate of its own; friction that acts elsewhere."""
    axis = np.array([[0, 0, 1], [0.6, 0, 0.8], [0, 1, 0], [1, 0, 0]])
    before = [mdh(0.3, 0.1, 0.2), mdh(0, 0.3, 0), mdh(np.pi / 2, 0, 0.4), mdh(0, 0, 0.2)]
    tree = arm(
        before,
        joint_names=("turn", "slide", "arm"),
        parents=[-1, 0, 0, 2],
        axis=axis,
        sliding=[False, True, False, False],
        coupling=[[1, 0, 0], [0, 1, 0], [0, 0, 1], [0, 0.5, -1]],
        gravity=[1.0, 2.0, -9.0],
    )
    rotor = RotorInertia("Ia", np.array([1.0, 30.0, 0.0]), np.array([1.0, 20.0, 0.0]))
    return robot_of(tree, (rotor,), (term("Fv", "viscous", np.array([0.0, 2.0, 1.0])),), "tree")


BUILDERS = [planar, tx40_like, qrc_like, branching]
Function = Callable[[FloatArray, FloatArray, FloatArray], FloatArray]


def run_python(source: str, folder: Path, n_joints: int) -> Function:
    path = folder / "generated.py"
    path.write_text(source)
    spec = importlib.util.spec_from_file_location("generated", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    name = re.findall(r"^def (\w+)", source, re.MULTILINE)[0]
    return lambda q, dq, ddq: np.array(getattr(module, name)(q.tolist(), dq.tolist(), ddq.tolist()))


def run_c(source: str, folder: Path, n_joints: int) -> Function:
    if shutil.which("gcc") is None:
        pytest.skip("gcc is not installed, so generated C cannot be compiled")
    (folder / "generated.c").write_text(source)
    flags = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-Wshadow", "-O1", "-shared", "-fPIC"]
    built = subprocess.run(
        ["gcc", *flags, "generated.c", "-o", "generated.so", "-lm"], cwd=folder, capture_output=True, text=True
    )
    assert built.returncode == 0, built.stderr
    name = re.findall(r"^void (\w+)", source, re.MULTILINE)[0]
    compiled = getattr(ctypes.CDLL(str(folder / "generated.so")), name)
    array = ctypes.c_double * n_joints

    def call(q: FloatArray, dq: FloatArray, ddq: FloatArray) -> FloatArray:
        tau = array()
        compiled(array(*q), array(*dq), array(*ddq), tau)
        return np.array(tau)

    return call


def run_structured_text(source: str, folder: Path, n_joints: int) -> Function:
    """Read the declarations strictly, then run the assignments: what is left is Python's arithmetic."""
    text = re.sub(r"\(\*.*?\*\)", " ", source, flags=re.DOTALL)
    assert "(*" not in text
    assert "*)" not in text
    head = re.match(r"\s*FUNCTION_BLOCK (\w+)\s+(.*?)END_FUNCTION_BLOCK\s*$", text, re.DOTALL)
    assert head is not None
    sections = re.findall(r"(VAR(?:_INPUT|_OUTPUT| CONSTANT)?)\s(.*?)END_VAR", head[2], re.DOTALL)
    declared = {kind: re.findall(r"(\w+) : ([^;]+);", body) for kind, body in sections}
    assert [name for name, _ in declared["VAR_INPUT"]] == ["q", "dq", "ddq"]
    variables = {name for name, kind in declared.get("VAR", []) if kind.strip() == "LREAL"}
    table = declared.get("VAR CONSTANT", [("chi", ":= []")])[0][1].partition(":=")[2]
    for literal in re.findall(r"[^\s\[\],]+", table):
        assert re.fullmatch(r"-?\d+\.\d+(E-?\d+)?", literal), literal
    body = head[2].rpartition("END_VAR")[2]
    statements = [statement.strip() for statement in body.split(";")][:-1]
    for statement in statements:
        target = statement.partition(" := ")[0]
        assert target in variables or re.fullmatch(r"tau\[\d+\]", target), target
    program = compile("\n".join(statements).replace(":=", "="), "generated.st", "exec")
    known = {"SIN": np.sin, "COS": np.cos, "EXP": np.exp, "SQRT": np.sqrt, "ABS": abs}
    chi = [np.nan, *map(float, re.findall(r"[^\s\[\],]+", table))]

    def call(q: FloatArray, dq: FloatArray, ddq: FloatArray) -> FloatArray:
        inputs = {name: [np.nan, *x] for name, x in (("q", q), ("dq", dq), ("ddq", ddq))}
        tau = [np.nan] * (n_joints + 1)
        limit = {"LIMIT": lambda low, x, high: min(max(x, low), high)}
        exec(program, {**known, **limit, **inputs, "tau": tau, "chi": chi})
        return np.array(tau[1:])

    return call


RUNNERS = {"c": run_c, "st": run_structured_text, "python": run_python}


def generated(robot: Robot, language: str, folder: Path, **options: object) -> Function:
    source = inverse_dynamics_code(robot, language, **options)  # type: ignore[arg-type]
    return RUNNERS[language](source, folder, robot.n_joints)


def assert_agrees(function: Function, robot: Robot, chi: FloatArray | None = None) -> None:
    """A thousand roundings of 1e-16, on torques that cancel to a hundredth, stay far below 1e-10; no error does."""
    n = robot.n_joints
    motion = Motion(*np.random.default_rng(7).normal(size=(3, 20, n)))
    expected = inverse_dynamics(robot, motion, chi)
    ours = np.array([function(*state) for state in zip(motion.q, motion.dq, motion.ddq, strict=True)])
    np.testing.assert_allclose(ours, expected, rtol=0.0, atol=1e-10 * np.abs(expected).max())


@pytest.mark.parametrize("language", RUNNERS)
@pytest.mark.parametrize("build", BUILDERS)
def test_generated_code_is_the_compiled_kernel(build: Callable[[], Robot], language: str, tmp_path: Path) -> None:
    robot = build()
    assert_agrees(generated(robot, language, tmp_path), robot)


@pytest.mark.parametrize("language", RUNNERS)
def test_a_kept_subset_is_the_model_with_the_rest_zero(language: str, tmp_path: Path) -> None:
    robot = planar()
    kept = ("ZZ1", "ZZ3", "MX2", "MY3", "Ia2", "Fs3", "XY2")
    chi = np.zeros(len(robot.chi))
    columns = layout(robot).indices(list(kept))
    chi[columns] = np.random.default_rng(3).normal(size=len(kept))
    full = np.where(chi == 0.0, 5.0, chi)
    source = inverse_dynamics_code(robot, language, chi=full, kept=kept)
    assert_agrees(RUNNERS[language](source, tmp_path, 3), robot, chi)
    assert source.count("kg m") == 6  # a line for each, Fs3 in N m
    assert "MX3" not in source


@pytest.mark.parametrize("language", RUNNERS)
def test_a_parameter_without_effect_leaves_no_trace(language: str, tmp_path: Path) -> None:
    robot = planar()
    source = inverse_dynamics_code(robot, language, kept=("XX1", "MX1", "M1", "ZZ1", "off1"))
    assert "XX1" not in source
    chi = np.zeros(len(robot.chi))
    columns = layout(robot).indices(["ZZ1", "off1"])
    chi[columns] = robot.chi[columns]
    assert_agrees(RUNNERS[language](source, tmp_path, 3), robot, chi)


@pytest.mark.parametrize("language", RUNNERS)
def test_constants_alone_are_code_too(language: str, tmp_path: Path) -> None:
    robot = planar()
    function = generated(robot, language, tmp_path, kept=("off1",))
    tau = function(np.ones(3), np.ones(3), np.ones(3))
    assert tau.tolist() == [robot.chi[layout(robot).index("off1")], 0.0, 0.0]


@pytest.mark.parametrize("language", RUNNERS)
def test_sharp_signs_are_smoothed_even_at_great_speed(language: str, tmp_path: Path) -> None:
    robot = planar()
    sharp = tuple(replace(term, width=0.0) for term in robot.drive.friction)
    robot = replace(robot, drive=replace(robot.drive, friction=sharp))
    function = generated(robot, language, tmp_path)
    assert_agrees(function, with_friction_width(robot, SIGN_WIDTH))
    (tmp_path / "wide").mkdir()
    wide = with_friction_width(robot, 0.5)
    assert_agrees(generated(wide, language, tmp_path / "wide"), wide)
    fast = np.full(3, -1e6)
    motion = Motion(fast[None] * 0, fast[None], fast[None])
    expected = inverse_dynamics(with_friction_width(robot, SIGN_WIDTH), motion)[0]
    np.testing.assert_allclose(function(fast * 0, fast, fast), expected, rtol=1e-10)


@pytest.mark.parametrize("language", RUNNERS)
@pytest.mark.parametrize("name", [HOSTILE, "*/ main() {", "3-axis", "", "for", "END_IF", "v1", "日本"])
def test_names_cannot_break_out(name: str, language: str, tmp_path: Path) -> None:
    robot = replace(planar(), name=name, title=name)
    friction = tuple(replace(term, parameter=f"{term.parameter}{name}") for term in robot.drive.friction)
    robot = replace(robot, drive=replace(robot.drive, friction=friction))
    assert_agrees(generated(robot, language, tmp_path), robot)
    second = tmp_path / "named"
    second.mkdir()
    assert_agrees(generated(robot, language, second, name=name), robot)


def test_safe_text() -> None:
    assert identifier("KR 150 (R2700)") == "KR_150_R2700"
    assert identifier("Sin") == "robot_Sin"
    assert identifier("__x__y") == "x_y"
    assert identifier("%%") == "robot"
    assert set(comment(HOSTILE)).isdisjoint("*\\\n\"'{}?#")


def test_a_maxwell_slip_element_is_refused_by_name() -> None:
    robot = planar()
    slip = (*robot.drive.friction, FrictionTerm("z1", "maxwell-slip", np.eye(3)[0], np.eye(3)[0]))
    grown = np.append(robot.chi, 2.0)
    flags = np.zeros(len(grown), dtype=bool)
    robot = replace(robot, drive=replace(robot.drive, friction=slip), chi=grown, known=~flags, assumed_zero=flags)
    with pytest.raises(ExcitorError, match=r"'z1' is a Maxwell-slip element.*leave it out of `kept`"):
        inverse_dynamics_code(robot, "c")
    assert "z1" not in inverse_dynamics_code(robot, "c", kept=layout(robot).names[:-1])


def test_bad_input_is_reported_in_sentences() -> None:
    robot = planar()
    with pytest.raises(ValueError, match="expected one of c, st, python"):
        inverse_dynamics_code(robot, "fortran")
    with pytest.raises(ValueError, match="chi is not finite for XX1"):
        inverse_dynamics_code(robot, "c", chi=np.where(np.arange(len(robot.chi)) == 0, np.nan, robot.chi))
    with pytest.raises(ValueError, match="chi has shape"):
        inverse_dynamics_code(robot, "c", chi=np.ones(3))
    with pytest.raises(ValueError, match=r"every parameter .* is 0"):
        inverse_dynamics_code(robot, "c", chi=np.zeros(len(robot.chi)))
    with pytest.raises(ValueError, match="parameter 'ZZ9' is not one"):
        inverse_dynamics_code(robot, "c", kept=["ZZ9"])


@pytest.mark.parametrize("build", [planar, tx40_like, qrc_like])
def test_the_columns_that_are_counted_are_the_right_ones(build: Callable[[], Robot], tmp_path: Path) -> None:
    robot = build()
    names = layout(robot).names
    wanted = [k for k, name in enumerate(names) if name != "Fl3"]  # a load is no function of the motion alone
    trace = start_trace(robot, wanted)
    state = np.random.default_rng(11).normal(size=(3, robot.n_joints))
    motion = Motion(*state[:, None])
    Y = regressor(robot, motion)[0][:, wanted].T.ravel()
    h, p = energy_regressor(robot, motion)[0, wanted], power_regressor(robot, motion)[0, wanted]
    for traced, expected in ((traced_regressor, Y), (traced_energy, h), (traced_power, p)):
        routine = Routine(traced.__name__, "", robot.n_joints, (), tuple(traced(trace)))
        ours = run_python(python_source(routine), tmp_path, robot.n_joints)(*state)
        np.testing.assert_allclose(ours, expected, rtol=0.0, atol=1e-12 * np.abs(expected).max())


def test_counts_of_one_pendulum_are_those_by_hand() -> None:
    """τ = ZZ ddq + g (MX cos q - MY sin q)."""
    tree = arm([rot_x(-np.pi / 2, [0, 0, 0])])
    pendulum = robot_of(tree, (), (), "pendulum")
    counts = operation_counts(pendulum, kept=("ZZ1", "MX1", "MY1"))
    assert (counts.torque.additions, counts.torque.functions) == (2, 2)
    assert counts.torque.multiplications == 5  # ZZ ddq, g cos q, g sin q, and MX, MY times these
    assert (counts.regressor.additions, counts.regressor.multiplications, counts.regressor.functions) == (0, 2, 2)
    assert (counts.energy.additions, counts.energy.multiplications, counts.energy.functions) == (0, 4, 2)
    assert counts.power.total == counts.regressor.total + 3  # each times dq


def test_energy_functions_take_a_fraction_of_the_dynamic_regressor() -> None:
    counts = operation_counts(tx40_like())
    assert counts.energy.total < counts.regressor.total / 3
    assert counts.power.total < counts.regressor.total / 1.8
    few = operation_counts(tx40_like(), kept=("ZZ1", "MX2", "MY3", "ZZ6"))
    assert few.torque.total < counts.torque.total
    assert few.regressor.total < counts.regressor.total
