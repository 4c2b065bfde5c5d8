"""CuPy: matrix product, FFT, sort, a kernel compiled on the spot."""

import sys

import cupy as cp
from report import report, run_steps


def main() -> None:
    warm, timed = int(sys.argv[1]), int(sys.argv[2])
    random = cp.random.RandomState(0)
    a = random.rand(2048, 2048, dtype=cp.float32)
    double_plus_one = cp.ElementwiseKernel("T x", "T y", "y = x * 2 + 1", "double_plus_one")
    numbers: list[float] = []

    def step() -> None:
        b = a @ a
        c = cp.fft.fft(a[:256])
        s = cp.sort(a.ravel()[:100000])
        d = double_plus_one(b)
        numbers.append(float(d[0, 0]) + float(c.real[0, 0]) + float(s[0]))

    step_ms = run_steps(step, cp.cuda.runtime.deviceSynchronize, warm, timed)
    report(numbers, step_ms, cupy=cp.__version__)


if __name__ == "__main__":
    main()
