"""Certificate of a run: one line a limit, with the worst value that can occur and how that was proven."""

from dataclasses import dataclass

from excitor.design.certify.margin import Margin
from excitor.design.motion import Run


@dataclass(frozen=True, eq=False, slots=True)
class Certificate:
    """Margins of all limits of a run; notes list what was not checked."""

    items: tuple[Margin, ...]
    notes: tuple[str, ...] = ()
    way: Run | None = None  # from the home pose to the start, and backwards at the end

    @property
    def ready(self) -> bool:
        """Return True if every limit is proven to hold."""
        return all(item.holds for item in self.items)


def failing(certificate: Certificate) -> tuple[Margin, ...]:
    """List the limits that are exceeded, or not proven to hold."""
    return tuple(item for item in certificate.items if not item.holds)
