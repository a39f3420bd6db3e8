"""Run KRL programs that move by RSI: the package's own server answers over sockets of this process, on a virtual clock.

`RsiRobot` is a fake KUKA controller with RSI: it reads its configuration, sends packets and follows the answers.
"""

import re
import xml.etree.ElementTree as ET
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from excitor.design.programs.clients.rsi_server import LAG, RsiServer
from excitor.design.programs.krl.language import Argument, Value, Word
from excitor.design.programs.krl.spline_controller import NEAR, KrlRobot, ProgramHalt, drive, read
from excitor.design.programs.plan import Stretches, StretchName
from excitor.design.programs.runtime import Fault
from excitor.design.programs.streams import client_of, socket_pair, streamed
from excitor.design.programs.target import Execution, Machine, Mishaps, ProgramError, file_in

MARGIN = 2.0  # deg by which limits of corrections may be wider than the motion
_CYCLES = {(): 0.004, ("#IPO_FAST",): 0.004}  # s; at 12 ms (#IPO) not every version corrects axes
_ROUTINES = frozenset({"RSI_CREATE", "RSI_ON", "RSI_MOVECORR", "RSI_OFF", "RSI_DELETE"})
_WATCHED = 1.5  # s for which a server that stops is watched
_Row = tuple[str, int, int, np.ndarray]  # stretch, mark, number of the cycle, commanded axes


def execute(files: Mapping[str, str], name: str, machine: Machine) -> Execution:
    """Run the program called `name`, at the control period that it requests of RSI."""
    robot = RsiKrlRobot(machine, files, name)
    module = read(files, name, robot)
    drive(module, robot)
    if not robot.halted and not robot.rows:
        raise ProgramError(module.file, None, "ends without RSI_MOVECORR")
    return robot.execution()


class RsiKrlRobot(KrlRobot):
    """A controller that has RSI."""

    known: Mapping[str, Value] = {"RSIOK": 0}
    routines = KrlRobot.routines | _ROUTINES

    def __init__(self, machine: Machine, files: Mapping[str, str], name: str) -> None:
        super().__init__(machine)
        self.files, self.name = files, name
        self.context, self.on, self.step = "", False, 0.0
        self.rows: list[_Row] = []

    def call(self, name: str, arguments: Sequence[Argument]) -> Value:
        """Call a routine of the controller."""
        if name not in _ROUTINES:
            return super().call(name, arguments)
        self.not_halted()
        steps = {"RSI_CREATE": self._create, "RSI_ON": self._on, "RSI_MOVECORR": self._correct}
        if name == "RSI_DELETE" and self.on:
            raise Fault("RSI_DELETE comes before RSI_OFF")
        steps.get(name, self._off)(list(arguments))
        return 0

    def travel(self, pose: np.ndarray) -> None:
        """Move to home exactly; refuse other poses, which RSI moves to."""
        if np.abs(pose - self.pose).max() > NEAR or self.rows or self.on:
            raise Fault("PTP moves the robot to another pose than home before RSI begins")
        self.hold_homing()
        self._moved(pose)

    def spline(self, block: object) -> None:
        """Refuse: RSI moves the robot."""
        raise Fault("a spline block in a program for RSI")

    def finish(self) -> None:
        """Raise an error unless RSI is off again."""
        super().finish()
        if self.on:
            raise Fault("ends without RSI_OFF")

    def execution(self) -> Execution:
        """Return the execution."""
        rows = ((name, mark, mark, k, pose) for name, mark, k, pose in self.rows)
        stretches, marks = streamed(rows, self.step)
        return Execution(stretches, marks, tuple(self.events), self.halted)

    def _create(self, given: list[Argument]) -> None:
        if len(given) != 3 or given[1].write is None or given[2].read() is not True:
            raise Fault("RSI_CREATE takes a file, a variable for the number, and TRUE")
        self.context = str(given[0].read())
        given[1].write(1)
        self.flow = read_flow(self.files, self.context)
        for key in ("timeout", "computer_address", "port", "precision"):
            if problem := self.machine.strange(key, getattr(self.flow, key)):
                raise Fault(problem)

    def _on(self, given: list[Argument]) -> None:
        words = [argument.read() for argument in given]
        if not self.context:
            raise Fault("RSI_ON comes before RSI_CREATE")
        if not words or words[0] != "#ABSOLUTE" or not all(isinstance(word, Word) for word in words):
            raise Fault("corrections are distances from the start pose: RSI_ON(#ABSOLUTE)")
        if tuple(words[1:]) not in _CYCLES:
            raise Fault(f"RSI_ON does not know {words[1]}")
        self.step, self.on = _CYCLES[tuple(words[1:])], True

    def _off(self, given: list[Argument]) -> None:
        self.on = False

    def _correct(self, given: list[Argument]) -> None:
        if given or not self.on or self.rows:
            raise Fault("RSI_MOVECORR() comes once, after RSI_ON")
        robot, server = RsiRobot(self.flow, self.pose, self.step), client_of(self.files, self.name, RsiServer)
        self.events.append("log on")
        try:
            self.rows = _converse(robot, server, self.machine)
            if server.state == "stopping":  # it holds the robot there for good
                self.halted = server.reason
                raise ProgramHalt
            _check_limits(robot)
        except (Break, OSError) as problem:  # a socket that does not deliver is a finding as well
            raise Fault(str(problem)) from None
        passed: list[StretchName] = [name for name in Stretches if any(row[0] == name for row in self.rows)]
        self.events += [*passed, "log off"]
        self._moved(robot.pose)


@dataclass(frozen=True, slots=True)
class Flow:
    """A signal flow and its Ethernet configuration."""

    sender: str  # SENTYPE
    sends: frozenset[str]
    axes: tuple[str, ...]  # tags of the answer that move A1 to A6
    stop: str  # tag that ends the motion
    lower: tuple[float, ...]  # deg: corrections are cut off there
    upper: tuple[float, ...]
    most: tuple[float, ...]  # deg: a correction beyond is a fault
    timeout: int  # answers that may be missing in a row
    computer_address: str
    port: int
    precision: int  # decimals of what the controller sends


class RsiRobot:
    """A robot that holds its start pose plus the last correction; one cycle a packet."""

    def __init__(self, flow: Flow, start: np.ndarray, step: float, first: int = 4_208_163_634) -> None:
        self.flow, self.start = flow, start
        self.step = round(1e3 * step)  # ms
        self.ipoc = first
        self.correction = np.zeros(6)
        self.delay = self.missing = 0
        self.astray: float | None = None  # deg, where A1 is instead
        self.late = 0  # answers that the controller will count as late
        self.ended = False
        self.widest = np.zeros((2, 6))  # lowest and highest correction so far
        self._currents = " ".join(f'{axis}="{0.25 * k:.4f}"' for k, axis in enumerate(AXES))

    @property
    def pose(self) -> np.ndarray:
        """Commanded axis positions, deg."""
        return self.start + self.correction

    def packet(self) -> bytes:
        """Build the packet that the configuration describes; the robot is at its commanded pose."""
        pose = self.pose if self.astray is None else [self.astray, *self.pose[1:]]
        axes = " ".join(f'{axis}="{x:.4f}"' for axis, x in zip(AXES, pose, strict=True))
        elements = {
            "DEF_AIPos": f"<AIPos {axes}/>",
            "DEF_ASPos": f"<ASPos {axes}/>",
            "DEF_MACur": f"<MACur {self._currents}/>",
            "DEF_Delay": f'<Delay D="{self.delay}"/>',
        }
        body = "".join(text for tag, text in elements.items() if tag in self.flow.sends)
        return f'<Rob Type="KUKA">{body}<IPOC>{self.ipoc}</IPOC></Rob>'.encode()

    def take(self, answer: bytes | None) -> None:
        """Apply the answer to the last packet, None if it is missing, and advance to the next cycle."""
        found = self._read(answer) if answer is not None else None
        if found is None:
            self.delay += 1
            self.missing += 1
            if self.missing > self.flow.timeout:
                raise Break(f"RSI breaks off: {self.missing} answers in a row are missing")
        else:
            self.missing = 0
            self.correction, self.ended = found
            self.widest = np.array([np.minimum(self.widest[0], found[0]), np.maximum(self.widest[1], found[0])])
        self.ipoc += self.step

    def _read(self, answer: bytes) -> tuple[np.ndarray, bool] | None:
        root = parsed(answer.decode("ascii"), "answer")
        if root.tag != "Sen" or root.get("Type") != self.flow.sender:
            raise Break(f"the answer is not of type {self.flow.sender}")
        if root.findtext("IPOC") != str(self.ipoc):
            return None  # an answer to another packet comes too late
        wanted = np.array([_value(root, tag) for tag in self.flow.axes])
        outside = (wanted < self.flow.lower) | (wanted > self.flow.upper) | (np.abs(wanted) > self.flow.most)
        if outside.any():
            k = int(np.argmax(outside))
            raise Break(f"a correction of {wanted[k]:.3f} deg for {AXES[k]} is beyond the limits of the configuration")
        return wanted, bool(self.flow.stop) and _value(root, self.flow.stop) != 0.0


def _converse(robot: RsiRobot, server: RsiServer, machine: Machine) -> list[_Row]:
    """Exchange packets in lock-step until the server ends the motion, or has stopped for a while."""
    rows: list[_Row] = []
    mishaps, lost, stopped = Mishaps(machine.events), 0, 0
    with socket_pair() as (ours, theirs):
        cycle = 1e-3 * robot.step
        for k in range(int(machine.longest / cycle)):
            robot.astray = None
            lost = max(0, lost - 1) + _meet(robot, server, mishaps)
            ours.send(robot.packet())
            question = theirs.recv(4096)
            reply = None if lost else _answered(server, question, k * cycle)
            if reply is not None:
                theirs.send(reply)
            robot.take(ours.recv(4096) if reply is not None else None)
            if robot.ended:
                return rows
            stopped += server.state in ("refused", "stopping")
            if stopped and (not machine.events or server.state == "refused"):
                raise Break(f"the server stops: {server.reason}")
            if reply is not None:  # until the next one it holds where it is
                rows.append((server.stretch, server.mark, k, robot.pose))
            if stopped * cycle > _WATCHED:
                return rows
    raise Break(f"is still running after {machine.longest:g} s")


def _meet(robot: RsiRobot, server: RsiServer, mishaps: Mishaps) -> int:
    """Let the events happen that are due; return how many packets are lost from now on."""
    lost = 0
    for event in mishaps.due(server.stretch, server.elapsed):
        lost += round(event.value) if event.name == "packets" else 0
        if event.name == "stop" and event.value:
            server.stop("stopped by the operator")
        if event.name == "tracking":
            robot.astray = max(pose[0] for ms, pose in server.told if robot.ipoc - ms <= LAG) + event.value
        robot.late += round(event.value) if event.name == "answers" else 0
    robot.delay += robot.late > 0
    robot.late -= robot.late > 0
    return lost


def _answered(server: RsiServer, data: bytes, now: float) -> bytes | None:
    try:
        return server.answer(data, now)
    except (ValueError, KeyError, TypeError, IndexError, ZeroDivisionError, OverflowError) as error:
        raise Break(f"the server fails on the run's numbers: {error}") from None


def _check_limits(robot: RsiRobot) -> None:
    """Check that limits of corrections are as wide as the motion, and not much wider."""
    low, high = robot.widest
    for k, axis in enumerate(AXES):
        needed = max(-low[k], high[k])
        wide = (low[k] - robot.flow.lower[k], robot.flow.upper[k] - high[k], robot.flow.most[k] - needed)
        if max(wide) > MARGIN:
            raise Break(
                f"limits of {axis} are {max(wide):.3g} deg wider than the motion; at most {MARGIN:g} are sensible"
            )


AXES = tuple(f"A{k}" for k in range(1, 7))
_OBJECTS = {"AXISCORR": "33", "ETHERNET": "64", "AXISCORRMON": "82", "STOP": "18"}
_EXIT = "4"  # mode of STOP that ends RSI_MOVECORR
_SENDS = {"DEF_AIPos", "DEF_ASPos", "DEF_MACur", "DEF_Delay", "DEF_RIst", "DEF_RSol"}


class Break(Exception):
    """Reason why the controller ends RSI."""


def read_flow(files: Mapping[str, str], context: str) -> Flow:
    """Read a signal flow, `<context>.xml`, and the Ethernet configuration that it names."""
    file = f"{context}.xml"
    root = _file(files, file)
    found = {element.get("ObjType", ""): element for element in root.findall("RSIObject")}
    for kind, number in _OBJECTS.items():
        if kind not in found or found[kind].get("ObjTypeID") != number:
            raise ProgramError(file, None, f"has no object {kind} with ObjTypeID {number}")
    if len(found) != len(root.findall("RSIObject")) or set(found) != set(_OBJECTS):
        raise ProgramError(file, None, f"has other objects than {', '.join(_OBJECTS)}, one each")
    values = {kind: _parameters(file, element) for kind, element in found.items()}
    if values["STOP"].get("Mode") != _EXIT:
        raise ProgramError(file, None, f"STOP must have Mode {_EXIT}, which ends RSI_MOVECORR")
    ethernet = values["ETHERNET"].get("ConfigFile", "")
    timeout = _number(file, values["ETHERNET"], "Timeout")
    if not 1 <= timeout <= 100:
        raise ProgramError(file, None, f"Timeout is {timeout:g} cycles, expected 1 to 100")
    if _number(file, values["ETHERNET"], "Flag") != -1:
        raise ProgramError(file, None, "Flag must be -1, or RSI drives a $FLAG that another program may use")
    source = str(found["ETHERNET"].get("ObjID"))
    tags, config, sends = _ethernet(files, ethernet)
    axes = tuple(_tag(file, tags, found["AXISCORR"], source, str(k)) for k in range(1, 7))
    return Flow(
        config["SENTYPE"],
        sends,
        axes,
        _tag(file, tags, found["STOP"], source, "1"),
        tuple(_number(file, values["AXISCORR"], f"LowerLim{axis}") for axis in AXES),
        tuple(_number(file, values["AXISCORR"], f"UpperLim{axis}") for axis in AXES),
        tuple(_number(file, values["AXISCORRMON"], f"Max{axis}") for axis in AXES),
        int(timeout),
        config["IP_NUMBER"],
        int(config["PORT"]),
        int(_number(file, values["ETHERNET"], "Precision")),
    )


def parsed(text: str, what: str) -> ET.Element:
    """Parse XML; declarations are refused, so that no entity is expanded."""
    if "<!DOCTYPE" in text or "<!ENTITY" in text:
        raise Break(f"{what} declares a document type")
    try:
        return ET.fromstring(text)
    except (ET.ParseError, LookupError) as error:
        raise Break(f"{what} is no XML: {error}") from None


def _file(files: Mapping[str, str], file: str) -> ET.Element:
    text = file_in(files, file)
    try:
        return parsed(re.sub(r"^<\?xml[^>]*\?>", "", text).strip(), "the file")
    except Break as problem:
        raise ProgramError(file, None, str(problem)) from None


def _ethernet(files: Mapping[str, str], file: str) -> tuple[dict[str, str], dict[str, str], frozenset[str]]:
    """Read tags by output, the connection, and what the controller sends."""
    root = _file(files, file)
    config = {
        name: root.findtext(f"CONFIG/{name}", "").strip() for name in ("IP_NUMBER", "PORT", "SENTYPE", "ONLYSEND")
    }
    numbers = config["IP_NUMBER"].split(".")
    if len(numbers) != 4 or not all(x.isdecimal() and int(x) < 256 for x in numbers):
        raise ProgramError(file, None, f"IP_NUMBER is {config['IP_NUMBER'][:30]!r}, expected four numbers")
    if not (config["PORT"].isdecimal() and 1024 <= int(config["PORT"]) <= 65534):
        raise ProgramError(file, None, f"PORT is {config['PORT'][:30]!r}, expected 1024 to 65534")
    if config["ONLYSEND"] != "FALSE":
        raise ProgramError(file, None, "ONLYSEND must be FALSE, or answers are ignored")
    sends = [element.get("TAG", "") for element in root.findall("SEND/ELEMENTS/ELEMENT")]
    if unknown := set(sends) - _SENDS:
        raise ProgramError(file, None, f"sends {sorted(unknown)[0]!r}, which is not known here")
    if any(e.get("INDX") != "INTERNAL" for e in root.findall("SEND/ELEMENTS/ELEMENT")) or len(set(sends)) != len(sends):
        raise ProgramError(file, None, "what the controller reads itself has INDX INTERNAL, and is sent once")
    tags: dict[str, str] = {}
    for element in root.findall("RECEIVE/ELEMENTS/ELEMENT"):
        index, tag = element.get("INDX", ""), element.get("TAG", "")
        if element.get("HOLDON") != "1":
            raise ProgramError(file, None, f"{tag} has no HOLDON 1: a late answer would throw the axis back")
        if not index.isdecimal() or index in tags or tag in tags.values():
            raise ProgramError(file, None, f"{tag} has no output of its own")
        if element.get("TYPE") != ("BOOL" if tag == "Stop" else "DOUBLE"):
            raise ProgramError(file, None, f"{tag} is of the wrong TYPE")
        tags[index] = tag
    return tags, config, frozenset(sends)


def _tag(file: str, tags: Mapping[str, str], element: ET.Element, source: str, index: str) -> str:
    """Follow an object's input to the tag that feeds it."""
    inputs = [x for x in element.findall("Inputs/Input") if x.get("InIdx") == index]
    if len(inputs) != 1 or inputs[0].get("OutObjID") != source or inputs[0].get("OutIdx", "") not in tags:
        raise ProgramError(file, None, f"input {index} of {element.get('ObjType')} is fed by nothing that is received")
    return tags[inputs[0].get("OutIdx", "")]


def _parameters(file: str, element: ET.Element) -> dict[str, str]:
    listed = [(x.get("Name", ""), x.get("ParamValue", "")) for x in element.findall("Parameters/Parameter")]
    if len(dict(listed)) != len(listed):
        raise ProgramError(file, None, f"{element.get('ObjType')} has a parameter twice")
    return dict(listed)


def _number(file: str, values: Mapping[str, str], name: str) -> float:
    if not re.fullmatch(r"-?\d+(\.\d+)?", values.get(name, "")):
        raise ProgramError(file, None, f"{name} is {values.get(name, 'missing')[:20]!r}, expected a number")
    return float(values[name])


def _value(root: ET.Element, tag: str) -> float:
    """Read AK.A1 from the attribute A1 of AK, Stop from its text."""
    name, _, attribute = tag.partition(".")
    element = root.find(name)
    text = None if element is None else element.get(attribute) if attribute else element.text
    if text is None or not re.fullmatch(r"-?\d+(\.\d+)?", text):
        raise Break(f"the answer has no number for {tag}")
    return float(text)
