"""What a device holds stays within the limit and one operation, as the emulated device counts it:
generated programs that take memory in all ways and give it back in stream order, while streams are
busy. `LIMIT_PROGRAMS=500` runs so many.
"""

import os
from pathlib import Path

import pytest

from tests.conftest import Compile, RunEmulated
from tests.emu.small_program import run_small

pytestmark = pytest.mark.emu

MIB = 1 << 20
LIMIT = 64 * MIB
OPERATION = 12
"""MiB: the most that one allocation or graph takes."""


@pytest.mark.parametrize("backend", ["observe", "um", "vmm"])
def test_no_program_holds_more_than_the_limit(
    backend: str, compiled: Compile, run_emulated: RunEmulated, emulator_dir: Path
) -> None:
    binary = compiled("limits", str(emulator_dir / "libcuda.so.1"))
    env = {"ULMS_BACKEND": backend, "ULMS_GPU_MEMORY": f"{LIMIT}", "ULMS_LOG_LEVEL": "ERROR"}
    env |= {"EMU_TIME": "1"}
    refusals = 0
    for seed in range(int(os.environ.get("LIMIT_PROGRAMS", "12"))):
        done = run_emulated([binary, f"{seed}", "150", f"{OPERATION}"], env)
        assert (done.returncode, done.stderr) == (0, ""), seed
        told = dict(line.split() for line in done.stdout.splitlines())
        assert int(told["most"]) <= LIMIT + OPERATION * MIB, seed
        refusals += int(told["refused"])
    assert backend != "observe" or refusals > 0


def test_threads_that_take_memory_at_once_stay_within_the_budget(
    compiled: Compile, run_emulated: RunEmulated, emulator_dir: Path
) -> None:
    """What one thread was promised no other one gets; no handle takes more than was promised. The
    last page may lie within the budget in part only.
    """
    binary = compiled("comers", str(emulator_dir / "libcuda.so.1"))
    page = 8 * MIB
    env = {"ULMS_BACKEND": "vmm", "ULMS_PAGE": f"{page}", "ULMS_GPU_MEMORY": f"{8 * page}"}
    for seed in range(12):
        done = run_emulated([binary, f"{seed}"], env)
        assert done.returncode == 0, (seed, done.stderr)
        assert int(done.stdout.split()[1]) < 9 * page, seed


OTHER_DEVICE = """
import struct, time
contexts, pool, stream = [context, ctypes.c_void_p()], ctypes.c_void_p(), ctypes.c_void_p()
call("cuDevicePrimaryCtxRetain", ctypes.byref(contexts[1]), 1)
call("cuCtxSetCurrent", contexts[1])
fill(allocated(24 * MIB), 1, 24 * MIB)
call("cuStreamCreate", ctypes.byref(stream), 1)
call("cuCtxSetCurrent", contexts[0])
call("cuMemPoolCreate", ctypes.byref(pool), struct.pack("4i", 1, 0, 1, 1) + bytes(72))
block, used, total = (ctypes.c_uint64() for _ in range(3))
for _ in range(32):
    call("cuMemAllocFromPoolAsync", ctypes.byref(block), ctypes.c_size_t(MIB // 2), pool, stream)
end = time.monotonic() + 8
while True:
    driver.emu_device_memory(1, ctypes.byref(used), ctypes.byref(total))
    if used.value <= 32 * MIB or time.monotonic() > end:
        break
    time.sleep(0.01)
print(used.value // MIB)
"""


@pytest.mark.parametrize("backend", ["um", "vmm"])
def test_memory_of_a_device_that_is_not_current_takes_from_its_budget(
    backend: str, run_emulated: RunEmulated, tmp_path: Path
) -> None:
    env = {"ULMS_BACKEND": backend, "ULMS_PAGE": "2MiB", "EMU_DEVICES": "2"}
    told = run_small(run_emulated, tmp_path, OTHER_DEVICE, memory="32MiB", **env)
    assert int(told) <= 32


@pytest.mark.parametrize("mig", ["0", "1", "2"])
def test_the_limit_of_a_part_of_a_device_by_its_names(
    mig: str, compiled: Compile, run_emulated: RunEmulated, emulator_dir: Path
) -> None:
    """NVML names a MIG device otherwise than CUDA does: both tell the same of its memory."""
    libraries = [str(emulator_dir / name) for name in ("libcuda.so.1", "libnvidia-ml.so.1")]
    binary = compiled("allocate", *libraries)
    env = {"ULMS_GPU_MEMORY": f"{LIMIT}", "EMU_MIG": mig}
    done = run_emulated([binary], env, stdin=f"0 a plain 0 {8 * MIB}\nbarrier\n")
    asked = [line.split()[1:] for line in done.stdout.splitlines() if line.startswith("asked")]
    assert asked[1:] == [[f"{LIMIT - 8 * MIB}", f"{LIMIT}"]] * 6
