"""What `um` and `vmm` cost on a real GPU while everything fits, where nothing should be moved.

Two native processes, of which one is the control, and one of each backend live side by side and
take turns, as in `bench.gpu.foundation`; then the next ones, started in the other order, as often
as is asked for: of all processes that live at a time only one has managed memory. Counters of the
timed steps tell whether anything was moved or held. The file is written anew whenever such a group
has ended.
"""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from bench import cli
from bench.gpu import machine, programs, turns
from bench.gpu.paced import Paced, PacedError

PROGRAMS = "resnet,gpt2-half,decode"
BACKENDS = ("um", "vmm")
WITHOUT_UM = ("bert", "gpt2", "gpt2-short", *programs.LARGE)
"""Programs that need more than managed memory may be."""
BOUND = 1.01
VMM_LIMITS = 4
"""So many limits on managed memory `vmm` may provide to a program, and pin if it must."""
STILL = ("moves", "filled_bytes", "evicted_bytes", "held_ns", "late", "paged_bytes")
"""Counters that stay what they are; the last one also where pages are used on the host for good."""
COUNTERS = (*STILL, "placed_bytes", "allocations")


Keep = Callable[[dict[str, Any]], None]


def measure(
    name: str,
    built: Path,
    repeats: int,
    rounds: int,
    backends: Sequence[str] = BACKENDS,
    keep: Keep = lambda _: None,
) -> dict[str, Any]:
    """Block medians of a program's processes, their ratios and counters, and what was wrong.

    If a process fails the row has `failed`, and what was measured until then. `keep` gets the row
    whenever its next processes have ended.
    """
    modes = [turns.NATIVE, turns.CONTROL, *backends]
    block_ms: turns.BlockMs = {mode: [] for mode in modes}
    row: dict[str, Any] = {"program": name, "bound": BOUND, "block_ms": block_ms, "steps": []}
    row |= {"numbers_equal": [], "wrong": [], "counters": {mode: [] for mode in backends}}
    row["ulms"] = {mode: [] for mode in backends}
    try:
        for repeat in range(repeats):
            order = modes[:: -1 if repeat % 2 else 1]
            processes = ((mode, started(name, built, mode, repeat)) for mode in order)
            with turns.Turns(processes, block_ms) as group:
                steps = group.warm_up()
                row["steps"].append(steps)
                print(f"{name:10} a process a mode, blocks of {steps} steps", flush=True)
                for at in range(rounds):
                    group.take(at, steps)
                results = group.end()
            turns.tell(row, (repeat + 1) * rounds, repeats * rounds)
            judge(row, dict(zip(order, results, strict=True)))
            keep(row)
    except PacedError as error:
        row |= {"failed": str(error), "stderr": error.stderr}
        print(f"{name:10} failed: {error}\n{error.stderr}", flush=True)
    return row


def judge(row: dict[str, Any], results: dict[str, programs.Result]) -> None:
    """Puts what processes said at their end into the row, and what was wrong; prints it."""
    equal = programs.numbers_equal(list(results.values()))
    wrong = [] if equal else ["numbers differ"]
    for mode in row["counters"]:
        result = results[mode]
        before, timed = counters_of(result)
        wrong += [f"{mode}: {what}" for what in wrong_in(before, timed)]
        row["counters"][mode].append({"before": before, "timed": timed})
        row["ulms"][mode].append([x for x in result.stderr.splitlines() if x.startswith("[ulms]")])
        print(f"  {mode:20} " + "  ".join(f"{name} {n}" for name, n in timed.items()), flush=True)
    row["numbers_equal"].append(equal)
    row["wrong"] += wrong
    print(
        f"{row['program']:10} numbers equal {equal}  wrong: {'; '.join(wrong) or 'nothing'}",
        flush=True,
    )


def counters_of(result: programs.Result) -> tuple[dict[str, int], dict[str, int]]:
    """What they were when the first timed step began, and their growth since."""
    facts: dict[str, Any] = result.facts
    return facts["counters_before"], facts["counters"]


def wrong_in(before: dict[str, int], timed: dict[str, int]) -> list[str]:
    """What should not be where everything fits. Memory comes to the device when it is new."""
    found = [name for name in STILL if timed.get(name)]
    if timed.get("placed_bytes") and not timed["allocations"]:
        found.append("placed_bytes")
    wrong = [f"{name} grew by {timed[name]}" for name in found]
    return wrong if before.get("placed_bytes") else [*wrong, "no memory was replaced"]


def is_above(row: dict[str, Any]) -> bool:
    """A backend took more of a step than the bound allows."""
    return any(row["ratios"][backend][0] > BOUND for backend in row["counters"])


def started(name: str, built: Path, mode: str, repeat: int) -> Paced:
    """A process of a mode, which runs its own warm-up and then waits."""
    command = programs.command(name, built, turns.WARM, 0)
    return Paced(f"{name} {mode} {repeat}", command, environment(mode))


def environment(mode: str) -> dict[str, str]:
    """Of a native process, or under a backend that has the whole device."""
    native = mode in (turns.NATIVE, turns.CONTROL)
    env = programs.environment(observe=not native)
    if not native:
        env |= {"ULMS_BACKEND": mode, "REPORT_COUNTERS": ",".join(COUNTERS)}
    if mode == "vmm":  # pinned, not managed: that guard would refuse memory
        env["ULMS_MANAGED_LIMIT"] = str(machine.LIMIT * VMM_LIMITS)
    return env


def programs_help(default: str) -> str:
    """Which programs there are, for a command's --programs."""
    there = [name for name in programs.PROGRAMS | programs.SMALL if name != "static"]  # no steps
    both = ", ".join(name for name in there if name not in WITHOUT_UM)
    return (
        f"which, separated by commas (default {default}): of {both}; under vmm alone, as they need"
        f" more than managed memory may be: {', '.join(WITHOUT_UM)}"
    )


def fitting(name: str, backends: Sequence[str]) -> list[str]:
    """Those that may provide as much memory as the program needs; what is left out is told."""
    if name in WITHOUT_UM and "um" in backends:
        print(f"{name}: um is left out, managed memory may not be that much", file=sys.stderr)
    return [backend for backend in backends if backend != "um" or name not in WITHOUT_UM]


def main() -> None:
    parser = cli.parser(__doc__, builds=True)
    parser.add_argument(
        "--repeats", type=int, default=2, help="processes of each mode, one by one (default 2)"
    )
    parser.add_argument(
        "--rounds", type=int, default=40, help="blocks of each process (default 40)"
    )
    parser.add_argument("--programs", default=PROGRAMS, help=programs_help(PROGRAMS))
    parser.add_argument(
        "--backends", default=",".join(BACKENDS), help="um or vmm, or both (the default)"
    )
    options = parser.parse_args()
    asked = cli.backends(parser, options.backends, BACKENDS)
    backends = list(dict.fromkeys(asked))  # each has one process at a time
    machine.refuse_unless_safe()
    cli.end_with_children()
    result: dict[str, object] = {"machine": machine.describe()}
    rows: list[dict[str, Any]] = []

    def keep(row: dict[str, Any]) -> None:
        cli.write(options.json, result | {"programs": [*rows, row]})

    for name in options.programs.split(","):
        possible = fitting(name, backends)
        row = measure(name, options.built, options.repeats, options.rounds, possible, keep)
        keep(row)
        rows.append(row)
    if bad := [row["program"] for row in rows if "failed" in row or row["wrong"]]:
        sys.exit(f"not as it should be: {', '.join(bad)}")
    if above := [row["program"] for row in rows if is_above(row)]:
        sys.exit(f"above its bound: {', '.join(above)}")


if __name__ == "__main__":
    main()
