"""A thread copies pageable memory into a stream that waits at a gate of the program's own.

`python gates.py alloc` allocates meanwhile; `launch` issues work over memory that is larger than a
budget of 64 MiB; `prefetch` brings managed memory, which says whether the driver's locks are as the
emulator has them. Prints one line of JSON: seconds until the call returned, and whether the gate
was still closed.
"""

import ctypes as c
import json
import sys
import threading
import time

from driver import (
    MIB,
    Gate,
    Pointer,
    Size,
    allocate,
    begin,
    cuda,
    current,
    enter,
    fill,
    holds,
    must,
    stream,
)

BLOCKS, BLOCK = 16, 8 * MIB
GATE_S = 4.0
"""After so long the gate opens whatever happens, so that a lock that is held shows."""


class Gated:
    """The thread that copies; it has begun when the object is there."""

    def __init__(self) -> None:
        self.gate, self.stream = Gate(), stream()
        self.target, context = allocate(4 * MIB), current()
        self.gate.hold(self.stream)
        self.opened = threading.Event()

        def copy() -> None:
            enter(context)
            host = (c.c_ubyte * (4 * MIB))()
            must(
                cuda.cuMemcpyHtoDAsync_v2(Pointer(self.target), host, Size(4 * MIB), self.stream),
                "cuMemcpyHtoDAsync",
            )

        self.thread = threading.Thread(target=copy)
        self.thread.start()
        self.timer = threading.Timer(GATE_S, self.open)
        self.timer.start()
        time.sleep(0.3)

    def open(self) -> None:
        self.opened.set()
        self.gate.open()

    def end(self) -> None:
        self.timer.cancel()
        self.open()
        self.thread.join()
        must(cuda.cuCtxSynchronize(), "cuCtxSynchronize")


def main(what: str) -> None:
    begin()
    at = stream()
    managed = allocate(BLOCK, managed=True) if what == "prefetch" else 0
    blocks = [allocate(BLOCK) for _ in range(BLOCKS)] if what == "launch" else []
    for turn in range(3):
        for i, block in enumerate(blocks):
            must(fill(block, turn + i, BLOCK, at), "cuMemsetD8Async")
    must(cuda.cuCtxSynchronize(), "cuCtxSynchronize")
    gated = Gated()
    began = time.monotonic()
    if what == "prefetch":
        must(cuda.cuMemPrefetchAsync(Pointer(managed), Size(BLOCK), 0, at), "cuMemPrefetchAsync")
    elif what == "launch":
        for i, block in enumerate(blocks):
            must(fill(block, 100 + i, BLOCK, at), "cuMemsetD8Async")
    else:
        allocate(BLOCK)
    seconds, closed = time.monotonic() - began, not gated.opened.is_set()
    gated.end()
    right = all(holds(block, 100 + i, BLOCK) for i, block in enumerate(blocks))
    print(json.dumps({"seconds": seconds, "closed": closed, "right": right}))


if __name__ == "__main__":
    main(sys.argv[1])
