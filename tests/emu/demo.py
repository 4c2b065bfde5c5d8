"""`make demo`: trains on the emulated device, plain and under ulms.so, and shows what was seen.

Then it trains with half the memory that the training needs.

Exit status 1 when runs differ or nothing was seen.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from pump import paths
from pump.cli.summary import summary_page
from pump.preload import preload
from pump.sizes import MIB, format_size
from pump.terminal.render import console
from pump.terminal.status import Status
from pump.trace import Summary, read, summarize

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT))

from bench.emulator.run import PAGE, WORKLOADS, Told, build, run  # noqa: E402

SOURCE = ROOT / "tests" / "programs" / "train.c"
BUILD = Path(os.environ.get("PUMP_BUILD_DIR", ROOT / "build" / "dev"))
TIMEOUT_S = 120
NATIVE, BACKENDS = "native", ("um", "vmm")


@dataclass(frozen=True)
class Demo:
    """Both runs and what ulms.so saw of the second."""

    plain: str
    observed: str
    plain_s: float
    observed_s: float
    summary: Summary


def compile_program(into: Path) -> Path:
    """Compiles the program."""
    program = into / "train"
    includes = [f"-I{path}" for path in (ROOT / "csrc", ROOT / "hooks", BUILD / "gen")]
    compiler = os.environ.get("CC", "cc")
    command = [compiler, "-std=gnu11", "-O2", *includes, str(SOURCE), "-o", str(program), "-ldl"]
    subprocess.run(command, check=True)
    return program


def timed(program: Path, environment: dict[str, str]) -> tuple[str, float]:
    """Standard output of a run, and seconds."""
    start = time.monotonic()
    done = subprocess.run(
        [str(program)],
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        timeout=TIMEOUT_S,
        check=True,
    )
    return done.stdout, time.monotonic() - start


def run_demo() -> Demo:
    """Compiles, runs plain, runs under ulms.so, reads the trace."""
    with tempfile.TemporaryDirectory() as folder:
        program = compile_program(Path(folder))
        trace = Path(folder) / "trace"
        plain_environment = {**os.environ, "LD_LIBRARY_PATH": str(paths.emulator_dir())}
        plain, plain_s = timed(program, plain_environment)
        preloaded = preload(
            [str(program)],
            {"ULMS_BACKEND": "observe", "ULMS_TRACE": str(trace)},
            base=plain_environment,
        )
        observed, observed_s = timed(program, preloaded.environment(plain_environment))
        return Demo(plain, observed, plain_s, observed_s, summarize(read(trace)))


def run_in_half() -> dict[str, Told]:
    """A training program with all the memory that it needs, and with half of it, by backend."""
    with tempfile.TemporaryDirectory() as folder:
        program = build(Path(folder))
        native = run(program, WORKLOADS["train"], NATIVE)
        capacity = native.footprint // 2 // PAGE * PAGE
        half = {name: run(program, WORKLOADS["train"], name, capacity) for name in BACKENDS}
        return {NATIVE: native} | half


def half_lines(runs: Mapping[str, Told]) -> list[str]:
    """What came of it, a line a run."""
    native = runs[NATIVE]
    lines = [
        f"a training that needs {format_size(native.footprint)}, on the emulated device with half"
        f" of that (with all: {median(native.step_ms):.1f} ms a step):"
    ]
    for name in BACKENDS:
        told = runs[name]
        same = "same result" if told.result == native.result else "ANOTHER RESULT"
        moved, ms = told.moved / MIB, median(told.step_ms)
        lines.append(f"  {name}: {same}, {moved:.0f} MiB moved a step, {ms:.1f} ms a step")
    return lines


def main() -> int:
    """Runs the demo and prints it."""
    demo = run_demo()
    same = demo.plain == demo.observed
    out = console()
    out.print(f"{SOURCE.relative_to(ROOT)} on the emulated device:\n\n{demo.plain}")
    out.print(
        f"the same under LD_PRELOAD=ulms.so: the output is {'identical' if same else 'DIFFERENT'}"
        f" ({demo.plain_s:.2f} s plain, {demo.observed_s:.2f} s observed and traced)\n"
    )
    if not same:
        out.print(demo.observed)
    out.print("what ulms.so saw:")
    out.print(summary_page(demo.summary))
    half = run_in_half()
    out.print("\n".join(half_lines(half)))
    same = same and len({told.result for told in half.values()}) == 1
    return 0 if same and demo.summary.kernels else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(Status.INTERRUPTED)
