"""Builds and runs cold_main.c: what hooked calls cost when the caches hold none of ours.

Launches have 12 parameters, 675 bytes, 8 of them addresses among 10 000 blocks that the framework
told; a question is what Triton asks of each; a block is told or taken back; products of cuBLAS
launch a kernel each.
"""

import os
import statistics
import subprocess
from collections.abc import Mapping
from pathlib import Path

from bench.micro import callgrind

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).parent
CALLS = {
    "launch": "call_launch",
    "question": "call_question",
    "block": "call_tell",
    "cublasSgemm_v2": "call_sgemm",
    "cublasGemmEx": "call_gemm_ex",
    "cublasGemmStridedBatchedEx": "call_gemm_batched",
    "cublasLtMatmul": "call_matmul",
}
"""What is measured, each with the C function around one call."""
MISSES = ("ILmr", "DLmr", "DLmw")
CACHES = ("--I1=32768,8,64", "--D1=32768,8,64", "--LL=2097152,16,64")


def build(out: Path, emulator: Path) -> Path:
    """The program, made in the folder `out`, linked against what lies in `emulator`."""
    program = out / "cold_main"
    gen = Path(os.environ.get("PUMP_BUILD_DIR", ROOT / "build" / "dev")) / "gen"
    names = ("libcuda.so.1", "library/13/libcublas.so.13", "library/13/libcublasLt.so.13")
    libraries = [emulator / name for name in names]
    include = [f"-I{folder}" for folder in (ROOT / "hooks", ROOT / "emulator", ROOT / "csrc", gen)]
    sources = [HERE / name for name in ("cold_main.c", "launch.c", "library_blas.c")]
    command: list[str | Path] = ["cc", "-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", *include]
    command += ["-o", program, *sources, "-Wl,--no-as-needed", *libraries]
    command += [f"-Wl,-rpath,{library.parent}" for library in libraries]
    subprocess.run(command, check=True)
    return program


OBSERVED, AT_REST = {"ULMS_BACKEND": "observe"}, {"ULMS_BACKEND": "um"}
"""How hooked calls are made: everything is looked at; memory could move, but all of it fits."""


def _run(
    command: list[str | Path], ulms_so: Path | None, options: Mapping[str, str] = OBSERVED
) -> str:
    env = os.environ | ({"LD_PRELOAD": str(ulms_so), **options} if ulms_so else {})
    return subprocess.run(command, env=env, check=True, stdout=subprocess.PIPE, text=True).stdout


def nanoseconds(
    program: Path, ulms_so: Path, times: int, rounds: int, options: Mapping[str, str] = OBSERVED
) -> dict[str, float]:
    """Time that hooks add to each call, caches swept before it: the median of `rounds` rounds.

    A round runs unhooked and hooked one after the other, as others use the machine, too.
    """
    over: dict[str, list[float]] = {name: [] for name in CALLS}
    for _ in range(rounds):
        plain, hooked = (_timed(program, library, times, options) for library in (None, ulms_so))
        for name, kept in over.items():
            kept.append(hooked[name] - plain[name])
    return {name: statistics.median(kept) for name, kept in over.items()}


def _timed(
    program: Path, ulms_so: Path | None, times: int, options: Mapping[str, str]
) -> dict[str, float]:
    words = [line.split() for line in _run([program, str(times)], ulms_so, options).splitlines()]
    return {name: float(ns) for name, ns in words}


def lines(
    program: Path, ulms_so: Path, times: int, options: Mapping[str, str] = OBSERVED
) -> dict[str, float]:
    """Lines of memory, code and data, that hooks add to what each call reads or writes first.

    Counted in caches that callgrind simulates, swept before each call: no load can move them.
    """
    plain, hooked = (_counted(program, library, times, options) for library in (None, ulms_so))
    return {name: (hooked[name] - plain[name]) / times for name in CALLS}


def _counted(
    program: Path, ulms_so: Path | None, times: int, options: Mapping[str, str]
) -> dict[str, int]:
    counts = program.with_name("callgrind.cold")
    only = ["--zero-before=measure_all", *(f"--toggle-collect={name}" for name in CALLS.values())]
    tool = callgrind.tool(counts, "--cache-sim=yes", *CACHES, *only)
    _run([*tool, program, str(times)], ulms_so, options)
    sums = dict.fromkeys(CALLS, 0)
    for event in MISSES:
        by_function = callgrind.inclusive(counts, event)
        for name, function in CALLS.items():
            sums[name] += by_function.get(function, 0)
    return sums
