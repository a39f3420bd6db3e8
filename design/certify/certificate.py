"""Certificate of a run: one line a limit, with the worst value that can occur and how that was proven."""

from dataclasses import dataclass

from excitor.design.certify.margin import Margin
from excitor.design.motion import Run


@dataclass(frozen=True, slots=True)
class Robustness:
    """Share of perturbed models, each parameter off by up to ± spread on its own, whose run keeps the limits."""

    spread: float
    n_models: int
    share: float  # of models whose run keeps all limits as stated
    diverged: float  # share of models whose run runs away
    breaks: tuple[tuple[str, float], ...]  # what is broken, by how large a share of models, most often first


@dataclass(frozen=True, slots=True)
class Simulation:
    """How a motion was simulated that no controller commands."""

    finest_step: float  # s
    robustness: Robustness


@dataclass(frozen=True, eq=False, slots=True)
class Certificate:
    """Margins of all limits of a run; notes list what was not checked."""

    items: tuple[Margin, ...]
    notes: tuple[str, ...] = ()
    way: Run | None = None  # from the home pose to the start, and backwards at the end
    simulation: Simulation | None = None  # of a motion that is simulated, not proven

    @property
    def ready(self) -> bool:
        """Return True if every limit is proven to hold."""
        return all(item.holds for item in self.items)


def failing(certificate: Certificate) -> tuple[Margin, ...]:
    """List the limits that are exceeded, or not proven to hold."""
    return tuple(item for item in certificate.items if not item.holds)
