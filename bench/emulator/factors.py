"""What share of the device's memory pages may take, by what is known of operations, on the emulated
device.

Backend `um`, whose capacity is what the device has free at its start, as without ULMS_GPU_MEMORY:
what is not known to us is paged by the driver, which evicts by itself where the device is full.
Contexts, images and small allocations take no memory there, so a share of 100 is not what a real
device can give.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.progress import Progress

from bench.emulator.run import PAGE, STRETCH, TIMED, WORKLOADS, Told, build, told_of
from bench.gpu import machine
from pump.cli.render import progress_bar
from pump.paths import emulator_dir
from pump.preload import preload

FACTORS = (100, 95, 90, 80, 70, 60)
RATIOS = (1.5, 2.0)
REPEATS = 3
LAUNCHES = {"ULMS_HOOKS": "driver"}
SITUATIONS: dict[str, tuple[str, dict[str, str]]] = {
    "the framework tells": ("train", {}),
    "libraries tell": ("infer", {}),
    "launches tell": ("train", LAUNCHES),
    "launches tell, decoding": ("infer", LAUNCHES),
    "nothing tells": ("train", LAUNCHES | {"EMU_DRIVER_VERSION": "12030"}),
}
"""By what is known: the program, and the environment that leaves nothing else to be known. A driver
before 12.4 tells no layout of parameters."""


def run(binary: Path, name: str, more: dict[str, str]) -> Told:
    """A program, to its end. Raises CalledProcessError, TimeoutExpired."""
    workload = WORKLOADS[name]
    command = [str(binary), *workload.words, str(workload.warm + TIMED)]
    base = os.environ | {"LD_LIBRARY_PATH": str(emulator_dir()), "EMU_TIME": str(STRETCH)} | more
    options = {name: value for name, value in more.items() if name.startswith("ULMS_")}
    env = preload(command, options, base=base).environment(base) if options else base
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=300, check=True)
    return told_of(done.stdout, workload)


def measure(binary: Path, bar: Progress) -> list[dict[str, object]]:
    """A row a situation and ratio: milliseconds of the median step, by factor."""
    task = bar.add_task("emulating", total=len(SITUATIONS) * len(RATIOS) * len(FACTORS) * REPEATS)
    natives = {name: run(binary, name, {}) for name in {name for name, _ in SITUATIONS.values()}}
    rows: list[dict[str, object]] = []
    for situation, (name, env) in SITUATIONS.items():
        native = natives[name]
        for ratio in RATIOS:
            capacity = int(native.footprint / ratio) // PAGE * PAGE
            step_ms: dict[int, list[float]] = {factor: [] for factor in FACTORS}
            equal = True
            for _ in range(REPEATS):
                for factor in FACTORS:
                    options = {"ULMS_BACKEND": "um", "ULMS_GPU_MEMORY_FACTOR": str(factor)}
                    options |= {"ULMS_MANAGED_LIMIT": "8GiB", "EMU_MEMORY": str(capacity)}
                    told = run(binary, name, env | options)
                    step_ms[factor].append(statistics.median(told.step_ms))
                    equal = equal and told.result == native.result
                    bar.update(task, advance=1, description=f"{situation}, {ratio:g}: {factor} %")
            row = {"situation": situation, "program": name, "oversubscription": ratio}
            rows.append(row | {"step_ms": step_ms, "numbers_equal": equal})
    return rows


def table(rows: list[dict[str, object]]) -> str:
    """Medians over the repetitions."""
    lines = [f"{'known':24} over " + "".join(f"{factor:>8} %" for factor in FACTORS)]
    for row in rows:
        by_factor: dict[int, list[float]] = row["step_ms"]  # type: ignore[assignment]
        figures = "".join(f"{statistics.median(by_factor[factor]):10.2f}" for factor in FACTORS)
        lines.append(f"{row['situation']:24} {row['oversubscription']:4} {figures}")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", type=Path, help="write everything there")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, progress_bar(sys.stderr, False) as bar:
        rows = measure(build(Path(folder)), bar)
    print(table(rows))
    if options.json:
        result = {"machine": machine.describe(), "rows": rows}
        options.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    if wrong := [str(row["situation"]) for row in rows if not row["numbers_equal"]]:
        sys.exit(f"other numbers: {', '.join(wrong)}")


if __name__ == "__main__":
    main()
