"""Triton's own kernels alone: a chain of 32 products of 4096 x 4096, fp16, training, momentum."""

import torch
import triton
import triton.language as tl

from bench.gpu.workloads.sizes import TRITON_MLP
from bench.gpu.workloads.work import Work

RATE, MOMENTUM, SLOPE = 1e-4, 0.9, 1e-3
TILE, DEPTH, BLOCK = 128, 64, 1024


def _product(  # type: ignore[no-untyped-def]
    a, b, c, rows, columns, inner, ar, ai, bi, bc, relu: tl.constexpr, tile: tl.constexpr,
    depth: tl.constexpr,
):  # fmt: skip
    """c = a @ b, of any strides; sides are multiples of the tile."""
    row = tl.program_id(0) * tile + tl.arange(0, tile)
    column = tl.program_id(1) * tile + tl.arange(0, tile)
    at = tl.arange(0, depth)
    left = a + row[:, None] * ar + at[None, :] * ai
    right = b + at[:, None] * bi + column[None, :] * bc
    sums = tl.zeros((tile, tile), dtype=tl.float32)
    for _ in range(0, inner, depth):
        sums = tl.dot(tl.load(left), tl.load(right), sums)
        left += depth * ai
        right += depth * bi
    if relu:
        sums = tl.maximum(sums, 0.0)
    tl.store(c + row[:, None] * columns + column[None, :], sums.to(tl.float16))


def _gated(slope, kept, count, block: tl.constexpr):  # type: ignore[no-untyped-def]
    """No slope where nothing passed."""
    at = tl.program_id(0) * block + tl.arange(0, block)
    there = at < count
    passed = tl.load(kept + at, there, 0.0) > 0
    tl.store(slope + at, tl.where(passed, tl.load(slope + at, there, 0.0), 0.0), there)


def _begun(out, slope, sums, count, factor, block: tl.constexpr):  # type: ignore[no-untyped-def]
    """The slope of half the squares, and their sums."""
    at = tl.program_id(0) * block + tl.arange(0, block)
    there = at < count
    x = tl.load(out + at, there, 0.0).to(tl.float32)
    tl.store(slope + at, (x * factor).to(tl.float16), there)
    tl.store(sums + tl.program_id(0), tl.sum(x * x))


def _moved(weight, momentum, slope, count, rate, keep, block: tl.constexpr):  # type: ignore[no-untyped-def]
    """Momentum, then the weight."""
    at = tl.program_id(0) * block + tl.arange(0, block)
    there = at < count
    m = tl.load(momentum + at, there, 0.0) * keep + tl.load(slope + at, there, 0.0).to(tl.float32)
    tl.store(momentum + at, m, there)
    w = tl.load(weight + at, there, 0.0).to(tl.float32) - rate * m
    tl.store(weight + at, w.to(tl.float16), there)


_PRODUCT, _GATED, _BEGUN, _MOVED = map(triton.jit, (_product, _gated, _begun, _moved))


def product(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor, relu: bool = False) -> None:
    """c = a @ b, or nothing where that is negative."""
    (rows, inner), columns = a.shape, b.shape[1]
    tile, depth = min(TILE, rows, columns), min(DEPTH, inner)
    grid = (rows // tile, columns // tile)
    _PRODUCT[grid](
        a, b, c, rows, columns, inner, *a.stride(), *b.stride(), relu, tile, depth, num_warps=8
    )


def blocks(x: torch.Tensor) -> tuple[int]:
    """Of all its elements."""
    return (-(-x.numel() // BLOCK),)


def make(device: str, tiny: bool) -> Work:
    """All arrays have their addresses for good."""
    size = TRITON_MLP[tiny]
    shape = (size.rows, size.width)

    def random(*sides: int) -> torch.Tensor:
        return torch.empty(sides, dtype=torch.float16, device=device).normal_()

    weights = [random(size.width, size.width) for _ in range(size.layers)]
    for weight in weights:
        weight.mul_((2 / size.width) ** 0.5)
    momenta = [torch.zeros_like(weight, dtype=torch.float32) for weight in weights]
    kept = [random(*shape) for _ in range(size.layers + 1)]
    slope, before = torch.empty_like(kept[0]), torch.empty_like(kept[0])
    change = torch.empty_like(weights[0])
    sums = torch.empty(blocks(slope), dtype=torch.float32, device=device)
    numbers: list[torch.Tensor] = []

    def step() -> None:
        nonlocal slope, before
        for i, weight in enumerate(weights):
            product(kept[i], weight, kept[i + 1], relu=True)
        _BEGUN[blocks(slope)](kept[-1], slope, sums, slope.numel(), SLOPE, BLOCK)
        numbers.append(sums.sum())
        for i in reversed(range(size.layers)):
            _GATED[blocks(slope)](slope, kept[i + 1], slope.numel(), BLOCK)
            product(kept[i].T, slope, change)
            product(slope, weights[i].T, before)
            _MOVED[blocks(change)](
                weights[i], momenta[i], change, change.numel(), RATE, MOMENTUM, BLOCK
            )
            slope, before = before, slope

    return Work(step, numbers)
