"""Traced expressions as text: C99, IEC 61131-3 structured text, and Python."""

import keyword
import math
import re
import textwrap
from collections.abc import Callable
from dataclasses import dataclass, field
from string import ascii_letters, digits

from excitor.robots.codegen.tracer import FUNCTIONS, Node, needed

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
    """A number with a name, and which parameter node stands for it."""

    parameter: int
    name: str
    unit: str
    value: float


@dataclass(frozen=True, slots=True)
class Routine:
    """What a function computes: one result a joint, from q, dq, ddq and constants."""

    name: str
    title: str
    n_joints: int
    constants: tuple[Constant, ...]
    results: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Dialect:
    """How a language spells what expressions are made of."""

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
    """Turn any text into a name that all languages here accept, and none of them has taken."""
    safe = re.sub(r"[^A-Za-z0-9]+", "_", name)[:_NAME_LENGTH].strip("_")
    taken = safe.lower() in _RESERVED or re.fullmatch(r"v\d+", safe.lower())
    return f"robot_{safe}".rstrip("_") if taken or not safe[:1].isalpha() else safe


def comment(text: str) -> str:
    """Turn any text into one that cannot leave a comment."""
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


_SUM, _PRODUCT, _ATOM = 1, 2, 3  # how strongly a text holds together


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
