"""Tensors that one process shares with another through torch.multiprocessing.

`python shared.py` allocates about 1 GiB in tensors of several sizes, works on all of them, and
hands a few to a spawned process, which reads and overwrites them. Three rounds; then it prints OK,
or FAIL and what was wrong.
"""

import sys

import torch
import torch.multiprocessing as mp

MIB = 1 << 20
SIZES = [8, 8, 48, 4, 12, 20, 64, 96] * 4
"""MiB. PyTorch's segments of 20 MiB hold the small ones; segments meet within a page."""
SHARED = [1, 4, 5, 10, 14]
ROUNDS = 3
PATIENCE_S = 30


def other(given: mp.Queue, done: mp.Queue) -> None:
    """Says of each tensor whether it holds what is said, and writes another number there."""
    while (item := given.get()) is not None:
        tensor, number, new = item
        right = bool((tensor == number).all())
        tensor.fill_(new)
        torch.cuda.synchronize()
        del tensor, item
        done.put(right)


def main() -> list[str]:
    context = mp.get_context("spawn")
    given, done = context.Queue(), context.Queue()
    process = context.Process(target=other, args=(given, done), daemon=True)
    process.start()
    tensors = [torch.empty(mib * MIB // 4, dtype=torch.int32, device="cuda") for mib in SIZES]
    numbers = [0] * len(tensors)
    wrong = []
    for turn in range(ROUNDS):
        for i, tensor in enumerate(tensors):
            if i not in SHARED or turn == 0:
                numbers[i] = 1000 * turn + i
                tensor.fill_(numbers[i])
        for i in SHARED:
            new = 1_000_000 + 1000 * turn + i
            given.put((tensors[i], numbers[i], new))
            if not done.get(timeout=PATIENCE_S):
                wrong.append(f"round {turn}: the other process reads something else in {i}")
            numbers[i] = new
        for i, tensor in enumerate(tensors):
            if not bool((tensor == numbers[i]).all()):
                wrong.append(f"round {turn}: {i} holds something else")
    given.put(None)
    process.join(PATIENCE_S)
    if process.exitcode != 0:
        wrong.append(f"the other process ended with {process.exitcode}")
    return wrong


if __name__ == "__main__":
    faults = main()
    print("\n".join(["FAIL", *faults]) if faults else "OK")
    sys.exit(bool(faults))
