"""Bytes a second that `vmm` itself swaps: a sweep over twice the memory that it may have.

Every buffer is read and written by one kernel of PyTorch's, so that all that does not fit comes and
goes once a step, both ways at a time. The link's own rates are measured beside it
(bench/gpu/link.py). No managed memory. --show prints a file that was written.
"""

import json
import statistics
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench import cli
from bench.gpu import budget, link, machine, programs
from bench.gpu.counters import COUNTERS_IN, COUNTERS_OUT

WARM, TIMED = 24, 20
"""Steps. While the engine tries memory in place a step is not what it is later."""
SHARE = 2
"""The device may hold one in so many bytes."""
PAGES = "8MiB,16MiB"


def environment(page: str, needs: int) -> dict[str, str]:
    """Of a sweep over so many bytes. Raises NotBuiltError."""
    return budget.environment("vmm", budget.Budget(needs // SHARE, needs)) | {"ULMS_PAGE": page}


def row(page: str, native: programs.Result, done: programs.Result) -> dict[str, object]:
    """GB/s (1e9 bytes a second) of each way, moved or used in place, over all timed steps."""
    counters = done.facts["counters"]
    assert isinstance(counters, dict)
    seconds = sum(done.step_ms) / 1e3
    moved = [sum(counters[name] for name in way) for way in (COUNTERS_IN, COUNTERS_OUT)]
    rates = [way / seconds / 1e9 for way in moved]
    return {
        "page": page,
        "step_ms": done.step_ms,
        "native_ms": statistics.median(native.step_ms),
        "gb_s_in": round(rates[0], 2),
        "gb_s_out": round(rates[1], 2),
        "gb_s_both": round(sum(rates), 2),
        "numbers_equal": programs.numbers_equal([native, done]),
    }


def line(row: Mapping[str, Any]) -> str:
    """A row in words. What the machine does about once a second is in the rate of all steps, and
    not in that of the median one, which is taken to move as many bytes as any.
    """
    usual = statistics.mean(row["step_ms"]) / statistics.median(row["step_ms"])
    return (
        f"pages of {row['page']:6} {row['gb_s_both'] * usual:6.1f} GB/s in sum by the median step;"
        f" over all {row['gb_s_both']:.1f}, {row['gb_s_in']:.1f} in, {row['gb_s_out']:.1f} out;"
        f" numbers equal: {row['numbers_equal']}"
    )


def main() -> None:
    parser = cli.parser(__doc__, builds=True)
    parser.add_argument("--pages", default=PAGES, help=f"ULMS_PAGE of each (default {PAGES})")
    parser.add_argument("--show", type=Path, help="measure nothing, print this file")
    options = parser.parse_args()
    if options.show:
        print(*map(line, json.loads(options.show.read_text(encoding="utf-8"))["rows"]), sep="\n")
        return
    machine.refuse_unless_safe()
    options.built.mkdir(parents=True, exist_ok=True)

    def swept(**more: str) -> programs.Result:
        done = programs.run(
            "sweep", options.built, observe=False, count=False, warm=WARM, timed=TIMED, more=more
        )
        if done.status:
            sys.exit(f"the sweep ended with status {done.status}: {done.stderr[-2000:]}")
        return done

    described = {"machine": machine.describe() | link.described()}
    native = swept()
    needs = int(str(native.facts["needs"]))
    rows: list[dict[str, object]] = []
    for page in options.pages.split(","):
        rows.append(row(page, native, swept(**environment(page, needs))))
        print(line(rows[-1]), flush=True)
        cli.write(options.json, described | {"rows": rows})
    if not all(row["numbers_equal"] for row in rows):
        sys.exit("numbers differ")


if __name__ == "__main__":
    main()
