"""A PLC with an operator and a Scope: calls the emitted program in every cycle, and notes what happens."""

from collections.abc import Callable, Mapping
from typing import Any

from excitor.design.programs.checks.twincat_axes import Axis, Controller
from excitor.design.programs.execution import Machine, ProgramError
from excitor.design.programs.languages.st import Library, Project
from excitor.design.programs.languages.st_types import Frame, Record
from excitor.design.programs.plan import BACK, HOLD, OUT, RAMP_IN, RAMP_OUT, SETTLE, WARM_UP, StretchName

SWITCHING, STARTING, RECORDING = 0.2, 0.5, 1.0  # s until power is on, bRun is set, the Scope runs once asked to
MOST_CYCLES = 3_000_000  # of any program
AROUND = 60.0  # s that loading, resting and waiting may take beside the motion
IDLE = 30.0  # s at rest with nothing new: the program waits for what never comes
_TEXTS = ("bPower", "bRun", "bLoggerRunning", "fOverride", "bLog", "nMark", "nMarks", "bDone", "bError", "sMessage")


def stretch_of(mark: int) -> StretchName | None:
    """Tell which stretch a mark belongs to."""
    if mark in (SETTLE, RAMP_IN, RAMP_OUT, HOLD) or mark > WARM_UP:
        return "main"
    return {OUT: "out", BACK: "back"}.get(mark)  # type: ignore[return-value]


class Cell:
    """One program on one controller; `library` adds blocks to those of the axes."""

    def __init__(
        self,
        files: Mapping[str, str],
        name: str,
        machine: Machine,
        library: Callable[[Controller], Library] | None = None,
    ) -> None:
        self.machine = machine
        self.controller = Controller(machine.step, machine.automatic)
        made = library(self.controller) if library is not None else self.controller.library()
        project = Project(files, made)
        self.file = f"{name}.st"
        wanted = f"prg_{name}".lower()
        if wanted not in project.programs:
            raise ProgramError(self.file, None, f"there is no PROGRAM PRG_{name}")
        self._program: Record = project.programs[wanted]
        missing = sorted(name for name in _TEXTS if name.lower() not in self._program.variables)
        if missing:
            raise ProgramError(self.file, None, f"the program has no {', '.join(missing)}")
        self._frame: Frame = project.start(wanted)
        self._slots = {name: self._program.variables[name.lower()].slot for name in _TEXTS}
        if "npayloadgrams" in self._program.variables:
            self._slots["nPayloadGrams"] = self._program.variables["npayloadgrams"].slot
        self._tell_cycle(project)
        self.axes = self._robot()
        self.time_step = machine.step
        self.events: list[str] = []
        self.cycle = 0
        self._asked = -1

    def _tell_cycle(self, project: Project) -> None:
        info = project.shared("TwinCAT_SystemInfoVarList")[0]
        for task in info:
            task[0] = round(self.machine.step * 1e7)

    def _robot(self) -> list[Axis]:
        """Find the axes of the robot: those of the first array of AXIS_REF."""
        n = len(self.machine.axes)
        for variable in self._program.variables.values():
            frames = self._frame[variable.slot]
            if getattr(variable.type, "of", None) is self.controller.axis_ref and len(frames) == n:
                axes = [self.controller.of(frame) for frame in frames]
                for axis, position in zip(axes, self.machine.axes, strict=True):
                    axis.position = float(position)
                    axis.show()
                return axes
        raise ProgramError(self.file, None, f"the program declares no {n} axes")

    def get(self, name: str) -> Any:
        """Read a variable of the program."""
        return self._frame[self._slots[name]]

    def set(self, name: str, value: Any) -> None:
        """Write a variable of the program, as an operator's panel does."""
        self._frame[self._slots[name]] = value

    def one_cycle(self) -> None:
        """Let the operator and the Scope do their part, and call the program."""
        machine, t = self.machine, self.cycle * self.time_step
        self.set("bPower", t >= SWITCHING)
        self.set("fOverride", 100.0 * machine.override)
        if "nPayloadGrams" in self._slots:
            self.set("nPayloadGrams", round(1000.0 * machine.payload))
        if self.cycle == round(STARTING / self.time_step):
            self.set("bRun", True)
        self._record()
        assert self._program.body is not None
        self._program.body(self._frame)
        self.cycle += 1

    def _record(self) -> None:
        asked = self.get("bLog")
        self._asked = (self._asked if self._asked >= 0 else self.cycle) if asked else -1
        running = asked and (self.cycle - self._asked) * self.time_step >= RECORDING
        if running != self.get("bLoggerRunning"):
            self.set("bLoggerRunning", running)
            self.events.append("log on" if running else "log off")

    def pass_cycle(self) -> None:
        """Let the axes move, and end a program that does not end."""
        self.controller.advance()
        longest = min(self.machine.longest + AROUND, MOST_CYCLES * self.time_step)
        if self.cycle * self.time_step > longest:
            raise ProgramError(self.file, None, f"the program has not ended after {longest:g} s")

    @property
    def over(self) -> bool:
        """Whether the program has come to its end."""
        return bool(self.get("bDone") or self.get("bError"))

    @property
    def halted(self) -> str:
        """What it says where it did not reach its end."""
        if not self.get("bError"):
            return ""
        return str(self.get("sMessage")) or "bError without a message"
