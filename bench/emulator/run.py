"""Programs on the emulated device for pump-bench: real library, threads and moves, modelled times.

The programs are those of `tests/programs/um_speed.c`, which tests/README.md describes. Times are an
H200's, stretched while they run and divided afterwards, so that this machine does not show.
"""

import os
import statistics
import struct
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pump.bench import machine
from pump.bench.resident import judged
from pump.bench.row import Row
from pump.bench.runner import Asked
from pump.paths import emulator_dir
from pump.predict.systems import BY_NAME, EMULATOR
from pump.preload import preload
from pump.terminal.command import UsageError
from pump.terminal.progress import Workloads
from pump.terminal.render import progress_bar

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = ROOT / "tests" / "programs"
BLAS = "libcublas.so.13"
STRETCH = 20
PAGE, MIB = 2 << 20, 1 << 20
TIMED = 3
SECONDS = 300.0
"""How long a program may take here; only one that hangs does."""


@dataclass(frozen=True)
class Workload:
    """A program's words, and its steps until those of `ahead` repeat themselves."""

    help: str
    words: tuple[str, ...]
    warm: int


WORKLOADS = {
    "train": Workload("training: 8 layers, AdamW; 640 MiB", ("train", "8", "16", "16"), 5),
    "infer": Workload(
        "decoding: 32 layers, a token a step; 512 MiB", ("infer", "32", "16", "0"), 13
    ),
}


@dataclass(frozen=True)
class Told:
    """What a program printed; modelled milliseconds."""

    step_ms: list[float]
    footprint: int
    result: str
    moved: float  # bytes a step, both ways
    most: int  # bytes that were on the device at a time
    largest: int  # bytes that one operation touched at most; 0: not known, as nothing moved


class Programs:
    """A training and a decoding program."""

    def names(self) -> list[str]:
        """The programs."""
        return list(WORKLOADS)

    def workloads(self) -> dict[str, str]:
        """Their names, and what each is."""
        return {name: workload.help for name, workload in WORKLOADS.items()}

    def machine(self, systems: Sequence[str]) -> dict[str, str]:
        """This one, whatever the systems."""
        return machine.describe()

    def rows(self, asked: Asked) -> list[Row]:
        """Every run. Raises UsageError where the programs cannot be built or one fails."""
        rows = list(asked.known)
        known = {row.run for row in rows}
        runs = [
            (name, system, over)
            for name in asked.names
            for system in asked.systems
            for over in ([1.0] if system == "native" else asked.ratios)
            if (name, EMULATOR, system, over) not in known
        ]
        with (
            tempfile.TemporaryDirectory() as folder,
            progress_bar(sys.stderr, asked.quiet) as bar,
        ):
            binary = build(Path(folder))
            natives: dict[str, Told] = {}
            task = bar.add_task("emulating", total=len(runs))
            lines = Workloads((run[0] for run in runs), bar.disable and not asked.quiet)
            for name, system, over in runs:
                if name not in natives:
                    natives[name] = run(binary, WORKLOADS[name], "native")
                rows.append(row_of(binary, name, system, over, natives[name]))
                asked.keep(rows)
                bar.update(task, advance=1, description=f"{name} {over:g}: {system}")
                lines.done(name)
        return rows


def build(folder: Path, *flags: str) -> Path:
    """The program, beside the library that it calls; more flags for the compiler.

    Raises UsageError.
    """
    script = folder / "versions.map"
    script.write_text(f"{BLAS} {{ global: *; }};\n", encoding="utf-8")
    includes = [f"-I{ROOT / part}" for part in ("hooks", "csrc", "emulator")]
    compiler = ["cc", "-std=gnu11", "-O1", "-pthread", *flags, *includes]
    driver = str(emulator_dir() / "libcuda.so.1")
    sources = [PROGRAMS / "um_speed_blas.c", ROOT / "emulator" / "library" / "cublas.c"]
    shared = ["-shared", "-fPIC", f"-Wl,-soname,{BLAS}", f"-Wl,--version-script={script}"]
    blas, program = folder / BLAS, folder / "um_speed"
    linked = [str(blas), driver, f"-Wl,-rpath,{folder}"]
    call([*compiler, *shared, "-o", str(blas), *map(str, sources), driver])
    call([*compiler, "-o", str(program), str(PROGRAMS / "um_speed.c"), *linked])
    return program


def call(command: Sequence[str]) -> None:
    """Raises UsageError with what the compiler says."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise UsageError(f"{command[0]}: {error.strerror}") from error
    if done.returncode:
        raise UsageError(f"{command[0]} failed:\n{done.stderr.strip()}")


def row_of(binary: Path, name: str, system: str, over: float, native: Told) -> Row:
    """A run beside the native one. Raises UsageError."""
    capacity = int(native.footprint / over) // PAGE * PAGE
    told = native if system == "native" else run(binary, WORKLOADS[name], system, capacity)
    row = Row(
        workload=name,
        device=EMULATOR,
        system=system,
        oversubscription=over,
        capacity_bytes=capacity,
        footprint_bytes=native.footprint,
        step_ms=told.step_ms,
        native_ms=statistics.median(native.step_ms),
        numbers_equal=told.result == native.result,
    )
    if system == "native":
        return row
    plain = native.most - native.footprint  # modules, and what else is no data
    return judged(row, told.most - plain, told.largest, PAGE)


def run(binary: Path, workload: Workload, system: str, capacity: int = 0) -> Told:
    """One process. Raises UsageError where it fails or takes longer than SECONDS."""
    one = BY_NAME[system]
    options: dict[str, str] = {}
    if system != "native":
        options = {
            "ULMS_BACKEND": one.link,
            "ULMS_POLICY": one.policy,
            "ULMS_GPU_MEMORY": str(capacity),
            "ULMS_GPU_MEMORY_FACTOR": "100",
            "ULMS_MANAGED_LIMIT": "8GiB",
            "ULMS_PAGE": "2MiB",  # the programs are small
        }
    return told(binary, workload, system, options)


def told(
    binary: Path,
    workload: Workload,
    system: str,
    options: Mapping[str, str],
    device: Mapping[str, str] | None = None,
) -> Told:
    """One process with options of ours (none: natively), and of the device's.

    Raises UsageError where it fails or takes longer than SECONDS.
    """
    command = [str(binary), *workload.words, str(workload.warm + TIMED)]
    base = os.environ | {"LD_LIBRARY_PATH": str(emulator_dir()), "EMU_TIME": str(STRETCH)}
    base |= device or {}
    env = preload(command, options, base=base).environment(base) if options else base
    what = f"{' '.join(workload.words)} under {system}"
    with tempfile.NamedTemporaryFile() as shared:
        env["EMU_SHARED"] = shared.name
        try:
            done = subprocess.run(
                command, env=env, capture_output=True, text=True, timeout=SECONDS, check=False
            )
        except subprocess.TimeoutExpired as error:
            raise UsageError(f"{what} was not done after {SECONDS:g} s") from error
        _, most = struct.unpack("<QQ", shared.read(16).ljust(16, b"\0"))
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no output"])[-1]
        raise UsageError(f"{what} failed: {last}")
    words = [line.split() for line in done.stdout.splitlines()]
    steps = [line for line in words if line[0] == "step"][workload.warm :]
    ms = [float(line[1]) / STRETCH for line in steps]
    moved = statistics.mean(int(line[2]) for line in steps)
    (footprint,) = (int(line[1]) for line in words if line[0] == "footprint")
    (result,) = (line[1] for line in words if line[0] == "result")
    largest = [int(line[2]) for line in words if line[:2] == ["counter", "largest_bytes"]]
    return Told(ms, footprint, result, moved, most, largest[0] if largest else 0)
