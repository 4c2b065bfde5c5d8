"""The lines of the screen: a process on a GPU each, with what happened since the look before."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pump.cli import tenants
from pump.cli.top import Look, View
from pump.stats import Snapshot

Tenant = Mapping[str, Any]


@dataclass(frozen=True)
class Rates:
    """What changed, a second."""

    brought: float
    """Bytes over the link to the GPU."""
    taken: float
    """Bytes to the host."""
    for_pages: float
    """Seconds in which operations waited for pages; above 1 where several threads do."""
    for_turn: float = 0.0
    """Seconds spent waiting for a turn."""

    @property
    def waiting(self) -> float:
        """Share of time, 1 at most."""
        return min(1.0, self.for_pages + self.for_turn)


@dataclass(frozen=True)
class Row:
    """One line."""

    key: str
    """The same at each look."""
    pid: int
    program: str
    state: str
    used: int
    """Bytes of its allocations, wherever they are."""
    resident: int | None
    """Bytes on the GPU; None: not known."""
    at_most: bool = False
    """So many may be resident, or fewer."""
    rates: Rates | None = None
    """None at the first look."""
    tenant: Tenant | None = None
    """What the broker says of it; None: it does not share."""

    @property
    def share(self) -> str:
        """The group that it belongs to; "" for none."""
        return str(self.tenant["group"]) if self.tenant else ""

    @property
    def part(self) -> float | None:
        """Of its memory, what is on the GPU: 1 at most."""
        if self.resident is None:
            return None
        return min(1.0, self.resident / self.used) if self.used else 0.0


def rows(look: Look, before: Look | None) -> list[Row]:
    """Tenants, then programs that only show counters."""
    views = {view.now.pid: view for view in look.views}
    sharing = list(tenants.each(look.shared))
    earlier = {_key(row): row for row in tenants.each(before.shared)} if before else {}
    seconds = (look.taken_ns - before.taken_ns) / 1e9 if before else 0.0
    gpus: dict[int, int] = {}
    for row in sharing:
        gpus[row["pid"]] = gpus.get(row["pid"], 0) + 1
    made = []
    for row in sharing:
        rates = _tenant_rates(earlier.get(_key(row)), row, seconds)
        view = views.get(row["pid"])
        if rates and view and view.change and gpus[row["pid"]] == 1:
            rates = _all_moves(view, rates.for_turn)  # counters tell of every move, of all GPUs
        made.append(_of_tenant(row, rates))
    return made + [_of_program(view) for pid, view in views.items() if pid not in gpus]


def _of_tenant(row: Tenant, rates: Rates | None) -> Row:
    return Row(
        key=_key(row),
        pid=row["pid"],
        program=row["program"],
        state=row["state"],
        used=row["used"],
        resident=row["resident"],
        rates=rates,
        tenant=row,
    )


def _of_program(view: View) -> Row:
    now = view.now
    resident, at_most = _resident(now)
    return Row(
        key=str(now.path),
        pid=now.pid,
        program=now.program,
        state="idle" if now.idle_s > 1 else "runs",
        used=sum(memory.used for memory in now.memory),
        resident=resident,
        at_most=at_most,
        rates=_all_moves(view),
    )


def _resident(now: Snapshot) -> tuple[int | None, bool]:
    """Of a program that does not share. All, until pages move; then no more than the limits."""
    used = sum(memory.used for memory in now.memory)
    if not _count(now, "paged_bytes"):
        return used, False
    if all(memory.capacity for memory in now.memory):
        return sum(min(memory.used, memory.capacity) for memory in now.memory), True
    return None, False


def _count(now: Snapshot, name: str) -> int:
    return now[name] if name in now.counters else 0


def _all_moves(view: View, for_turn: float = 0.0) -> Rates | None:
    """As the program's counters have it."""
    if not view.change:
        return None
    counted = {name: view.change.rate(name) for name in view.change.counts}
    brought, taken, held = (
        counted.get(n, 0.0) for n in ("filled_bytes", "evicted_bytes", "held_ns")
    )
    return Rates(brought, taken, held / 1e9, for_turn)


def _tenant_rates(before: Tenant | None, now: Tenant, seconds: float) -> Rates | None:
    """As the broker has it; another broker may begin its sums anew."""
    if before is None or seconds <= 0:
        return None
    names = ("refilled", "evicted", "stalled_ns", "waited_ns")
    refilled, evicted, stalled, waited = (max(0, now[n] - before[n]) / seconds for n in names)
    return Rates(refilled, evicted, stalled / 1e9, waited / 1e9)


def _key(row: Tenant) -> str:
    return f"{row['gpu']} {row['tenant']}"
