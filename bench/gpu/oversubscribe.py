"""Step times when a program needs more memory than its budget, on a real GPU, policy by policy.

The pressure is a software budget (ULMS_GPU_MEMORY); the card itself is never filled. So the driver
evicts nothing by itself: the policy `none` evicts the least recently touched pages in line before
a kernel, as the driver would, and lets the kernel fault the missing ones in.
"""

import argparse
import os
import re
import statistics
import sys
from collections.abc import Callable
from fractions import Fraction

from bench import cli
from bench.gpu import calls, machine, programs
from bench.gpu.run import TIMED, WARM, WARM_ONCE
from pump.paths import library

FRACTIONS = "1,2/3,1/2,1/3"
POLICIES = "none,pump,ahead"
ONCE = {"decode"}
"""Programs that touch memory once a step: the engine then tries for ten steps what is faster."""
PAGE = 2 << 20
HELD = re.compile(r"device 0: [\d.]+ GiB held, ([\d.]+) at most")
COUNTERS = [
    "paged_bytes",
    "hit_bytes",
    "filled_bytes",
    "early_bytes",
    "useless_bytes",
    "faulted_bytes",
    "in_place_bytes",
    "in_place_written_bytes",
    "evicted_bytes",
    "dropped_bytes",
    "dead_bytes",
    "moves",
    "move_failures",
    "in_ns",
    "out_ns",
    "late",
    "held_ns",
    "short_operations",
    "predicted",
    "surprises",
]


def run(name: str, options: argparse.Namespace, more: dict[str, str]) -> programs.Result:
    warm, timed = WARM_ONCE if name in ONCE else WARM, TIMED
    if options.steps:
        warm, timed = (int(n) for n in options.steps.split(","))
    return programs.run(
        name, options.built, observe=False, count=False, warm=warm, timed=timed, more=more
    )


def native(name: str, options: argparse.Namespace) -> programs.Result:
    """The program alone. Exits where it needs more than the limit."""
    result = run(name, options, {})
    if result.status:
        sys.exit(f"{name} failed by itself: {result.stderr[-2000:]}")
    footprint = int(str(result.facts["max_reserved"]))
    if footprint > machine.LIMIT * 15 // 16:
        sys.exit(f"{name} needs {footprint >> 20} MiB: too near to the limit of managed memory")
    return result


def under(
    name: str, options: argparse.Namespace, policy: str, budget: int | None
) -> programs.Result:
    """The program with a policy and a budget in bytes; None: no other than what the card has."""
    more = {
        "LD_PRELOAD": str(library()),
        "ULMS_BACKEND": "um",
        "ULMS_POLICY": policy,
        "ULMS_LOG_LEVEL": os.environ.get("ULMS_LOG_LEVEL", "INFO"),
        "REPORT_COUNTERS": ",".join(COUNTERS),
    }
    if budget is not None:
        more |= {"ULMS_GPU_MEMORY": str(budget), "ULMS_GPU_MEMORY_FACTOR": "100"}
    return run(name, options, more)


def footprint(result: programs.Result) -> int:
    """Bytes that a run of ours held at most, in whole pages. Exits where it did not run."""
    held = HELD.search(result.stderr)
    if result.status or not held:
        sys.exit(f"a run in which everything fits failed: {result.stderr[-2000:]}")
    return (int(float(held[1]) * (1 << 30)) // PAGE + 4) * PAGE  # printed to 10 MiB


def measure(
    name: str, options: argparse.Namespace, keep: Callable[[dict[str, object]], None]
) -> None:
    """One program natively, with all memory there is, and under every budget and policy. Keeps what
    is known after every run, the same dictionary each time.
    """
    alone = native(name, options)
    native_ms = statistics.median(alone.step_ms)
    rows: list[dict[str, object]] = []
    result: dict[str, object] = {"program": name, "native_ms": alone.step_ms, "rows": rows}

    def row(budget: str, size: int | None, policy: str) -> programs.Result:
        done = under(name, options, policy, size)
        equal = programs.numbers_equal([alone, done])
        ms = statistics.median(done.step_ms) if done.step_ms else float("nan")
        counters: dict[str, int] = done.facts.get("counters", {})  # type: ignore[assignment]
        print(
            f"{name:9} budget {budget:4} {policy:6} {ms:9.2f} ms  numbers equal {equal}"
            f"  status {done.status}  {done.seconds:.0f} s",
            flush=True,
        )
        if options.verbose:
            per_step = {k: v / max(len(done.step_ms), 1) for k, v in counters.items()}
            print("   " + "  ".join(f"{k} {v / 1e6:.4g}M" for k, v in per_step.items()), flush=True)
        rows.append(
            {
                "budget": budget,
                "budget_bytes": size,
                "policy": policy,
                "step_ms": done.step_ms,
                "median_ms": ms,
                "numbers_equal": equal,
                "counters": counters,
                "status": done.status,
                "ulms": [x for x in done.stderr.splitlines() if x.startswith("[ulms]")][-200:],
                "stderr": done.stderr[-2000:] if done.status else "",
            }
        )
        keep(result)
        return done

    needs = result["footprint"] = footprint(row("all", None, options.policies.split(",")[-1]))
    print(f"{name:9} native {native_ms:9.2f} ms  {needs >> 20} MiB", flush=True)
    for fraction in (Fraction(text) for text in options.budgets.split(",")):
        for policy in options.policies.split(","):
            row(str(fraction), -(-int(needs * fraction) // PAGE) * PAGE, policy)
    result["native_ms"] = alone.step_ms + run(name, options, {}).step_ms
    keep(result)


def table(result: dict[str, object]) -> str:
    """What is seen first: a line a program and budget, a column a policy."""
    rows: list[dict[str, object]] = result["rows"]  # type: ignore[assignment]
    native_ms = statistics.median(result["native_ms"])  # type: ignore[arg-type]
    lines = [f"{result['program']!s:9} native {native_ms:.1f}"]
    for budget in dict.fromkeys(str(row["budget"]) for row in rows):
        cells = [
            f"{row['policy']} {row['median_ms']:.1f}{'' if row['numbers_equal'] else ' DIFFERS'}"
            for row in rows
            if row["budget"] == budget
        ]
        lines.append(f"{result['program']!s:9} {budget:4}  " + "  ".join(cells))
    return "\n".join(lines)


def wrong_in(result: dict[str, object]) -> bool:
    """A run of the program failed, or had other numbers."""
    rows: list[dict[str, object]] = result["rows"]  # type: ignore[assignment]
    return any(row["status"] or not row["numbers_equal"] for row in rows)


def main() -> None:
    parser = cli.parser(__doc__, builds=True)
    parser.add_argument("--programs", default="resnet,gpt2-half,decode")
    parser.add_argument("--budgets", default=FRACTIONS, help="shares of the footprint")
    parser.add_argument("--policies", default=POLICIES)
    parser.add_argument(
        "--steps", help=f"warm and timed ones (default {WARM},{TIMED}; decode {WARM_ONCE},{TIMED})"
    )
    parser.add_argument("--verbose", action="store_true", help="counters of each run, a step")
    options = parser.parse_args()
    machine.refuse_unless_safe()
    options.built.mkdir(parents=True, exist_ok=True)
    described = machine.describe() | calls.described(options.built)
    result: dict[str, object] = {"machine": described}
    done: dict[str, dict[str, object]] = {}

    def keep(row: dict[str, object]) -> None:
        done[str(row["program"])] = row
        result["programs"] = list(done.values())
        cli.write(options.json, result)

    for name in options.programs.split(","):
        measure(name, options, keep)
    print("\n".join(table(row) for row in done.values()))
    if wrong := [name for name, result in done.items() if wrong_in(result)]:
        sys.exit(f"failed, or numbers differ: {', '.join(wrong)}")


if __name__ == "__main__":
    main()
