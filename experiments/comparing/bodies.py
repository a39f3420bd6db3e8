"""Could a robot have these parameters? The nearest ones that bodies can have, and how they predict."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from excitor.experiments.comparing.judge import Judged
from excitor.experiments.comparing.prepare import Prepared
from excitor.experiments.identification import COSTLIEST, Tell
from excitor.experiments.page.words import finite
from excitor.identify.consistent import consistent_of
from excitor.identify.validate import torque_errors
from excitor.robots.base import base_parameters
from excitor.robots.errors import ExcitorError
from excitor.robots.parameters import layout


@dataclass(frozen=True)
class Bodies:
    """A method's physically consistent version, or why there is none."""

    total: float  # held-out error; NaN where there is none
    refused: str = ""
    chi: Mapping[str, float] | None = None  # standard parameters

    def data(self) -> dict[str, Any]:
        """Write it for scripts."""
        return {
            "total": finite(self.total),
            "refused": self.refused,
            "parameters": None if self.chi is None else dict(self.chi),
        }


def bodies_of(prepared: Prepared, judged: Sequence[Judged], tell: Tell) -> Mapping[str, Bodies]:
    """Find each method's consistent version."""
    tell("looking for the nearest parameters that bodies can have")
    return {entry.name: nearest(prepared, entry) for entry in judged}


def nearest(prepared: Prepared, entry: Judged) -> Bodies:
    """Find the consistent parameters nearest to an estimate, and judge them as the estimate was."""
    robot, judging = prepared.problem.robot, prepared.judging
    try:
        found = consistent_of(entry.estimate, robot)
    except (ExcitorError, ValueError) as error:
        return Bodies(np.nan, str(error))
    if found.loss > COSTLIEST:
        return Bodies(np.nan, f"it would fit {100 * found.loss:.0f} % worse")
    names = layout(robot).names
    values = dict(zip((names[k] for k in base_parameters(robot).kept), found.beta, strict=True))
    beta = np.array([values[name] for name in judging.names])
    chi = {name: float(value) for name, value in zip(names, found.chi, strict=True)}
    return Bodies(torque_errors(judging, judging.W @ beta).relative_total, chi=chi)
