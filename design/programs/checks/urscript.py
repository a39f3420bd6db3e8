"""A Universal Robots controller on a virtual clock: a script -> what it commands, marks and refuses.

Register 24 tells which part of a program runs: OUT, a part of the run, BACK; 0 and END while the robot stands still.
Command k of a stretch is the position after k control steps, so that the last one is the pose at which it ends.
"""

from collections.abc import Mapping

import numpy as np

from excitor.design.programs.checks.urscript_controller import ABORTED, Controller
from excitor.design.programs.execution import Execution, Machine, ProgramError, Stretch
from excitor.design.programs.languages.urscript_program import load
from excitor.design.programs.languages.urscript_statements import Halt
from excitor.design.programs.languages.urscript_threads import Clock
from excitor.design.programs.plan import END, Stretches, StretchName


def execute(files: Mapping[str, str], name: str, machine: Machine) -> Execution:
    """Run the script called `name`."""
    file = f"{name}.script"
    if file not in files:
        raise ProgramError(file, None, "there is no such file")
    controller = Controller(machine)
    runtime, steps = load(files[file], file, controller.builtins())
    clock = Clock(runtime.passes, machine.longest / machine.step)
    runtime.spawn = clock.spawn
    controller.clock = clock
    halted = False
    try:
        if not clock.run(steps):
            raise ProgramError(file, None, f"the program does not end within {machine.longest:g} s")
    except Halt:
        halted = True
    except RecursionError:
        raise ProgramError(file, None, "functions call one another without end") from None
    return _told(file, controller, halted)


def _told(file: str, controller: Controller, halted: bool) -> Execution:
    over = controller.register == END
    if controller.register is not None and not over and not halted:
        raise ProgramError(file, None, f"the program ends without its end mark, {END} in register 24")
    if over and not halted:
        raise ProgramError(
            file, None, "the program does not halt at its end; a robot program that loops would repeat it"
        )
    if halted and controller.register not in (None, END, ABORTED):
        raise ProgramError(
            file,
            None,
            f"gives up and leaves {controller.register} in register 24, expected {ABORTED}",
        )
    message = "" if over or not halted else controller.message or "halt"
    stretches = tuple(stretch for name in Stretches if (stretch := _stretch(controller, name)) is not None)
    begin = controller.begins.get("main", 0)
    step = controller.machine.step
    marks = tuple(((frame - begin) * step, mark) for frame, mark in controller.marks)
    return Execution(stretches, marks, tuple(controller.events), message)


def _stretch(controller: Controller, name: StretchName) -> Stretch | None:
    commands, targets = controller.commands[name], controller.targets[name]
    step = controller.machine.step
    if commands:
        frames = np.array([frame for frame, _ in commands]) - controller.begins[name]
        return Stretch(name, "commands", frames * step, np.array([q for _, q in commands]))
    if targets:
        frames = np.array([frame for frame, _ in targets]) - controller.begins[name]
        return Stretch(name, "way-points", frames * step, np.array([q for _, q in targets]))
    return None
