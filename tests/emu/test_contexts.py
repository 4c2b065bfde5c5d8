"""Programs with two contexts that take turns: streams of ours are made once a context."""

from pathlib import Path

import pytest

from tests.conftest import RunEmulated
from tests.emu.small_program import run_small

pytestmark = pytest.mark.emu
TURNS, SIZE_MIB, MEMORY_MIB = 24, 4, 40
PROGRAM = f"""
other = ctypes.c_void_p()
call("cuCtxCreate_v2", ctypes.byref(other), 0, 0)
driver.emu_calls.restype = ctypes.c_uint64
parts = []
for turn in range({TURNS}):
    call("cuCtxSetCurrent", (context, other)[turn % 2])
    parts.append(allocated({SIZE_MIB} * MIB))
    for i, part in enumerate(parts):
        if i % 2 == turn % 2:
            fill(part, i, {SIZE_MIB} * MIB)
assert all(words_of(part, {SIZE_MIB} * MIB) == {{i}} for i, part in enumerate(parts))
made, gone = (driver.emu_calls(name) for name in (b"cuStreamCreate", b"cuStreamDestroy_v2"))
print(made - gone, counter("evicted_bytes") + counter("faulted_bytes"))
"""


@pytest.mark.parametrize(
    ("backend", "policy"), [("um", "ahead"), ("um", "pump"), ("um", "lru"), ("vmm", "ahead")]
)
def test_streams_do_not_pile_up(
    backend: str, policy: str, tmp_path: Path, run_emulated: RunEmulated
) -> None:
    memory = f"{MEMORY_MIB}MiB"
    env = {"ULMS_BACKEND": backend, "ULMS_POLICY": policy}
    told = run_small(run_emulated, tmp_path, PROGRAM, memory=memory, **env)
    streams, moved = map(int, told.split())
    assert streams <= 8
    assert moved > 0
