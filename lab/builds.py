"""Builds of ulms.so beside each other, under programs that need more memory than their budget.

`python -m lab.builds before=A/ulms.so after=B/ulms.so --needs bench/results/h200-bar.json`
runs every workload at every ratio with each build, in turns, a process each, in the other order in
the next round: what changes a machine more slowly does so for both. A build of another commit is
made in a worktree of it. `NAME=ULMS.SO,ULMS_PAGE=16MiB` sets options for one: a build may stand
beside itself. --needs names results of `pump-bench run --device gpu`, which have what each workload
needs. --show prints the table of a file that was written. --system um takes managed memory, for
workloads that are within its limit.
"""

import argparse
import hashlib
import json
import statistics
import sys
import time
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from bench import cli
from bench.gpu.budget import Budget, capacity_at, environment
from bench.gpu.counters import EXPLAIN
from bench.gpu.machine import refuse_unless_safe
from bench.gpu.run import FailedError, OverError, Programs, obstacle_of
from pump.bench.row import FormatError, read_results

WORKLOADS, RATIOS, ROUNDS, SECONDS = "resnet50,gpt2-medium", "1.5,2", 3, 540
SYSTEMS = ("vmm", "um")
SHOWN = ("in_ns", "out_ns", "sent_ns", "map_ns", "mapped_bytes")
"""Counters in the table, in millions a step: ms, MB."""

Row = dict[str, Any]


class Build(NamedTuple):
    """A library, and what its options are beside those of the system."""

    path: Path
    options: dict[str, str]


def named(text: str) -> tuple[str, Build]:
    """`NAME=FILE[,OPTION=VALUE...]`; the file exists. Raises ValueError."""
    file, *options = text.split(",")
    name, path = cli.named(file)
    if not path.is_file() or not all("=" in option for option in options):
        raise ValueError(text)
    return name, Build(path.resolve(), dict(option.split("=", 1) for option in options))


def digest_of(path: Path) -> str:
    """What tells a build from others."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def needs_of(path: Path) -> dict[str, int]:
    """Bytes that each workload of the results needs. Raises FormatError, OSError."""
    return {row.workload: row.footprint_bytes for row in read_results(path).rows}


def runs(
    builds: dict[str, Build],
    system: str,
    needs: dict[str, int],
    ratios: list[float],
    rounds: int,
    end: float,
) -> Iterator[Row]:
    """A row a process. The first process of a workload says what its numbers are. Raises
    FailedError; OverError when the time is up.
    """
    programs = Programs()
    numbers: dict[str, list[str]] = {}
    for at, name, ratio in product(range(rounds), needs, ratios):
        budget = Budget(capacity_at(needs[name], ratio), needs[name])
        order = list(builds.items())
        for build, (path, options) in order if at % 2 == 0 else reversed(order):
            env = environment(system, budget) | options | {"LD_PRELOAD": str(path)}
            told = programs.run(name, system, env, end)
            yield {
                "workload": name,
                "system": system,
                "oversubscription": ratio,
                "build": build,
                "round": at,
                "step_ms": told.step_ms,
                "counters": {key: told.a_step[key] for key in EXPLAIN},
                "numbers_equal": numbers.setdefault(name, told.numbers) == told.numbers,
            }


def table(rows: list[Row], builds: list[str]) -> str:
    """A line a workload, ratio and build: the median of its processes' medians, in milliseconds,
    and how many times what the first build took.
    """
    lines = ["| step | over | build | ms | ratio | " + " | ".join(SHOWN) + " |"]
    lines.append("|---|---|---|---|---|" + "---|" * len(SHOWN))
    for name, ratio in dict.fromkeys((row["workload"], row["oversubscription"]) for row in rows):
        first = None
        for build in builds:
            mine = [
                row
                for row in rows
                if (row["workload"], row["oversubscription"], row["build"]) == (name, ratio, build)
            ]
            if not mine:
                continue
            ms = statistics.median(statistics.median(row["step_ms"]) for row in mine)
            first = first or ms
            told = [statistics.median(row["counters"][key] for row in mine) / 1e6 for key in SHOWN]
            cells = " | ".join(f"{value:.1f}" for value in told)
            lines.append(f"| {name} | {ratio:g} | {build} | {ms:.1f} | {ms / first:.3f} | {cells} |")
    return "\n".join(lines)


def main() -> None:
    parser = cli.parser(__doc__)
    parser.add_argument("builds", nargs="*", type=named, metavar="NAME=ULMS.SO[,OPTION=VALUE]")
    parser.add_argument("--show", type=Path, metavar="FILE", help="only the table of what it has")
    parser.add_argument("--needs", type=Path, metavar="RESULTS.json", help="must be there to run")
    parser.add_argument("--system", choices=SYSTEMS, default=SYSTEMS[0])
    parser.add_argument("--workloads", default=WORKLOADS, help=f"default {WORKLOADS}")
    parser.add_argument("--ratios", default=RATIOS, help=f"default {RATIOS}")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"default {ROUNDS}")
    parser.add_argument("--seconds", type=float, default=SECONDS, help=f"default {SECONDS}")
    options: argparse.Namespace = parser.parse_args()
    if options.show:
        seen = json.loads(options.show.read_text(encoding="utf-8"))
        print(table(seen["rows"], list(seen["builds"])))
        return
    if not options.builds or not options.needs:
        parser.error("builds and --needs: what is to be run")
    refuse_unless_safe()
    builds: dict[str, Build] = dict(options.builds)
    try:
        known = needs_of(options.needs)
    except (FormatError, OSError) as error:
        parser.error(str(error))
    wanted = options.workloads.split(",")
    if missing := [name for name in wanted if name not in known]:
        parser.error(f"{options.needs} does not have {', '.join(missing)}")
    needs = {name: known[name] for name in wanted}
    obstacles = {name: obstacle_of(name, options.system, needs[name]) for name in needs}
    if told := [f"{name}: {why}" for name, why in obstacles.items() if why]:
        parser.error("; ".join(told))
    rows: list[Row] = []
    result = {
        "machine": Programs().machine([options.system]),
        "builds": {name: digest_of(build.path) for name, build in builds.items()},
        "options": {name: build.options for name, build in builds.items()},
        "rows": rows,
    }
    ratios = [float(text) for text in options.ratios.split(",")]
    end = time.monotonic() + options.seconds
    failed = ""
    try:
        for row in runs(builds, options.system, needs, ratios, options.rounds, end):
            rows.append(row)
            cli.write(options.json, result)
            print(json.dumps({key: row[key] for key in row if key != "counters"}), flush=True)
    except OverError:
        print(f"stopped after {options.seconds:.0f} s", flush=True)
    except FailedError as error:
        failed = str(error)
    print(table(rows, list(builds)))
    if failed or not all(row["numbers_equal"] for row in rows):
        sys.exit(failed or "numbers differ")


if __name__ == "__main__":
    main()
