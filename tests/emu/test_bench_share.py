"""`bench.gpu.share` from end to end, on the emulated device."""

import json
import signal
import sys
from pathlib import Path

import pytest

from bench.gpu import programs, share, turns

pytestmark = pytest.mark.emu
CALLING = """
import ctypes, sys
from report import report, run_steps

cuda = ctypes.CDLL("libcuda.so.1")
context, memory = ctypes.c_void_p(), ctypes.c_uint64()
assert not cuda.cuInit(0)
assert not cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
assert not cuda.cuCtxSetCurrent(context)
assert not cuda.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(4 << 20))
step = lambda: [cuda.cuMemsetD8_v2(memory, 1, ctypes.c_size_t(1)) for _ in range(200)]
report([0.0], run_steps(step, cuda.cuCtxSynchronize, int(sys.argv[1]), int(sys.argv[2])))
"""


@pytest.fixture
def target(emulator_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the command, given a program that does little but calls, is told to write."""
    program = tmp_path / "calling.py"
    program.write_text(CALLING, encoding="utf-8")
    command = [sys.executable, str(program)]
    monkeypatch.setitem(programs.PROGRAMS, "calling", command)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    monkeypatch.setattr(turns, "BLOCK_MS", 0.0)
    monkeypatch.setenv("PYTHONPATH", str(programs.TESTS / "programs"))
    monkeypatch.setenv("LD_LIBRARY_PATH", str(emulator_dir))
    monkeypatch.setenv("ULMS_MANAGED_LIMIT", "1GiB")
    path = tmp_path / "share.json"
    words = ["--programs", "calling", "--seconds", "1", "--built", str(tmp_path / "built")]
    monkeypatch.setattr(sys, "argv", ["share", "--json", str(path), *words])
    return path


def test_where_threads_are(
    target: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(share, "BOUND", 1.0)
    share.main()
    rows = json.loads(target.read_text(encoding="utf-8"))["shares"]
    assert [row["backend"] for row in rows] == ["um", "vmm"]
    told = capsys.readouterr().out
    for row in rows:
        samples = row["samples"]
        assert row["threads"] >= 1
        assert 0 < sum(samples.values()) <= row["rounds"] * row["threads"]
        assert {"ulms.so", "libcuda.so.1"} <= samples.keys()
        assert row["hooks"] == samples["ulms.so"] / row["rounds"]
        assert f"in hooks {row['hooks']:.2%}" in told


def test_a_bound_that_is_passed_is_told(target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(share, "BOUND", 0.0)
    with pytest.raises(SystemExit, match="above its bound: calling um, calling vmm"):
        share.main()
    assert target.exists()


def test_nothing_seen_is_no_result(target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(share, "HOOKS", "none.so")
    with pytest.raises(share.NothingSeenError, match="calling um"):
        share.main()
    assert not target.exists()


def test_who_replaces_nothing_is_told(target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(share, "BOUND", 1.0)
    monkeypatch.setenv("ULMS_PLAIN", "libffi,_ctypes,python")
    with pytest.raises(SystemExit, match="calling um: no memory was replaced"):
        share.main()
    assert target.exists()


def test_backends_are_known(target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", [*sys.argv, "--backends", "um,observe"])
    with pytest.raises(SystemExit) as ended:
        share.main()
    assert ended.value.code == 2
    assert not target.exists()


def test_what_was_seen_is_read() -> None:
    own, samples = share.read("rounds 9\nthreads 2\nns 7\na name 3\nulms.so 6\n[futex] 5\n")
    assert own == {"rounds": 9, "threads": 2, "ns": 7}
    assert list(samples.items()) == [("ulms.so", 6), ("[futex]", 5), ("a name", 3)]


def test_what_is_not_written_is_missed(tmp_path: Path) -> None:
    with pytest.raises(TimeoutError, match="no samples"):
        share.wait_for(tmp_path / "samples", 0.0)
