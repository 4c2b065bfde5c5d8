"""`make soak MINUTES=30`: random programs under random settings until the time is over.

Stops at the first run that differs from the native one and prints the command that repeats it:
`python -m tests.soak --seed N ...` runs one case, `--times` often.
"""

import argparse
import os
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path

from tests.random_programs import EVENTS, SETUPS, Case, Judge, compile_program, looked_at

PROGRESS_S = 20.0
SEEDS = 1 << 40
KEPT = 1000  # truths; no seed comes twice


def random_cases(judge: Judge, source: random.Random) -> Iterator[Case]:
    """Cases without end: one in three with a failure of a call that ulms.so makes, one in two with
    something that happens to the process.
    """
    calls = {setup: sorted(judge.own_calls(looked_at(setup))) for setup in SETUPS}
    while True:
        setup = source.choice(SETUPS)
        fail = ""
        if source.random() < 1 / 3:
            fail = source.choice(calls[setup])
            fail += source.choice(["", ":sticky", f":after={source.randrange(60)}"])
            fail += source.choice(["", ":error=2"])
        over = round(source.uniform(1.0, 4.5), 2)
        count = source.choice([1, 1, 1, 3])
        seed, timed = source.randrange(SEEDS), source.choice(["0", "0", "1"])
        event = source.choice(EVENTS) if source.random() < 1 / 2 else ""
        yield Case(seed, setup, over, count, fail, timed, event)


def soak(judge: Judge, cases: Iterator[Case], seconds: float, workers: int) -> int:
    """Runs cases, so many at a time; the number of differences, each of which it prints at once.

    Stops at the first, with those that are under way.
    """
    started = told = time.monotonic()
    done = 0
    wrong = 0

    def count(future: Future[str]) -> int:
        if text := future.result():
            print(text, end="\n\n", flush=True)
        return bool(text)

    with ThreadPoolExecutor(workers) as pool:
        under_way: set[Future[str]] = set()
        while not wrong and time.monotonic() - started < seconds:
            while len(under_way) < 2 * workers:
                under_way.add(pool.submit(judge.differs, next(cases)))
            ended, under_way = wait(under_way, timeout=PROGRESS_S, return_when=FIRST_COMPLETED)
            done += len(ended)
            wrong += sum(map(count, ended))
            if len(judge.truths) > KEPT:
                judge.truths.clear()
            if time.monotonic() - told > PROGRESS_S:
                told = time.monotonic()
                print(
                    f"{(told - started) / 60:6.1f} min  {done} programs, all the same", flush=True
                )
        wrong += sum(map(count, under_way))
        done += len(under_way)
    print(f"{done} programs in {(time.monotonic() - started) / 60:.1f} min, {wrong} differ")
    return wrong


def main() -> int:
    """Exit status 1 when a run differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument(
        "--start", type=int, default=time.time_ns(), help="what cases are drawn from"
    )
    parser.add_argument(
        "--workers", type=int, default=os.cpu_count() or 1, help="programs at a time"
    )
    parser.add_argument("--seed", type=int, help="run one case")
    parser.add_argument("--setup", default="observe", choices=SETUPS)
    parser.add_argument("--over", type=float, default=1.0, help="the program's memory / the budget")
    parser.add_argument("--count", type=int, default=1, help="programs in a process, with --seed")
    parser.add_argument("--fail", default="", help="as in EMU_FAIL")
    parser.add_argument("--time", default="0", help="as in EMU_TIME")
    parser.add_argument("--event", default="", choices=("", *EVENTS), help="happens meanwhile")
    parser.add_argument("--times", type=int, default=1, help="how often, with --seed")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        judge = Judge(compile_program(Path(folder) / "random_program"))
        if asked.seed is None:
            print(f"--start {asked.start}")
            cases = random_cases(judge, random.Random(asked.start))
            return min(soak(judge, cases, 60 * asked.minutes, asked.workers), 1)
        case = Case(
            asked.seed,
            asked.setup,
            asked.over,
            asked.count,
            asked.fail,
            asked.time,
            asked.event,
        )
        wrong = [text for _ in range(asked.times) if (text := judge.differs(case))]
        print(wrong[0] if wrong else case.command())
        print(f"{len(wrong)} of {asked.times} differ")
        return min(len(wrong), 1)


if __name__ == "__main__":
    sys.exit(main())
