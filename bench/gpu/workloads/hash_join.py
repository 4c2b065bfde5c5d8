"""A hash join in CuPy: 64 million rows look up 16 million keys in a table by open addressing."""

import cupy as cp

from bench.gpu.workloads.work import Work

BUILD = """
extern "C" __global__ void build(const unsigned long long *keys, const unsigned long long *values,
                                 unsigned long long *slots, unsigned long long *held,
                                 unsigned long long n, unsigned long long mask) {
    unsigned long long i = blockIdx.x * (unsigned long long)blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned long long at = (keys[i] * 0x9E3779B97F4A7C15ull >> 20) & mask;
    for (;; at = (at + 1) & mask) {
        unsigned long long was = atomicCAS(&slots[at], 0ull, keys[i]);
        if (was == 0 || was == keys[i]) break;
    }
    held[at] = values[i];
}
"""
PROBE = """
extern "C" __global__ void probe(const unsigned long long *rows, const unsigned long long *slots,
                                 const unsigned long long *held, unsigned long long *out,
                                 unsigned long long n, unsigned long long mask) {
    unsigned long long i = blockIdx.x * (unsigned long long)blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned long long at = (rows[i] * 0x9E3779B97F4A7C15ull >> 20) & mask;
    while (slots[at] && slots[at] != rows[i]) at = (at + 1) & mask;
    out[i] = slots[at] ? held[at] : 0;
}
"""
THREADS = 256


def make(device: str, tiny: bool) -> Work:
    """Builds the table and probes it, every step."""
    keys_count, rows_count = (1 << 10, 1 << 12) if tiny else (1 << 24, 1 << 26)
    build, probe = cp.RawKernel(BUILD, "build"), cp.RawKernel(PROBE, "probe")
    random = cp.random.RandomState(0)
    keys = random.permutation(2 * keys_count)[:keys_count].astype(cp.uint64) + 1
    values = keys * 3 + 1
    rows = random.randint(1, 2 * keys_count + 1, rows_count).astype(cp.uint64)
    slots = cp.zeros(2 * keys_count, dtype=cp.uint64)
    held, out = cp.zeros_like(slots), cp.zeros_like(rows)
    mask = cp.uint64(len(slots) - 1)
    numbers: list[float] = []

    def launch(kernel: cp.RawKernel, count: int, arrays: tuple[cp.ndarray, ...]) -> None:
        blocks = -(-count // THREADS)
        kernel((blocks,), (THREADS,), (*arrays, cp.uint64(count), mask))

    def step() -> None:
        slots.fill(0)
        launch(build, keys_count, (keys, values, slots, held))
        launch(probe, rows_count, (rows, slots, held, out))
        numbers.append(float(out.sum()))

    return Work(step, numbers)
