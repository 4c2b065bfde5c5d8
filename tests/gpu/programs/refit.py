"""Memory comes and goes under a budget that changes.

`python refit.py` allocates 1.5 GiB, which the library that is preloaded lets it keep; is granted a
third of it while it does nothing, and then all of it again. Prints one line of JSON: milliseconds
of a sweep over all memory before, meanwhile and after; seconds until what is too much has left,
and until nothing moves any more; whether memory held what it should.
"""

import ctypes as c
import json
import time
from statistics import median

from driver import MIB, allocate, begin, cuda, fill, holds, must, stream

BLOCK, COUNT, PATIENCE_S = 32 * MIB, 48, 20.0
every = c.CDLL(None)
every.ulms_counter.restype = c.c_uint64
every.ulms_grant.argtypes = [c.c_int, c.c_uint64]


def counted(*names: str) -> int:
    return sum(every.ulms_counter(name.encode()) for name in names)


def gone() -> int:
    return counted("evicted_bytes", "dropped_bytes")


def seconds_until(least: int) -> float:
    start = time.perf_counter()
    while gone() < least and time.perf_counter() - start < PATIENCE_S:
        time.sleep(0.001)
    return time.perf_counter() - start


def main() -> None:
    begin()
    at = stream()
    blocks = [allocate(BLOCK) for _ in range(COUNT)]

    def sweep(value: int) -> float:
        start = time.perf_counter()
        for block in blocks:
            must(fill(block, value, BLOCK, at), "cuMemsetD8Async")
        must(cuda.cuStreamSynchronize(at), "cuStreamSynchronize")
        return (time.perf_counter() - start) * 1e3

    def sweeps() -> float:
        return median(sweep(i + 1) for i in range(9))

    def rests() -> bool:
        before = counted("paged_bytes")
        sweep(7)
        time.sleep(0.05)
        return counted("paged_bytes") == before

    told = {"before_ms": sweeps()}
    before = gone()
    must(every.ulms_grant(0, COUNT * BLOCK // 3) != 1, "ulms_grant")
    told["leaves_s"] = seconds_until(before + COUNT * BLOCK * 2 // 3 - 64 * MIB)
    told["meanwhile_ms"] = sweeps()
    start = time.perf_counter()
    must(every.ulms_grant(0, 0) != 1, "ulms_grant")
    while not rests() and time.perf_counter() - start < PATIENCE_S:
        pass
    told["rests_s"] = time.perf_counter() - start
    told["after_ms"] = sweeps()
    right = all(holds(block, 9, BLOCK) for block in blocks)
    print(json.dumps({**told, "right": right}), flush=True)


main()
