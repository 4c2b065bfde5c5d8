"""The policies, row by row as in csrc/engine/policy.c, and the reference engine of each."""

from typing import NamedTuple

from pump.sim.engine import Settings
from tests.reference.held import Held
from tests.reference.ordered import Ordered


class Policy(NamedTuple):
    """struct policy of csrc/engine/policy.h."""

    held: bool = False
    fills: bool = False


POLICIES = {
    "ahead": Policy(held=True, fills=True),
    "pump": Policy(fills=True),
    "none": Policy(),
}


def reference(settings: Settings) -> Held | Ordered:
    """A reference engine. Raises KeyError where there is no such policy."""
    policy = POLICIES[settings.policy]
    if policy.held:
        return Held(settings)
    return Ordered(settings, fills=policy.fills)
