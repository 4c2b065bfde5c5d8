"""One of the programs: `python -m bench.gpu.tenants.program KIND` makes it, and waits.

On standard input it gets lines `FROM UNTIL` (monotonic nanoseconds): it steps in that span, and
answers with one line of JSON: the times at which steps ended, and how long each took. The end of
standard input ends it. It says `ready` once it has stepped.
"""

import itertools
import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch.nn.functional import rms_norm, silu

from bench.gpu.tenants import PIECE

WARM = 6


@dataclass(frozen=True)
class Program:
    """step: issues work and waits for it. pause_s: from the start of a step to the next one."""

    step: Callable[[], object]
    pause_s: float = 0.0


def decoder(layers: int) -> Program:
    """Layers of 1.45 GiB, bf16, about as wide as Llama-3-70B's, one sequence: a token a step. Their
    launches are few, so that the GPU is the slower one also beside a slow processor.
    """
    hidden, wide = 8192, 25600
    shapes = ((10240, hidden), (hidden, hidden), (2 * wide, hidden), (hidden, wide))
    weights = [
        [torch.randn(shape, device="cuda", dtype=torch.bfloat16) / 64 for shape in shapes]
        for _ in range(layers)
    ]
    state = torch.ones(1, hidden, device="cuda", dtype=torch.bfloat16)

    def token() -> int:
        x = state
        for qkv, out, up, down in weights:
            x = torch.addmm(x, (rms_norm(x, (hidden,)) @ qkv.T)[:, :hidden], out.T)
            a, b = (x @ up.T).chunk(2, -1)
            x = torch.addmm(x, silu(a).mul_(b), down.T)
        return int(x.argmax())

    return Program(token)


def resnet(batch: int) -> Program:
    """ResNet-50 training, fp32, SGD."""
    import torchvision

    model = torchvision.models.resnet50().cuda()
    images = torch.randn(batch, 3, 224, 224, device="cuda")
    labels = torch.randint(0, 1000, (batch,), device="cuda")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)

    def step() -> float:
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        return float(loss.detach())

    return Program(step)


def gemm(size: int) -> Program:
    """A product of two square matrices, fp32."""
    a, b = (torch.randn(size, size, device="cuda") for _ in range(2))
    out = torch.empty_like(a)

    def step() -> None:
        torch.mm(a, b, out=out)
        torch.cuda.synchronize()

    return Program(step)


def requests(percent: int) -> Program:
    """Ten products of half a millisecond or less, as often as loads the GPU so much."""
    a, b = (torch.randn(2048, 2048, device="cuda") for _ in range(2))
    out = torch.empty_like(a)

    def step() -> None:
        for _ in range(10):
            torch.mm(a, b, out=out)
        torch.cuda.synchronize()

    times = []
    for _ in range(20):
        began = time.monotonic()
        step()
        times.append(time.monotonic() - began)
    return Program(step, sorted(times)[10] * 100 / percent)


def pieces(gib: int) -> Program:
    """So many GiB, of which a step changes one piece."""
    each = [torch.ones(PIECE // 4, device="cuda") for _ in range((gib << 30) // PIECE)]
    order = itertools.cycle(each)

    def step() -> None:
        next(order).mul_(2)
        torch.cuda.synchronize()

    return Program(step)


KINDS = {"pieces": pieces, "decoder": decoder, "resnet": resnet, "gemm": gemm, "requests": requests}


def steps(program: Program, begin: int, until: int) -> dict[str, list[int]]:
    """Steps in a span. Times are nanoseconds; those of ends count from `begin`."""
    ends, took = [], []
    time.sleep(max(0, begin - time.monotonic_ns()) / 1e9)
    due = time.monotonic_ns()
    while (began := time.monotonic_ns()) < until:
        program.step()
        end = time.monotonic_ns()
        ends.append(end - begin)
        took.append(end - (due if program.pause_s else began))
        due += int(program.pause_s * 1e9)
        time.sleep(max(0, due - end) / 1e9 if program.pause_s else 0)
    return {"ends": ends, "took": took}


def main() -> None:
    kind, _, size = sys.argv[1].partition("-")
    program = KINDS[kind](int(size))
    for _ in range(WARM):
        program.step()
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        begin, until = map(int, line.split())
        print(json.dumps(steps(program, begin, until)), flush=True)


if __name__ == "__main__":
    main()
