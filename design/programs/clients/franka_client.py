"""Run one program on a robot with a 1 kHz joint position interface (pylibfranka): check, ask, move, log.

Needs Python 3.10, pylibfranka, a real-time kernel, and run_motion.py beside this file:

    python3 franka_client.py PROGRAM.json --robot 172.16.0.2

What decides is above `main` and needs no robot: `robot` and `api` are pylibfranka's Robot and module, or stand-ins.
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import signal
import struct
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

try:
    from run_motion import Run, load
except ImportError:  # inside the package
    from excitor.design.programs.clients.run_motion import Run, load

JOINTS = 7
NEAR = 0.008726646259971648  # rad: half a degree from home
AT_REST = 0.01  # rad/s
SAME_POSE, FADE = 1e-3, 0.5  # rad, s: how well a stretch must begin where the robot is; how the rest vanishes
SAME_PAYLOAD = 0.05  # kg
REST = 1.0  # s
LISTEN, HOMING = 0.5, 1.0  # s of holding still to try the link, and of making the last fraction of a degree to home
LONGEST_GAP = 5  # ms without a state, after which the run is over
SLOWDOWN, BRAKING = 300, 5.0  # ms at least; rad/s2 that slowing down may add to the motion's own acceleration
LINK = 0.95  # share of commands that must arrive

FIELDS = ("q", "dq", "q_d", "dq_d", "tau_J", "tau_J_d", "dtau_J", "theta", "dtheta", "tau_ext_hat_filtered")
COLUMNS = ("time", "t", "part", "mark", *(f"{name}[{j}]" for name in FIELDS for j in range(JOINTS)))


def rise(u: float) -> float:
    """Rise from 0 to 1, with three vanishing derivatives at both ends."""
    return u**4 * (35.0 - u * (84.0 - u * (70.0 - 20.0 * u)))


class Refused(Exception):
    """Nothing has moved, and nothing will."""


class Stopped(Exception):
    """The run ended early; the robot was brought to rest."""


@dataclass
class Settings:
    """What the robot is told before it moves. Thresholds are far above those of contact: nobody may be near."""

    torques: list[float] = field(default_factory=lambda: [87.0, 87.0, 87.0, 87.0, 12.0, 12.0, 12.0])  # N m
    forces: list[float] = field(default_factory=lambda: [200.0, 200.0, 200.0, 50.0, 50.0, 50.0])  # N, N m
    load: tuple[float, list[float], list[float]] | None = None  # kg, m, kg m^2 by columns; None: as set in Desk


class Log:
    """Rows in memory that is there before the motion starts."""

    def __init__(self, run: Run, longest: float) -> None:
        self.marks = run.marks
        self.packed = struct.Struct(f"<{len(COLUMNS)}d")
        self.memory = bytearray(self.packed.size * (round(1000.0 * longest) + 5000))  # and a slowdown
        self.rows, self.part = 0, 0

    def add(self, t: float, state: Any) -> None:
        """Record a state, t seconds into the run."""
        marks = self.marks
        while self.part < len(marks) and t >= marks[self.part][0] - 1e-6:
            self.part += 1
        at = self.rows * self.packed.size
        if at + self.packed.size > len(self.memory):
            return
        mark = marks[self.part - 1][1] if self.part else 0
        self.packed.pack_into(
            self.memory, at, state.time.to_sec(), t, self.part, mark,
            *state.q, *state.dq, *state.q_d, *state.dq_d, *state.tau_J, *state.tau_J_d, *state.dtau_J,
            *state.theta, *state.dtheta, *state.tau_ext_hat_filtered,
        )  # fmt: skip
        self.rows += 1

    def save(self, path: str) -> None:
        """Write everything as CSV."""
        with open(path, "w", encoding="utf-8") as file:
            file.write(",".join(COLUMNS) + "\n")
            for k in range(self.rows):
                row = self.packed.unpack_from(self.memory, k * self.packed.size)
                file.write(f"{row[0]:.3f},{row[1]:.3f},{row[2]:.0f},{row[3]:.0f},")
                file.write(",".join(f"{x:.12g}" for x in row[4:]) + "\n")


class Clock:
    """The time of the motion, in whole milliseconds; once slowed down it stops, and never starts again."""

    def __init__(self) -> None:
        self.elapsed = 0  # ms
        self.stopping: int | None = None  # ms since the slowdown began
        self.span = SLOWDOWN  # ms that it takes
        self.why = ""

    def advance(self, step: int) -> None:
        """Let time pass, ms."""
        if self.stopping is None:
            self.elapsed += step
        else:
            self.stopping = min(self.stopping + step, self.span)

    def stop(self, why: str, speed: float) -> None:
        """Begin to slow down, from a speed in rad/s: the steepest of 1 - e(u) is 2.1875 / span."""
        self.stopping, self.why = 0, why
        self.span = max(SLOWDOWN, math.ceil(1000.0 * 2.1875 * speed / BRAKING))

    @property
    def stopped(self) -> bool:
        """Whether the motion has come to rest before its end."""
        return self.stopping is not None and self.stopping >= self.span

    @property
    def time(self) -> float:
        """Seconds into the motion: integral of 1 - e(u), e the envelope of the ramps, while it slows down."""
        if self.stopping is None:
            return 0.001 * self.elapsed
        u = self.stopping / self.span
        return 0.001 * (self.elapsed + self.span * (u - u**5 * (7.0 - u * (14.0 - u * (10.0 - 2.5 * u)))))


def preflight(run: Run, state: Any, api: Any, told: bool = True) -> None:
    """Refuse unless the robot waits for commands, stands still at home, and knows its load, once it has been told."""
    units = ", ".join(sorted(set(run.units)))
    if len(run.home) != JOINTS or units != "rad":
        raise Refused(f"this program moves {len(run.home)} joints in {units}; the robot has {JOINTS}, in rad")
    if state.robot_mode != api.RobotMode.Idle:
        raise Refused(f"the robot is in mode {state.robot_mode}; unlock it, activate FCI, and release the user stop")
    if state.current_errors:
        raise Refused(f"the robot reports errors: {state.current_errors}; clear them in Desk")
    for j in range(JOINTS):
        away = state.q[j] - run.home[j]
        if not abs(away) <= NEAR:
            raise Refused(f"joint {j + 1} stands {away:+.4f} rad from home; guide the robot to within {NEAR:.4f} rad")
        if not abs(state.dq[j]) <= AT_REST:
            raise Refused(f"joint {j + 1} moves; wait until the robot stands still")
    if told and run.payload is not None and not abs(state.m_total - run.payload) <= SAME_PAYLOAD:
        raise Refused(
            f"the run was planned with {run.payload:g} kg on the flange, the robot has been told {state.m_total:g} kg; "
            "set the end effector in Desk, or the load with --load"
        )


def configure(robot: Any, settings: Settings) -> None:
    """Set thresholds and load: never while it moves."""
    robot.set_collision_behavior(settings.torques, settings.torques, settings.forces, settings.forces)
    if settings.load is not None:
        robot.set_load(*settings.load)


def stream(
    robot: Any,
    api: Any,
    *,
    motion: Callable[[float], Sequence[float]],
    duration: float,
    log: Log | None = None,
    asked: Callable[[], bool] = lambda: False,
) -> Any:
    """Command a motion from rest to rest, and return the last state; Stopped where it had to end early."""
    control = robot.start_joint_position_control(api.ControllerMode.JointImpedance)
    state, _ = control.readOnce()
    pose = list(state.q_d)  # the first command is what the robot was last told: anything else is a jump
    off = [x - y for x, y in zip(pose, motion(0.0), strict=True)]
    if not max(map(abs, off)) <= SAME_POSE:
        raise Stopped("the robot is told to be elsewhere than where this stretch begins; nothing more will move")
    clock, end = Clock(), round(1000.0 * duration)
    t = 0.0
    while True:
        done = clock.stopped or (clock.stopping is None and clock.elapsed >= end)
        command = api.JointPositions(pose)
        command.motion_finished = done
        control.writeOnce(command)
        if log is not None:
            log.add(t, state)
        if done:
            break
        state, span = control.readOnce()
        step = round(1000.0 * span.to_sec())
        clock.advance(step)
        last, t = pose, min(clock.time, duration)
        pose = list(motion(t))
        if t < FADE:
            share = 1.0 - rise(t / FADE)
            pose = [x + share * y for x, y in zip(pose, off, strict=True)]
        if clock.stopping is None and (step > LONGEST_GAP or asked()):
            why = f"no state for {step} ms" if step > LONGEST_GAP else "asked to stop"
            clock.stop(why, max(abs(x - y) for x, y in zip(pose, last, strict=True)) / max(0.001 * step, 0.001))
    if clock.stopping is not None:
        raise Stopped(f"{clock.why}, {t:.3f} s into the motion; the robot was brought to rest and stays there")
    return state


def run(
    robot: Any,
    run: Run,
    api: Any,
    *,
    confirm: Callable[[], bool],
    save: Callable[[Log], None],
    settings: Settings | None = None,
    start: Callable[[Run, float], Log] = Log,
    wait: Callable[[float], None] = time.sleep,
    asked: Callable[[], bool] = lambda: False,
    say: Callable[[str], None] = print,
) -> None:
    """Run a program: Refused before anything moved, Stopped where it ended early; the log is saved in any case."""
    settings = settings or Settings()
    preflight(run, robot.read_once(), api, told=settings.load is None)
    say(summary(run))
    if not confirm():
        raise Refused("not confirmed")
    configure(robot, settings)  # only now: nothing is changed in a robot that nobody said yes to
    preflight(run, robot.read_once(), api)  # again: asking may have taken long, and the load has been told
    _go_home(robot, run, api, asked)
    for name in ("out", "main", "back"):
        length = run.duration(name)
        if length <= 0.0:
            continue
        say(f"{name} ...")
        if name != "main":
            stream(robot, api, motion=partial(run.at, name), duration=length, asked=asked)
            continue
        wait(REST)
        log = start(run, length)
        try:
            stream(robot, api, motion=partial(run.at, "main"), duration=length, log=log, asked=asked)
        finally:
            save(log)
        wait(REST)
    say("done")


def _go_home(robot: Any, run: Run, api: Any, asked: Callable[[], bool]) -> None:
    """Hold still to try the link, then make the last fraction of a degree to home."""
    begin = list(robot.read_once().q_d)

    def motion(t: float) -> list[float]:
        share = rise(min(max((t - LISTEN) / HOMING, 0.0), 1.0))
        return [x + share * (y - x) for x, y in zip(begin, run.home, strict=True)]

    if not max(abs(x - y) for x, y in zip(begin, run.home, strict=True)) <= 2.0 * NEAR:
        raise Refused("the robot is told to be elsewhere than at home")
    state = stream(robot, api, motion=motion, duration=LISTEN + HOMING, asked=asked)
    if not state.control_command_success_rate >= LINK:
        rate = 100.0 * state.control_command_success_rate
        raise Stopped(
            f"only {rate:.0f} % of the commands arrive: real-time kernel, network card and load of this computer"
        )


def summary(run: Run) -> str:
    """Say what will move, and how long it takes."""
    kind = "DRY RUN, 15 % amplitude, of " if run.data["dry"] else ""
    kind = kind if run.duration("main") > 0.0 else "FIRST RUN at reduced speed, of "
    lines = [f"{kind}run {run.data['run']!a} of {run.data['campaign']!a}"]
    seen = [run.home]
    for name in ("out", "main", "back"):
        length = run.duration(name)
        lines.append(f"  {name:4s} {length:8.1f} s")
        seen += [run.at(name, 0.001 * length * k) for k in range(1001)]
    for j, values in enumerate(zip(*seen, strict=True)):
        lines.append(f"  joint {j + 1}: {min(values):.3f} to {max(values):.3f} rad")
    return "\n".join(lines)


def _load(path: str) -> tuple[float, list[float], list[float]]:
    with open(path, encoding="utf-8") as file:
        data = json.load(file)
    return float(data["mass"]), [float(x) for x in data["center"]], [float(x) for x in data["inertia"]]


def _expected() -> tuple[type[BaseException], ...]:
    """List what may go wrong; what pylibfranka raises derives from Exception alone, and is known once it is there."""
    known = (Refused, Stopped, OSError, ValueError, KeyError, RuntimeError, ImportError)
    found = getattr(sys.modules.get("pylibfranka"), "FrankaException", None)
    return (*known, found) if isinstance(found, type) and issubclass(found, BaseException) else known


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a program; 0 if it ran to its end."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("program", help="PROGRAM.json")
    parser.add_argument("--robot", required=True, help="address of the robot")
    parser.add_argument("--log", help="CSV to write; by default PROGRAM.csv")
    parser.add_argument(
        "--load", help="JSON with mass (kg), center (3, m) and inertia (9, kg m^2) of what is on the flange"
    )
    options = parser.parse_args(arguments)
    path = options.log or options.program.removesuffix(".json") + ".csv"
    interrupts: list[int] = []

    def save(log: Log) -> None:
        log.save(path)
        print(f"{log.rows} rows in {path}")

    try:
        import pylibfranka  # type: ignore[import-not-found, unused-ignore]

        settings = Settings(load=_load(options.load) if options.load else None)
        program = load(options.program)
        robot = pylibfranka.Robot(options.robot, pylibfranka.RealtimeConfig.kEnforce)
        print("Keep everybody out of reach, and a hand on the user stop. Ctrl-C slows down and stops.")

        def confirm() -> bool:
            agreed = input("Type yes to move: ") == "yes"
            signal.signal(signal.SIGINT, lambda number, _: interrupts.append(number))
            gc.collect()
            gc.disable()  # a collection takes longer than a cycle
            return agreed

        run(robot, program, pylibfranka, confirm=confirm, save=save, settings=settings, asked=lambda: bool(interrupts))
    except _expected() as error:
        print(f"{'Refused' if isinstance(error, Refused) else 'Stopped'}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
