"""What ulms.so tells a program of itself, read with nothing but Python: numpy starts threads."""

import ctypes
import struct

AT = {"devices": 44, "memory_bytes": 56, "memory_at": 68}
AT |= {"held": 128, "held_at": 132, "held_bytes": 136}
"""Places in `struct ulms_stats` (csrc/ulms.h); numbers of 32 bits."""
MEMORY, HELD = struct.Struct("<8xQ"), struct.Struct("<QQQQ160s")


def counter(name: str) -> int | None:
    """Its value now; None: ulms.so is not there."""
    read = getattr(ctypes.CDLL(None), "ulms_counter", None)
    if read is None:
        return None
    read.restype = ctypes.c_uint64
    return int(read(name.encode()))


def charged() -> int:
    """Bytes of the devices that the program took at most, whoever in it took them."""
    rows = _table("devices", "memory_at", "memory_bytes")
    return sum(MEMORY.unpack_from(row)[0] for row in rows)


def held() -> dict[str, tuple[int, int]]:
    """By kernel or call: nanoseconds that it was held, bytes of the pages that it waited for."""
    found: dict[str, tuple[int, int]] = {}
    for row in _table("held", "held_at", "held_bytes"):
        key, ns, times, missing, text = HELD.unpack_from(row)
        if key and times:
            name = text.partition(b"\0")[0].decode(errors="replace")
            before = found.get(name, (0, 0))  # one kernel may have several rows
            found[name] = before[0] + ns, before[1] + missing
    return found


def _table(count: str, start: str, size: str) -> list[bytes]:
    """Its rows; none without ulms.so."""
    read = getattr(ctypes.CDLL(None), "ulms_stats", None)
    if read is None:
        return []
    read.restype = ctypes.c_void_p
    stats = read()
    rows, at, each = (
        ctypes.c_uint32.from_address(stats + AT[name]).value for name in (count, start, size)
    )
    return [ctypes.string_at(stats + at + i * each, each) for i in range(rows)]
