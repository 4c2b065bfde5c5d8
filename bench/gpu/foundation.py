"""Observe mode on a real GPU: same numbers, every kernel seen, and what it costs.

Overhead is measured between processes that live side by side, as many native ones as under ulms.so,
and take turns: each runs a block of a few steps while the others wait. `overhead_of` in `turns.py`
says what is made of the blocks. The file is written anew after every program.
"""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench import cli
from bench.gpu import machine, programs, turns
from bench.gpu.paced import Paced, PacedError

# The last two are bound by launches, not by the GPU.
BOUNDS = {
    "resnet": 1.01,
    "gpt2": 1.01,
    "lstm": 1.08,  # 3257 launches of 6 us a step: nothing but launches
    "bert": 1.01,
    "gpt2-short": 1.03,
    "compile": 1.03,
}
# What a process holds, its context included; all together they hold at most ROOM_GIB.
MEMORY_GIB = {"resnet": 7.5, "gpt2": 25, "lstm": 4, "bert": 12, "gpt2-short": 8.5, "compile": 1}
ROOM_GIB = 100
MODES = (turns.NATIVE, "observe")  # and "observe-HOOKS", a value of ULMS_HOOKS
TOLD_ROUNDS = 5


def check(name: str, built: Path) -> dict[str, object]:
    """One native and one observed run, both counted by the profiler."""
    native = programs.run(name, built, observe=False, count=True, warm=3, timed=6)
    observed = programs.run(name, built, observe=True, count=True, warm=3, timed=6)
    ulms_lines = [line for line in observed.stderr.splitlines() if line.startswith("[ulms]")]
    row: dict[str, object] = {
        "program": name,
        "status": [native.status, observed.status],
        "numbers_equal": programs.numbers_equal([native, observed]),
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


def wrong_in(row: Mapping[str, Any]) -> str | None:
    """What a checked program shows that it should not; None: nothing."""
    if any(row["status"]):
        return f"{row['program']} failed"
    if not row["numbers_equal"]:
        return f"numbers of {row['program']}"
    return None if row["seen"] == row["profiled"] else f"kernels of {row['program']}"


def overhead(
    name: str, built: Path, repeats: int, rounds: int, modes: Sequence[str] = MODES
) -> dict[str, Any]:
    """Processes of all modes in turn, without the profiler: block medians, and their ratios.

    `repeats` processes of each mode, fewer where they need much memory. If one of them fails the
    row has `failed`, and what was measured until then.
    """
    pairs = max(1, min(repeats, int(ROOM_GIB / MEMORY_GIB[name]) // len(modes)))
    block_ms: turns.BlockMs = {mode: [] for mode in modes}
    row: dict[str, Any] = {"program": name, "bound": BOUNDS[name], "block_ms": block_ms}
    processes = (
        (mode, started(name, built, mode, pair)) for pair in range(pairs) for mode in modes
    )
    try:
        with turns.Turns(processes, block_ms) as group:
            steps = row["steps"] = group.warm_up()
            print(f"{name:10} {pairs} processes a mode, blocks of {steps} steps", flush=True)
            for at in range(rounds):
                group.take(at, steps)
                if (at + 1) % TOLD_ROUNDS == 0 or at + 1 == rounds:
                    turns.tell(row, at + 1, rounds)
                    row["ratio"], *row["interval"] = row["ratios"]["observe"]
            results = group.end()
        row["numbers_equal"] = programs.numbers_equal(results)
        row["seen"] = [result.seen for result in results]
        print(f"{name:10} numbers equal {row['numbers_equal']}", flush=True)
    except PacedError as error:
        row |= {"failed": str(error), "stderr": error.stderr}
        print(f"{name:10} failed: {error}\n{error.stderr}", flush=True)
    return row


def started(name: str, built: Path, mode: str, pair: int) -> Paced:
    """A process of a mode, which runs its own warm-up and then waits."""
    command = programs.command(name, built, turns.WARM, 0)
    observed, _, hooks = mode.partition("-")
    env = programs.environment(observe=observed == "observe")
    if hooks:
        env["ULMS_HOOKS"] = hooks
    return Paced(f"{name} {mode} {pair}", command, env)


def main() -> None:
    parser = cli.parser(__doc__, builds=True)
    parser.add_argument("--repeats", type=int, default=4, help="processes of each mode (default 4)")
    parser.add_argument(
        "--rounds", type=int, default=40, help="blocks of each process (default 40)"
    )
    parser.add_argument(
        "--programs", default=",".join(programs.PROGRAMS), help="which, separated by commas"
    )
    parser.add_argument(
        "--hooks",
        default="",
        help="values of ULMS_HOOKS to observe with, too, beside all: no-library,driver",
    )
    skip = parser.add_mutually_exclusive_group()
    skip.add_argument("--skip-overhead", action="store_true", help="only numbers and counts")
    skip.add_argument("--skip-check", action="store_true", help="only overhead")
    options = parser.parse_args()
    machine.refuse_unless_safe()
    cli.end_with_children()
    names = options.programs.split(",")
    modes = [*MODES, *(f"observe-{hooks}" for hooks in options.hooks.split(",") if hooks)]
    rows: dict[str, list[dict[str, Any]]] = {}
    result: dict[str, object] = {"machine": machine.describe()}

    def keep(kind: str, row: dict[str, Any]) -> None:
        rows.setdefault(kind, []).append(row)
        cli.write(options.json, result | rows)

    if not options.skip_check:
        programs.build(options.built)
        for name in names:
            keep("programs", check(name, options.built))
    if not options.skip_overhead:
        for name in (name for name in BOUNDS if name in names):
            keep("overhead", overhead(name, options.built, options.repeats, options.rounds, modes))
    if wrong := [what for row in rows.get("programs", []) if (what := wrong_in(row))]:
        sys.exit(f"not as it should be: {', '.join(wrong)}")
    if failed := [row["program"] for row in rows.get("overhead", []) if "failed" in row]:
        sys.exit(f"not measured: {', '.join(failed)}")
    if above := [row["program"] for row in rows.get("overhead", []) if row["ratio"] > row["bound"]]:
        sys.exit(f"above its bound: {', '.join(above)}")


if __name__ == "__main__":
    main()
