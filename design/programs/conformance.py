"""Conformance suite of targets: an example is emitted, executed, and compared with its plan."""

import re
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from excitor.design.motion import Excitation, line_run, periodic_run
from excitor.design.programs.interpolate import differences
from excitor.design.programs.package import Package, encoded_files, package
from excitor.design.programs.plan import Plan
from excitor.design.programs.target import (
    HEAD,
    UNPROVEN,
    CannotDrive,
    Emitter,
    Executor,
    Machine,
    Target,
    axes_of,
    to_axes,
)
from excitor.robots.load import robot_from_toml
from excitor.robots.robot import ControllerAxes

_HOSTILE = 'END"; halt\n]]> *) $(rm) \u00e9'  # ends texts, comments, lines and blocks of many languages
_JOINT = """
[[joint]]
name = "j{k}"
placement = {{ xyz = [0, 0, 0.2], axis = [{x}, 0, {z}] }}
limits = {{ position_deg = [-90, 120], velocity_deg_s = 180, acceleration_deg_s2 = 900 }}
link = {{ mass = 1.0, center = [0.1, 0, 0], inertia = [0.01, 0, 0, 0.02, 0, 0.02] }}
"""
_SWING = 0.05  # rad


def example(target: Target, name: str = "example", axis: str = "axis") -> Plan:
    """Make a small plan of a robot that a target drives, with names of the campaign, run and robot, and of axes."""
    n = target.joints or 6
    text = 'name = "example"\n' + "".join(_JOINT.format(k=k, x=k % 2, z=1 - k % 2) for k in range(1, n + 1))
    robot = robot_from_toml(text, "example")
    names = tuple(f"{axis}_{k}" for k in range(1, n + 1))
    axes = ControllerAxes(target.name, names, np.eye(n), np.zeros(n))
    robot = replace(robot, name=name, title=name, controllers={target.controller or target.name: axes})
    step = max(target.steps, default=0.008)
    excitation = Excitation(2.0, step, (1, 2), np.ones(n, bool), ramp=2.0, settle=1.0, hold=1.0, warm_up=1, measured=1)
    center = robot.limits.position.mean(axis=1) + 0.1
    waves = _SWING * np.outer(np.linspace(1.0, 0.5, n), [1.0, -0.5])
    body = periodic_run(excitation, center, waves, waves[::-1].copy(), robot.joint_names)
    out = line_run(robot.joint_names, step, np.array([center - 0.1, center]), [2.0])
    return Plan(name, name, "identify", robot, out, body, payload=1.5)


def problems(name: str, emitter: Emitter, executor: Executor | None) -> Iterator[str]:
    """List in sentences what a target does not do; without an executor its files must say that nothing runs them."""
    target, plan = emitter.TARGET, example(emitter.TARGET)
    if target.name != name:
        yield f"its TARGET is named {target.name!r}"
    if target.angle_unit not in ("rad", "deg") or target.decimals < 1:
        yield f"axes are in {target.angle_unit!r} with {target.decimals} decimals, expected rad or deg and one or more"
    made, again, hostile = package(emitter, [plan]), package(emitter, [plan]), _hostile(emitter)
    if encoded_files(made) != encoded_files(again):
        yield "the files of the same plan differ when they are written again"
    for each in (made, hostile):
        for file in each.texts:
            if not re.fullmatch(r"\w[\w.-]*(/\w[\w.-]*)?", file, re.ASCII):
                yield f"a file is named {file!r}, expected letters, digits, _, . and -"
    lines = [sum(text.count("\n") for text in each.texts.values()) for each in (made, hostile)]
    if lines[0] != lines[1]:
        yield f"names with line ends and quotes make {lines[1]} lines of {lines[0]}; names must not become code"
    if (executor is None) != (target.timing == "unverified"):
        yield f"its timing is {target.timing!r}, and it has {'no' if executor is None else 'an'} executor"
    for program in (made.programs[0], hostile.programs[0]):
        if executor is not None:
            files = made.texts if program is made.programs[0] else hostile.texts
            yield from _executed(executor, target, program.plan, dict(files), program.name)
        else:
            silent = [file for file, text in program.files.items() if UNPROVEN not in text[:HEAD]]
            yield from (f"{file} does not state {UNPROVEN!r} in its first {HEAD} letters" for file in silent)
    yield from _refused(emitter, plan)


def _hostile(emitter: Emitter) -> Package:
    """Write a program with hostile names; those of axes, which a driver must know, may be refused."""
    try:
        return package(emitter, [example(emitter.TARGET, _HOSTILE, _HOSTILE)])
    except CannotDrive:
        return package(emitter, [example(emitter.TARGET, _HOSTILE)])


def _executed(executor: Executor, target: Target, plan: Plan, files: dict[str, str], name: str) -> Iterator[str]:
    """Execute files: the commanded motion is the plan's, and no other; a robot away from home stays where it is."""
    names = axes_of(plan.robot, target).names
    machine = Machine(to_axes(plan.robot, target, plan.home), plan.sample_time, payload=1.5, names=names)
    execution = executor.execute(files, name, machine)
    yield from differences(plan, target, execution, plan.sample_time)
    other = replace(plan, body=plan.body.scaled(1.1))
    if not differences(other, target, execution, plan.sample_time):
        yield "the execution of its files fits to another motion as well"
    if "home" in target.refuses:
        away = to_axes(plan.robot, target, plan.home + 0.1)
        halted = executor.execute(files, name, replace(machine, axes=away))
        if halted.stretches or not halted.halted:
            yield "0.1 rad from home its program does not refuse with a message before anything moves"


def _refused(emitter: Emitter, plan: Plan) -> Iterator[str]:
    """Refuse robots that it cannot drive and times that it cannot keep, each in a sentence."""
    target = emitter.TARGET
    cases = []
    if target.joints is not None:
        cases.append((f"a robot of {13 - target.joints} joints", example(replace(target, joints=13 - target.joints))))
    if target.spacing is None:
        ends = np.array([plan.home, plan.start])
        out = line_run(plan.body.joints, plan.sample_time, ends, [2.0 + plan.sample_time / 3])
        cases.append(("times between its control steps", replace(plan, out=out)))
    for what, each in cases:
        try:
            package(emitter, [each])
        except CannotDrive as refusal:
            if len(str(refusal)) < 20:
                yield f"refuses {what} with {str(refusal)!r}, expected a sentence"
        else:
            yield f"writes a program for {what}"
