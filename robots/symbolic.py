"""Closed-form models of small arms by Lagrange's equations, in sympy; independent of the recursive torque equations."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import sympy
from sympy.simplify.fu import TR8

from excitor.robots.dynamics import refuse_foreign
from excitor.robots.errors import ExcitorError
from excitor.robots.kernel.reference import Coordinates, DriveAlgebra, energy_columns, friction_elements, numbers
from excitor.robots.parameters import layout
from excitor.robots.robot import FrictionTerm, Robot
from excitor.robots.tree import Tree

Expression = Any  # sympy ships no types
Matrix = Any

MOST_JOINTS = 4  # beyond, closed forms run over pages, and recursions are what one reads
_FEW_TERMS = 12  # factoring takes long beyond
_LONG = 10**13  # a denominator that no measured constant has, but products of rounded ones
_DUST = 1e-13
_SAME = 1e-12  # m, m/s²: how near a number must be to a named one


@dataclass(frozen=True, eq=False, slots=True)
class ClosedForm:
    """M(q) ddq + c(q, dq) + g(q) + f(q, dq) = τ in sympy, with symbols named like the robot's parameters."""

    name: str
    M: Matrix  # (n_joints, n_joints), rotors included
    c: Matrix  # (n_joints, 1), likewise g and friction
    g: Matrix
    potential: Expression  # of gravity, without its constant; g is its gradient. The kinetic energy is ½ dqᵀ M dq
    friction: Matrix
    q: tuple[Expression, ...]
    dq: tuple[Expression, ...]
    parameters: Mapping[str, Expression]
    constants: Mapping[Expression, float]  # gravity, and the lengths that the robot names


def closed_form(robot: Robot, kept: Collection[str] | None = None) -> ClosedForm:
    """Derive the model of an arm of up to four joints, with parameters that are not named in `kept` at 0.

    H = h χ, one parameter at a time: M = ∂²H/∂dq², c by Christoffel symbols, g = ∂H/∂q at rest.
    To read a minimal model, keep the parameters that base parameters are grouped on: they stand for the groups.
    """
    tree = _small_tree(robot)
    columns = range(len(layout(robot))) if kept is None else layout(robot).indices(list(kept)).tolist()
    chi = {k: sympy.Symbol(layout(robot).names[k]) for k in sorted(columns)}
    q, dq = (sympy.symbols(f"{letter}1:{tree.n_joints + 1}", real=True) for letter in ("q", "dq"))
    constants = _constants(robot)
    algebra = _algebra(constants)
    weight = next(iter(constants))
    at = (q, dq, [0.0] * tree.n_joints)
    energies = energy_columns(replace(tree, gravity=tree.gravity / constants[weight]), at, algebra)
    M, c, U = _rotor_matrix(robot, chi, algebra), sympy.zeros(len(q), 1), sympy.Integer(0)
    g = sympy.zeros(len(q), 1)
    for k in [k for k in chi if k < len(energies)]:
        energy = sympy.sympify(energies[k])
        mass = sympy.hessian(energy, dq).applyfunc(_canonical)
        fall = _canonical(energy.subs(dict.fromkeys(dq, 0)))
        M += chi[k] * mass.applyfunc(_readable)
        c += chi[k] * _christoffel(mass, q, dq)
        U += chi[k] * weight * _readable(sympy.expand(fall).as_independent(*q, as_Add=True)[1])
        g += chi[k] * weight * sympy.Matrix([_readable(sympy.diff(fall, x)) for x in q])
    friction = _friction(robot, chi, at, algebra)
    used = set().union(*(matrix.free_symbols for matrix in (M, c, g, friction)))
    return ClosedForm(
        name=robot.title or robot.name,
        M=M,
        c=c,
        g=g,
        potential=U,
        friction=friction,
        q=q,
        dq=dq,
        parameters={symbol.name: symbol for symbol in chi.values() if symbol in used},
        constants={symbol: value for symbol, value in constants.items() if symbol in used},
    )


def text(model: ClosedForm) -> str:
    """Print a model and its energies, one equation a line; M by its upper triangle where it is symmetric."""
    n = len(model.q)
    lines = [f"{model.name}: M(q) ddq + c(q, dq) + g(q) + f(q, dq) = tau"]
    if model.constants:
        lines.append("with " + ", ".join(f"{symbol} = {value!r}" for symbol, value in model.constants.items()))
    lines.append("")
    symmetric = model.M == model.M.T
    lines += [
        f"M{i + 1}{j + 1} = {_written(model.M[i, j])}" for i in range(n) for j in range(n) if i <= j or not symmetric
    ]
    for letter, vector in (("c", model.c), ("g", model.g), ("f", model.friction)):
        lines += ["", *(f"{letter}{i + 1} = {_written(vector[i])}" for i in range(n))]
    rows, v = sympy.Matrix(n, n, lambda i, j: sympy.Symbol(f"M{min(i, j) + 1}{max(i, j) + 1}")), sympy.Matrix(model.dq)
    lines += ["", f"kinetic energy = {sympy.expand((v.T * rows * v)[0] / 2)}"] if symmetric else []
    return "\n".join([*lines, f"potential energy = {_written(model.potential)}", ""])


def _written(expression: Expression) -> str:
    """Print an expression, its ratios as the decimals they came in as; halves stay."""
    ratios = {x: sympy.Float(float(x), 15) for x in expression.atoms(sympy.Rational) if x.q > 2}
    return str(sympy.sstr(expression.xreplace(ratios), full_prec=False))


def _small_tree(robot: Robot) -> Tree:
    if not isinstance(robot.mechanism, Tree):
        raise ExcitorError(f"{robot.name} has closed loops, which have no closed form here; ask for an open chain")
    if robot.n_joints > MOST_JOINTS:
        raise ExcitorError(
            f"{robot.name} has {robot.n_joints} joints, and closed forms of more than {MOST_JOINTS} run over pages; "
            "use inverse_dynamics_code for a program, or the regressor for numbers"
        )
    return robot.mechanism


def _constants(robot: Robot) -> dict[Expression, float]:
    """Name gravity, first, and the lengths. Being positive, these are other symbols than parameters of such names."""
    size = float(np.linalg.norm(robot.mechanism.gravity)) or 1.0
    lengths = {sympy.Symbol(name, positive=True): float(value) for name, value in robot.lengths.items()}
    return {sympy.Symbol("g", positive=True): size, **lengths}


def _algebra(constants: Mapping[Expression, float]) -> DriveAlgebra:
    """Build the algebra of sympy numbers: numbers as the decimals they are written with, lengths as named symbols."""

    def length(x: float) -> Expression:
        for symbol, value in list(constants.items())[1:]:
            if abs(abs(x) - abs(value)) < _SAME:
                return symbol if (x > 0.0) == (value > 0.0) else -symbol
        return number(x)

    def number(x: float) -> Expression:
        return sympy.Rational(repr(float(x)))

    return DriveAlgebra(number, length, sympy.sin, sympy.cos, sympy.tanh, sympy.exp, sympy.sqrt, sympy.Abs, sympy.sign)


def _rotor_matrix(robot: Robot, chi: Mapping[int, Expression], algebra: DriveAlgebra) -> Matrix:
    """Write Σ Ia acts sensesᵀ."""
    M = sympy.zeros(robot.n_joints, robot.n_joints)
    for rotor, column in zip(robot.drive.rotors, layout(robot).rotor_columns, strict=True):
        if column in chi:
            acts, senses = (sympy.Matrix(numbers(x, algebra)) for x in (rotor.acts, rotor.senses))
            M += chi[column] * (acts * senses.T).applyfunc(_exact)
    return M


def _christoffel(mass: Matrix, q: tuple[Expression, ...], dq: tuple[Expression, ...]) -> Matrix:
    """Write c_i = Σ_jk (∂M_ij/∂q_k - ∂M_jk/∂q_i / 2) dq_j dq_k, by products of velocities."""
    slopes = [mass.diff(x) for x in q]
    rows = []
    for i in range(len(q)):
        row = sympy.S.Zero
        for j in range(len(q)):
            for k in range(j, len(q)):
                pair = slopes[k][i, j] + slopes[j][i, k] - slopes[i][j, k]
                row += sympy.expand(pair if j != k else pair / 2) * dq[j] * dq[k]
        rows.append(_factored(sympy.expand(row)))
    return sympy.Matrix(rows)


def _friction(robot: Robot, chi: Mapping[int, Expression], at: Coordinates, algebra: DriveAlgebra) -> Matrix:
    def given(term: FrictionTerm) -> Expression:
        raise ExcitorError(
            f"{robot.name}: friction {term.parameter!r} is {term.model}, which depends on more than q and dq; "
            "leave it out of `kept`"
        )

    refuse_foreign(robot, "a closed form", chi)
    f = sympy.zeros(robot.n_joints, 1)
    for element in friction_elements(robot, at, chi, given=given, algebra=algebra):
        f += chi[element.column] * sympy.Matrix(element.torque).applyfunc(_exact)
    return f


def _exact(expression: Expression) -> Expression:
    """Turn the recursion's own numbers, such as 0.5 and 1.0, into ratios."""
    return expression.xreplace({x: sympy.Rational(str(x)) for x in expression.atoms(sympy.Float)})


def _canonical(expression: Expression) -> Expression:
    """Write a trigonometric polynomial as a sum of sines and cosines: then equal ones look alike, and 0 is 0."""
    return _dusted(sympy.expand(TR8(sympy.expand(_exact(expression)))))


def _dusted(expression: Expression) -> Expression:
    """Round long ratios to thirteen digits: cos² α + sin² α of a twist's rounded sine and cosine is not quite 1."""
    long = [x for x in expression.atoms(sympy.Rational) if x.q > _LONG]
    return expression.xreplace({x: sympy.Rational(f"{float(x):.13g}") if abs(x) > _DUST else 0 for x in long})


def _factored(expression: Expression) -> Expression:
    """Factor out terms' common factors, such as (dq2 + dq3)², where there are few terms."""
    few = len(sympy.Add.make_args(expression)) <= _FEW_TERMS
    return min((expression, sympy.factor(expression)), key=sympy.count_ops) if few else expression


def _readable(expression: Expression) -> Expression:
    """Rewrite a canonical sum: pairs of terms of one size become squares and products."""
    groups: dict[Expression, list[Expression]] = {}
    for term in sympy.Add.make_args(expression):
        size, wave = term.as_independent(sympy.sin, sympy.cos, as_Add=False)
        negative = size.could_extract_minus_sign()
        groups.setdefault(-size if negative else size, []).append(-wave if negative else wave)
    return sympy.Add(*(size * wave for size, waves in groups.items() for wave in _folded(waves)))


def _folded(waves: list[Expression]) -> list[Expression]:
    """Fold pairs: sin a + sin b = 2 sin((a + b)/2) cos((a - b)/2), and the like; 1 is cos 0."""
    left, done = list(waves), []
    while left:
        first = left.pop(0)
        for second in left:
            product = _product(first, second)
            if product is not None:
                left.remove(second)
                done.append(product)
                break
        else:
            done.append(first)
    return done


def _product(x: Expression, y: Expression) -> Expression | None:
    """Write the sum of two waves as a product, where half the angles are whole."""
    (sign_x, kind_x, a), (sign_y, kind_y, b) = _wave(x), _wave(y)
    plus, minus = sympy.expand((a + b) / 2), sympy.expand((a - b) / 2)
    whole = all(factor.is_integer for angle in (plus, minus) for factor in angle.as_coefficients_dict().values())
    if kind_x is None or kind_x != kind_y or not whole:
        return None
    sin, cos = sympy.sin, sympy.cos
    if kind_x == sin:
        return 2 * sign_x * (sin(plus) * cos(minus) if sign_x == sign_y else cos(plus) * sin(minus))
    return 2 * sign_x * (cos(plus) * cos(minus) if sign_x == sign_y else -sin(plus) * sin(minus))


def _wave(x: Expression) -> tuple[int, Expression | None, Expression]:
    """Split ±sin a or ±cos a into (sign, function, a); ±1 is ±cos 0, for anything else the function is None."""
    sign, body = (-1, -x) if x.could_extract_minus_sign() else (1, x)
    if body == 1:
        return sign, sympy.cos, sympy.S.Zero
    return (sign, body.func, body.args[0]) if body.func in (sympy.sin, sympy.cos) else (sign, None, sympy.S.Zero)
