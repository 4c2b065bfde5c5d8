"""Step times when a program needs more memory than its budget, on a real GPU, policy by policy.

The pressure is a software budget (ULMS_GPU_MEMORY); the card itself is never filled. So the driver
evicts nothing by itself: the policy `none` evicts the least recently touched pages in line before
a kernel, as the driver would, and lets the kernel fault the missing ones in.
"""

import argparse
import json
import statistics
import sys
from fractions import Fraction
from pathlib import Path

from bench.gpu import machine, programs
from pump.paths import library

FRACTIONS = "1,2/3,1/2,1/3"
POLICIES = "none,pump,ahead"
PAGE = 2 << 20


def run(name: str, options: argparse.Namespace, more: dict[str, str]) -> programs.Result:
    warm, timed = (int(n) for n in options.steps.split(","))
    return programs.run(
        name, options.built, observe=False, count=False, warm=warm, timed=timed, more=more
    )


def native(name: str, options: argparse.Namespace) -> tuple[programs.Result, int]:
    """The program alone, and the bytes it needs. Exits where they are more than the limit."""
    result = run(name, options, {})
    if result.status:
        sys.exit(f"{name} failed by itself: {result.stderr[-2000:]}")
    footprint = int(str(result.facts["max_reserved"]))
    if footprint > machine.LIMIT * 15 // 16:
        sys.exit(f"{name} needs {footprint >> 20} MiB: too near to the limit of managed memory")
    return result, footprint


def measure(name: str, options: argparse.Namespace) -> dict[str, object]:
    """One program under every budget and policy, natively first."""
    alone, footprint = native(name, options)
    native_ms = statistics.median(alone.step_ms)
    print(f"{name:9} native {native_ms:9.2f} ms  {footprint >> 20} MiB", flush=True)
    rows = []
    for fraction in (Fraction(text) for text in options.budgets.split(",")):
        budget = -(-int(footprint * fraction) // PAGE) * PAGE
        for policy in options.policies.split(","):
            result = run(
                name,
                options,
                {
                    "LD_PRELOAD": str(library()),
                    "ULMS_BACKEND": "um",
                    "ULMS_POLICY": policy,
                    "ULMS_GPU_MEMORY": str(budget),
                    "ULMS_GPU_MEMORY_FACTOR": "100",
                    "ULMS_LOG_LEVEL": "INFO",
                },
            )
            equal = bool(alone.numbers) and result.numbers == alone.numbers
            ms = statistics.median(result.step_ms) if result.step_ms else float("nan")
            print(
                f"{name:9} budget {fraction!s:4} {policy:6} {ms:9.2f} ms  numbers equal {equal}"
                f"  status {result.status}  {result.seconds:.0f} s",
                flush=True,
            )
            rows.append(
                {
                    "budget": str(fraction),
                    "budget_bytes": budget,
                    "policy": policy,
                    "step_ms": result.step_ms,
                    "median_ms": ms,
                    "numbers_equal": equal,
                    "status": result.status,
                    "ulms": [x for x in result.stderr.splitlines() if x.startswith("[ulms]")],
                    "stderr": result.stderr[-2000:] if result.status else "",
                }
            )
    return {"program": name, "native_ms": alone.step_ms, "footprint": footprint, "rows": rows}


def table(result: dict[str, object]) -> str:
    """What is seen first: a line a program and budget, a column a policy."""
    rows: list[dict[str, object]] = result["rows"]  # type: ignore[assignment]
    lines = []
    for budget in dict.fromkeys(str(row["budget"]) for row in rows):
        cells = [
            f"{row['policy']} {row['median_ms']:.1f}{'' if row['numbers_equal'] else ' DIFFERS'}"
            for row in rows
            if row["budget"] == budget
        ]
        lines.append(f"{result['program']!s:9} {budget:4}  " + "  ".join(cells))
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", type=Path, help="write everything there, program by program")
    parser.add_argument("--built", type=Path, default=Path("build/gpu"))
    parser.add_argument("--programs", default="resnet,gpt2-half,decode")
    parser.add_argument("--budgets", default=FRACTIONS, help="shares of the footprint")
    parser.add_argument("--policies", default=POLICIES)
    parser.add_argument("--steps", default="4,5", help="warm and timed steps (default 4,5)")
    options = parser.parse_args()
    machine.refuse_unless_safe()
    options.built.mkdir(parents=True, exist_ok=True)
    result: dict[str, object] = {"machine": machine.describe()}
    done: list[dict[str, object]] = []
    for name in options.programs.split(","):
        done.append(measure(name, options))
        result["programs"] = done
        if options.json:
            options.json.write_text(json.dumps(result, indent=1) + "\n")
    print("\n".join(table(row) for row in done))


if __name__ == "__main__":
    main()
