"""How long a decoder leaves the GPU without its weights between two tokens, without ulms.so.

A program that waits for a step's results begins the next one late: its thread wakes, and works
until it launches again. Meanwhile nothing that was brought is used, and each page that comes takes
the frame of one that is needed once a step, as all are: so a step takes longer by as much, whatever
comes meanwhile. It is timed by events of the device, right behind the last matrix product of a step
and right before the first of the next.
"""

import statistics
from collections.abc import Callable
from typing import Any

from bench import cli
from bench.gpu import machine
from bench.gpu.workloads import DECODERS, VARIANTS, module_of

PROGRAM, WARM, TIMED = "decode-8b", 10, 60


def ends_of(step: Callable[[], object], is_one: Callable[[Any], bool]) -> tuple[Any, Any]:
    """The modules of a kind that a step runs first and last. Raises ValueError: it runs none."""
    from torch.nn.modules.module import register_module_forward_pre_hook

    ran: list[Any] = []
    hook = register_module_forward_pre_hook(lambda module, _: ran.append(module))
    step()
    hook.remove()
    found = [module for module in ran if is_one(module)]
    if not found:
        raise ValueError("no such module runs in a step")
    return found[0], found[-1]


def pauses(ends: list[Any], begins: list[Any]) -> list[float]:
    """Milliseconds from the end of each step to the beginning of the next."""
    return [end.elapsed_time(begin) for end, begin in zip(ends, begins[1:], strict=False)]


def line(name: str, step_ms: list[float], pause_ms: list[float]) -> str:
    """What is seen first."""
    tenths = statistics.quantiles(pause_ms, n=10, method="inclusive")
    return (
        f"{name}: {statistics.median(pause_ms):.2f} ms between two steps of"
        f" {statistics.median(step_ms):.1f} ms (tenths: {tenths[0]:.2f} to {tenths[-1]:.2f})"
    )


def measure(name: str, warm: int, timed: int) -> tuple[list[float], list[float]]:
    """Milliseconds of steps, and between them."""
    import torch

    from bench.gpu.workloads.__main__ import run_steps
    from bench.gpu.workloads.work import made

    work = made(module_of(name), "cuda", False, VARIANTS[0])
    first, last = ends_of(work.step, lambda module: isinstance(module, torch.nn.Linear))
    begins: list[Any] = []
    ends: list[Any] = []

    def mark(events: list[Any]) -> None:
        events.append(torch.cuda.Event(enable_timing=True))
        events[-1].record()

    first.register_forward_pre_hook(lambda *_: mark(begins))
    last.register_forward_hook(lambda *_: mark(ends))
    step_ms = run_steps(work.step, torch.cuda.synchronize, warm, timed)
    return step_ms, pauses(ends, begins)[warm:]


def main() -> None:
    parser = cli.parser(__doc__)
    parser.add_argument(
        "program", nargs="?", default=PROGRAM, choices=sorted(DECODERS), help=f"default {PROGRAM}"
    )
    parser.add_argument("--steps", type=int, default=TIMED, help=f"default {TIMED}")
    options = parser.parse_args()
    machine.refuse_unless_safe()
    step_ms, pause_ms = measure(options.program, WARM, options.steps)
    print(line(options.program, step_ms, pause_ms))
    result = {
        "machine": machine.describe(),
        "program": options.program,
        "step_ms": step_ms,
        "pause_ms": pause_ms,
    }
    cli.write(options.json, result)


if __name__ == "__main__":
    main()
