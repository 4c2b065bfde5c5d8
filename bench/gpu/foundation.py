"""Observe mode on a real GPU: same numbers, every kernel seen, and what it costs.

Each program runs natively and under ulms.so, alternating; overhead is the ratio of the medians of
the runs' median steps.
"""

import argparse
import json
import statistics
from pathlib import Path

from bench.gpu import machine, programs

# The last two are bound by launches, not by the GPU.
BOUNDS = {
    "resnet": 1.01,
    "gpt2": 1.01,
    "lstm": 1.01,
    "bert": 1.01,
    "gpt2-short": 1.03,
    "compile": 1.03,
}
STEPS = {"resnet": 40, "gpt2": 30, "lstm": 60, "bert": 40, "gpt2-short": 60, "compile": 300}


def check(name: str, built: Path) -> dict[str, object]:
    """One native and one observed run, both counted by the profiler."""
    native = programs.run(name, built, observe=False, count=True, warm=3, timed=6)
    observed = programs.run(name, built, observe=True, count=True, warm=3, timed=6)
    ulms_lines = [line for line in observed.stderr.splitlines() if line.startswith("[ulms]")]
    row: dict[str, object] = {
        "program": name,
        "status": [native.status, observed.status],
        "numbers_equal": bool(native.numbers) and native.numbers == observed.numbers,
        "numbers": [native.numbers, observed.numbers],
        "profiled_native": native.profiled,
        "profiled": observed.profiled,
        "seen": observed.seen,
        "ulms": ulms_lines,
        "facts": observed.facts,
    }
    if native.status or observed.status or not native.numbers:
        row["stderr"] = [native.stderr[-2000:], observed.stderr[-4000:]]
    print(
        f"{name:8} status {native.status}/{observed.status}  numbers equal {row['numbers_equal']}  "
        f"kernels: profiler {observed.profiled}, seen {observed.seen}",
        flush=True,
    )
    return row


def overhead(name: str, built: Path, repeats: int) -> dict[str, object]:
    """Alternating native and observed runs without the profiler."""
    medians: dict[str, list[float]] = {"native": [], "observe": []}
    for _ in range(repeats):
        for mode in medians:
            result = programs.run(
                name, built, observe=mode == "observe", count=False, warm=10, timed=STEPS[name]
            )
            medians[mode].append(statistics.median(result.step_ms))
    ratio = statistics.median(medians["observe"]) / statistics.median(medians["native"])
    print(
        f"{name:8} native {statistics.median(medians['native']):.3f} ms  "
        f"observe {statistics.median(medians['observe']):.3f} ms  "
        f"ratio {ratio:.4f}  (bound {BOUNDS[name]})",
        flush=True,
    )
    return {"program": name, **medians, "ratio": ratio, "bound": BOUNDS[name]}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", type=Path, help="write everything there")
    parser.add_argument(
        "--built", type=Path, default=Path("build/gpu"), help="where the small programs are built"
    )
    parser.add_argument(
        "--repeats", type=int, default=4, help="alternating pairs of runs (default 4)"
    )
    parser.add_argument(
        "--programs", default=",".join(programs.PROGRAMS), help="which, separated by commas"
    )
    skip = parser.add_mutually_exclusive_group()
    skip.add_argument("--skip-overhead", action="store_true", help="only numbers and counts")
    skip.add_argument("--skip-check", action="store_true", help="only overhead")
    options = parser.parse_args()
    machine.refuse_unless_safe()
    names = options.programs.split(",")
    result: dict[str, object] = {"machine": machine.describe()}
    if not options.skip_check:
        programs.build(options.built)
        result["programs"] = [check(name, options.built) for name in names]
    if not options.skip_overhead:
        result["overhead"] = [
            overhead(n, options.built, options.repeats) for n in BOUNDS if n in names
        ]
    if options.json:
        options.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
