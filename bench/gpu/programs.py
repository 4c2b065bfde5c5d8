"""The unmodified CUDA programs of tests/gpu/programs, run natively or under ulms.so."""

import json
import math
import os
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bench.gpu.compiled import compiled, nvcc
from pump.paths import library

HERE = Path(__file__).resolve().parent
TESTS = HERE.parents[1] / "tests" / "gpu"
SUMMARY = re.compile(r"\[ulms\] INFO: (\d+) kernels in (\d+) launches and (\d+) graph launches")


@dataclass
class Result:
    """What one run said. Times in milliseconds.

    `seen` are the kernels that ulms.so counted, `profiled` those that CUPTI did.
    """

    status: int
    numbers: list[str] = field(default_factory=list)
    step_ms: list[float] = field(default_factory=list)
    facts: dict[str, object] = field(default_factory=dict)
    seen: int | None = None
    profiled: int | None = None
    seconds: float = 0.0
    stderr: str = ""


def numbers_equal(results: Sequence[Result]) -> bool:
    """To the last bit; there are some, and all are finite: others would show nothing."""
    numbers = results[0].numbers
    sound = bool(numbers) and all(math.isfinite(float.fromhex(number)) for number in numbers)
    return sound and all(result.numbers == numbers for result in results)


def torch(which: str) -> list[str]:
    return [sys.executable, str(TESTS / "programs" / "torch_train.py"), which]


PROGRAMS: dict[str, list[str]] = {
    "resnet": torch("resnet"),
    "gpt2": torch("gpt2"),
    "gpt2-short": torch("gpt2-short"),
    "lstm": torch("lstm"),
    "bert": torch("bert"),
    "compile": torch("compile"),
    "graph": torch("graph"),
    "jax": [sys.executable, str(TESTS / "programs" / "jax_train.py")],
    "cupy": [sys.executable, str(TESTS / "programs" / "cupy_mix.py")],
    "static": ["static_cudart"],
}
# As much memory as a limit of 8 GiB on managed memory allows; bench.gpu.fits runs them.
SMALL: dict[str, list[str]] = {
    "gpt2-half": torch("gpt2-half"),
    "decode": [sys.executable, str(TESTS / "programs" / "torch_decode.py")],
}
# More than that, likewise; workloads of pump-bench.
LARGE = {
    name: [sys.executable, "-m", "bench.gpu.workloads", name]
    for name in ("gpt2-medium", "decode-8b")
}
# bench.gpu.sweep runs it.
SWEEP = {"sweep": [sys.executable, str(TESTS / "programs" / "torch_sweep.py")]}
# tests/gpu/test_graphs.py does.
GRAPHS = {"graph-large": torch("graph-large")}
# They ask for memory until they are refused.
LIMITS: dict[str, list[str]] = {
    "torch-limit": [sys.executable, str(TESTS / "programs" / "torch_limit.py")],
    "cupy-limit": [sys.executable, str(TESTS / "programs" / "cupy_limit.py")],
}
ASIDE = {"quota": [sys.executable, str(TESTS / "programs" / "torch_quota.py")], **LIMITS}


def build(into: Path) -> None:
    """Compiles the static program and the kernel counter. Raises CalledProcessError."""
    toolkit = Path(nvcc()).resolve().parents[1]
    source = TESTS / "programs" / "static_cudart.cu"
    compiled(source, into, "-arch=sm_90", "-cudart", "static", "-lcublas")
    cupti = [toolkit / "lib64", toolkit / "extras" / "CUPTI" / "lib64", toolkit / "lib"]
    flags = [
        flag for path in cupti if path.is_dir() for flag in (f"-L{path}", f"-Wl,-rpath,{path}")
    ]
    include = [
        f"-I{p}"
        for p in (toolkit / "include", toolkit / "extras" / "CUPTI" / "include")
        if p.is_dir()
    ]
    counter = [
        "gcc",
        "-O2",
        "-fPIC",
        "-shared",
        "-o",
        str(into / "libcount_kernels.so"),
        str(TESTS / "count_kernels.c"),
    ]
    subprocess.run([*counter, *include, *flags, "-lcupti"], check=True)


def command(name: str, built: Path, warm: int, timed: int) -> list[str]:
    """How a program is started. Raises KeyError for an unknown name."""
    words = list((PROGRAMS | SMALL | LARGE | SWEEP | GRAPHS | ASIDE)[name])
    if name == "static":
        return [str(built / words[0])]
    return words if name in ASIDE else [*words, str(warm), str(timed)]


def environment(*, observe: bool) -> dict[str, str]:
    """This process's own, and what starts ulms.so. Raises NotBuiltError.

    Python hashes alike in all of them, so that none has its sets in an order of its own.
    """
    env = os.environ | {"PYTHONHASHSEED": "0"}
    if observe:
        env |= {"LD_PRELOAD": str(library()), "ULMS_BACKEND": "observe", "ULMS_LOG_LEVEL": "INFO"}
    return env


def run(
    name: str,
    built: Path,
    *,
    observe: bool,
    count: bool,
    warm: int,
    timed: int,
    more: dict[str, str] | None = None,
) -> Result:
    """Runs one program to its end, at most five minutes."""
    counted = built / f"{name}.count"
    env = environment(observe=observe)
    if count:
        env |= {
            "CUDA_INJECTION64_PATH": str(built / "libcount_kernels.so"),
            "COUNT_KERNELS": str(counted),
        }
    env |= more or {}
    counted.unlink(missing_ok=True)
    start = time.monotonic()
    done = subprocess.run(
        command(name, built, warm, timed),
        env=env,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    result = result_of(done.returncode, done.stdout, done.stderr)
    result.seconds = time.monotonic() - start
    if counted.exists():
        result.profiled = json.loads(counted.read_text())["kernels"]
    return result


def result_of(status: int, stdout: str, stderr: str) -> Result:
    """What a program that has ended said."""
    result = Result(status, stderr=stderr)
    for line in stdout.splitlines():
        if line.startswith("REPORT "):
            report = json.loads(line.removeprefix("REPORT "))
            result.numbers = report.pop("numbers")
            result.step_ms = report.pop("step_ms")
            result.facts = report
    if match := SUMMARY.search(stderr):
        result.seen = int(match[1])
    return result
