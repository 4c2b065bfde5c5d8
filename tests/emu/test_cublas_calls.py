"""Library calls as such: what launches of one call share, what is remembered."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from pump.trace import OpKind, TouchMode, TouchSource, Trace, read  # noqa: E402
from tests.conftest import RunEmulated  # noqa: E402
from tests.emu.blas_builds import PROGRAMS, build_library  # noqa: E402

pytestmark = pytest.mark.emu

Touched = tuple[int, int, str, str]  # first byte, bytes, mode, source


class Caller:
    """Runs calls in a process of its own and reads what was traced of it."""

    def __init__(self, run: RunEmulated, folders: list[Path], trace: Path) -> None:
        self._run = run
        self._folders = folders
        self._trace = trace
        self.trace: Trace | None = None

    def launches(
        self, calls: list[dict[str, Any]], blocks: Sequence[tuple[int, int]] = (), hooks: str = ""
    ) -> list[list[Touched]]:
        """What each launch touched, by address relative to the allocation.

        A framework tells of the blocks; `hooks` is the value of ULMS_HOOKS.
        """
        head = {"libraries": ["libcublas.so.13"], "bytes": 64 << 20, "blocks": blocks}
        lines = [json.dumps(line) for line in [head, *calls]]
        env = {"ULMS_TRACE": str(self._trace), "ULMS_HOOKS": hooks}
        env["LD_LIBRARY_PATH"] = ":".join(map(str, self._folders))
        command = [sys.executable, ROOT / "tests/emu/library_caller.py"]
        self._trace.unlink(missing_ok=True)
        ran = self._run(command, env, stdin="\n".join(lines))
        assert ran.returncode == 0, ran.stderr
        base = int(ran.stdout.split()[0])
        self.trace = read(self._trace)
        operations = self.trace.operations
        launches = operations[operations["kind"] == OpKind.LAUNCH]
        return [self._touched(operation, base) for operation in launches]

    def api(self, launch: int) -> str:
        """The call that a launch belongs to."""
        assert self.trace
        operations = self.trace.operations
        launches = operations[operations["kind"] == OpKind.LAUNCH]
        return self.trace.api_name(int(launches[launch]["api"]))

    def _touched(self, operation: np.void, base: int) -> list[Touched]:
        assert self.trace
        return sorted(
            (
                int(touch["start"]) - base,
                int(touch["bytes"]),
                TouchMode(touch["mode"]).name.lower(),
                TouchSource(touch["source"]).name.lower(),
            )
            for touch in self.trace.touches_of(operation)
        )


@pytest.fixture
def caller(run_emulated: RunEmulated, emulator_dir: Path, tmp_path: Path) -> Caller:
    """Calls the look-alike."""
    folders = [emulator_dir, emulator_dir / "library" / "13"]
    return Caller(run_emulated, folders, tmp_path / "trace")


@pytest.fixture
def steps(run_emulated: RunEmulated, emulator_dir: Path, tmp_path: Path) -> Caller:
    """Calls the library whose gemm goes in steps."""
    library = ROOT / "emulator" / "library"
    sources = [PROGRAMS / "blas_steps.c", library / "lookalike.c", library / "cublas.c"]
    folder = tmp_path / "steps"
    build_library(folder, "libcublas.so.13", "libcublas.so.13", sources, "-ldl", "-pthread")
    return Caller(run_emulated, [emulator_dir, folder], tmp_path / "trace")


def call(symbol: str, *arguments: list[Any]) -> dict[str, Any]:
    """A call for the caller."""
    words = [["pointer", {"handle": "host"}], *arguments]
    return {
        "library": "libcublas.so.13",
        "symbol": symbol,
        "result": "int",
        "arguments": words,
    }


def device(offset: int) -> list[Any]:
    """An address in the allocation."""
    return ["pointer", {"device": offset}]


def integers(*values: int, kind: str = "int") -> list[list[Any]]:
    """Numbers."""
    return [[kind, value] for value in values]


ZERO: list[Any] = ["pointer", {"host": "00000000"}]
ONE: list[Any] = ["pointer", {"host": "0000803f"}]
A, B, C, OTHER = (at << 20 for at in (1, 2, 3, 4))
M, N, K = 8, 4, 6
A_BYTES, B_BYTES, C_BYTES = 4 * M * K, 4 * K * N, 4 * M * N


def gemm(*, alpha: list[Any] = ONE, beta: list[Any] = ZERO) -> dict[str, Any]:
    """C = A B, all of it dense."""
    leading = [*integers(0, 0, M, N, K), alpha, device(A), *integers(M), device(B), *integers(K)]
    return call("cublasSgemm_v2", *leading, beta, device(C), *integers(M))


def copy(n: int, source: int, target: int) -> dict[str, Any]:
    """scopy."""
    words = [*integers(n), device(source), *integers(1), device(target), *integers(1)]
    return call("cublasScopy_v2", *words)


def test_launches_of_one_call(steps: Caller) -> None:
    """The first launch takes all that was told, later ones what they hold and what is written."""
    handle_memory = device(OTHER)
    launches = steps.launches([gemm(alpha=handle_memory)])
    whole = [
        (A, A_BYTES, "read", "library"),
        (B, B_BYTES, "read", "library"),
        (C, C_BYTES, "write", "library"),
    ]
    assert launches[0] == whole
    assert launches[1] == whole[1:]  # of the nested copy: B and C as the gemm told them
    assert launches[2][0] == whole[2]
    assert launches[2][1][0] == OTHER
    assert launches[2][1][2:] == ("update", "observed")
    assert {steps.api(i) for i in range(3)} == {"cublasSgemm_v2"}


@pytest.mark.parametrize("apart", [-32, 64], ids=["around", "at"])
def test_spans_in_each_other(apart: int, steps: Caller) -> None:
    """Two halves of wide rows: an address in the output may lie in the input, or begin it."""
    wide = 2 * M
    leading = [*integers(0, 0, M, N, K), ONE, device(C + apart), *integers(wide)]
    words = [*leading, device(B), *integers(K), ZERO, device(C), *integers(wide)]
    *_, last = steps.launches([call("cublasSgemm_v2", *words)])
    assert last == sorted(
        [
            (C + apart, 4 * (wide * (K - 1) + M), "read", "library"),
            (C, 4 * (wide * (N - 1) + M), "update", "library"),
        ]
    )


def test_a_call_that_launches_nothing_leaves_nothing(steps: Caller) -> None:
    """What a failing or empty call told does not reach the launches of the next one."""
    launches = steps.launches([copy(-1, A, B), copy(0, A, B), copy(7, B, C)])
    assert launches == [[(B, 28, "read", "library"), (C, 28, "write", "library")]]


def test_one_place_told_twice(caller: Caller) -> None:
    """In place: one touch, read and written."""
    n = integers(10)
    axpy = call("cublasSaxpy_v2", *n, ONE, device(A), *integers(1), device(A), *integers(1))
    launches = caller.launches([copy(10, A, A), axpy])
    assert launches == [[(A, 40, "update", "library")]] * 2


def test_sizes_beyond_32_bits(caller: Caller) -> None:
    """Products of 32-bit arguments are computed with 64."""
    big = 100_000
    words = [*integers(0, 0, big, big, big), ONE, device(A), *integers(big + 1), device(B)]
    words += [*integers(big), ZERO, device(C), *integers(big)]
    strided = [*integers(0, 0, 1, 1, 1), ONE, device(A), *integers(1)]
    strided += [*integers(1 << 40, kind="int64_t"), device(B), *integers(1)]
    strided += [*integers(-(1 << 18), kind="int64_t"), ZERO, device(C), *integers(1)]
    strided += [*integers(0, kind="int64_t"), *integers(3)]
    one, two = caller.launches(
        [call("cublasDgemm_v2", *words), call("cublasSgemmStridedBatched", *strided)]
    )
    whole = 8 * big * big
    assert [t[:3] for t in one] == [
        (A, whole + 8 * (big - 1), "read"),
        (B, whole, "read"),
        (C, whole, "write"),
    ]
    assert [t[:3] for t in two] == [
        (B - (2 << 20), (2 << 20) + 4, "read"),
        (A, (2 << 42) + 4, "read"),
        (C, 4, "write"),
    ]


def test_what_was_told_serves_later_launches(steps: Caller) -> None:
    """A kernel of the program's own that points into a matrix touches that matrix, no more."""
    later = call("cublasLaunch", device(C + 16), device(A), device(OTHER))
    launches = steps.launches([gemm(), later])
    assert launches[-1][:2] == [
        (A, A_BYTES, "update", "library"),
        (C, C_BYTES, "update", "library"),
    ]
    assert [touch[::3] for touch in launches[-1][2:]] == [(OTHER, "observed")]


def test_what_another_call_told_is_a_guess(steps: Caller) -> None:
    """A matrix once, and now what a kernel is handed beside the matrices: a larger workspace."""
    product = gemm()
    product["arguments"][-2] = device(OTHER)
    launches = steps.launches([product, gemm(alpha=device(OTHER))])
    assert (OTHER, C_BYTES, "write", "library") in launches[2]
    assert launches[-1] == [
        (C, C_BYTES, "write", "library"),
        (OTHER, C_BYTES, "update", "observed"),
    ]


def test_arrays_whose_addresses_are_not_known(caller: Caller) -> None:
    """No copy brought them: the array alone is told, and nothing is read on the host."""
    words = [*integers(0, 0, M, N, K), ONE, device(A), *integers(M), device(B), *integers(K)]
    words += [ZERO, device(C), *integers(M), *integers(5)]
    (launch,) = caller.launches([call("cublasSgemmBatched", *words)])
    assert launch == [(at, 40, "read", "library") for at in (A, B, C)]


def test_arrays_side_by_side(caller: Caller) -> None:
    """One copy brought the addresses of A, B and C: each array has its own part of them."""
    addresses = [A, A + A_BYTES, B, B + B_BYTES, C, C + (1 << 16)]
    table = OTHER
    filled = call("cublasScopy_v2", *integers(0), ["pointer", {"array": table, "of": addresses}])
    filled["arguments"] += [*integers(1), device(0), *integers(1)]
    words = [*integers(0, 0, M, N, K), ONE, device(table), *integers(M), device(table + 16)]
    words += [*integers(K), ZERO, device(table + 32), *integers(M), *integers(2)]
    launches = caller.launches([filled, call("cublasSgemmBatched", *words)])
    assert launches[-1] == [
        (A, 2 * A_BYTES, "read", "library"),
        (B, 2 * B_BYTES, "read", "library"),
        (C, C_BYTES, "write", "library"),
        (C + (1 << 16), C_BYTES, "write", "library"),
        *[(table + 16 * i, 16, "read", "library") for i in range(3)],
    ]


def test_who_is_believed(caller: Caller) -> None:
    """A product inside larger blocks: the library knows best, the driver no more than pointers."""
    blocks = [(A, 4096), (B, 8192), (C, 512)]

    def believed(hooks: str) -> list[Touched]:
        (launch,) = caller.launches([gemm()], blocks, hooks)
        return launch

    exact = [
        (A, A_BYTES, "read", "library"),
        (B, B_BYTES, "read", "library"),
        (C, C_BYTES, "write", "library"),
    ]
    assert believed("") == believed("all") == exact
    assert caller.api(0) == "cublasSgemm_v2"
    told = [(start, size, "update", "framework") for start, size in blocks]
    assert believed("no-library") == told
    assert caller.api(0) == "cuLaunchKernel"
    assert caller.trace is not None
    assert len(caller.trace.blocks) == len(blocks)
    driver = believed("driver")
    assert [(start, mode, source) for start, _, mode, source in driver] == [
        (at, "update", "observed") for at in (A, B, C)
    ]
    assert len(caller.trace.blocks) == 0


def run_script(run: RunEmulated, emulator_dir: Path, trace: Path, *words: str) -> tuple[int, Trace]:
    """Runs library_threads.py: where its allocation lies, and what was traced."""
    folders = (emulator_dir, emulator_dir / "library" / "13")
    env = {"ULMS_TRACE": str(trace), "LD_LIBRARY_PATH": ":".join(map(str, folders))}
    ran = run([sys.executable, ROOT / "tests/emu/library_threads.py", *words], env)
    assert ran.returncode == 0, ran.stderr
    return int(ran.stdout), read(trace)


def product(base: int) -> set[tuple[int, int, int]]:
    """What one product of library_threads.py touches: start, bytes, mode."""
    return {
        (base, 256, TouchMode.READ),
        (base + 256, 256, TouchMode.READ),
        (base + 512, 256, TouchMode.WRITE),
    }


def found_touches(trace: Trace, operation: np.void) -> set[tuple[int, int, int]]:
    """Start, bytes and mode of each touch."""
    touches = trace.touches_of(operation)
    return set(zip(*(touches[name].tolist() for name in ("start", "bytes", "mode")), strict=True))


def test_threads(run_emulated: RunEmulated, emulator_dir: Path, tmp_path: Path) -> None:
    """A call belongs to its thread: no launch takes what another thread's call told."""
    base, trace = run_script(run_emulated, emulator_dir, tmp_path / "trace", "threads", "4")
    operations = trace.operations
    launches = operations[operations["kind"] == OpKind.LAUNCH]
    assert len(launches) == 4 * 200
    seen: dict[int, list[set[tuple[int, int, int]]]] = {}
    for launch in launches:
        seen.setdefault(int(launch["thread"]), []).append(found_touches(trace, launch))
    assert len(seen) == 4
    for touched in seen.values():
        assert all(one == touched[0] for one in touched)
    assert {min(t[0])[0] for t in seen.values()} == {base + (i << 20) for i in range(4)}
    assert all(touched[0] == product(min(touched[0])[0]) for touched in seen.values())


def test_capture(run_emulated: RunEmulated, emulator_dir: Path, tmp_path: Path) -> None:
    """What a captured call told is what the graph touches whenever it is launched."""
    base, trace = run_script(run_emulated, emulator_dir, tmp_path / "trace", "capture")
    operations = trace.operations
    graphs = operations[operations["kind"] == OpKind.GRAPH]
    assert len(graphs) == 2
    for graph in graphs:
        assert found_touches(trace, graph) == product(base)
