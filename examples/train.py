"""Trains: each step reads and writes all weights, and the optimizer's state.

    pump run --memory 1GiB -- python examples/train.py 8 128 10  # 8 layers: 2 GiB in all; 10 steps

The losses are those of a run with enough memory. PUMP learns the sequence in the first steps.
"""

import sys
import time

from device import Array

LAYERS, MIB, STEPS = map(int, sys.argv[1:] or ("8", "8", "10"))
DECAY, RATE = 0.5, 0.1


def step(weights: list[Array], momenta: list[Array]) -> float:
    """The loss is half the sum of squares, so that a weight is its own gradient."""
    for weight, momentum in zip(weights, momenta, strict=True):
        momentum.add(DECAY - 1, momentum)
        momentum.add(1, weight)
        weight.add(-RATE, momentum)
    return sum(weight.last() ** 2 / 2 for weight in weights)


weights = [Array(MIB, 1 + layer) for layer in range(LAYERS)]
momenta = [Array(MIB, 0) for _ in range(LAYERS)]
for number in range(1, STEPS + 1):
    began = time.monotonic()
    loss = step(weights, momenta)
    print(f"step {number}: loss {loss:.6g}, {1e3 * (time.monotonic() - began):.1f} ms", flush=True)
