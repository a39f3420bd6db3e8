"""`excitor export`: what was learned, in the forms that simulators, controllers and scripts read."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from excitor.experiments.campaign import OpenCampaign, open_campaign
from excitor.experiments.export.load import Wanted, find_load
from excitor.experiments.files import mend, write_bytes_atomically
from excitor.experiments.model import FILE, read_model
from excitor.experiments.status import status
from excitor.robots.arrays import FloatArray
from excitor.robots.errors import ExcitorError
from excitor.robots.load import read_text
from excitor.robots.plugins import Members
from excitor.robots.robot import Robot

FOLDER = "exports"
LARGEST = 100_000_000  # bytes of a user's own file
LOADS = ("kuka", "abb", "fanuc", "ur")


@dataclass(frozen=True, slots=True)
class Asked:
    """What is to be exported, and from what."""

    out: Path | None = None  # none: exports/ of the campaign
    mjcf: Path | None = None  # the user's own file, to be filled
    load: Wanted = field(default_factory=Wanted)


@dataclass(frozen=True, slots=True)
class Exported:
    """A form, and the file that holds it, or why there is none."""

    format: str
    file: str = ""
    content: bytes = b""
    notes: tuple[str, ...] = ()
    refused: str = ""


class ExportedModel(Protocol):
    """What an export is made of."""

    @property
    def robot(self) -> Robot:
        """The robot, whose parameters chi are."""

    @property
    def chi(self) -> FloatArray:
        """The base parameters on the robot, (n_params,): 0 for what regrouped."""

    def consistent(self) -> FloatArray:
        """Physically consistent parameters, (n_params,); ExcitorError where there are none."""


@dataclass(frozen=True, slots=True)
class Export:
    """A form from elsewhere: its name, the name of its file, and what makes the file's content of a model."""

    name: str
    file: str
    write: Callable[[ExportedModel], str | bytes]

    def of_model(self, model: ExportedModel) -> Exported:
        """Make the file's content."""
        content = self.write(model)
        return Exported(self.name, self.file, content.encode() if isinstance(content, str) else content)

    def __call__(self, campaign: OpenCampaign, asked: Asked) -> Exported:
        """Make the file's content of a campaign's model."""
        return self.of_model(read_model(campaign.folder, campaign.robot))


def export(folder: Path, formats: list[str], asked: Asked) -> tuple[list[Exported], list[str]]:
    """Write the forms that are asked for, none of them unless all can be written; and what is to be known of them."""
    unknown = [name for name in formats if name not in FORMATS]
    if unknown:
        raise ExcitorError(f"--format: {unknown[0]!r} is no form; expected some of {', '.join(FORMATS)}")
    campaign = open_campaign(folder, "design" if not needs_logs(formats) else "identify")
    made = [FORMATS[name](campaign, asked) for name in dict.fromkeys(formats)]
    out = asked.out or campaign.folder / FOLDER
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ExcitorError(f"{out}: cannot be written: {error.strerror or error}") from None
    mend(out)
    for one in made:
        if asked.mjcf is not None and (out / one.file).resolve() == asked.mjcf.resolve():
            raise ExcitorError(f"{asked.mjcf}: would be overwritten by what is made of it; give another --out")
        write_bytes_atomically(out / one.file, one.content)
    written = [Exported(one.format, str(out / one.file), notes=one.notes) for one in made]
    return written, doubts(campaign)


def offers(folder: Path, asked: Asked) -> list[Exported]:
    """Say of every form whether it can be written, and if not, why; nothing is."""
    found = []
    for name in FORMATS:
        try:
            make = FORMATS[name]
            campaign = open_campaign(folder, "design" if not needs_logs([name]) else "identify")
            one = make(campaign, asked)
            found.append(Exported(name, one.file, notes=one.notes))
        except ExcitorError as error:
            found.append(Exported(name, refused=str(error)))
    return found


def needs_logs(formats: list[str]) -> bool:
    """Tell whether a form is made of the logs, and not of model.json alone."""
    return "parquet" in formats


def doubts(campaign: OpenCampaign) -> list[str]:
    """Say where the model is not of what the folder holds now."""
    stages = {stage.name: stage for stage in status(campaign.folder)}
    stage = stages[FILE]
    if stage.state != "stale":
        return []
    return [f"{FILE} is stale ({stage.reason}); {stage.remedy} makes it anew"]


def export_of(name: str, model: ExportedModel, source: Path | None = None) -> Exported:
    """Make a form of a model alone: mjcf, urdf, py, c or one that was registered; `source`: the file to be filled."""
    if name == "mjcf":
        return mjcf_of(model, source)
    if name == "urdf":
        if source is None:
            raise ExcitorError(f"urdf: {model.robot.name}'s own URDF is filled with the model; give it as source")
        return urdf_of(model, source)
    if name in ("py", "c"):
        return code_of(model, name)
    found = FORMATS.get(name)
    if isinstance(found, Export):
        return found.of_model(model)
    if found is None:
        raise ExcitorError(f"{name!r} is no form; expected one of {', '.join(FORMATS)}")
    raise ExcitorError(f"{name}: is made of a campaign's folder; use Campaign(DIR).export({name!r})")


def _mjcf(campaign: OpenCampaign, asked: Asked) -> Exported:
    return mjcf_of(read_model(campaign.folder, campaign.robot), asked.mjcf)


def mjcf_of(model: ExportedModel, own: Path | None = None) -> Exported:
    """Write a MuJoCo file, or fill the user's own."""
    from excitor.experiments.export.mjcf import filled_mjcf, written_mjcf

    chi = model.consistent()
    if own is None:
        text, left_out = written_mjcf(model.robot, chi)
        return Exported("mjcf", "model.xml", text.encode(), _left_out(left_out))
    filled = filled_mjcf(_own_file(own), model.robot, chi, str(own))
    return Exported("mjcf", own.name, filled.content, _left_out(filled.left_out))


def _own_file(path: Path) -> bytes:
    try:
        if path.stat().st_size > LARGEST:
            raise ExcitorError(f"{path}: is larger than {LARGEST / 1e6:.0f} MB, as no model of a robot is")
        return path.read_bytes()
    except OSError as error:
        raise ExcitorError(f"{path}: cannot be read: {error.strerror or error}") from None


def _left_out(left_out: tuple[str, ...]) -> tuple[str, ...]:
    return (f"MuJoCo's joints cannot say {', '.join(left_out)}",) if left_out else ()


def _load(controller: str) -> Callable[[OpenCampaign, Asked], Exported]:
    def made(campaign: OpenCampaign, asked: Asked) -> Exported:
        from excitor.experiments.export.load import load_file

        load = find_load(campaign, asked.load)
        file = load_file(load, controller)
        return Exported(controller, file.name, file.content, (f"{load.source}; in the frame {load.frame}",))

    return made


def _parquet(campaign: OpenCampaign, asked: Asked) -> Exported:
    from excitor.experiments.export.samples import samples_parquet

    model = read_model(campaign.folder, campaign.robot)
    return Exported("parquet", "samples.parquet", samples_parquet(campaign, model))


def _urdf(campaign: OpenCampaign, asked: Asked) -> Exported:
    source = Path(campaign.robot_source)
    if source.suffix.lower() not in (".urdf", ".xml"):
        raise ExcitorError(f"{campaign.robot.name}: did not come from a URDF, so that there is none to fill")
    return urdf_of(read_model(campaign.folder, campaign.robot), source)


def urdf_of(model: ExportedModel, source: Path) -> Exported:
    """Fill the inertials of the robot's URDF."""
    from excitor.robots.files.urdf import filled_urdf

    return Exported("urdf", "model.urdf", filled_urdf(read_text(source), model.robot, model.consistent()).encode())


def _code(name: str) -> Callable[[OpenCampaign, Asked], Exported]:
    return lambda campaign, asked: code_of(read_model(campaign.folder, campaign.robot), name)


def code_of(model: ExportedModel, name: str) -> Exported:
    """Write inverse dynamics as code: "py" or "c"."""
    from excitor.robots.codegen import inverse_dynamics_code

    text = inverse_dynamics_code(model.robot, {"py": "python", "c": "c"}[name], chi=model.chi)
    return Exported(name, f"model.{name}", text.encode())


def check_form(form: Callable[[OpenCampaign, Asked], Exported]) -> None:
    """Run the conformance suite of exports; ExcitorError names what a form does not do."""
    from excitor.experiments.export.conformance import check_export

    check_export(form)


FORMATS: Members[Callable[[OpenCampaign, Asked], Exported]] = Members(
    "excitor.exports",
    {
        "mjcf": _mjcf,
        "urdf": _urdf,
        "py": _code("py"),
        "c": _code("c"),
        "parquet": _parquet,
        **{name: _load(name) for name in LOADS},
    },
    check_form,
)
