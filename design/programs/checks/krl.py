"""Run KRL programs with a spline block: what they move, when, and what they refuse."""

from collections.abc import Mapping

from excitor.design.programs.checks.krl_robot import Ended, KrlRobot
from excitor.design.programs.execution import Execution, Machine, ProgramError
from excitor.design.programs.languages.krl import Module, run
from excitor.design.programs.languages.krl_statements import parse
from excitor.design.programs.languages.krl_values import Fault

LONGEST_NAME = 24


def execute(files: Mapping[str, str], name: str, machine: Machine) -> Execution:
    """Run the program called `name`."""
    robot = KrlRobot(machine)
    module = read(files, name, robot)
    drive(module, robot)
    return Execution(robot.stretches(), (), tuple(robot.events), robot.halted)


def read(files: Mapping[str, str], name: str, robot: KrlRobot) -> Module:
    """Read the program's module, which bears its file's name."""
    file = f"{name}.src"
    if file not in files:
        raise ProgramError(file, None, "is missing")
    if len(name) > LONGEST_NAME:
        raise ProgramError(file, None, f"names of modules have at most {LONGEST_NAME} letters")
    module = parse(files[file], file, tuple(robot.known.items()), robot.routines)
    if module.main.name != name.upper():
        raise ProgramError(file, module.main.line, f"defines {module.main.name}, expected the file's own name")
    return module


def drive(module: Module, robot: KrlRobot) -> None:
    """Run a program until it ends or stays halted."""
    try:
        run(module, robot)
    except Ended:
        return
    if not robot.halted:
        try:
            robot.finish()
        except Fault as fault:
            raise ProgramError(module.file, None, str(fault)) from None
