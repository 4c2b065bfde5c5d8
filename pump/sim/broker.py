"""The broker's policy from Python: the words of broker/policy.h, and the compiled one."""

from dataclasses import astuple, dataclass
from functools import cache
from typing import Any

from pump import paths

NEVER = 2**64 - 1
OK, UNKNOWN, TAKEN, FULL, WRONG = range(5)
TENANTS = GROUPS = 64


@dataclass(frozen=True)
class Group:
    """struct policy_group: bytes; thousandths."""

    memory: int = 0
    request: int = 0
    limit: int = 0
    hard: int = 0
    priority: int = 0
    pin: int = 0
    idle_s: int = 0


@dataclass(frozen=True)
class Report:
    """struct policy_report."""

    need: int = 0
    resident: int = 0
    clean: int = 0
    operations: int = 0
    refilled: int = 0
    stalled_ns: int = 0
    wants: int = 0
    in_flight: int = 0
    ready: int = 0
    um: int = 0


@dataclass(frozen=True)
class Lease:
    """struct policy_lease."""

    serial: int
    budget: int
    fill_bytes: int
    in_flight_ns: int
    turn_ends_ns: int
    tenant: int
    may_issue: int
    suspended: int = 0
    pin: int = 0


@dataclass(frozen=True)
class Tenant:
    """struct policy_tenant."""

    budget: int
    reserved: int
    hold_ns: int
    charged_ns: int
    waited_ns: int
    turns: int
    late: int
    switch_ns: int
    draining: int


@dataclass(frozen=True)
class State:
    """struct policy_state."""

    crowded: int
    taking: int
    exclusive: int
    holder: int
    turns: int
    thrashed: int
    trials: int


@cache
def bound() -> tuple[Any, Any]:
    """What cffi knows of broker/policy.h, and the library. Raises NotBuiltError."""
    try:
        from pump._policy import ffi
    except ImportError as error:
        raise paths.NotBuiltError("pump/_policy.py is not built: run `make`") from error
    return ffi, ffi.dlopen(str(paths.installed("libpolicy.so")))


class CompiledPolicy:
    """broker/policy; a method a function. Raises ValueError for settings that make no sense."""

    def __init__(self, capacity: int, rate: int) -> None:
        self.ffi, self.lib = bound()
        policy = self.lib.policy_new(capacity, rate)
        if not policy:
            raise ValueError(f"no policy for {capacity} bytes and {rate} bytes a second")
        self.policy = self.ffi.gc(policy, self.lib.policy_free)
        self.lease = self.ffi.new("struct policy_lease *")

    def capacity(self, now: int, size: int) -> int:
        return int(self.lib.policy_capacity(self.policy, now, size))

    def turn(self, now: int, ns: int) -> int:
        return int(self.lib.policy_turn(self.policy, now, ns))

    def resident(self, now: int, tenants: int) -> int:
        return int(self.lib.policy_resident(self.policy, now, tenants))

    def group(self, now: int, group: int, to: Group) -> int:
        row = self.ffi.new("struct policy_group *", astuple(to))
        return int(self.lib.policy_group(self.policy, now, group, row))

    def group_gone(self, now: int, group: int) -> int:
        return int(self.lib.policy_group_gone(self.policy, now, group))

    def join(self, now: int, tenant: int, group: int, floor: int = 0, held: int = 0) -> int:
        return int(self.lib.policy_join(self.policy, now, tenant, group, floor, held))

    def leave(self, now: int, tenant: int) -> int:
        return int(self.lib.policy_leave(self.policy, now, tenant))

    def report(self, now: int, tenant: int, told: Report) -> int:
        row = self.ffi.new("struct policy_report *", astuple(told))
        return int(self.lib.policy_report(self.policy, now, tenant, row))

    def acknowledge(self, now: int, tenant: int, serial: int, held: int) -> int:
        return int(self.lib.policy_acknowledge(self.policy, now, tenant, serial, held))

    def drained(self, now: int, tenant: int, serial: int) -> int:
        return int(self.lib.policy_drained(self.policy, now, tenant, serial))

    def suspend(self, now: int, tenant: int, suspended: int) -> int:
        return int(self.lib.policy_suspend(self.policy, now, tenant, suspended))

    def tick(self, now: int) -> int:
        return int(self.lib.policy_tick(self.policy, now))

    def next_ns(self) -> int:
        return int(self.lib.policy_next_ns(self.policy))

    def leases(self) -> list[Lease]:
        """Those that changed, each once."""
        found = []
        while self.lib.policy_next_lease(self.policy, self.lease):
            row = self.lease
            words = row.serial, row.budget, row.fill_bytes, row.in_flight_ns, row.turn_ends_ns
            found.append(Lease(*words, row.tenant, row.may_issue, row.suspended, row.pin))
        return found

    def tenant(self, tenant: int) -> Tenant:
        """Raises KeyError."""
        row = self.ffi.new("struct policy_tenant *")
        if self.lib.policy_tenant(self.policy, tenant, row):
            raise KeyError(tenant)
        return Tenant(*(getattr(row, name) for name in Tenant.__dataclass_fields__))

    def state(self) -> State:
        row = self.ffi.new("struct policy_state *")
        self.lib.policy_state(self.policy, row)
        return State(*(getattr(row, name) for name in State.__dataclass_fields__))

    def check(self) -> str:
        """ "", or which invariant is violated."""
        wrong = self.lib.policy_check(self.policy)
        return self.ffi.string(wrong).decode() if wrong else ""
