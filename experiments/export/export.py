"""`excitor export`: what was learned, in the forms that simulators, controllers and scripts read."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from excitor.experiments.campaign import OpenCampaign, open_campaign
from excitor.experiments.export.load import Wanted, find_load
from excitor.experiments.files import mend, write_bytes_atomically
from excitor.experiments.model import FILE, read_model
from excitor.experiments.status import status
from excitor.robots.errors import ExcitorError
from excitor.robots.load import read_text

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


def export(folder: Path, formats: list[str], asked: Asked) -> tuple[list[Exported], list[str]]:
    """Write the forms that are asked for, none of them unless all can be written; and what is to be known of them."""
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
    for name, make in FORMATS.items():
        try:
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


def _mjcf(campaign: OpenCampaign, asked: Asked) -> Exported:
    from excitor.experiments.export.mjcf import filled_mjcf, written_mjcf

    chi = read_model(campaign.folder / FILE, campaign.robot).consistent()
    if asked.mjcf is None:
        text, left_out = written_mjcf(campaign.robot, chi)
        return Exported("mjcf", "model.xml", text.encode(), _left_out(left_out))
    filled = filled_mjcf(_own_file(asked.mjcf), campaign.robot, chi, str(asked.mjcf))
    return Exported("mjcf", asked.mjcf.name, filled.content, _left_out(filled.left_out))


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

    model = read_model(campaign.folder / FILE, campaign.robot)
    return Exported("parquet", "samples.parquet", samples_parquet(campaign, model))


def _urdf(campaign: OpenCampaign, asked: Asked) -> Exported:
    from excitor.robots.files.urdf import filled_urdf

    source = Path(campaign.robot_source)
    if source.suffix.lower() not in (".urdf", ".xml"):
        raise ExcitorError(f"{campaign.robot.name}: did not come from a URDF, so that there is none to fill")
    chi = read_model(campaign.folder / FILE, campaign.robot).consistent()
    return Exported("urdf", "model.urdf", filled_urdf(read_text(source), campaign.robot, chi).encode())


def _code(name: str, language: str) -> Callable[[OpenCampaign, Asked], Exported]:
    def made(campaign: OpenCampaign, asked: Asked) -> Exported:
        from excitor.robots.codegen import inverse_dynamics_code

        model = read_model(campaign.folder / FILE, campaign.robot)
        text = inverse_dynamics_code(campaign.robot, language, chi=model.chi)
        return Exported(name, f"model.{name}", text.encode())

    return made


FORMATS: Mapping[str, Callable[[OpenCampaign, Asked], Exported]] = {
    "mjcf": _mjcf,
    "urdf": _urdf,
    "py": _code("py", "python"),
    "c": _code("c", "c"),
    "parquet": _parquet,
    **{name: _load(name) for name in LOADS},
}
