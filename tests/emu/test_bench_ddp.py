"""`bench.gpu.ddp` from end to end: ranks on the emulated device, which move what does not fit."""

import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from bench.gpu import ddp, programs  # noqa: E402

pytestmark = pytest.mark.emu
# Told like torch_ddp.py; each step writes all memory but some bytes of each page, so none is dead.
RANK = """
import ctypes, os, sys
from report import report, run_steps

PART, PARTS = 4 << 20, 4
cuda = ctypes.CDLL("libcuda.so.1")
context, parts = ctypes.c_void_p(), [ctypes.c_uint64() for _ in range(PARTS)]
assert not cuda.cuInit(0)
assert not cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
assert not cuda.cuCtxSetCurrent(context)
for part in parts:
    assert not cuda.cuMemAlloc_v2(ctypes.byref(part), ctypes.c_size_t(PART))
within = [(ctypes.c_uint64(part.value + 1), ctypes.c_size_t(PART - 2)) for part in parts]
step = lambda: [cuda.cuMemsetD8_v2(start, 1, size) for start, size in within]
step_ms = run_steps(step, cuda.cuCtxSynchronize, int(sys.argv[1]), int(sys.argv[2]))
report([float(os.environ["RANK"])], step_ms, max_reserved=PART * PARTS)
"""


def test_every_rank_tells_what_it_moved(
    emulator_dir: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    program, path = tmp_path / "rank.py", tmp_path / "ddp.json"
    program.write_text(RANK, encoding="utf-8")
    monkeypatch.setattr(ddp, "PROGRAM", program)
    monkeypatch.setenv("PYTHONPATH", str(programs.TESTS / "programs"))
    monkeypatch.setenv("LD_LIBRARY_PATH", str(emulator_dir))
    monkeypatch.setenv("ULMS_MANAGED_LIMIT", "1GiB")
    monkeypatch.setenv("ULMS_PAGE", "2MiB")
    monkeypatch.setenv("ULMS_POLICY", "pump")
    words = ["--json", str(path), "--backends", "um,vmm", "--over", "2", "--steps", "1,40"]
    monkeypatch.setattr(sys, "argv", ["ddp", *words])
    ddp.main()
    result = json.loads(path.read_text(encoding="utf-8"))
    assert (result["needs"], result["budget"]) == (16 << 20, 8 << 20)
    native, *moved = result["rows"]
    assert native["counters"] == [{}, {}]
    for row in moved:
        assert (row["numbers_equal"], row["status"]) == (True, [0, 0])
        for counters in row["counters"]:
            sent = counters["evicted_bytes"] + counters["in_place_written_bytes"]
            came = [counters[name] for name in ("filled_bytes", "faulted_bytes", "in_place_bytes")]
            assert min(sent, sum(came)) >= 15 * (8 << 20)
    told = capsys.readouterr().out
    assert "GB in+out a step -+- -+-  losses equal True" in told


def test_bytes_are_told_by_the_step() -> None:
    counters = dict.fromkeys(("filled_bytes", "faulted_bytes", "in_place_bytes"), 10**9)
    counters |= {"evicted_bytes": 5 * 10**9, "in_place_written_bytes": 10**9}
    native = programs.Result(0, ["0x1p+0"], [1.0, 3.0])
    done = programs.Result(0, ["0x1p+0"], [100.0, 400.0], {"counters": counters})
    row = ddp.row("um", [native, native], [done, native])
    assert "250.00 ms  GB in+out a step 1.50+3.00 -+-  losses equal True  status 0 0" in ddp.line(
        row
    )
    native.numbers = ["0x1.8p+0"]
    assert not ddp.row("um", [native], [done])["numbers_equal"]
