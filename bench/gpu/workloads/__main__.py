"""Runs a workload: `python -m bench.gpu.workloads NAME WARM TIMED`, and prints a line of JSON."""

import argparse
import resource
import sys
from pathlib import Path

PROGRAMS = Path(__file__).resolve().parents[3] / "tests" / "gpu" / "programs"
sys.path.insert(0, str(PROGRAMS))

from report import report, run_steps  # noqa: E402

from bench.gpu.workloads import VARIANTS, names, variants  # noqa: E402
from bench.gpu.workloads.work import made  # noqa: E402

__all__ = ["main", "run_steps"]


def most_resident() -> int:
    """Bytes of host memory that the process had at most: where there is no GPU."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


def main() -> None:
    """Warm steps, timed steps, the report."""
    parser = argparse.ArgumentParser(prog="python -m bench.gpu.workloads", description=__doc__)
    parser.add_argument("name", choices=names())
    parser.add_argument("warm", type=int)
    parser.add_argument("timed", type=int)
    parser.add_argument("--tiny", action="store_true", help="a size to try the program with")
    parser.add_argument("--device", default="cuda", help="cpu: only to try it")
    parser.add_argument(
        "--variant",
        choices=VARIANTS,
        default=VARIANTS[0],
        help="what the program does itself; offload: of training, optimizer states and their"
        " update go to the host; of decoders, the weights that do not fit are copied from pinned"
        " memory before each module, blocking and not ahead, by accelerate where it is installed",
    )
    parser.add_argument(
        "--uncaptured",
        action="store_true",
        help="without CUDA graphs: a trace then has what is in them",
    )
    options = parser.parse_args()
    if options.variant not in variants(options.name):
        parser.error(f"{options.name} has no variant {options.variant}")
    work, by = made(options.name, options.device, options.tiny, options.variant, options.uncaptured)
    step_ms = run_steps(work.step, by.wait, options.warm, options.timed)
    memory = by.reserved() if options.device == "cuda" else most_resident()
    numbers = [float(number) for number in work.numbers]
    report(numbers, step_ms, max_reserved=memory, tolerance=work.tolerance, **by.version())


if __name__ == "__main__":
    main()
