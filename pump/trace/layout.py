"""The trace file field by field: the structures of `csrc/observe/format.h` as numpy dtypes."""

from enum import IntEnum

import numpy as np

MAGIC = b"ulmstrac"
VERSION = 1
CHUNK_MAGIC = b"CHNK"
CHUNK_MAX = 1 << 20
"""No chunk is larger, in bytes; a larger one is damaged."""

FILE_HEADER = np.dtype(
    [
        ("magic", "S8"),
        ("version", "<u4"),
        ("text_bytes", "<u4"),
        ("text_crc", "<u4"),
        ("pid", "<u4"),
        ("monotonic_ns", "<u8"),
        ("realtime_ns", "<u8"),
    ]
)

CHUNK = np.dtype(
    [
        ("magic", "S4"),
        ("crc", "<u4"),
        ("bytes", "<u4"),
        ("records", "<u4"),
        ("first_serial", "<u8"),
    ]
)
CRC_STARTS = 8
"""Offset in a chunk of what its sum covers, to the end of its records."""


class RecordType(IntEnum):
    """First field of every record."""

    OP = 1
    RETIRED = 2
    BIRTH = 3
    DEATH = 4
    BLOCK = 5
    UNBLOCK = 6
    FUNCTION = 7
    API = 8
    GRAPH = 9
    TABLE = 10
    DROPS = 11
    END = 12
    MOVE = 13
    HOLD = 14
    COUNTER = 15
    COUNTS = 16


_HEAD = [
    ("type", "<u2"),
    ("words", "<u2"),
    ("thread", "<u4"),
    ("serial", "<u8"),
    ("time_ns", "<u8"),
]
HEAD_NAMES = tuple(name for name, _ in _HEAD)
"""Of what all records begin with."""

_ALLOCATION = np.dtype(
    [
        *_HEAD,
        ("start", "<u8"),
        ("bytes", "<u8"),
        ("id", "<u8"),
        ("charged", "<u8"),
        ("context", "<u8"),
        ("device", "<i4"),
        ("kind", "<u4"),
    ]
)
_BLOCK = np.dtype([*_HEAD, ("start", "<u8"), ("bytes", "<u8")])
_NAME = np.dtype([*_HEAD, ("id", "<u4"), ("bytes", "<u4")])

RECORDS: dict[RecordType, np.dtype[np.void]] = {
    RecordType.OP: np.dtype(
        [
            *_HEAD,
            ("stream", "<u8"),
            ("object", "<u8"),
            ("function", "<u4"),
            ("kernels", "<u4"),
            ("api", "<u2"),
            ("status", "<i2"),
            ("kind", "u1"),
            ("flags", "u1"),
            ("device", "i1"),
            ("unused", "u1"),
        ]
    ),
    RecordType.RETIRED: np.dtype(
        [*_HEAD, ("operation", "<u8"), ("start_ns", "<u8"), ("ns", "<u8")]
    ),
    RecordType.BIRTH: _ALLOCATION,
    RecordType.DEATH: _ALLOCATION,
    RecordType.BLOCK: _BLOCK,
    RecordType.UNBLOCK: _BLOCK,
    RecordType.FUNCTION: _NAME,
    RecordType.API: _NAME,
    RecordType.GRAPH: np.dtype(
        [*_HEAD, ("exec", "<u8"), ("kernels", "<u4"), ("first", "<u4"), ("total", "<u8")]
    ),
    RecordType.TABLE: np.dtype(
        [*_HEAD, ("start", "<u8"), ("bytes", "<u8"), ("first", "<u4"), ("total", "<u4")]
    ),
    RecordType.DROPS: np.dtype([*_HEAD, ("records", "<u8")]),
    RecordType.END: np.dtype([*_HEAD, ("records", "<u8"), ("drops", "<u8")]),
    RecordType.MOVE: np.dtype(
        [
            *_HEAD,
            ("start", "<u8"),
            ("bytes", "<u8"),
            ("begun_ns", "<u8"),
            ("resident", "<u8"),
            ("device", "<i4"),
            ("kind", "<u2"),
            ("flags", "<u2"),
        ]
    ),
    RecordType.HOLD: np.dtype(
        [
            *_HEAD,
            ("operation", "<u8"),
            ("begun_ns", "<u8"),
            ("ns", "<u8"),
            ("missing", "<u8"),
            ("device", "<i4"),
            ("unused", "<u4"),
        ]
    ),
    RecordType.COUNTER: _NAME,
    RecordType.COUNTS: np.dtype(_HEAD),
}
"""What each type of record begins with; some go on with touches, pointers, values or text."""

TOUCH = np.dtype([("start", "<u8"), ("bytes", "<u8"), ("tail", "<u8")])
TOUCH_ALLOCATION_BITS = 48
TOUCH_MODE_BITS = 7
TOUCH_SPARSE_BIT = TOUCH_ALLOCATION_BITS + TOUCH_MODE_BITS
TOUCH_SOURCE_SHIFT = 56
HEAD_WORDS = 3
"""Length of what all records have in common, in units of 8 bytes."""
