"""Buffers one after the other, each read and written by one kernel, again and again.

`torch_sweep.py WARM TIMED`: 32 buffers of 64 MiB.
"""

import sys

import torch
from report import report, run_steps

BUFFERS, BYTES = 32, 64 << 20


def main(warm: int, timed: int) -> None:
    words = BYTES // torch.int32.itemsize
    buffers = [torch.full((words,), i, dtype=torch.int32, device="cuda") for i in range(BUFFERS)]

    def step() -> None:
        for buffer in buffers:
            buffer.add_(1)
        torch.cuda.synchronize()  # also in steps that are not timed: the engine learns from each

    step_ms = run_steps(step, lambda: None, warm, timed)
    numbers = [buffer.sum(dtype=torch.int64).item() for buffer in buffers]
    report(numbers, step_ms, needs=BUFFERS * BYTES, torch=torch.__version__)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
