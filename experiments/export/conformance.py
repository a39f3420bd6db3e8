"""What every export must fulfil, built in or brought from elsewhere: one suite on the model of a small robot."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from excitor.experiments.campaign import OpenCampaign
from excitor.experiments.export.export import Asked, Export, Exported
from excitor.identify.conformance import conformance_problem
from excitor.robots.arrays import FloatArray
from excitor.robots.errors import ExcitorError
from excitor.robots.robot import Robot

_FILE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


@dataclass(frozen=True, eq=False, slots=True)
class KnownModel:
    """A model whose parameters are those that the robot's file states."""

    robot: Robot

    @property
    def chi(self) -> FloatArray:
        """The parameters, (n_params,)."""
        return self.robot.chi

    def consistent(self) -> FloatArray:
        """Give the same, (n_params,)."""
        return self.robot.chi


def check_export(form: Callable[[OpenCampaign, Asked], Exported] | Export) -> None:
    """Check what an export must fulfil; ExcitorError lists everything that it does not.

    It has a name; its file is a plain name without folders; of the same model it makes the same bytes twice, or it
    refuses with an ExcitorError.
    """
    if not isinstance(form, Export):
        raise ExcitorError(f"export {form!r}: is {type(form).__name__}, expected an Export(name, file, write)")
    model = KnownModel(conformance_problem()[0].robot)
    problems = list(_named(form))
    if not problems:
        first, second = _made(form, model), _made(form, model)
        problems = [*export_problems(first), *(["makes different bytes the second time"] if first != second else [])]
    if problems:
        raise ExcitorError(f"export {form.name!r}: {'; '.join(problems)}")


def export_problems(made: Exported | None) -> Iterator[str]:
    """List what is wrong with a file's name and content; a refusal is right."""
    if made is None:
        return
    if not _FILE.fullmatch(made.file):
        yield f"its file is {made.file!r}, expected a plain name such as model.xml"
    if not isinstance(made.content, bytes) or not made.content:
        yield "its content is empty, or neither text nor bytes"
    if any(not note.strip() for note in made.notes):
        yield "a note is empty"


def _named(form: Export) -> Iterator[str]:
    if not isinstance(form.name, str) or not _FILE.fullmatch(form.name):
        yield f"its name is {form.name!r}, expected letters, digits, dots and dashes"
    if not callable(form.write):
        yield "it has no write(model) to call"


def _made(form: Export, model: KnownModel) -> Exported | None:
    try:
        return form.of_model(model)
    except ExcitorError:
        return None
    except Exception as error:
        raise ExcitorError(
            f"export {form.name!r}: raises {type(error).__name__} ({error}); raise ExcitorError to refuse"
        ) from error
