"""Arrays in CuPy: FFT, sort, unique, a product with a sparse matrix, a stencil of its own."""

import cupy as cp
from cupyx.scipy.sparse import csr_matrix

from bench.gpu.workloads.sizes import CUPY_MIX, Arrays
from bench.gpu.workloads.work import Work

STENCIL = """
extern "C" __global__ void stencil(const float *old, float *grid, int side) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= side || y >= side) return;
    int left = x ? x - 1 : side - 1, right = x + 1 < side ? x + 1 : 0;
    int up = y ? y - 1 : side - 1, down = y + 1 < side ? y + 1 : 0;
    size_t row = (size_t)y * side;
    grid[row + x] = 0.2f * (old[row + x] + old[row + left] + old[row + right] +
                            old[(size_t)up * side + x] + old[(size_t)down * side + x]);
}
"""
BLOCK = 32, 8
ENTRY = 8
"""What the sparse matrix and its factor hold are whole numbers below it: f32 adds such products
exactly, so that the order in which cuSPARSE adds them does not matter.
"""


def scattered(count: int, below: int) -> cp.ndarray:
    """Numbers that look random, u32, by no more memory than they take."""
    x = cp.arange(count, dtype=cp.uint32)
    x *= cp.uint32(2654435761)
    x >>= cp.uint32(7)
    x %= cp.uint32(below)
    return x


def sparse(size: Arrays) -> csr_matrix:
    """Square. A row's entries lie in order, each in its own part of the row."""
    part = size.rows // size.entries
    columns = scattered(size.rows * size.entries, part).reshape(size.rows, size.entries)
    columns += cp.arange(size.entries, dtype=cp.uint32) * cp.uint32(part)
    entries = scattered(size.rows * size.entries, ENTRY).astype(cp.float32)
    starts = cp.arange(0, size.rows * size.entries + 1, size.entries, dtype=cp.int32)
    columns = columns.ravel().view(cp.int32)
    return csr_matrix((entries, columns, starts), shape=(size.rows, size.rows))


def make(device: str, tiny: bool) -> Work:
    """What a step computes, the next one goes on with."""
    size = CUPY_MIX[tiny]
    matrix = sparse(size)
    factor = scattered(size.rows * size.columns, ENTRY).astype(cp.float32)
    factor = factor.reshape((size.rows, size.columns), order="F")
    signal = scattered(size.sides[0] * size.sides[1], 1 << 10).astype(cp.complex64)
    signal = signal.reshape(size.sides)
    values = scattered(size.values, 1 << 20).astype(cp.float32)
    keys = scattered(size.keys, size.keys // 2).view(cp.int32)
    grid = scattered(size.grid**2, 1 << 10).astype(cp.float32).reshape(size.grid, size.grid)
    fresh = cp.empty_like(grid)
    stencil = cp.RawKernel(STENCIL, "stencil")
    blocks = tuple(-(-size.grid // side) for side in BLOCK)
    numbers: list[float] = []

    def step() -> None:
        nonlocal signal, grid, fresh, values, keys
        waves = cp.fft.fft2(signal)
        waves *= cp.complex64(0.999)
        signal = cp.fft.ifft2(waves)
        del waves
        values += 1
        ordered = cp.sort(values)
        keys ^= cp.int32(1)
        distinct = cp.unique(keys)
        given = matrix @ factor
        stencil(blocks, BLOCK, (grid, fresh, cp.int32(size.grid)))
        grid, fresh = fresh, grid
        told = (signal[0].real, ordered[::4096], distinct[::4096], given, grid[:: size.grid // 8])
        numbers.extend(float(array.sum(dtype=cp.float64)) for array in told)

    return Work(step, numbers)
