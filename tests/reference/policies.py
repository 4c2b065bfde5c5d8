"""The reference engine of every policy."""

from pump.sim.engine import Settings
from tests.reference.held import Held
from tests.reference.ordered import Ordered

ORDERED = ("lru", "pump", "none")


def reference(settings: Settings) -> Held | Ordered:
    """A reference engine. Raises ValueError where there is no such policy."""
    if settings.policy in ORDERED:
        return Ordered(settings)
    if settings.policy != "ahead":
        raise ValueError(f"no policy `{settings.policy}`")
    return Held(settings)
