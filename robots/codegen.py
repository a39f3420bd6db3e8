"""Feedforward as source code: inverse dynamics in C99, IEC 61131-3 structured text or Python, and operation counts.

A robot's models (inverse dynamics and the regressors' columns) are traced as expressions of q, dq, ddq. Each different
expression is recorded once, and trivial ones are folded.
"""

import keyword
import math
import re
import textwrap
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from string import ascii_letters, digits
from typing import Any

import numpy as np

from excitor.robots.arrays import FloatArray, check_shape
from excitor.robots.dynamics import refuse_foreign
from excitor.robots.errors import ExcitorError
from excitor.robots.friction import friction_model
from excitor.robots.kernel.reference import (
    Coordinates,
    DriveAlgebra,
    Element,
    Given,
    Scalar,
    add,
    dot,
    energy_columns,
    friction_elements,
    numbers,
    power_columns,
    regressor_columns,
    rotor_elements,
    times,
    torques,
)
from excitor.robots.parameters import layout, prior
from excitor.robots.robot import FrictionTerm, Robot
from excitor.robots.simulate import with_friction_width
from excitor.robots.tree import Tree

SIGN_WIDTH = 1e-3  # rad/s or m/s: [Volkmann2020] §IV feeds tanh(1000 dq) forward instead of sgn(dq)
_SUM, _PRODUCT, _ATOM = 1, 2, 3  # how strongly a text holds together
FUNCTIONS: dict[str, Callable[[float], float]] = {
    "sin": math.sin, "cos": math.cos, "tanh": math.tanh, "exp": math.exp, "sqrt": math.sqrt, "abs": abs,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Count:
    """Operation counts of expressions; changes of sign and operations on constants alone are free."""

    additions: int
    multiplications: int
    functions: int  # sines, cosines, exponentials and so on

    @property
    def total(self) -> int:
        """Total number of operations."""
        return self.additions + self.multiplications + self.functions


@dataclass(frozen=True, slots=True)
class OperationCounts:
    """Operation counts of one evaluation of each model, for the same parameters."""

    torque: Count  # inverse dynamics τ, parameters known
    regressor: Count  # the dynamic model's columns, τ = Y χ
    energy: Count  # the power model's energy functions, H = h χ
    power: Count  # the power model's columns, dqᵀτ = dh/dt χ, and what friction takes


def inverse_dynamics_code(
    robot: Robot,
    language: str,
    *,
    chi: FloatArray | None = None,
    kept: Collection[str] | None = None,
    name: str | None = None,
) -> str:
    """Write source code for τ = Y(q, dq, ddq) χ, free of allocation and of everything whose parameter is 0.

    `language` is "c", "st" (IEC 61131-3) or "python". χ is the prior model where not given; of it, only parameters
    named in `kept` remain. Sharp signs of velocities are smoothed over SIGN_WIDTH, if no width is stated.
    """
    if language not in LANGUAGES:
        raise ValueError(f"language is {language!r}, expected one of {', '.join(LANGUAGES)}")
    robot = with_friction_width(robot, SIGN_WIDTH)
    values = _kept_values(robot, chi, kept)
    results = traced_torque(start_trace(robot, np.flatnonzero(values).tolist()))
    used = sorted(node.label[0] for node in needed(results) if node.kind == "parameter")
    names, units = layout(robot).names, layout(robot).units
    routine = Routine(
        name=identifier(name if name is not None else f"{identifier(robot.name)}_inverse_dynamics"),
        title=f"Inverse dynamics of {robot.title or robot.name}: tau from q, dq, ddq, in SI units and radians",
        n_joints=robot.n_joints,
        constants=tuple(Constant(k, names[k], units[k], float(values[k])) for k in used),
        results=tuple(results),
    )
    return LANGUAGES[language](routine)


def operation_counts(robot: Robot, kept: Collection[str] | None = None) -> OperationCounts:
    """Count the operations of the dynamic and the power model, for the parameters named in `kept`, by default all.

    Name the parameters that base parameters are grouped on to count these. [Gautier2013] §I holds the power model
    to be dramatically simpler.
    """
    robot = with_friction_width(robot, SIGN_WIDTH)
    selected = range(len(layout(robot))) if kept is None else layout(robot).indices(list(kept)).tolist()
    trace = start_trace(robot, selected)
    models = (traced_torque, traced_regressor, traced_energy, traced_power)
    return OperationCounts(*(count(model(trace)) for model in models))


def _kept_values(robot: Robot, chi: FloatArray | None, kept: Collection[str] | None) -> FloatArray:
    """Return the parameters that code is written for, 0 for those that are not kept."""
    values = prior(robot) if chi is None else np.array(chi, dtype=float)
    check_shape(values, "n_params", "chi", {"n_params": len(layout(robot))})
    if not np.isfinite(values).all():
        bad = [name for name, value in zip(layout(robot).names, values, strict=True) if not np.isfinite(value)]
        raise ValueError(f"chi is not finite for {', '.join(bad)}; give each a number, or 0 to leave it out")
    if kept is not None:
        outside = np.ones(len(values), dtype=bool)
        outside[layout(robot).indices(list(kept))] = False
        values[outside] = 0.0
    if not values.any():
        sentence = f"{robot.name}: every parameter that code would be written for is 0; give an identified model as chi"
        raise ValueError(sentence)
    return values


LINE = 56  # longer expressions get a variable
_NAME_LENGTH = 60
_IN_COMMENTS = frozenset(ascii_letters + digits + " .,:;=+-^_/()")  # no *, so that no comment can be ended or begun
_ARGUMENTS = ("q", "dq", "ddq")
_WORDS = (
    "abs acos action any array asin asm at atan auto bool by byte case chi char concat configuration const constant "
    "continue date ddq default delete delta dint do double dq dt dword else elsif end_action end_case end_for "
    "end_function end_function_block end_if end_program end_repeat end_struct end_type end_var end_while enum exit exp "
    "extern f_edge false find float for function function_block goto if inline insert int interval left len limit lint "
    "ln log long lreal lword main max mid min mod mux not of on or pow program q r_edge read_only read_write real "
    "register repeat replace resource restrict retain return right rol ror sel shl short shr signed sin sint sizeof "
    "sqrt static string struct super switch tan task tau then this time to tod true type typedef udint uint ulint "
    "union unsigned until usint var var_access var_config var_external var_global var_in_out var_input var_output "
    "var_temp void volatile while with word wstring xor"
)
_RESERVED = {*_WORDS.split()} | {word.lower() for word in (*keyword.kwlist, *keyword.softkwlist, *dir(math))}


@dataclass(frozen=True, slots=True)
class Constant:
    """A named constant, and the index of its parameter node."""

    parameter: int
    name: str
    unit: str
    value: float


class Graph:
    """Expressions of one trace, in the order in which they were recorded."""

    def __init__(self) -> None:
        self._known: dict[tuple[Any, ...], Node] = {}

    def input(self, name: str, index: int) -> "Node":
        """Return the node of an element of an argument, an input of every call."""
        return self.node("input", (), (name, index))

    def parameter(self, index: int) -> "Node":
        """Return the node of a named constant."""
        return self.node("parameter", (), (index,))

    def number(self, value: float) -> "Node":
        """Return the node of a number."""
        return self.node("number", (), (float(value),))

    def call(self, function: str, x: "Node | float") -> "Node":
        """Apply one of FUNCTIONS."""
        x = self.lift(x)
        if x.kind == "number":
            return self.number(FUNCTIONS[function](x.value))
        if x.kind == "neg" and function in ("sin", "tanh"):
            return -self.call(function, x.args[0])
        if x.kind == "neg" and function in ("cos", "abs"):
            return self.call(function, x.args[0])
        return self.node(function, (x,))

    def lift(self, x: "Node | float") -> "Node":
        """Convert a number to a node."""
        return x if isinstance(x, Node) else self.number(x)

    def node(self, kind: str, args: "tuple[Node, ...]", label: tuple[Any, ...] = ()) -> "Node":
        """Find an expression, or record it."""
        key = (kind, tuple(arg.serial for arg in args), label)
        if key not in self._known:
            self._known[key] = Node(self, kind, args, label, len(self._known))
        return self._known[key]


@dataclass(frozen=True, eq=False, slots=True)
class Node:
    """One expression. Two nodes of a graph that look alike are the same node."""

    graph: Graph
    kind: str  # input, parameter, number, add, sub, mul, neg, or one of FUNCTIONS
    args: "tuple[Node, ...]"
    label: tuple[Any, ...]
    serial: int

    @property
    def value(self) -> float:
        """Read a number's value."""
        return float(self.label[0])

    def is_number(self, value: float) -> bool:
        """Return True if the node is this number."""
        return self.kind == "number" and self.value == value

    def __neg__(self) -> "Node":
        if self.kind == "number":
            return self.graph.number(0.0 if self.value == 0.0 else -self.value)
        if self.kind == "neg":
            return self.args[0]
        if self.kind == "sub":
            return self.args[1] - self.args[0]
        return self.graph.node("neg", (self,))

    def __add__(self, other: "Node | float") -> "Node":
        other = self.graph.lift(other)
        if self.kind == "number" and other.kind == "number":
            return self.graph.number(self.value + other.value)
        if self.is_number(0.0):
            return other
        if other.is_number(0.0):
            return self
        if other.kind == "neg":
            return self - other.args[0]
        if self.kind == "neg":
            return other - self.args[0]
        return self.graph.node("add", _ordered(self, other))

    def __sub__(self, other: "Node | float") -> "Node":
        other = self.graph.lift(other)
        if self is other:
            return self.graph.number(0.0)
        if self.kind == "number" and other.kind == "number":
            return self.graph.number(self.value - other.value)
        if self.is_number(0.0):
            return -other
        if other.is_number(0.0):
            return self
        if other.kind == "neg":
            return self + other.args[0]
        if self.kind == "neg":
            return -(self.args[0] + other)
        return self.graph.node("sub", (self, other))

    def __mul__(self, other: "Node | float") -> "Node":
        other = self.graph.lift(other)
        for x, y in ((self, other), (other, self)):
            if x.is_number(0.0):
                return x
            if x.is_number(1.0):
                return y
            if x.is_number(-1.0) or (x.kind == "number" and x.value < 0.0):
                return -(y * -x)
            if x.kind == "neg":
                return -(x.args[0] * y)
            if x.kind == "number" and y.kind == "number":
                return self.graph.number(x.value * y.value)
        return self.graph.node("mul", _ordered(self, other))

    __radd__ = __add__
    __rmul__ = __mul__

    def __rsub__(self, other: float) -> "Node":
        return self.graph.lift(other) - self


@dataclass(frozen=True, slots=True)
class Routine:
    """A function to be written: one result a joint, from q, dq, ddq and constants."""

    name: str
    title: str
    n_joints: int
    constants: tuple[Constant, ...]
    results: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Dialect:
    """Spelling of expressions in a language."""

    first_index: int
    constants: str  # the table's name
    number: Callable[[float], str]
    functions: dict[str, str] = field(default_factory=dict)  # patterns, where a call is not name(x)


@dataclass(slots=True)
class Body:
    """Expressions written out: variables in the order they are assigned, then the results."""

    variables: list[tuple[str, str]] = field(default_factory=list)
    results: list[str] = field(default_factory=list)


def c_source(routine: Routine) -> str:
    """Write a C99 function: no allocation, no state, math.h alone."""
    n = routine.n_joints
    body = _write(routine, Dialect(0, "chi", repr, {"abs": "fabs({})"}))
    arguments = ", ".join(f"const double {name}[{n}]" for name in _ARGUMENTS)
    lines = [f"/* {comment(routine.title)} */", "", "#include <math.h>", ""]
    lines += [f"void {routine.name}({arguments}, double tau[{n}])", "{"]
    if routine.constants:
        lines += [f"    static const double chi[{len(routine.constants)}] = {{"]
        lines += [f"        {c.value!r}, /* {comment(c.name)}, {comment(c.unit)} */" for c in routine.constants]
        lines += ["    };", ""]
    lines += [f"    const double {name} = {text};" for name, text in body.variables]
    lines += [f"    (void){name};" for name in _ARGUMENTS if name not in _inputs(routine)]
    lines += [f"    tau[{i}] = {text};" for i, text in enumerate(body.results)]
    return "\n".join([*lines, "}", ""])


def structured_text(routine: Routine) -> str:
    """Write an IEC 61131-3 function block. The standard has no tanh: 1 - 2 / (exp 2x + 1), x held within ±20."""
    n = routine.n_joints
    functions = {name: f"{name.upper()}({{}})" for name in FUNCTIONS}
    functions["tanh"] = "(1.0 - 2.0 / (EXP(2.0 * LIMIT(-20.0, {}, 20.0)) + 1.0))"
    body = _write(routine, Dialect(1, "chi", _iec_number, functions))
    lines = [f"(* {comment(routine.title)} *)", f"FUNCTION_BLOCK {routine.name}", "VAR_INPUT"]
    lines += [f"    {name} : ARRAY[1..{n}] OF LREAL;" for name in _ARGUMENTS]
    lines += ["END_VAR", "VAR_OUTPUT", f"    tau : ARRAY[1..{n}] OF LREAL;", "END_VAR"]
    if routine.constants:
        lines += ["VAR CONSTANT", f"    chi : ARRAY[1..{len(routine.constants)}] OF LREAL := ["]
        commas = [","] * (len(routine.constants) - 1) + [""]
        lines += [
            f"        {_iec_number(c.value)}{comma} (* {comment(c.name)}, {comment(c.unit)} *)"
            for c, comma in zip(routine.constants, commas, strict=True)
        ]
        lines += ["    ];", "END_VAR"]
    if body.variables:
        lines += ["VAR", *(f"    {name} : LREAL;" for name, _ in body.variables), "END_VAR"]
    lines += ["", *(f"{name} := {text};" for name, text in body.variables)]
    lines += [f"tau[{i}] := {text};" for i, text in enumerate(body.results, start=1)]
    return "\n".join([*lines, "END_FUNCTION_BLOCK", ""])


def python_source(routine: Routine) -> str:
    """Write a Python function of three sequences that returns a list; it needs the standard library alone."""
    body = _write(routine, Dialect(0, "CHI", repr))
    imported = sorted({node.kind for node in needed(routine.results)} & set(FUNCTIONS) - {"abs"})
    lines = [f"# {comment(routine.title)}", ""]
    lines += [f"from math import {', '.join(imported)}", ""] if imported else []
    if routine.constants:
        lines += ["CHI = ("]
        lines += [f"    {c.value!r},  # {comment(c.name)}, {comment(c.unit)}" for c in routine.constants]
        lines += [")", ""]
    lines += ["", f"def {routine.name}({', '.join(_ARGUMENTS)}):"]
    lines += [f"    {name} = {text}" for name, text in body.variables]
    lines += ["    return [", *(f"        {text}," for text in body.results), "    ]", ""]
    return "\n".join(lines)


LANGUAGES = {"c": c_source, "st": structured_text, "python": python_source}


def identifier(name: str) -> str:
    """Convert any text to an identifier that is valid and not reserved in all languages here."""
    safe = re.sub(r"[^A-Za-z0-9]+", "_", name)[:_NAME_LENGTH].strip("_")
    taken = safe.lower() in _RESERVED or re.fullmatch(r"v\d+", safe.lower())
    return f"robot_{safe}".rstrip("_") if taken or not safe[:1].isalpha() else safe


def comment(text: str) -> str:
    """Convert any text to one that cannot end a comment."""
    return "".join(letter if letter in _IN_COMMENTS else "_" for letter in text[:120])


def comment_lines(text: str, language: str) -> str:
    """Write any text as comment lines of a language."""
    form = {"c": "/* {} */", "st": "(* {} *)", "python": "# {}"}[language]
    return "\n".join(form.format(comment(line)) for line in textwrap.wrap(text, 110))


def _inputs(routine: Routine) -> set[str]:
    return {node.label[0] for node in needed(routine.results) if node.kind == "input"}


def _iec_number(value: float) -> str:
    """Spell a real literal: IEC wants digits on both sides of the point, an exponent or not."""
    mantissa, _, exponent = repr(value).partition("e")
    mantissa = mantissa if "." in mantissa else f"{mantissa}.0"
    return f"{mantissa}E{int(exponent)}" if exponent else mantissa


def _write(routine: Routine, dialect: Dialect) -> Body:
    """Write every needed expression once: into a variable if it is shared or long, else where it is used."""
    place = {constant.parameter: i for i, constant in enumerate(routine.constants, start=dialect.first_index)}
    nodes = needed(routine.results)
    uses: dict[int, int] = {}
    for node in nodes:
        for arg in node.args:
            uses[arg.serial] = uses.get(arg.serial, 0) + 1
    for result in routine.results:
        uses[result.serial] = uses.get(result.serial, 0) + 1
    body = Body()
    texts: dict[int, tuple[str, int]] = {}
    for node in nodes:
        text, strength = _expression(node, texts, place, dialect)
        if node.args and (len(text) > LINE or (uses[node.serial] > 1 and node.kind != "neg")):
            variable = f"v{len(body.variables) + 1}"
            body.variables.append((variable, text))
            text, strength = variable, _ATOM
        texts[node.serial] = text, strength
    body.results += [texts[result.serial][0] for result in routine.results]
    return body


def _expression(
    node: Node, texts: dict[int, tuple[str, int]], place: dict[int, int], dialect: Dialect
) -> tuple[str, int]:
    """Write one node from its arguments' texts; floating-point sums keep the order they were traced in."""

    def held(k: int, strength: int) -> str:
        text, own = texts[node.args[k].serial]
        return text if own >= strength else f"({text})"

    if node.kind == "input":
        return f"{node.label[0]}[{node.label[1] + dialect.first_index}]", _ATOM
    if node.kind == "parameter":
        return f"{dialect.constants}[{place[node.label[0]]}]", _ATOM
    if node.kind == "number":
        return dialect.number(node.value), _ATOM if math.copysign(1.0, node.value) > 0.0 else _SUM
    if node.kind == "neg":
        return f"-{held(0, _ATOM)}", _SUM
    if node.kind == "mul":
        return f"{held(0, _PRODUCT)} * {held(1, _ATOM)}", _PRODUCT
    if node.kind in ("add", "sub"):
        return f"{held(0, _SUM)} {'+' if node.kind == 'add' else '-'} {held(1, _PRODUCT)}", _SUM
    return dialect.functions.get(node.kind, node.kind + "({})").format(texts[node.args[0].serial][0]), _ATOM


def needed(results: Iterable[Node]) -> list[Node]:
    """List all nodes that results depend on, in topological order."""
    found: dict[int, Node] = {}
    waiting = list(results)
    while waiting:
        node = waiting.pop()
        if node.serial not in found:
            found[node.serial] = node
            waiting += node.args
    return [found[serial] for serial in sorted(found)]


def count(results: Sequence[Node]) -> Count:
    """Count operations, each shared one once."""
    constant: set[int] = set()
    kinds: list[str] = []
    for node in needed(results):
        if node.kind in ("number", "parameter") or (node.args and all(arg.serial in constant for arg in node.args)):
            constant.add(node.serial)
        else:
            kinds.append(node.kind)
    additions = kinds.count("add") + kinds.count("sub")
    functions = sum(kind in FUNCTIONS for kind in kinds)
    return Count(additions=additions, multiplications=kinds.count("mul"), functions=functions)


def _ordered(x: Node, y: Node) -> tuple[Node, Node]:
    return (x, y) if x.serial <= y.serial else (y, x)


@dataclass(frozen=True, slots=True)
class Trace:
    """Expression graph of a robot's models, and the columns that take part; others leave no nodes."""

    robot: Robot
    tree: Tree
    graph: Graph
    at: Coordinates
    algebra: DriveAlgebra
    selected: frozenset[int]


def start_trace(robot: Robot, selected: Collection[int]) -> Trace:
    """Open a graph with q, dq, ddq as its inputs; true signs must have been smoothed before."""
    if not isinstance(robot.mechanism, Tree):
        sentence = f"{robot.name} has closed loops, which are closed by iteration; code is written for open chains only"
        raise ExcitorError(sentence)
    refuse_foreign(robot, "generated code", selected)
    graph = Graph()
    q, dq, ddq = ([graph.input(name, i) for i in range(robot.n_joints)] for name in ("q", "dq", "ddq"))
    return Trace(robot, robot.mechanism, graph, (q, dq, ddq), _algebra(graph), frozenset(selected))


def traced_torque(trace: Trace) -> list[Node]:
    """Trace τ by Newton and Euler, then what rotors and friction add; friction is loaded by all the rest."""
    chi = [trace.graph.parameter(k) if k in trace.selected else 0.0 for k in range(len(layout(trace.robot)))]
    phi = [chi[10 * j : 10 * j + 10] for j in range(trace.tree.n_links)]
    rigid = _with_elements(torques(trace.tree, trace.at, phi, trace.algebra), _rotors(trace), chi)

    def given(term: FrictionTerm) -> Scalar:
        if friction_model(term).load:
            return trace.graph.call("abs", dot(numbers(term.acts, trace.algebra), rigid))
        raise ExcitorError(
            f"{trace.robot.name}: friction {term.parameter!r} is a Maxwell-slip element, whose torque depends on the "
            "run so far; a function of one instant cannot hold it, so leave it out of `kept` or set it to 0"
        )

    return _nodes(trace, _with_elements(rigid, _friction(trace, given), chi))


def traced_regressor(trace: Trace) -> list[Node]:
    """Trace every entry of the wanted columns of Y; loads and slip states count as inputs."""
    columns = regressor_columns(trace.tree, trace.at, trace.algebra)
    columns += [[0.0] * trace.robot.n_joints for _ in range(len(layout(trace.robot)) - len(columns))]
    for element in [*_rotors(trace), *_friction(trace, _measured(trace))]:
        share = element.torque
        columns[element.column] = [add(x, y) for x, y in zip(columns[element.column], share, strict=True)]
    return _nodes(trace, [entry for k in sorted(trace.selected) for entry in columns[k]])


def traced_energy(trace: Trace) -> list[Node]:
    """Trace the wanted entries of h: links, and Ia (senses @ dq)² / 2 of rotors."""
    columns = _padded(trace, energy_columns(trace.tree, trace.at, trace.algebra))
    for rotor, column in zip(trace.robot.drive.rotors, layout(trace.robot).rotor_columns, strict=True):
        rate = dot(numbers(rotor.senses, trace.algebra), trace.at[1])
        columns[column] = add(columns[column], times(0.5, times(rate, rate)))
    return _nodes(trace, [columns[k] for k in sorted(trace.selected)])


def traced_power(trace: Trace) -> list[Node]:
    """Trace the wanted entries of dh/dt, and the power (acts @ dq) g that friction dissipates."""
    columns = _padded(trace, power_columns(trace.tree, trace.at, trace.algebra))
    for element in [*_rotors(trace), *_friction(trace, _measured(trace))]:
        power = times(dot(element.acts, trace.at[1]), element.value)
        columns[element.column] = add(columns[element.column], power)
    return _nodes(trace, [columns[k] for k in sorted(trace.selected)])


def _rotors(trace: Trace) -> list[Element]:
    return rotor_elements(trace.robot, trace.at, trace.selected, algebra=trace.algebra)


def _friction(trace: Trace, given: Given) -> list[Element]:
    return friction_elements(trace.robot, trace.at, trace.selected, given=given, algebra=trace.algebra)


def _measured(trace: Trace) -> Given:
    friction = trace.robot.drive.friction
    return lambda term: trace.graph.input("given", friction.index(term))


def _with_elements(tau: Sequence[Scalar], elements: Sequence[Element], chi: Sequence[Scalar]) -> list[Scalar]:
    """Add each element's chi · acts · value."""
    total = list(tau)
    for element in elements:
        share = times(chi[element.column], element.value)
        total = [add(x, times(acts, share)) for x, acts in zip(total, element.acts, strict=True)]
    return total


def _padded(trace: Trace, columns: list[Scalar]) -> list[Scalar]:
    return [*columns, *[0.0] * (len(layout(trace.robot)) - len(columns))]


def _nodes(trace: Trace, scalars: Sequence[Scalar]) -> list[Node]:
    return [trace.graph.lift(x) for x in scalars]


def _algebra(graph: Graph) -> DriveAlgebra:
    sin, cos, tanh, exp, sqrt, absolute = (partial(graph.call, name) for name in FUNCTIONS)
    return DriveAlgebra(float, float, sin, cos, tanh, exp, sqrt, absolute, sign=_no_sign)


def _no_sign(x: Scalar) -> Scalar:
    raise AssertionError(f"signs are smoothed before a trace starts, here is one of {x}")
