"""The numbers in a trace and their names: the enums of `csrc/types.h` and `csrc/launch/op.h`."""

from enum import IntEnum, IntFlag


class OpKind(IntEnum):
    """What kind of operation it is."""

    LAUNCH = 0
    COPY = 1
    MEMSET = 2
    GRAPH = 3
    HOST = 4
    RECORD = 5
    AFTER = 6
    WAIT = 7


class OpFlag(IntFlag):
    """What is special about an operation."""

    CAPTURED = 1
    UNMATCHED = 2
    BLIND = 4
    EXTRA = 8
    HIDES = 16
    REFUSED = 32
    ROAMS = 64
    WHOLE = 128


class MoveKind(IntEnum):
    """Which way pages move."""

    FILL = 1
    EVICT = 2


class MoveFlag(IntFlag):
    """What is special about a move of pages."""

    DEAD = 1
    CLEAN = 2
    KEEP = 4
    EARLY = 8
    IN_PLACE = 16
    DISCARDED = 256
    FAILED = 512


class TouchMode(IntEnum):
    """What an operation does to a range."""

    READ = 1
    WRITE = 2
    UPDATE = 3
    SCRATCH = 4


class TouchSource(IntEnum):
    """Who told the extent of a touch, best first."""

    CALL = 0
    LIBRARY = 1
    FRAMEWORK = 2
    OBSERVED = 3
    ALLOCATION = 4


class MemoryKind(IntEnum):
    """How an allocation was made."""

    PLAIN = 0
    PITCH = 1
    MANAGED = 2
    ASYNC = 3
    ARRAY = 4
    VMM = 5
    IPC = 6
    GLOBAL = 7
    GRAPH = 8
    HOST = 9


class EventKind(IntEnum):
    """Which array of a `Trace` holds an event."""

    OPERATION = 0
    RETIREMENT = 1
    ALLOCATION = 2
    BLOCK = 3
    GRAPH = 4
    TABLE = 5
    DROP = 6
    MOVE = 7
    HOLD = 8
    COUNTS = 9
