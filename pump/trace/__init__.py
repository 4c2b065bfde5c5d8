"""Traces of programs run under `ulms.so` (ULMS_TRACE): reading, summing up, exporting.

`docs/trace-format.md` describes the file.
"""

from pump.trace.errors import Loss, TraceError
from pump.trace.export import compress, export_chrome
from pump.trace.paging import HeldUse, MoveUse, Paging
from pump.trace.reader import read
from pump.trace.summary import FunctionUse, Summary, summarize
from pump.trace.tables import export_tables
from pump.trace.trace import Event, Trace
from pump.trace.words import (
    EventKind,
    MemoryKind,
    MoveFlag,
    MoveKind,
    OpFlag,
    OpKind,
    TouchMode,
    TouchSource,
)

__all__ = [
    "Event",
    "EventKind",
    "FunctionUse",
    "HeldUse",
    "Loss",
    "MemoryKind",
    "MoveFlag",
    "MoveKind",
    "MoveUse",
    "OpFlag",
    "OpKind",
    "Paging",
    "Summary",
    "TouchMode",
    "TouchSource",
    "Trace",
    "TraceError",
    "compress",
    "export_chrome",
    "export_tables",
    "read",
    "summarize",
]
