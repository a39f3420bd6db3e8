"""What a URScript text says: text -> syntax tree with line numbers, or ProgramError."""

from collections.abc import Iterator
from functools import cache
from typing import Any

from lark import Lark, Token
from lark.exceptions import UnexpectedCharacters, UnexpectedInput, UnexpectedToken
from lark.lark import PostLex

from excitor.design.programs.execution import ProgramError

Node = Any  # lark's Tree; what its children are depends on its data

GRAMMAR = r"""
start: suite
suite: _NL? | _NL? statement (_NL statement)* _NL?

?statement: function | thread | secondary | while | if | assign | declare | call | return
          | break | continue | halt | pass | kill | join | critical | label

function: "def" NAME "(" [parameters] ")" ":" suite "end"
secondary: "sec" NAME "(" ")" ":" suite "end"
thread: "thread" NAME "(" ")" ":" suite "end"
parameters: parameter ("," parameter)*
parameter: NAME ["=" expression]
while: "while" expression ":" suite "end"
if: "if" expression ":" suite (elif)* [else] "end"
elif: "elif" expression ":" suite
else: "else" ":" suite
assign: [SCOPE] expression "=" expression
declare: SCOPE NAME
call: expression
return: "return" [expression]
break: "break"
continue: "continue"
halt: "halt"
pass: "pass"
kill: "kill" expression
join: "join" expression
critical: "enter_critical" | "exit_critical"
label: LABEL

?expression: either
?either: both | either OR both -> logical
?both: denied | both AND denied -> logical
?denied: comparison | "not" denied -> not
?comparison: sum | sum COMPARE sum -> compare
?sum: product | sum PLUS product -> arithmetic
?product: signed | product TIMES signed -> arithmetic
?signed: postfix | PLUS signed -> sign
?postfix: atom | postfix "[" expression "]" -> index
        | postfix "[" expression "," expression "]" -> cell
        | postfix "." NAME -> member
        | postfix "(" [arguments] ")" -> invoke
arguments: argument ("," argument)*
?argument: expression | NAME "=" expression -> named
?atom: NAME -> name
     | FLOAT -> float
     | INT -> integer
     | STRING -> string
     | "True" -> true
     | "False" -> false
     | "[" [items] "]" -> list
     | POSE items "]" -> pose
     | "run" NAME "(" [arguments] ")" -> run
     | "(" expression ")"
items: expression ("," expression)*

SCOPE.2: /(global|local)\b/
OR.2: /(or|xor)\b/
AND.2: /and\b/
COMPARE: "==" | "!=" | "<=" | ">=" | "<" | ">"
PLUS: "+" | "-"
TIMES: "*" | "/" | "%"
POSE.2: /p\[/
NAME: /[A-Za-z_][A-Za-z0-9_]*/
FLOAT.2: /(\d+\.\d*|\.\d+)([eE][+-]?\d+)?|\d+[eE][+-]?\d+/
INT: /0x[0-9A-Fa-f]+|\d+/
STRING: /"[^"\n]*"|'[^'\n]*'/
LABEL: /\$[^\n]*/
_NL.3: /([ \t\r]*(#[^\n]*)?\n)+/
%ignore /[ \t\r]+/
%ignore /#[^\n]*/
"""


class _Brackets(PostLex):
    """Line ends inside brackets are blanks."""

    always_accept = ("_NL",)

    def process(self, stream: Iterator[Token]) -> Iterator[Token]:
        """Pass on all tokens but line ends inside brackets."""
        depth = 0
        for token in stream:
            if token.type == "_NL" and depth > 0:
                continue
            if token.type in ("LPAR", "LSQB", "POSE"):
                depth += 1
            elif token.type in ("RPAR", "RSQB"):
                depth -= 1
            yield token


def parse(text: str, file: str) -> Node:
    """Parse a program; every node of the tree has `meta.line` unless it is empty."""
    try:
        return _parser().parse(text + "\n")
    except UnexpectedToken as error:
        found = (
            "the end of the text" if error.token.type == "$END" else repr(str(error.token.value).strip() or "line end")
        )
        raise ProgramError(file, _line(error, text), f"{found} is not expected here; {_hint(error)}") from None
    except UnexpectedCharacters as error:
        raise ProgramError(file, error.line, f"{text[error.pos_in_stream or 0]!r} is no part of the language") from None


def _line(error: UnexpectedInput, text: str) -> int:
    return error.line if isinstance(error.line, int) and error.line > 0 else text.count("\n") + 1


def _hint(error: UnexpectedToken) -> str:
    if error.token.type in ("$END", "END"):
        return "a block lacks its end, or has one too many"
    return "expected " + ", ".join(sorted(error.expected)[:6])


@cache
def _parser() -> Lark:
    # the basic lexer, so that a word of the language is never taken for a name
    return Lark(GRAMMAR, parser="lalr", lexer="basic", propagate_positions=True, postlex=_Brackets())
