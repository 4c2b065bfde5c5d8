"""What this machine's link carries: copies of pinned memory, in chunks as large as a run of moves.

`python -m bench.gpu.link` prints GB/s (1e9 bytes a second) of each way alone and of both in sum, a
line of JSON: medians. Machines of one kind differ by some percent. --mib takes smaller chunks, as
large as a page of `vmm`, say: each copy costs some microseconds beside its bytes.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

BYTES, CHUNK, REPEATS = 1 << 30, 64 << 20, 5
WAYS = ("link_in", "link_out", "link_both")


def sender(chunk: int = CHUNK) -> Callable[[int], None]:
    """What queues the copies of a way, 0 in and 1 out: BYTES of them, each of `chunk` bytes. Needs
    torch and a GPU.
    """
    import torch

    there = [torch.empty(BYTES, dtype=torch.uint8, device="cuda") for _ in range(2)]
    here = [torch.empty(BYTES, dtype=torch.uint8, pin_memory=True) for _ in range(2)]
    streams = [torch.cuda.Stream() for _ in range(2)]

    def send(way: int) -> None:
        to, of = (there[0], here[0]) if way == 0 else (here[1], there[1])
        with torch.cuda.stream(streams[way]):
            for at in range(0, BYTES, chunk):
                to[at : at + chunk].copy_(of[at : at + chunk], non_blocking=True)

    return send


def rates(chunk: int = CHUNK) -> dict[str, float]:
    """The three, GB/s. Needs torch and a GPU."""
    import torch

    send = sender(chunk)

    def both() -> None:
        send(0)
        send(1)

    def rate(begin: Callable[[], None], bytes_sent: int) -> float:
        found = []
        for _ in range(1 + REPEATS):
            torch.cuda.synchronize()
            began = time.perf_counter()
            begin()
            torch.cuda.synchronize()
            found.append(bytes_sent / (time.perf_counter() - began) / 1e9)
        return round(statistics.median(found[1:]), 2)

    found = rate(lambda: send(0), BYTES), rate(lambda: send(1), BYTES), rate(both, 2 * BYTES)
    return dict(zip(WAYS, found, strict=True))


def described() -> dict[str, str]:
    """For a machine's description; nothing where it cannot be measured."""
    command = [sys.executable, "-m", "bench.gpu.link"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        return {}
    return {way: f"{rate} GB/s" for way, rate in json.loads(done.stdout).items()}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    mib = CHUNK >> 20
    parser.add_argument("--mib", type=int, default=mib, help=f"of a chunk (default {mib})")
    print(json.dumps(rates(parser.parse_args().mib << 20)))


if __name__ == "__main__":
    main()
