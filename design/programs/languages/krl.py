"""KRL modules: text -> routines, and how they run on a robot that somebody else provides.

A subset: declarations, IF, SWITCH, the loops, RETURN, HALT, WAIT, axis motions, spline blocks with time blocks,
routines of the module with IN and OUT parameters. What needs the robot's geometry, or other files, is refused by name.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from excitor.design.programs.execution import ProgramError
from excitor.design.programs.languages.krl_expressions import Argument, Closure, State
from excitor.design.programs.languages.krl_values import Fault, Value, stored, truth

PASSES = 100_000  # of loops in which no time goes by
DEPTH = 50  # of calls

Run = Callable[[State], str]  # returns "", "EXIT" (the innermost loop) or "RETURN"


@dataclass(frozen=True, slots=True)
class Segment:
    """A segment of a spline block, with what its line says."""

    kind: str
    target: Mapping[str, Value]
    constant: bool  # whether it is written in numbers alone
    line: int


@dataclass(frozen=True, slots=True)
class TimeBlock:
    """Times of a spline block: after the segment numbered `start`, every segment takes its part of `seconds`."""

    start: int
    parts: tuple[str, ...]  # %, as they are written
    seconds: str
    line: int


@dataclass(frozen=True, slots=True)
class Spline:
    """A spline block."""

    kind: str  # "SPLINE" or "PTP_SPLINE"
    segments: tuple[Segment, ...]
    times: TimeBlock | None
    line: int


class Robot(Protocol):
    """What a program moves; raises Fault for what it cannot do."""

    known: Mapping[str, Value]  # constants of the controller's own modules
    routines: frozenset[str]  # names of the controller's own

    def read(self, name: str) -> Value:
        """Read a system variable."""

    def write(self, path: tuple[str, ...], value: Value) -> None:
        """Write a system variable or a member of one."""

    def call(self, name: str, arguments: Sequence[Argument]) -> Value:
        """Call a routine of the controller."""

    def move(self, kind: str, target: Value, rounded: bool) -> None:
        """Move to a pose."""

    def spline(self, block: Spline) -> None:
        """Run a spline block."""

    def wait(self, seconds: float | None) -> None:
        """Stand still for a time; None: until a condition that holds."""

    def halt(self) -> None:
        """Stop until somebody presses start."""


@dataclass(slots=True)
class Routine:
    """DEF or DEFFCT."""

    name: str
    line: int
    parameters: tuple[tuple[str, bool], ...]  # name, whether it is written back (OUT)
    gives: str  # type of its result; empty: none
    types: dict[str, str]
    body: Run

    def run(self, caller: State, given: Sequence[Argument]) -> Value:
        """Call it from another routine."""
        if len(given) != len(self.parameters):
            raise Fault(f"{self.name} takes {len(self.parameters)} arguments, not {len(given)}")
        if caller.depth >= DEPTH:
            raise Fault(f"calls nest deeper than {DEPTH}")
        state = State(caller.robot, caller.routines, {}, self.types, self.line, caller.passes, None, caller.depth + 1)
        for (name, out), argument in zip(self.parameters, given, strict=True):
            if out and argument.write is None:
                raise Fault(f"{name} of {self.name} is OUT and needs a variable")
            try:
                value = argument.read()
            except Fault:
                if not out:
                    raise
                continue  # an OUT parameter may come without a value
            state.variables[name] = stored(self.types[name], value)
        try:
            self.body(state)
        except Fault as fault:
            raise Located(state.line, str(fault)) from None
        for (name, out), argument in zip(self.parameters, given, strict=True):
            if out and argument.write is not None and name in state.variables:
                argument.write(state.variables[name])
        if self.gives and state.result is None:
            raise Fault(f"{self.name} ends without RETURN of a value")
        return state.result


class Located(Exception):
    """A Fault in a routine that another one called, with its line."""

    def __init__(self, line: int, sentence: str) -> None:
        self.line, self.sentence = line, sentence
        super().__init__(sentence)


@dataclass(frozen=True, slots=True)
class Module:
    """A file: its first routine is the program."""

    file: str
    main: Routine
    routines: Mapping[str, Routine]


def run(module: Module, robot: Any) -> None:
    """Run a module's program to its end."""
    state = State(robot, module.routines, {}, module.main.types, module.main.line)
    if module.main.parameters:
        raise ProgramError(module.file, module.main.line, "a program takes no parameters; call it from another one")
    try:
        module.main.body(state)
    except Located as fault:
        raise ProgramError(module.file, fault.line, fault.sentence) from None
    except Fault as fault:
        raise ProgramError(module.file, state.line, str(fault)) from None
    except RecursionError:
        raise ProgramError(module.file, state.line, "expressions nest too deep") from None


def passed(state: State) -> None:
    """Count a pass of a loop; one without end, in which no time goes by, is stopped."""
    state.passes += 1
    if state.passes > PASSES:
        raise Fault(f"a loop made {PASSES} passes without waiting or moving")


def sequence(made: list[tuple[int, Run]]) -> Run:
    """Run statements one after the other, each with its line."""

    def run(state: State) -> str:
        for line, statement in made:
            state.line = line
            if left := statement(state):
                return left
        return ""

    return run


def whilst(condition: Closure, body: Run) -> Run:
    """Run a loop's statements as long as a condition holds."""

    def run(state: State) -> str:
        while truth(condition(state)):
            passed(state)
            if left := body(state):
                return "" if left == "EXIT" else left
        return ""

    return run
