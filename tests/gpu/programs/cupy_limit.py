"""CuPy at a limit: asks until it is refused, and goes on with what it gives back."""

import cupy
from report import report

GIB = 1 << 30
COUNT = GIB // 16  # floats in 256 MiB
MOST = 64


def filled(value: int, count: int = COUNT) -> cupy.ndarray:
    return cupy.full(count, float(value), dtype=cupy.float32)


def main() -> None:
    held: dict[int, cupy.ndarray] = {}
    refused = 0
    try:
        while len(held) < MOST:
            held[len(held)] = filled(len(held))
    except cupy.cuda.memory.OutOfMemoryError:
        refused = 1
    most = cupy.get_default_memory_pool().total_bytes()
    for value in list(held)[::2]:
        del held[value]
    # what CuPy keeps for itself fits no such array: refused once more, it gives that back
    held[MOST] = filled(MOST, 2 * COUNT)
    right = all(bool((array == value).all()) for value, array in held.items())
    report([float(sum(held))], [], refused=refused, most=most, right=right)


if __name__ == "__main__":
    main()
