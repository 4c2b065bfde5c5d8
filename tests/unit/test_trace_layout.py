"""What the readers believe of the files, against the C headers."""

import subprocess
from collections.abc import Iterable
from enum import IntEnum
from pathlib import Path

import numpy as np
import pytest

from pump import stats
from pump.trace import layout, words

ROOT = Path(__file__).resolve().parents[2]
STRUCTS = {
    "file_header": layout.FILE_HEADER,
    "chunk": layout.CHUNK,
    "touch_record": layout.TOUCH,
    "op_record": layout.RECORDS[layout.RecordType.OP],
    "retired_record": layout.RECORDS[layout.RecordType.RETIRED],
    "allocation_record": layout.RECORDS[layout.RecordType.BIRTH],
    "block_record": layout.RECORDS[layout.RecordType.BLOCK],
    "name_record": layout.RECORDS[layout.RecordType.FUNCTION],
    "graph_record": layout.RECORDS[layout.RecordType.GRAPH],
    "table_record": layout.RECORDS[layout.RecordType.TABLE],
    "drops_record": layout.RECORDS[layout.RecordType.DROPS],
    "end_record": layout.RECORDS[layout.RecordType.END],
    "move_record": layout.RECORDS[layout.RecordType.MOVE],
    "hold_record": layout.RECORDS[layout.RecordType.HOLD],
    "counts_record": layout.RECORDS[layout.RecordType.COUNTS],
}
ENUMS: dict[str, type[IntEnum] | type[words.OpFlag]] = {
    "RECORD_": layout.RecordType,
    "OP_": words.OpKind,
    "TOUCH_": words.TouchMode,
    "SOURCE_": words.TouchSource,
    "MEMORY_": words.MemoryKind,
}
COUNTS = {"OP_KINDS": words.OpKind, "SOURCE_COUNT": words.TouchSource}
COUNTS |= {"MEMORY_KINDS": words.MemoryKind}


def c_values(expressions: Iterable[str], tmp_path: Path) -> list[int]:
    """Values that C gives to constant expressions over the headers."""
    lines = "\n".join(f'    printf("%lld\\n", (long long)({each}));' for each in expressions)
    source = tmp_path / "values.c"
    source.write_text(
        f"""#include <stddef.h>
#include <stdio.h>
#include "launch/op.h"
#include "observe/format.h"
#include "ulms.h"
int main(void) {{
{lines}
}}
""",
        encoding="utf-8",
    )
    program = tmp_path / "values"
    command = ["cc", "-std=gnu11", f"-I{ROOT / 'csrc'}", "-o", str(program), str(source)]
    subprocess.run(command, check=True)
    out = subprocess.run([program], check=True, capture_output=True, text=True).stdout
    return [int(line) for line in out.split()]


def fields_of(struct: str, dtype: np.dtype[np.void]) -> dict[str, int]:
    """Offset and size of every field, as C expressions and the values the reader expects."""
    expected = {}
    assert dtype.fields
    for name, (kind, offset, *_) in dtype.fields.items():
        head = name in ("type", "words", "thread", "serial", "time_ns")
        path = f"head.{name}" if head else name
        expected[f"offsetof(struct {struct}, {path})"] = offset
        expected[f"sizeof(((struct {struct} *)0)->{path})"] = kind.itemsize
    return expected


@pytest.mark.unit
@pytest.mark.parametrize("struct", STRUCTS)
def test_structures_of_the_file(struct: str, tmp_path: Path) -> None:
    expected = fields_of(struct, STRUCTS[struct])
    expected[f"sizeof(struct {struct})"] = STRUCTS[struct].itemsize
    assert c_values(expected, tmp_path) == list(expected.values())


@pytest.mark.unit
def test_words_have_the_same_numbers_in_c(tmp_path: Path) -> None:
    expected = {
        f"{prefix}{member.name}": int(member) for prefix, enum in ENUMS.items() for member in enum
    }
    expected |= {f"OP_{flag.name}": int(flag) for flag in words.OpFlag}
    expected |= {f"ULMS_{kind.name}": int(kind) for kind in words.MoveKind}
    for flag in words.MoveFlag:
        ours = flag < words.MoveFlag.DISCARDED  # the engine's; the others are the trace's
        expected[f"{'ULMS_' if ours else ''}MOVE_{flag.name}"] = int(flag)
    expected |= {name: len(enum) for name, enum in COUNTS.items()}
    expected |= {
        "TRACE_VERSION": layout.VERSION,
        "CHUNK_MAGIC": int.from_bytes(layout.CHUNK_MAGIC, "little"),
        "offsetof(struct chunk, bytes)": layout.CRC_STARTS,
        "sizeof(struct record)": 8 * layout.HEAD_WORDS,
    }
    assert c_values(expected, tmp_path) == list(expected.values())


@pytest.mark.unit
def test_structures_of_the_counters(tmp_path: Path) -> None:
    expected = fields_of("ulms_stats", stats._HEADER)
    tables = {"ulms_counter_row": stats._ROW_FIELDS, "ulms_memory": stats._MEMORY_FIELDS}
    tables["ulms_held"] = stats._HELD_FIELDS
    for struct, fields in tables.items():
        for name, (text, offset) in fields.items():
            expected[f"offsetof(struct {struct}, {name})"] = offset
            expected[f"sizeof(((struct {struct} *)0)->{name})"] = np.dtype(text).itemsize
    expected["ULMS_STATS_VERSION"] = stats._VERSION
    assert c_values(expected, tmp_path) == list(expected.values())
