"""Register estimators, exports and friction laws of one's own; installed packages bring them by entry points."""

from typing import Any

from excitor.experiments.export.export import FORMATS, Export
from excitor.identify.methods import METHODS, Method
from excitor.robots import friction


def register(member: Any) -> None:
    """Make an estimator, an export or a friction law known by its name, in this process.

    Args:
        member: a Method (see `estimator`), an Export, or a friction law.

    It must pass its conformance suite (`excitor.testing`); a built-in name is refused. An installed package brings
    members without this call: by entry points of the groups excitor.estimators, excitor.exports and excitor.friction.

    >>> import numpy as np, excitor as ex
    >>> ex.register(ex.estimator("lstsq", "Plain least squares.", lambda W, y: np.linalg.lstsq(W, y)[0]))
    >>> "lstsq" in ex.estimators()
    True
    >>> ex.unregister("lstsq")
    """
    law = getattr(friction, "FrictionLaw", None)
    if isinstance(member, Method):
        METHODS.add(member.name, member)
    elif isinstance(member, Export):
        FORMATS.add(member.name, member)
    elif law is not None and isinstance(member, law):
        friction.register_friction(member)  # type: ignore[attr-defined]
    else:
        raise ValueError(f"{type(member).__name__} cannot be registered; expected a Method, an Export or a FrictionLaw")


def unregister(name: str) -> None:
    """Forget a registered estimator or export.

    Args:
        name: as it was registered; an unknown one is ignored.

    >>> import excitor as ex
    >>> ex.unregister("no-such-estimator")
    """
    METHODS.remove(name)
    FORMATS.remove(name)
