"""Looks at programs that share a GPU, one after the other: of virtual time, or as `pump top --json`
wrote them.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pump.bench.row import FormatError
from pump.bench.share_tests import HBM, LAYER, MACHINE, STEP_NS
from pump.regular import read_regular
from pump.sim.peers import policy_for
from pump.sim.resident import decoder, training
from pump.sim.tenants import Sharing, Tenant
from pump.sizes import GIB, format_size

SPAN_NS, EVERY_NS = 12_000_000_000, 20_000_000
TITLE = "Three programs need 22 GiB: they hinder each other for two seconds, then take turns"


@dataclass(frozen=True)
class Seen:
    """A tenant: whether it may issue and runs, its bytes, and those that came and left so far."""

    may_issue: bool = False
    runs: bool = False
    budget: int = 0
    resident: int = 0
    bytes_in: int = 0
    bytes_out: int = 0


@dataclass(frozen=True)
class Look:
    """All tenants, in the order in which they joined."""

    s: float
    tenants: tuple[Seen, ...]


@dataclass(frozen=True)
class Looks:
    """budget: bytes of all."""

    title: str
    names: Sequence[str]
    budget: int
    every: Sequence[Look]


def played() -> Looks:
    """A run in virtual time, from its begin: in one group, of what is measured on a GPU."""
    budget = 16 * GIB
    made = {
        "training 1": training(int(0.47 * budget), STEP_NS),
        "training 2": training(int(0.47 * budget), STEP_NS),
        "decoder": decoder(18 * LAYER, HBM),
    }
    run = Sharing(MACHINE, policy_for(MACHINE, budget, len(made)), list(made.values()))
    every = [look(run, at) for at in range(0, SPAN_NS + 1, EVERY_NS)]
    return Looks(TITLE, list(made), budget, every)


def look(run: Sharing, at: int) -> Look:
    """Plays to that time."""
    run.run(at)
    return Look(at / 1e9, tuple(map(seen, run.tenants.values())))


def seen(tenant: Tenant) -> Seen:
    here = tenant.resident
    budget = tenant.lease.budget if tenant.lease else 0
    return Seen(tenant.open, tenant.left_ns > 0, budget, here.holds, here.moved_in, here.moved_out)


def recorded(path: Path) -> Looks:
    """Of the first GPU. Raises FormatError, OSError."""
    at: dict[float, dict[int, Seen]] = {}
    names: dict[int, str] = {}
    try:
        lines = [json.loads(text) for text in read_regular(path).decode().splitlines()]
        told = [(line["time"], line["tenant"]) for line in lines if "tenant" in line]
        for s, one in told:
            if one["gpu"] == told[0][1]["gpu"]:
                at.setdefault(s, {})[one["tenant"]] = status_of(one)
                names[one["tenant"]] = f"{one['program'] or one['group']} ({one['pid']})"
    except (ValueError, KeyError, TypeError) as error:
        raise FormatError(f"{path}: what `pump top --json` prints is wanted ({error})") from error
    if len(at) < 2:
        raise FormatError(f"{path}: nobody was seen to share a GPU twice")
    begin, ids = min(at), sorted(names)
    every = [Look(s - begin, tuple(at[s].get(i, Seen()) for i in ids)) for s in sorted(at)]
    budget = max(sum(one.budget for one in look.tenants) for look in every)
    title = f"{len(ids)} programs share {format_size(budget)}"
    return Looks(title, [names[i] for i in ids], budget, every)


def status_of(told: dict[str, Any]) -> Seen:
    """A tenant as the broker's status has it."""
    words = ("budget", "resident", "refilled", "evicted")
    return Seen(bool(told["may_issue"]), bool(told["in_flight"]), *(int(told[w]) for w in words))
