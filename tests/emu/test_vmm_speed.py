"""How much backend `vmm` moves both ways at once, on the emulated device's modelled time.

`vmm_speed.c` works through twice its budget again and again, so that as much leaves as comes. As in
`test_um_speed.py`, modelled times are stretched, what the machine is busy with can only make a
round longer, and the shortest one counts.
"""

from pathlib import Path

import pytest

from tests.conftest import Compile, RunEmulated

pytestmark = [pytest.mark.emu, pytest.mark.alone]

STRETCH = (100, 400, 1600)
"""Of each attempt; the last one takes a minute and a half."""
WATCHDOG_S = 600
BLOCKS, BLOCK_MIB, ROUNDS = 16, 32, 5
LEARNED = 2
"""Rounds until the sequence is known."""
LINK_GBS = 101
"""Both ways in sum, as in `emulator/cost.c`."""


def test_both_ways_fill_the_link(
    compiled: Compile, run_emulated: RunEmulated, emulator_dir: Path
) -> None:
    """Four fifths of what the link carries at all; launches beside it take what they always do."""
    binary = compiled("vmm_speed", str(emulator_dir / "libcuda.so.1"))
    command = [binary, str(BLOCKS), str(BLOCK_MIB), str(ROUNDS)]
    env = {
        "ULMS_BACKEND": "vmm",
        "ULMS_GPU_MEMORY": f"{BLOCKS * BLOCK_MIB // 2}MiB",
        "ULMS_GPU_MEMORY_FACTOR": "100",
        "ULMS_MANAGED_LIMIT": "1GiB",
    }
    native = run_emulated(command, preloaded=False)
    for stretch in STRETCH:
        done = run_emulated(command, env | {"EMU_TIME": str(stretch)}, timeout=WATCHDOG_S)
        assert (done.returncode, done.stderr) == (0, ""), done.stdout
        lines = [line.split() for line in done.stdout.splitlines()]
        seen = {words[-2]: int(words[-1]) for words in lines if words[0] != "round"}
        rounds = [[float(word) for word in words[1:]] for words in lines if words[0] == "round"]
        gbs = max((in_ + out) / ms * stretch / 1e6 for ms, in_, out in rounds[LEARNED:])
        print(f"{gbs:.1f} GB/s, launches {seen['calm']} ns, while pages move {seen['moving']}")
        assert f"result {seen['result']}" in native.stdout.splitlines()
        assert seen["move_failures"] == seen["short_operations"] == 0
        both_ways = all(min(in_, out) > 0 for _, in_, out in rounds)
        if both_ways and gbs >= 0.8 * LINK_GBS and seen["moving"] < 1.3 * seen["calm"]:
            return
    pytest.fail(f"{gbs:.1f} GB/s of {LINK_GBS}")
