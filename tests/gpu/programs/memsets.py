"""Memsets over blocks of memory, forward and backward, on as many cores as are named.

`python memsets.py BLOCKS STEPS [CORES]` prints one line of JSON: milliseconds of each step, and
whether memory held what it should. `python memsets.py BLOCKS endless` says "ready" after the first
step and then goes on; SIGTERM calls exit(3) in its handler, as the C library runs it.
"""

import ctypes as c
import json
import os
import sys
import time

from driver import MIB, allocate, begin, cuda, fill, holds, must, stream

BLOCK = 32 * MIB


def main(count: int, steps: int, cores: int) -> None:
    if cores:
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:cores])
    begin()
    at = stream()
    blocks = [allocate(BLOCK) for _ in range(count)]
    order = [*range(count), *reversed(range(count))]
    times = []
    for step in range(steps):
        start = time.perf_counter()
        for i in order:
            must(fill(blocks[i], (step + i) % 256, BLOCK, at), "cuMemsetD8Async")
        must(cuda.cuStreamSynchronize(at), "cuStreamSynchronize")
        times.append((time.perf_counter() - start) * 1e3)
    right = all(holds(blocks[i], (steps - 1 + i) % 256, BLOCK) for i in range(count))
    print(json.dumps({"step_ms": times, "right": right}), flush=True)


def endless(count: int) -> None:
    libc = c.CDLL(None)
    libc.signal.argtypes = [c.c_int, c.c_void_p]
    libc.signal(15, c.cast(libc.exit, c.c_void_p))
    begin()
    at = stream()
    blocks = [allocate(BLOCK) for _ in range(count)]
    for block in blocks:
        must(fill(block, 1, BLOCK, at), "cuMemsetD8Async")
    must(cuda.cuStreamSynchronize(at), "cuStreamSynchronize")
    for block in blocks[4:]:  # pages have begun to move; what is left fits
        must(cuda.cuMemFree_v2(c.c_uint64(block)), "cuMemFree")
    print("ready", flush=True)
    while True:
        for i in range(200):
            fill(blocks[i % 4], 1, 4096, at)
        cuda.cuStreamSynchronize(at)


if __name__ == "__main__":
    if sys.argv[2] == "endless":
        endless(int(sys.argv[1]))
    main(int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 0)
