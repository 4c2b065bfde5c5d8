"""Processes of several modes that live side by side and take turns, and what is made of that.

`python -m bench.gpu.turns FILE...` prints a table of what `foundation` and `fits` wrote.
"""

import argparse
import json
import os
import statistics
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from bench.gpu.paced import Paced
from bench.gpu.programs import Result
from pump.bench.markdown import markdown

NATIVE = "native"
CONTROL = "control"  # native again: what its ratio is off 1 nobody's doing explains
WARM = 10
BLOCK_MS = 120.0
PROCESSORS = 2  # that all of them share: one runs at a time, with a thread or two that launch
LEAST_STEPS = 3  # of a block: the first one after a pause is slow, their median is not
START_S = 240.0
ANSWER_S = 120.0

BlockMs = dict[str, list[list[float]]]
"""By mode, process and round: the median of a block's steps."""


class Turns:
    """Processes of one program, and their modes; each runs a block while the others wait.

    What a process ran is added to the blocks as a list of its own, also where the rest fails. A
    context manager: after it, the processes are gone. What waits for them raises PacedError.
    """

    def __init__(self, processes: Iterable[tuple[str, Paced]], block_ms: BlockMs) -> None:
        self._turns: list[tuple[Paced, list[float]]] = []
        with ExitStack() as stack:
            for mode, process in processes:
                medians: list[float] = []
                block_ms[mode].append(medians)
                self._turns.append((stack.enter_context(process), medians))
            self._stack = stack.pop_all()

    def __enter__(self) -> "Turns":
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def warm_up(self) -> int:
        """Waits until every process has begun, and runs a few steps. How many make a block.

        From then on all of them share the same few processors: on a machine that others use, too,
        one may be slower than the next for seconds, and that is no mode's doing.
        """
        processors = sorted(os.sched_getaffinity(0))[-PROCESSORS:]
        for process, _ in self._turns:
            process.block(1, START_S)
            process.hold_to(processors)
        warm = [ms for process, _ in self._turns for ms in process.block(WARM, ANSWER_S)]
        return max(LEAST_STEPS, round(BLOCK_MS / statistics.median(warm)))

    def take(self, at: int, steps: int) -> None:
        """A block of each process, in the other order than the round before."""
        for process, medians in self._turns if at % 2 == 0 else reversed(self._turns):
            medians.append(round(statistics.median(process.block(steps, ANSWER_S)), 5))

    def end(self) -> list[Result]:
        """What each process said at its end."""
        for process, _ in self._turns:
            process.ask_no_more()
        return [process.end(ANSWER_S) for process, _ in self._turns]


def overhead_of(native: ArrayLike, other: ArrayLike) -> tuple[float, float, float]:
    """A mode's time : native time, and its 95 % interval, of block medians [pair, round].

    A pair is one process of each mode, whose blocks of a round ran one right after the other, in
    the other order in the next round: their ratio knows nothing of what drifts more slowly. The
    median of a pair's ratios over the rounds leaves out bursts; the median of those over the pairs
    leaves out a process that has its memory in a bad place. The interval is a bootstrap over pairs,
    and over rounds within each: with a few pairs it is rather too narrow than too wide.
    """
    ratios = np.asarray(other, dtype=float) / np.asarray(native, dtype=float)
    pairs, rounds = ratios.shape
    draw = np.random.default_rng(0)
    pair = draw.integers(pairs, size=(2000, pairs, 1))
    drawn = ratios[pair, draw.integers(rounds, size=(2000, pairs, rounds))]
    low, high = np.quantile(np.median(np.median(drawn, axis=2), axis=1), [0.025, 0.975])
    return float(np.median(np.median(ratios, axis=1))), float(low), float(high)


def tell(row: dict[str, Any], done: int, rounds: int) -> None:
    """Puts the times and ratios of a row's blocks into it, and prints them."""
    block_ms: BlockMs = row["block_ms"]
    others = [mode for mode in block_ms if mode != NATIVE]
    row.update({f"{mode}_ms": float(np.median(block_ms[mode])) for mode in block_ms})
    row["ratios"] = {mode: overhead_of(block_ms[NATIVE], block_ms[mode]) for mode in others}
    print(
        f"{row['program']:10} round {done}/{rounds}  native {row[f'{NATIVE}_ms']:.3f} ms",
        flush=True,
    )
    for mode, (ratio, low, high) in row["ratios"].items():
        print(
            f"  {mode:20} {row[f'{mode}_ms']:.3f} ms  ratio {ratio:.4f} "
            f"({low:.4f} to {high:.4f}, bound {row['bound']})",
            flush=True,
        )


TITLES = {
    "resnet": "ResNet-50 training, batch 64",
    "gpt2": "GPT-2 training, 16 x 1024 tokens",
    "gpt2-half": "GPT-2 training, 4 x 512 tokens",
    "compile": "small `torch.compile` model, bound by launches",
    "decode": "decoder, small launches",
}
MODES = ("observe", "um", "vmm", CONTROL)


def table(files: Iterable[Path]) -> str:
    """Times a native step that each mode takes, with its interval; a line a program and file."""
    lines = []
    for path in files:
        told = json.loads(path.read_text(encoding="utf-8"))
        for row in told.get("overhead") or told["programs"]:
            ratios: dict[str, list[float]] = row["ratios"]
            cells = [
                "{:.3f} ({:.3f}-{:.3f})".format(*ratios[mode]) if mode in ratios else "-"
                for mode in MODES
            ]
            name = TITLES.get(row["program"], row["program"])
            machine = (
                f"{told['machine']['gpu'].removeprefix('NVIDIA ')}, {told['machine']['commit'][:7]}"
            )
            lines.append([name, f"{row['native_ms']:.1f}", *cells, machine])
    return markdown(["program", "native ms", *MODES, "machine, commit"], lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE.json")
    print(table(parser.parse_args().files))


if __name__ == "__main__":
    main()
