"""What share of the device's memory pages may take, by what is known of operations, on the emulated
device.

Backend `um`, whose capacity is what the device has free at its start, as without ULMS_GPU_MEMORY:
what is not known to us is paged by the driver, which evicts by itself where the device is full.
Contexts, images and small allocations take no memory there, so a share of 100 is not what a real
device can give.
"""

import statistics
import sys
import tempfile
from pathlib import Path

from rich.progress import Progress

from bench import cli
from bench.emulator.run import PAGE, WORKLOADS, build, run, told
from bench.gpu import machine
from pump.terminal.render import progress_bar

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


def measure(binary: Path, bar: Progress) -> list[dict[str, object]]:
    """A row a situation and ratio: milliseconds of the median step, by factor."""
    task = bar.add_task("emulating", total=len(SITUATIONS) * len(RATIOS) * len(FACTORS) * REPEATS)
    names = {name for name, _ in SITUATIONS.values()}
    natives = {name: run(binary, WORKLOADS[name], "native") for name in names}
    rows: list[dict[str, object]] = []
    for situation, (name, asked) in SITUATIONS.items():
        env = {key: value for key, value in asked.items() if key.startswith("ULMS_")}
        device = {key: value for key, value in asked.items() if key not in env}
        native = natives[name]
        for ratio in RATIOS:
            capacity = int(native.footprint / ratio) // PAGE * PAGE
            step_ms: dict[int, list[float]] = {factor: [] for factor in FACTORS}
            equal = True
            for _ in range(REPEATS):
                for factor in FACTORS:
                    options = {"ULMS_BACKEND": "um", "ULMS_GPU_MEMORY_FACTOR": str(factor)}
                    options |= {"ULMS_MANAGED_LIMIT": "8GiB"} | env
                    size = {"EMU_MEMORY": str(capacity)} | device
                    done = told(binary, WORKLOADS[name], "um", options, size)
                    step_ms[factor].append(statistics.median(done.step_ms))
                    equal = equal and done.result == native.result
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
    parser = cli.parser(__doc__)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, progress_bar(sys.stderr, False) as bar:
        rows = measure(build(Path(folder)), bar)
    print(table(rows))
    cli.write(options.json, {"machine": machine.describe(), "rows": rows})
    if wrong := [str(row["situation"]) for row in rows if not row["numbers_equal"]]:
        sys.exit(f"other numbers: {', '.join(wrong)}")


if __name__ == "__main__":
    main()
