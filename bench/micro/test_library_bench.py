"""What a hooked cuBLAS call costs over the unhooked one, on the look-alike.

Three operands for cublasGemmEx, six for cublasLtMatmul (bias, auxiliary matrix, workspace), at
random among 10 000 live blocks. The look-alike launches nothing here: test_launch_bench.py has the
price of launches, which take what the call told instead of looking it up.
"""

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cffi
import pytest

from pump import paths

pytestmark = pytest.mark.emu

ROOT = Path(__file__).resolve().parents[2]
BOUND_NS = 300
BLOCKS, BLOCK, SIDE = 10_000, 512, 16
HALF, COMPUTE_FLOAT, FLOAT = 2, 68, 0
EPILOGUE, BIAS, AUXILIARY, AUXILIARY_LD = 7, 8, 11, 12
GELU_AUX_BIAS = 164

DECLARATIONS = """
struct bench_blas {
    void *handle, *product, *layout;
};
void bench_operands(uint64_t base, unsigned long blocks);
double bench_call(void *function, int is_matmul, const struct bench_blas *blas, int batches);

int cuDevicePrimaryCtxRetain(void **, int);
int cuCtxSetCurrent(void *);

int cublasCreate_v2(void **);
int cublasGemmEx(void);
int cublasLtMatmul(void);
int cublasLtMatrixLayoutCreate(void **, int, uint64_t, uint64_t, int64_t);
int cublasLtMatmulDescCreate(void **, int, int);
int cublasLtMatmulDescSetAttribute(void *, int, const void *, size_t);

void *dlsym(void *, const char *);
void _ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE(uint64_t, int64_t, size_t, size_t,
                                                           int16_t);
"""


class Bench:
    """The emulated driver, the look-alikes, ulms.so and the loop in one process."""

    def __init__(self, out: Path) -> None:
        loop = out / "liblibrary.so"
        include = [f"-I{ROOT / folder}" for folder in ("hooks", "emulator")]
        source = str(ROOT / "bench" / "micro" / "library.c")
        options = ["-O2", "-shared", "-fPIC", "-Wall", *include]
        subprocess.run(["cc", *options, "-o", str(loop), source], check=True)
        self.ffi: Any = cffi.FFI()  # Any: its stubs know no declared function
        self.ffi.cdef(DECLARATIONS)
        emulated = paths.emulator_dir()
        self.driver = self._open(emulated / "libcuda.so.1")
        self.blas = self._open(emulated / "library" / "13" / "libcublas.so.13")
        self.lt = self._open(emulated / "library" / "13" / "libcublasLt.so.13")
        self.ulms: Any = self.ffi.dlopen(str(paths.library()))
        self.loop: Any = self.ffi.dlopen(str(loop))
        self._start()

    def _open(self, path: Path) -> Any:
        return self.ffi.dlopen(str(path), self.ffi.RTLD_GLOBAL)

    def hooked(self, name: str) -> Any:
        """What a program that looks the function up gets."""
        handle = self.ffi.cast("void *", 0)  # RTLD_DEFAULT
        return self.ulms.dlsym(handle, name.encode())

    def _start(self) -> None:
        one = self.ffi.new("void **")
        base = self.ffi.new("uint64_t *")
        init = self.ffi.cast("int (*)(unsigned)", self.hooked("cuInit"))
        allocate = self.ffi.cast("int (*)(uint64_t *, size_t)", self.hooked("cuMemAlloc_v2"))
        assert init(0) == 0
        assert self.driver.cuDevicePrimaryCtxRetain(one, 0) == 0
        assert self.driver.cuCtxSetCurrent(one[0]) == 0
        assert allocate(base, BLOCKS * BLOCK) == 0
        tell = self.ulms._ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE
        for i in range(BLOCKS):
            tell(base[0] + i * BLOCK, BLOCK, 0, 0, 1)
        self.loop.bench_operands(base[0], BLOCKS)
        self.state = self.ffi.new("struct bench_blas *")
        self._make_blas(int(base[0]))

    def _make_blas(self, base: int) -> None:
        out = self.ffi.new("void *[3]")
        assert self.blas.cublasCreate_v2(out) == 0
        assert self.lt.cublasLtMatrixLayoutCreate(out + 1, HALF, SIDE, SIDE, SIDE) == 0
        assert self.lt.cublasLtMatmulDescCreate(out + 2, COMPUTE_FLOAT, FLOAT) == 0
        attributes = [(EPILOGUE, "uint32_t", GELU_AUX_BIAS), (BIAS, "uint64_t", base + BLOCK)]
        attributes += [(AUXILIARY, "uint64_t", base), (AUXILIARY_LD, "int64_t", SIDE)]
        for attribute, kind, value in attributes:
            memory = self.ffi.new(f"{kind} *", value)
            size = self.ffi.sizeof(kind)
            assert self.lt.cublasLtMatmulDescSetAttribute(out[2], attribute, memory, size) == 0
        self.state.handle, self.state.layout, self.state.product = out[0], out[1], out[2]

    def call_ns(self, function: Any, *, matmul: bool, batches: int = 100) -> float:
        """Nanoseconds a call, the median over batches."""
        return float(self.loop.bench_call(function, matmul, self.state, batches))


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EMU_LIBRARY", "idle")
        yield Bench(tmp_path_factory.mktemp("library"))


@pytest.mark.parametrize("name", ["cublasGemmEx", "cublasLtMatmul"])
def test_hooked_call(bench: Bench, benchmark: Any, name: str) -> None:
    matmul = name == "cublasLtMatmul"
    library = bench.lt if matmul else bench.blas
    real = bench.ffi.cast("void *", bench.ffi.addressof(library, name))
    hooked = bench.hooked(name)
    assert hooked != real
    runs = [
        (bench.call_ns(real, matmul=matmul), bench.call_ns(hooked, matmul=matmul))
        for _ in range(30)
    ]
    plain, ours = (min(run[i] for run in runs) for i in (0, 1))  # others use the machine, too
    over = ours - plain
    benchmark.extra_info |= {"unhooked_ns": plain, "hooked_ns": ours, "over_ns": over}
    benchmark(bench.call_ns, hooked, matmul=matmul, batches=20)
    print(f"\n{name}: unhooked {plain:.0f} ns, hooked {ours:.0f} ns, over it {over:.0f} ns")
    assert over <= BOUND_NS
