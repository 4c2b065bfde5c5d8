"""Builds and runs library_main.c: what hooked calls of libraries cost on the look-alikes.

Descriptors, plans and variant packs are made before; operands are at random among 10 000 blocks
that the framework told. The look-alikes launch nothing here: test_launch_bench.py has the price of
launches, which take what the call told instead of looking it up.
"""

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from bench.micro import callgrind

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).parent
BOUND_NS = 300
CALLS = {
    "cublasSgemm_v2": "call_sgemm",
    "cublasGemmEx": "call_gemm_ex",
    "cublasGemmStridedBatchedEx": "call_gemm_batched",
    "cublasSgemmBatched": "call_sgemm_array",
    "cublasLtMatmul": "call_matmul",
    "cudnnConvolutionForward": "call_convolution",
    "cudnnBatchNormalizationForwardTrainingEx": "call_normalization",
    "cudnnRNNForward": "call_network",
    "cudnnBackendExecute": "call_plan",
    "ncclAllReduce": "call_reduce",
    "ncclAllGather": "call_gather",
}
"""The functions called, each with the C function around it."""


class Cost(NamedTuple):
    """Of one call: nanoseconds, or instructions."""

    plain: float
    hooked: float

    @property
    def over(self) -> float:
        """What the hook adds."""
        return self.hooked - self.plain


def build(out: Path, emulator: Path) -> Path:
    """The program, made in the folder `out`, linked against what lies in `emulator`."""
    program = out / "library_main"
    gen = Path(os.environ.get("PUMP_BUILD_DIR", ROOT / "build" / "dev")) / "gen"
    names = (
        "library/13/libcublas.so.13",
        "library/13/libcublasLt.so.13",
        "library/9/libcudnn.so.9",
        "library/2/libnccl.so.2",
    )
    libraries = [emulator / "libcuda.so.1", *(emulator / name for name in names)]
    sources = [HERE / f"library_{part}.c" for part in ("main", "blas", "dnn", "nccl")]
    include = [f"-I{folder}" for folder in (ROOT / "hooks", ROOT / "csrc", gen)]
    command: list[str | Path] = [
        "cc",
        "-std=gnu11",
        "-O2",
        "-Wall",
        "-Wextra",
        "-Werror",
        *include,
        "-o",
        program,
    ]
    clock = [
        ROOT / "csrc" / "base" / name
        for name in ("thread.c", "lock.c", "jump.c", "background.c", "patience.c")
    ]
    command += [*sources, *clock, "-pthread", "-Wl,--no-as-needed"]
    command += [*libraries, *(f"-Wl,-rpath,{library.parent}" for library in libraries)]
    subprocess.run(command, check=True)
    return program


def _run(command: Sequence[str | Path]) -> str:
    """In observe mode: the default backend asks no call what it touches while everything fits."""
    env = os.environ | {"EMU_LIBRARY": "idle", "ULMS_BACKEND": "observe"}
    return subprocess.run(command, env=env, check=True, stdout=subprocess.PIPE, text=True).stdout


def nanoseconds(program: Path, ulms_so: Path, rounds: int) -> dict[str, Cost]:
    """Time of each call: the least of the medians of `rounds` rounds.

    Rounds run unhooked and hooked in turn; the least, because others use the machine, too.
    """
    lines = _run([program, ulms_so, "time", str(rounds)]).splitlines()
    words = [line.split() for line in lines]
    return {name: Cost(float(plain), float(hooked)) for name, plain, hooked in words}


def instructions(program: Path, ulms_so: Path, times: int) -> dict[str, Cost]:
    """Instructions of each call, counted by callgrind over `times` calls when all is warm."""
    plain, hooked = (_counted(program, ulms_so, how, times) for how in ("plain", "hooked"))
    return {name: Cost(plain[name], hooked[name]) for name in CALLS}


def _counted(program: Path, ulms_so: Path, how: str, times: int) -> dict[str, float]:
    counts = program.with_name(f"callgrind.{how}")
    tool = callgrind.tool(counts, "--toggle-collect=counted")
    _run([*tool, program, ulms_so, how, str(times)])
    by_function = callgrind.inclusive(counts)
    return {name: by_function[function] / times for name, function in CALLS.items()}
