"""`excitor export`: the identified model in formats of simulators, controllers and scripts."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path

import numpy as np

from excitor.experiments.campaign import OpenCampaign, open_campaign
from excitor.experiments.export.load import LoadOptions, find_load
from excitor.experiments.files import mend, write_bytes_atomically
from excitor.experiments.model import FILE, Model, Standard, read_model
from excitor.experiments.status import status
from excitor.identify.methods import conformance_problem
from excitor.robots.errors import ExcitorError, choice
from excitor.robots.files.bounded import read_bounded
from excitor.robots.load import read_content, read_text
from excitor.robots.parameters import layout
from excitor.robots.plugins import Members
from excitor.robots.robot import Robot

FOLDER = "exports"
DO_NOT_USE = "do-not-use"
LARGEST = 100_000_000  # bytes of a user's own file
LOADS = ("kuka", "abb", "fanuc", "ur")
# option of the command line -> formats that it is about
OPTIONS = {"--mjcf": ("mjcf",), "--from-link": LOADS, "--flange": LOADS, "--point-mass": LOADS}


@dataclass(frozen=True, slots=True)
class ExportOptions:
    """Options of an export."""

    out: Path | None = None  # none: exports/ of the campaign
    mjcf: Path | None = None  # the user's own file, to be filled
    load: LoadOptions = field(default_factory=LoadOptions)
    allow: tuple[str, ...] = ()  # "do-not-use": models, too, that the verdict is against
    with_tool: bool = False  # the arm with the stated load whose torques were subtracted


@dataclass(frozen=True, slots=True)
class ExportFile:
    """A format with its file, or the reason why there is none."""

    format: str
    file: str = ""
    content: bytes = b""
    notes: tuple[str, ...] = ()
    refused: str = ""


@dataclass(frozen=True, slots=True)
class Export:
    """A form from elsewhere: its name, the name of its file, and what makes the file's content of a model."""

    name: str
    file: str
    write: Callable[[Model], str | bytes]

    def of_model(self, model: Model) -> ExportFile:
        """Make the file's content."""
        content = self.write(model)
        return ExportFile(self.name, self.file, content.encode() if isinstance(content, str) else content)

    def __call__(self, campaign: OpenCampaign, options: ExportOptions) -> ExportFile:
        """Make the file's content of a campaign's model."""
        return self.of_model(model_of(campaign, options))


def export(folder: Path, formats: list[str], options: ExportOptions) -> tuple[list[ExportFile], list[str]]:
    """Write the requested formats, none of them unless all can be written; return them with doubts about the model."""
    unknown = [name for name in formats if name not in FORMATS]
    if unknown:
        raise ExcitorError(f"--format: {unknown[0]!r} is no form; expected some of {choice(unknown[0], FORMATS)}")
    campaign = open_campaign(folder, "design" if not needs_logs(formats) else "identify")
    made = [FORMATS[name](campaign, options) for name in dict.fromkeys(formats)]
    out = options.out or campaign.folder / FOLDER
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ExcitorError(f"{out}: cannot be written: {error.strerror or error}") from None
    mend(out)
    for one in made:
        if options.mjcf is not None and (out / one.file).resolve() == options.mjcf.resolve():
            raise ExcitorError(f"{options.mjcf}: would be overwritten by what is made of it; give another --out")
        write_bytes_atomically(out / one.file, one.content)
    written = [ExportFile(one.format, str(out / one.file), notes=one.notes) for one in made]
    return written, [*doubts(campaign), *(tool_note(campaign, options) if set(formats) & set(ALONE) else ())]


def offers(folder: Path, options: ExportOptions) -> list[ExportFile]:
    """List every format, and why it cannot be written if so; nothing is written."""
    found = []
    for name in FORMATS:
        try:
            make = FORMATS[name]
            campaign = open_campaign(folder, "design" if not needs_logs([name]) else "identify")
            one = make(campaign, options)
            found.append(ExportFile(name, one.file, notes=one.notes))
        except ExcitorError as error:
            found.append(ExportFile(name, refused=str(error)))
    return found


def needs_logs(formats: list[str]) -> bool:
    """Return True if a format is made from the logs, and not from model.json alone."""
    return "parquet" in formats


def doubts(campaign: OpenCampaign) -> list[str]:
    """List why the model is out of date with the folder."""
    stale = [stage for stage in status(campaign.folder) if stage.name == FILE and stage.state == "stale"]
    return [f"{FILE} is stale ({stage.reason}); {stage.remedy} makes it anew" for stage in stale]


def tool_note(campaign: OpenCampaign, options: ExportOptions) -> list[str]:
    """Say whether the stated load is in what was exported, where there is one."""
    try:
        mass = read_model(campaign.folder / FILE, campaign.robot).known_load().phi[9]
    except ExcitorError:
        return []
    added = "" if options.with_tool else "; --with-tool adds it"
    return [f"of the arm with{'' if options.with_tool else 'out'} the stated load of {mass:.3g} kg{added}"]


def model_of(campaign: OpenCampaign, options: ExportOptions) -> Model:
    """Read a campaign's model, of the arm alone or with the stated load; what must not be used needs to be allowed."""
    model = read_model(campaign.folder / FILE, campaign.robot)
    if model.verdict is not None and model.verdict["go"] is False and DO_NOT_USE not in options.allow:
        reasons = " ".join(reason for use in model.verdict["uses"][:1] for reason in use["reasons"])
        raise ExcitorError(
            f"{model.where}: {model.verdict['headline']}: {reasons} Export all the same: --allow {DO_NOT_USE}"
        )
    return model.with_load() if options.with_tool else model


def export_model(
    model: Model, form: str, path: str | PathLike[str], *, source: Path | str | None = None
) -> tuple[str, ...]:
    """Write a model for others: simulators, controllers, scripts.

    Args:
        model: as `fit` or `load_model` gives it.
        form: "mjcf", "urdf", "py", "c", or the name of a registered export.
        path: of the file to write.
        source: MJCF or URDF of the robot, to be filled with the model.

    Sentences about what the form cannot hold are returned.

    >>> import numpy as np, excitor as ex, tempfile, pathlib
    >>> robot = ex.load_robot("rotradi")
    >>> t, w = np.arange(0, 20, 0.01)[:, None], np.array([0.9, 1.7, 2.6])
    >>> motion = ex.Motion(np.sin(w * t), w * np.cos(w * t), -(w**2) * np.sin(w * t))
    >>> tau = ex.inverse_dynamics(robot, motion) + 0.05 * np.random.default_rng(0).normal(size=motion.q.shape)
    >>> model = ex.fit(ex.Samples("run", motion, tau, 100.0, robot=robot), consistent=False)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     ex.export(model, "py", pathlib.Path(folder) / "model.py")
    ()
    """
    made = export_of(form, model, None if source is None else Path(source))
    place = Path(path)
    place.parent.mkdir(parents=True, exist_ok=True)
    write_bytes_atomically(place, made.content)
    return made.notes


def export_of(name: str, model: Model, source: Path | None = None) -> ExportFile:
    """Make a form of a model alone: mjcf, urdf, py, c or one that was registered; `source`: the file to be filled."""
    if name in ALONE:
        return ALONE[name](model, source)
    found = FORMATS.get(name)
    if isinstance(found, Export):
        return found.of_model(model)
    if found is None:
        raise ExcitorError(f"{name!r} is no form; expected one of {choice(name, FORMATS)}")
    raise ExcitorError(f"{name}: is made of a campaign's folder; use Campaign(DIR).export({name!r})")


def mjcf_of(model: Model, own: Path | None = None) -> ExportFile:
    """Write a MuJoCo file, or fill the user's own."""
    from excitor.experiments.export.mjcf import filled_mjcf, written_mjcf

    robot, chi = model.own_robot(), model.consistent()
    if own is None:
        text, left_out = written_mjcf(robot, chi)
        return ExportFile("mjcf", "model.xml", text.encode(), _left_out("MuJoCo's joints", left_out))
    filled = filled_mjcf(_own_file(own), robot, chi, str(own))
    return ExportFile("mjcf", own.name, filled.content, _left_out("MuJoCo's joints", filled.left_out) + _held(robot))


def urdf_of(model: Model, source: Path | None = None) -> ExportFile:
    """Fill the inertials and joint friction of the robot's URDF."""
    from excitor.robots.files.urdf import filled_urdf

    robot = model.own_robot()
    if source is None:
        raise ExcitorError(f"urdf: {robot.name}'s own URDF is filled with the model; give it as source")
    text, left_out = filled_urdf(read_text(source), robot, model.consistent())
    notes = _left_out("a URDF's <dynamics>", left_out) + _held(robot)
    return ExportFile("urdf", "model.urdf", text.encode(), notes)


def code_of(language: str, suffix: str) -> Callable[[Model, Path | None], ExportFile]:
    """Write inverse dynamics as code."""

    def made(model: Model, source: Path | None = None) -> ExportFile:
        from excitor.robots.codegen import inverse_dynamics_code

        model.check_in_kg()
        text = inverse_dynamics_code(model.own_robot(), language, chi=model.delivered.chi)
        return ExportFile(suffix, f"model.{suffix}", text.encode())

    return made


ALONE: Mapping[str, Callable[[Model, Path | None], ExportFile]] = {  # forms that are made of a model alone
    "mjcf": mjcf_of,
    "urdf": urdf_of,
    "py": code_of("python", "py"),
    "c": code_of("c", "c"),
}


def _own_file(path: Path) -> bytes:
    try:
        return read_bounded(path, LARGEST)
    except OSError as error:
        raise ExcitorError(f"{path}: cannot be read: {error.strerror or error}") from None


def _left_out(what: str, left_out: tuple[str, ...]) -> tuple[str, ...]:
    return (f"{what} cannot represent {', '.join(left_out)}",) if left_out else ()


def _held(robot: Robot) -> tuple[str, ...]:
    """Say where held joints, which stay joints of a filled file, have to stand for the model."""
    at = ", ".join(f"{name} at {joint}" for name, joint in robot.held.items())
    return (f"what was identified holds with {at}; there it stays a joint, with the file's own inertias",) if at else ()


def _load(controller: str) -> Callable[[OpenCampaign, ExportOptions], ExportFile]:
    def made(campaign: OpenCampaign, options: ExportOptions) -> ExportFile:
        from excitor.experiments.export.load import load_file

        if options.load.from_link is not None:
            model_of(campaign, options)  # refuses one that must not be used
        load = find_load(campaign, options.load)
        file = load_file(load, controller)
        return ExportFile(controller, file.name, file.content, (f"{load.source}; in the frame {load.frame}",))

    return made


def _parquet(campaign: OpenCampaign, options: ExportOptions) -> ExportFile:
    from excitor.experiments.export.samples import samples_parquet

    bare = replace(options, with_tool=False)  # as the samples are
    return ExportFile("parquet", "samples.parquet", samples_parquet(campaign, model_of(campaign, bare)))


def _urdf(campaign: OpenCampaign, options: ExportOptions) -> ExportFile:
    source = read_content(campaign.robot_source).urdf_file
    if source is None:
        raise ExcitorError(f"{campaign.robot.name}: did not come from a URDF, so that there is none to fill")
    return urdf_of(model_of(campaign, options), source)


_FILE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def check_export(form: Callable[[OpenCampaign, ExportOptions], ExportFile]) -> None:
    """Run the conformance suite of exports; ExcitorError lists everything that an export does not fulfil.

    Args:
        form: an Export.

    It has a name; its file is a plain name without folders; of the same model it makes the same bytes twice, or it
    refuses with an ExcitorError.

    >>> import excitor as ex
    >>> ex.check_export(ex.Export("list", "model.txt", lambda model: str(model.chi)))
    """
    if not isinstance(form, Export):
        raise ExcitorError(f"export {form!r}: is {type(form).__name__}, expected an Export(name, file, write)")
    problems = []
    if not isinstance(form.name, str) or not _FILE.fullmatch(form.name):
        problems.append(f"its name is {form.name!r}, expected letters, digits, dots and dashes")
    if not callable(form.write):
        problems.append("it has no write(model) to call")
    if not problems:
        first, second = _made(form), _made(form)
        problems = [*export_problems(first), *(["makes different bytes the second time"] if first != second else [])]
    if problems:
        raise ExcitorError(f"export {form.name!r}: {'; '.join(problems)}")


def example_model() -> Model:
    """Make a model of a small robot whose parameters are those that the robot's file states."""
    robot = conformance_problem()[0].robot
    params = layout(robot)
    unknown = np.full(len(params), np.nan)
    standard = Standard(params.names, params.units, robot.chi, ("",) * len(params))
    return Model(
        robot.name,
        names=params.names,
        units=params.units,
        values=robot.chi,
        sigma_white=unknown,
        sigma=unknown,
        low=unknown,
        high=unknown,
        standard=standard,
        robot=robot,
    )


def export_problems(made: ExportFile | None) -> Iterator[str]:
    """List what is wrong with a file's name and content; a refusal is right."""
    if made is None:
        return
    if not _FILE.fullmatch(made.file):
        yield f"its file is {made.file!r}, expected a plain name such as model.xml"
    if not isinstance(made.content, bytes) or not made.content:
        yield "its content is empty, or neither text nor bytes"
    if any(not note.strip() for note in made.notes):
        yield "a note is empty"


def _made(form: Export) -> ExportFile | None:
    try:
        return form.of_model(example_model())
    except ExcitorError:
        return None
    except Exception as error:
        raised = f"raises {type(error).__name__} ({error}); raise ExcitorError to refuse"
        raise ExcitorError(f"export {form.name!r}: {raised}") from error


FORMATS: Members[Callable[[OpenCampaign, ExportOptions], ExportFile]] = Members(
    "excitor.exports",
    {
        "mjcf": lambda campaign, options: mjcf_of(model_of(campaign, options), options.mjcf),
        "urdf": _urdf,
        "py": lambda campaign, options: export_of("py", model_of(campaign, options)),
        "c": lambda campaign, options: export_of("c", model_of(campaign, options)),
        "parquet": _parquet,
        **{name: _load(name) for name in LOADS},
    },
    check_export,
)
