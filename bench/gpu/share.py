"""How much of a step the threads of a program spend in the hooks, on a real GPU where all fits.

`bench.gpu.fits` compares processes, which differ by more than hooks cost. Here one process under
ulms.so is asked every 0.4 ms where its threads are, while it runs steps: what part of its time they
are in code of ulms.so. What they call, and what they make others wait for (caches, the driver's
managed memory), is not in it. With less memory than it needs (--memory) it tells where a thread is
while pages move, and judges nothing.
"""

import json
import math
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bench import cli
from bench.gpu import fits, machine, programs, turns
from bench.gpu.paced import Paced
from pump.bench.markdown import caption, markdown
from pump.paths import library

PROGRAMS = "gpt2-half,decode"
SECONDS = 20.0
BLOCKS = 5
BOUND = 0.01
WRITTEN_S = 60.0
HOOKS = "ulms.so"


class NothingSeenError(RuntimeError):
    """Too short a time, or no hooks."""


@dataclass(frozen=True)
class Share:
    """Of a program's steps: where its threads were, of so many times that each was asked."""

    program: str
    backend: str
    memory: str | None
    step_ms: float
    rounds: int
    threads: int
    samples: dict[str, int]
    wrong: list[str]

    @property
    def title(self) -> str:
        """Which process."""
        return f"{self.program} {self.backend}"

    @property
    def hooks(self) -> float:
        """Part of the time; of several threads at once, the sum."""
        return self.samples.get(HOOKS, 0) / self.rounds

    @property
    def apart(self) -> float:
        """So far the true part may be from `hooks`, 95 %, were samples independent."""
        return 1.96 * math.sqrt(max(self.samples.get(HOOKS, 0), 1)) / self.rounds

    @property
    def row(self) -> dict[str, object]:
        return asdict(self) | {"hooks": self.hooks, "apart": self.apart, "bound": BOUND}


def sampler(into: Path) -> Path:
    """The compiled sampler. Raises CalledProcessError."""
    into.mkdir(parents=True, exist_ok=True)
    made = into / "sampler.so"
    source = Path(__file__).with_name("sampler.c")
    flags = ["-std=gnu11", "-O2", "-fPIC", "-shared", "-pthread"]
    subprocess.run(["cc", *flags, "-o", str(made), str(source)], check=True)
    return made


def read(text: str) -> tuple[dict[str, int], dict[str, int]]:
    """What the sampler wrote: its own numbers, and samples by module, most first."""
    pairs = [line.rsplit(" ", 1) for line in text.splitlines()]
    numbers = {name: int(number) for name, number in pairs}
    own = {name: numbers.pop(name) for name in ("rounds", "threads", "ns")}
    return own, dict(sorted(numbers.items(), key=lambda pair: -pair[1]))


def wait_for(path: Path, seconds: float) -> str:
    """Its text, as soon as it is there. Raises TimeoutError."""
    until = time.monotonic() + seconds
    while not path.exists():
        if time.monotonic() > until:
            raise TimeoutError(f"the sampler wrote no {path.name} within {seconds:g} s")
        time.sleep(0.1)
    return path.read_text(encoding="utf-8")


def measure(
    name: str, command: list[str], backend: str, memory: str | None, preload: Path, seconds: float
) -> Share:
    """One process of a program that is asked for so long, of all memory there is or of that much.
    Raises PacedError, TimeoutError, NothingSeenError.
    """
    budget = {"ULMS_GPU_MEMORY": memory} if memory else {}
    with tempfile.TemporaryDirectory() as folder:
        seen = Path(folder) / "samples"
        sampled = {"LD_PRELOAD": f"{library()}:{preload}", "SAMPLE_OUT": str(seen)}
        env = fits.environment(backend) | budget | sampled
        with Paced(f"{name} {backend}", command, env) as process:
            process.block(1, turns.START_S)
            warm = statistics.median(process.block(turns.WARM, turns.ANSWER_S))
            process.send(signal.SIGUSR2)
            steps = math.ceil(seconds * 1e3 / warm / BLOCKS)
            until, times = time.monotonic() + seconds, list[float]()
            while time.monotonic() < until or len(times) < turns.LEAST_STEPS:
                times += process.block(steps, turns.ANSWER_S + 2 * seconds)
            step_ms = statistics.median(times)
            process.send(signal.SIGUSR2)
            own, samples = read(wait_for(seen, WRITTEN_S))
            counted = fits.counters_of(process.end(turns.ANSWER_S))
    if not own["rounds"] or not samples.get(HOOKS):
        raise NothingSeenError(f"{name} {backend}: no thread was seen in hooks")
    wrong = [] if memory else fits.wrong_in(*counted)
    return Share(name, backend, memory, step_ms, own["rounds"], own["threads"], samples, wrong)


def line(share: Share) -> str:
    """What is seen first."""
    most = list(share.samples.items())[:6]
    others = ", ".join(f"{name} {n / share.rounds:.1%}" for name, n in most)
    return (
        f"{share.program:10} {share.backend:4} {share.step_ms:8.2f} ms  in hooks "
        f"{share.hooks:.2%} (+- {share.apart:.2%}, bound {BOUND:.0%})  of {share.rounds} times "
        f"that {share.threads} threads were asked; most in {others}"
    )


def table(shares: Sequence[Mapping[str, Any]]) -> str:
    """The part of a step inside ulms.so, in Markdown."""
    lines = [
        [
            turns.TITLES.get(row["program"], row["program"]),
            row["backend"],
            f"{row['step_ms']:.1f}",
            f"{row['hooks']:.2%} (± {row['apart']:.2%})",
        ]
        for row in shares
    ]
    return markdown(["program", "backend", "ms a step", "share of a step inside ulms.so"], lines)


def main() -> None:
    parser = cli.parser(__doc__, builds=True)
    parser.add_argument("--show", type=Path, help="measure nothing, print this file as a table")
    parser.add_argument("--programs", default=PROGRAMS, help=fits.programs_help(PROGRAMS))
    parser.add_argument(
        "--backends", default=",".join(fits.BACKENDS), help="um or vmm, or both (the default)"
    )
    parser.add_argument(
        "--seconds", type=float, default=SECONDS, help=f"of each (default {SECONDS:g})"
    )
    parser.add_argument(
        "--memory", metavar="BYTES", help="ULMS_GPU_MEMORY of each, such as 5GiB (default: all)"
    )
    options = parser.parse_args()
    if options.show:
        told = json.loads(options.show.read_text(encoding="utf-8"))
        print(f"{caption(told['machine'])}\n\n{table(told['shares'])}")
        return
    backends = cli.backends(parser, options.backends, fits.BACKENDS)
    machine.refuse_unless_safe()
    cli.end_with_children()
    preload = sampler(options.built)
    described: dict[str, object] = {"machine": machine.describe()}
    shares: list[Share] = []
    for name in options.programs.split(","):
        for backend in fits.fitting(name, backends):
            command = programs.command(name, options.built, turns.WARM, 0)
            shares.append(measure(name, command, backend, options.memory, preload, options.seconds))
            print(line(shares[-1]), flush=True)
            cli.write(options.json, described | {"shares": [share.row for share in shares]})
    if bad := [f"{share.title}: {what}" for share in shares for what in share.wrong]:
        sys.exit(f"not as it should be: {', '.join(bad)}")
    above = [share.title for share in shares if share.hooks > BOUND and not share.memory]
    if above:
        sys.exit(f"above its bound: {', '.join(above)}")


if __name__ == "__main__":
    main()
