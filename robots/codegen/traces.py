"""A robot's models as traced expressions of q, dq, ddq: inverse dynamics, and the columns of each regressor."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import partial

from excitor.robots.codegen.tracer import Graph, Node
from excitor.robots.errors import ExcitorError
from excitor.robots.kernel.reference import (
    Coordinates,
    Scalar,
    add,
    dot,
    energy_columns,
    power_columns,
    regressor_columns,
    times,
    torques,
)
from excitor.robots.kernel.reference_drive import (
    DriveAlgebra,
    Element,
    Given,
    friction_elements,
    numbers,
    rotor_elements,
)
from excitor.robots.parameters import layout
from excitor.robots.robot import FrictionTerm, Robot
from excitor.robots.tree import Tree


@dataclass(frozen=True, slots=True)
class Trace:
    """Where a robot's expressions are recorded, and the columns that take part; others leave nothing behind."""

    robot: Robot
    tree: Tree
    graph: Graph
    at: Coordinates
    algebra: DriveAlgebra
    wanted: frozenset[int]


def start_trace(robot: Robot, wanted: Collection[int]) -> Trace:
    """Open a graph with q, dq, ddq as its inputs; true signs must have been smoothed before."""
    if not isinstance(robot.mechanism, Tree):
        raise ExcitorError(
            f"{robot.name} has closed loops, which are closed by iteration; code is written for open chains only"
        )
    graph = Graph()
    q, dq, ddq = ([graph.input(name, i) for i in range(robot.n_joints)] for name in ("q", "dq", "ddq"))
    return Trace(robot, robot.mechanism, graph, (q, dq, ddq), _algebra(graph), frozenset(wanted))


def traced_torque(trace: Trace) -> list[Node]:
    """Trace τ by Newton and Euler, then what rotors and friction add; friction is loaded by all the rest."""
    chi = [trace.graph.parameter(k) if k in trace.wanted else 0.0 for k in range(len(layout(trace.robot)))]
    phi = [chi[10 * j : 10 * j + 10] for j in range(trace.tree.n_links)]
    rigid = _with_elements(torques(trace.tree, trace.at, phi, trace.algebra), _rotors(trace), chi)

    def given(term: FrictionTerm) -> Scalar:
        if term.model == "load":
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
    return _nodes(trace, [entry for k in sorted(trace.wanted) for entry in columns[k]])


def traced_energy(trace: Trace) -> list[Node]:
    """Trace the wanted entries of h: links, and Ia (senses @ dq)² / 2 of rotors."""
    columns = _padded(trace, energy_columns(trace.tree, trace.at, trace.algebra))
    for rotor, column in zip(trace.robot.drive.rotors, layout(trace.robot).rotor_columns, strict=True):
        rate = dot(numbers(rotor.senses, trace.algebra), trace.at[1])
        columns[column] = add(columns[column], times(0.5, times(rate, rate)))
    return _nodes(trace, [columns[k] for k in sorted(trace.wanted)])


def traced_power(trace: Trace) -> list[Node]:
    """Trace the wanted entries of dh/dt, and the power (acts @ dq) g that friction takes."""
    columns = _padded(trace, power_columns(trace.tree, trace.at, trace.algebra))
    for element in [*_rotors(trace), *_friction(trace, _measured(trace))]:
        power = times(dot(element.acts, trace.at[1]), element.value)
        columns[element.column] = add(columns[element.column], power)
    return _nodes(trace, [columns[k] for k in sorted(trace.wanted)])


def _rotors(trace: Trace) -> list[Element]:
    return rotor_elements(trace.robot, trace.at, trace.wanted, algebra=trace.algebra)


def _friction(trace: Trace, given: Given) -> list[Element]:
    return friction_elements(trace.robot, trace.at, trace.wanted, given=given, algebra=trace.algebra)


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
    sin, cos, tanh, exp, sqrt, absolute = (
        partial(graph.call, name) for name in ("sin", "cos", "tanh", "exp", "sqrt", "abs")
    )
    return DriveAlgebra(float, float, sin, cos, tanh, exp, sqrt, absolute, sign=_no_sign)


def _no_sign(x: Scalar) -> Scalar:
    raise AssertionError(f"signs are smoothed before a trace starts, here is one of {x}")
