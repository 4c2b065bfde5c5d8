"""The engine from Python: the words of csrc/ulms.h ("the engine"), and the compiled one."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, NamedTuple, Protocol

from pump import binding

READ, WRITE, UPDATE, SCRATCH = 1, 2, 3, 4  # what a touch does
SPARSE = 16  # with READ: little of it is read
LANE_IN, LANE_OUT = 0, 1
FILL, EVICT = 1, 2
DEAD, CLEAN, KEEP, EARLY, IN_PLACE = 1, 2, 4, 8, 16  # flags of a move
HOLD, RUN, RUN_SHORT = 0, 1, 2
IN_PLACE_NOTHING, IN_PLACE_READ, IN_PLACE_ALL = 0, 1, 2  # what kernels may use in place


@dataclass(frozen=True)
class Settings:
    """struct ulms_engine_settings; bytes."""

    policy: str
    page_bytes: int
    budget: int
    run_bytes: int
    ahead_bytes: int
    keeps: bool
    faults: bool
    in_place: int = IN_PLACE_NOTHING
    shed_bytes: int = 0


class Touch(NamedTuple):
    """[start, start + bytes) and what an operation does to it."""

    start: int
    bytes: int
    mode: int

    @property
    def writes(self) -> bool:
        """It may change what lies there."""
        return self.mode & ~SPARSE != READ

    @property
    def sparse(self) -> bool:
        """Little of it is read: nobody needs it on the device."""
        return self.mode == READ | SPARSE


class Move(NamedTuple):
    """struct ulms_move."""

    id: int
    start: int
    bytes: int
    after: int
    kind: int
    flags: int


@dataclass
class Stats:
    """struct ulms_engine_stats: sums since the engine was made; bytes are whole pages."""

    operations: int = 0
    touched_bytes: int = 0
    hit_bytes: int = 0
    late_operations: int = 0
    short_operations: int = 0
    filled_bytes: int = 0
    early_bytes: int = 0
    useless_bytes: int = 0
    faulted_bytes: int = 0
    in_place_bytes: int = 0
    in_place_written_bytes: int = 0
    evicted_bytes: int = 0
    dropped_bytes: int = 0
    dead_bytes: int = 0
    predicted: int = 0
    surprises: int = 0
    resident_bytes: int = 0
    budget_bytes: int = 0


SUMS = [field.name for field in fields(Stats)]


class Engine(Protocol):
    """What ulms_engine_* are, one method a function; ulms.h says what each does."""

    def allocated(self, start: int, size: int) -> bool:
        """Memory appears, absent and dead."""

    def freed(self, start: int, size: int) -> None:
        """Memory is gone."""

    def placed(self, start: int, size: int) -> None:
        """Memory is resident already."""

    def block(self, start: int, size: int, live: bool) -> None:
        """The framework gives out a block, or takes it back."""

    def budget(self, size: int) -> None:
        """The budget is another."""

    def in_place(self, mode: int) -> None:
        """What kernels may do to pages on the host is another: as Settings.in_place."""

    def eager(self, eager: bool) -> None:
        """Whether as many pages come ahead as there is room for."""

    def holder(self, holder: Callable[[int], int]) -> None:
        """Pages have claims on frames: gives the page that has the frame of an absent one."""

    def issued(self, key: int, touches: Sequence[Touch]) -> int:
        """An operation's serial; 0: it may run, there is nothing to do for it."""

    def admit(self, serial: int, at_once: bool = False) -> tuple[int, int]:
        """HOLD, RUN or RUN_SHORT, and the move to wait for on the device (0: none)."""

    def retired(self, serial: int, now: int = 0) -> None:
        """Everything the operation does is done, at that time, ns; 0: not known."""

    def next(self, lane: int) -> Move | None:
        """The next move of a lane, now."""

    def moved(self, move: int, ok: bool = True) -> None:
        """A move is done, or will never be."""

    def stats(self) -> Stats:
        """The sums."""


def policies() -> list[str]:
    """The names of the compiled engine's policies, the default first."""
    library = binding.library()
    return [binding.text(library.ulms_policy(i).name) for i in range(library.ulms_policy_count())]


def holds(policy: str) -> bool:
    """Its operations are held until their pages are here."""
    return bool(binding.library().ulms_policy_holds(policy.encode()))


class CompiledEngine:
    """csrc/engine. Raises ValueError for settings that make no sense."""

    def __init__(self, settings: Settings) -> None:
        self.ffi = binding.ffi()
        self.lib: Any = binding.library()
        policy = self.ffi.new("char[]", settings.policy.encode())
        words = asdict(settings) | {"policy": policy}
        engine = self.lib.ulms_engine_new(self.ffi.new("struct ulms_engine_settings *", words))
        if not engine:
            raise ValueError(f"no engine for {settings}")
        self.engine = self.ffi.gc(engine, self.lib.ulms_engine_free)
        self.rows: dict[tuple[Touch, ...], Any] = {}  # what is issued comes again and again
        self.wait = self.ffi.new("uint64_t *")
        self.move = self.ffi.new("struct ulms_move *")
        self.sums = self.ffi.new("struct ulms_engine_stats *")
        self.words = self.ffi.cast("uint64_t *", self.sums)

    def allocated(self, start: int, size: int) -> bool:
        return bool(self.lib.ulms_engine_allocated(self.engine, start, size))

    def freed(self, start: int, size: int) -> None:
        self.lib.ulms_engine_freed(self.engine, start, size)

    def placed(self, start: int, size: int) -> None:
        self.lib.ulms_engine_placed(self.engine, start, size)

    def block(self, start: int, size: int, live: bool) -> None:
        self.lib.ulms_engine_block(self.engine, start, size, live)

    def budget(self, size: int) -> None:
        self.lib.ulms_engine_budget(self.engine, size)

    def in_place(self, mode: int) -> None:
        self.lib.ulms_engine_in_place(self.engine, mode)

    def eager(self, eager: bool) -> None:
        self.lib.ulms_engine_eager(self.engine, eager)

    def holder(self, holder: Callable[[int], int]) -> None:
        def given(_: Any, start: int) -> int:
            return holder(start)

        self.given = self.ffi.callback("uint64_t(void *, uint64_t)", given)
        self.lib.ulms_engine_holder(self.engine, self.given, self.ffi.NULL)

    def issued(self, key: int, touches: Sequence[Touch]) -> int:
        alike = tuple(touches)
        rows = self.rows.get(alike)
        if rows is None:
            rows = self.rows[alike] = self.ffi.new("struct ulms_engine_touch[]", alike)
        return int(self.lib.ulms_engine_issued(self.engine, key, rows, len(alike)))

    def admit(self, serial: int, at_once: bool = False) -> tuple[int, int]:
        verdict = self.lib.ulms_engine_admit(self.engine, serial, at_once, self.wait)
        return verdict, self.wait[0]

    def retired(self, serial: int, now: int = 0) -> None:
        self.lib.ulms_engine_retired(self.engine, serial, now)

    def next(self, lane: int) -> Move | None:
        if not self.lib.ulms_engine_next(self.engine, lane, self.move):
            return None
        move = self.move
        return Move(move.id, move.start, move.bytes, move.after, move.kind, move.flags)

    def moved(self, move: int, ok: bool = True) -> None:
        self.lib.ulms_engine_moved(self.engine, move, ok)

    def stats(self) -> Stats:
        self.lib.ulms_engine_stats(self.engine, self.sums)
        return Stats(*self.ffi.unpack(self.words, len(SUMS)))
