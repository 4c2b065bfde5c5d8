"""PyTorch at a limit: asks until it is refused, and goes on with what it gives back."""

import torch
from report import report

GIB = 1 << 30
COUNT = GIB // 16  # floats in 256 MiB
MOST = 64


def filled(value: int, count: int = COUNT) -> torch.Tensor:
    return torch.full((count,), float(value), device="cuda")


def main() -> None:
    held: dict[int, torch.Tensor] = {}
    refused = 0
    try:
        while len(held) < MOST:
            held[len(held)] = filled(len(held))
    except torch.OutOfMemoryError:
        refused = 1
    most = torch.cuda.memory_reserved()
    for value in list(held)[::2]:
        del held[value]
    # what PyTorch keeps for itself fits no such tensor: refused once more, it gives that back
    held[MOST] = filled(MOST, 2 * COUNT)
    right = all(bool((tensor == value).all()) for value, tensor in held.items())
    report([float(sum(held))], [], refused=refused, most=most, right=right)


if __name__ == "__main__":
    main()
