"""What structured text looks like: text -> syntax tree, or which line is wrong."""

from functools import cache, lru_cache
from typing import Any

from lark import Lark, Tree, UnexpectedEOF, UnexpectedInput
from lark.exceptions import UnexpectedCharacters, UnexpectedToken

from excitor.design.programs.execution import ProgramError

GRAMMAR = r"""
start: (type_unit | globals | pou)*

type_unit: "TYPE"i type_named+ "END_TYPE"i
type_named: NAME ":" (record | enumeration | alias) ";"*
record: "STRUCT"i field* "END_STRUCT"i
enumeration: "(" enum_value ("," enum_value)* ")" [NAME] [":=" NAME]
enum_value: NAME [":=" expr]
alias: type [":=" init]

globals: "VAR_GLOBAL"i OPTION* field* "END_VAR"i
pou: FUNCTION_BLOCK NAME section* block "END_FUNCTION_BLOCK"i
   | PROGRAM NAME section* block "END_PROGRAM"i
   | FUNCTION NAME ":" type section* block "END_FUNCTION"i
section: SECTION OPTION* field* "END_VAR"i
field: NAME ("," NAME)* ["AT"i ADDRESS] ":" type [":=" init] ";"
type: NAME                                     -> simple
    | NAME ("(" expr ")" | "[" expr "]")       -> sized
    | NAME "(" expr ".." expr ")"              -> subrange
    | "ARRAY"i "[" range ("," range)* "]" "OF"i type -> array
    | ("POINTER"i | "REFERENCE"i) "TO"i type   -> pointer
range: expr ".." expr
?init: expr
     | "[" repeat ("," repeat)* "]"            -> list
     | "(" NAME ":=" init ("," NAME ":=" init)* ")" -> members
?repeat: init | INTEGER "(" init ")"         -> times

block: statement*
?statement: ";"                                -> nothing
  | variable ":=" expr ";"                     -> assign
  | variable "(" [arguments] ")" ";"           -> invoke
  | "IF"i expr "THEN"i block ("ELSIF"i expr "THEN"i block)* [otherwise] "END_IF"i -> choose
  | "CASE"i expr "OF"i (case_label | statement)* [otherwise] "END_CASE"i -> select
  | "FOR"i NAME ":=" expr "TO"i expr ["BY"i expr] "DO"i block "END_FOR"i -> count
  | "WHILE"i expr "DO"i block "END_WHILE"i     -> while_true
  | "REPEAT"i block "UNTIL"i expr ";"? "END_REPEAT"i -> until_true
  | LEAVE ";"                                  -> leave
otherwise: "ELSE"i block
case_label: label_value ("," label_value)* ":"
label_value: label_end [".." label_end]
?label_end: variable | INTEGER -> whole | "-" INTEGER -> minus_whole | TYPED -> typed | BASED -> based
arguments: argument ("," argument)*
?argument: expr -> positional
  | NAME ":=" expr -> given
  | NAME "=>" [variable] -> taken

?expr: xor_expr | expr OR xor_expr -> binary
?xor_expr: and_expr | xor_expr XOR and_expr -> binary
?and_expr: equal | and_expr AND equal -> binary
?equal: compare | equal EQUAL compare -> binary
?compare: sum | compare COMPARE sum -> binary
?sum: product | sum (PLUS | MINUS) product -> binary
?product: unary | product (TIMES | OVER | MOD) unary -> binary
?unary: power | "-" unary -> negate | "+" unary -> same | NOT unary -> invert
?power: primary | primary "**" unary -> raised
?primary: "(" expr ")" | constant | variable | variable "(" [arguments] ")" -> call
?constant: REAL -> real | INTEGER -> whole | BASED -> based | TYPED -> typed | STRING -> text
  | DURATION -> duration | TRUE -> true | FALSE -> false
variable: NAME step*
?step: "." NAME -> member | "[" expr ("," expr)* "]" -> index | "^" -> pointee

TRUE: "TRUE"i
FALSE: "FALSE"i
OR.4: /OR(_ELSE)?\b/i
XOR.4: /XOR\b/i
AND.4: /AND(_THEN)?\b|&/i
MOD: "MOD"i
NOT: "NOT"i
LEAVE.4: /(RETURN|EXIT|CONTINUE)\b/i
FUNCTION_BLOCK: "FUNCTION_BLOCK"i
FUNCTION: "FUNCTION"i
PROGRAM: "PROGRAM"i
SECTION.4: /VAR(_INPUT|_OUTPUT|_IN_OUT|_TEMP)?\b/i
OPTION.4: /(CONSTANT|RETAIN|PERSISTENT)\b/i
EQUAL.5: /=(?!>)|<>/
COMPARE: "<=" | ">=" | "<" | ">"
PLUS: "+"
MINUS: "-"
TIMES: "*"
OVER: "/"
NAME: /[a-z_][a-z0-9_]*/i
TYPED.3: /(BOOL|BYTE|WORD|DWORD|LWORD|SINT|USINT|INT|UINT|DINT|UDINT|LINT|ULINT|REAL|LREAL)#[-+]?[a-z0-9_.#+]+/i
DURATION.3: /(TIME|LTIME|T)#[0-9_.a-z]+/i
BASED.2: /(2|8|16)#[0-9a-f_]+/i
REAL.2: /[0-9][0-9_]*\.[0-9][0-9_]*(e[-+]?[0-9]+)?|[0-9][0-9_]*e[-+]?[0-9]+/i
INTEGER.1: /[0-9][0-9_]*/
STRING: /'([^'$\n]|\$[^\n])*'/
ADDRESS: /%[A-Za-z0-9.*]+/
%ignore /\s+/
%ignore /\(\*(.|\n)*?\*\)/
%ignore /\/\/[^\n]*/
%ignore /\{[^}]*\}/
"""


@cache
def _parser() -> Lark:
    return Lark(GRAMMAR, parser="lalr", propagate_positions=True, maybe_placeholders=True)


@lru_cache(maxsize=4)  # a program is run again and again, in every situation that it must refuse
def parse(file: str, text: str) -> Tree[Any]:
    """Read a file of structured text; nobody changes the tree."""
    try:
        return _parser().parse(text)
    except UnexpectedEOF:
        raise ProgramError(
            file, text.count("\n") + 1, "the text ends where more is expected; an END is missing"
        ) from None
    except UnexpectedToken as error:
        if error.token.type == "$END":
            sentence = "the text ends where more is expected; an END is missing"
            raise ProgramError(file, text.count("\n") + 1, sentence) from None
        raise ProgramError(file, error.line, f"{str(error.token)[:40]!r} is not expected here") from None
    except UnexpectedCharacters as error:
        raise ProgramError(file, error.line, f"{error.char!r} is no part of the language here") from None
    except UnexpectedInput as error:  # pragma: no cover - lark raises none but the three
        raise ProgramError(file, getattr(error, "line", None), "this is no structured text") from None
