"""What URScript computes with: numbers, truth, strings, lists, poses and structures; and what fits which operation."""

import math
import operator
from collections.abc import Callable, Iterable
from typing import Any, NoReturn

LARGEST = 2**31  # integers have 32 bits
LONGEST = 10_000  # characters of a string, items of a list


class Trouble(Exception):
    """A sentence about what a statement did wrong; its line is added by the statement."""


def _refuse(self: Any, other: Any = None) -> NoReturn:
    if UNSET is self or UNSET is other:
        raise Trouble("a variable is used before it has a value")
    pair = shown(self) if other is None else f"{shown(self)} and {shown(other)}"
    raise Trouble(f"{pair}: this operation is for numbers")


class Unset:
    """What a variable holds before it is given a value: nothing fits it."""

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _refuse
    __neg__ = __bool__ = __lt__ = __gt__ = __le__ = __ge__ = __eq__ = __ne__ = _refuse
    __hash__ = object.__hash__


UNSET = Unset()


class Text(str):
    """A string; it is no number, and multiplies nothing."""

    __slots__ = ()
    __add__ = __radd__ = __mul__ = __rmul__ = __mod__ = __rmod__ = _refuse
    __lt__ = __gt__ = __le__ = __ge__ = _refuse


class Array(list[Any]):
    """A list. `shared` once it was assigned as a whole: whether that copies is not documented."""

    __slots__ = ("shared",)

    def __init__(self, items: Iterable[Any] = ()) -> None:
        super().__init__(items)
        self.shared = False

    __lt__ = __gt__ = __le__ = __ge__ = __imul__ = __iadd__ = _refuse

    def __add__(self, other: Any) -> "Array":
        return _each(operator.add, self, other)

    def __sub__(self, other: Any) -> "Array":
        return _each(operator.sub, self, other)

    def __rsub__(self, other: Any) -> "Array":
        return _each(operator.sub, other, self)

    def __mul__(self, other: Any) -> "Array":
        return _each(operator.mul, self, other)

    def __truediv__(self, other: Any) -> "Array":
        return _each(divide, self, other)

    def __neg__(self) -> "Array":
        return _each(operator.mul, -1, self)

    __radd__ = __add__
    __rmul__ = __mul__


class Pose(Array):
    """A place and an orientation of the tool, m and rad."""

    __slots__ = ()


class Struct(dict[str, Any]):
    """Named values."""


def _each(op: Callable[[Any, Any], Any], a: Any, b: Any) -> Array:
    """Apply an operation item by item: to lists of the same length, or a list and a number."""
    for value in (a, b):
        if type(value) not in (int, float, Array):
            raise Trouble(f"{shown(a)} and {shown(b)} are not both numbers or lists of them")
    n = max(len(x) for x in (a, b) if type(x) is Array)
    left, right = (x if type(x) is Array else [x] * n for x in (a, b))
    if len(left) != len(right):
        raise Trouble(f"lists of {len(left)} and {len(right)} items do not fit each other")
    return Array(op(number(x), number(y)) for x, y in zip(left, right, strict=True))


def number(value: Any, what: str = "this") -> float:
    """Demand a finite number."""
    if type(value) is int or (type(value) is float and math.isfinite(value)):
        return float(value)
    raise Trouble(f"{what} is {shown(value)}, expected a number")


def integer(value: Any, what: str = "this") -> int:
    """Demand an integer."""
    if type(value) is not int:
        raise Trouble(f"{what} is {shown(value)}, expected an integer")
    return value


def truth(value: Any) -> bool:
    """Demand True or False."""
    if value is not True and value is not False:
        raise Trouble(f"a condition is {shown(value)}, expected True or False")
    return bool(value)


def storable(value: Any) -> Any:
    """Refuse what no variable holds."""
    kind = type(value)
    if kind is int and not -LARGEST <= value < LARGEST:
        raise Trouble(f"{value} exceeds the 32 bits of an integer")
    if value is None:
        raise Trouble("a function that returns nothing is used as a value")
    if value is UNSET:
        raise Trouble("a variable is used before it has a value")
    return value


def shown(value: Any) -> str:
    """Write a value as textmsg does; never long."""
    if value is UNSET:
        return "a variable without a value"
    if isinstance(value, Array):
        items = ", ".join(shown(x) for x in value[:6])
        return f"{'p' if isinstance(value, Pose) else ''}[{items}{', ...' if len(value) > 6 else ''}]"
    return "nothing" if value is None else str(value)[:200]


def divide(a: Any, b: Any) -> Any:
    """Divide; two integers only where every reading of the division gives the same."""
    if type(a) is int and type(b) is int:
        if b == 0:
            raise Trouble("division by zero")
        if a % b:
            raise Trouble(f"{a} / {b} divides integers, which not all versions do alike; write 1.0 * in front")
        return a // b
    return a / b


def remainder(a: Any, b: Any) -> Any:
    """Take the remainder of a division, which has the sign of the dividend."""
    rest = math.fmod(number(a), number(b))
    return int(rest) if type(a) is int and type(b) is int else rest


ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": divide,
    "%": remainder,
}
COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    ">": operator.gt,
    "<=": operator.le,
    ">=": operator.ge,
}


def item(values: Any, index: Any) -> Any:
    """Take an item of a list."""
    return values[_place(values, index)]


def put(values: Any, index: Any, value: Any) -> None:
    """Replace an item of a list."""
    place = _place(values, index)
    if values.shared:
        raise Trouble(
            "an item is changed of a list that was assigned from another; "
            "whether that copies the list is not documented, write it as a literal"
        )
    if isinstance(value, Array):
        raise Trouble("a list becomes an item of a list, which holds numbers")
    values[place] = value


def _place(values: Any, index: Any) -> int:
    if not isinstance(values, Array):
        raise Trouble(f"{shown(values)} is no list, and has no items")
    if type(index) is not int or not 0 <= index < len(values):
        raise Trouble(f"item {shown(index)} of a list of {len(values)}")
    return index
