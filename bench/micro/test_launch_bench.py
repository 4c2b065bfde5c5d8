"""What a hooked launch costs over the unhooked one, on the emulated device.

12 parameters, 675 argument bytes, 8 of the parameters addresses of blocks picked at random among
the live ones; in observe mode, as the default backend does not look at arguments while everything
fits: what it costs then stands beside. test_cold_bench.py has the price with cold caches.
"""

import shutil
import subprocess
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import cffi
import pytest

from bench.micro import launch_cost
from pump import paths

pytestmark = pytest.mark.emu

ROOT = Path(__file__).resolve().parents[2]
BOUND_NS = 300
GROWTH = 1.5
BLOCK = 512
FEW, MANY = launch_cost.FEW, launch_cost.MANY

DECLARATIONS = """
typedef int (*launch_function)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                               unsigned, void *, void **, void **);
struct bench_driver {
    void *wait_value;
    void *synchronize;
    uint32_t *gate;
    uint64_t gate_address;
};
extern char bench_image[];
void bench_arguments(uint64_t base, unsigned long blocks);
double bench_launch(launch_function launch, const struct bench_driver *driver, void *f,
                    void *stream, int batches);
"""
DRIVER = """
int cuInit(unsigned);
int cuLaunchKernel(void);
int cuDevicePrimaryCtxRetain(void **, int);
int cuCtxSetCurrent(void *);
int cuModuleLoadData(void **, const void *);
int cuModuleGetFunction(void **, void *, const char *);
int cuStreamCreate(void **, unsigned);
int cuStreamSynchronize(void *);
int cuStreamWaitValue32_v2(void *, uint64_t, uint32_t, unsigned);
int cuMemHostAlloc(void **, size_t, unsigned);
int cuMemHostGetDevicePointer_v2(uint64_t *, void *, unsigned);
int cuMemAlloc_v2(uint64_t *, size_t);
"""
HOOKS = """
void *dlsym(void *, const char *);
void _ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE(uint64_t, int64_t, size_t, size_t,
                                                           int16_t);
"""


class Bench:
    """The emulated driver, ulms.so and the loop in one process.

    `hooked` is what a program that looks the driver up gets.
    """

    def __init__(self, out: Path) -> None:
        loop = out / "liblaunch.so"
        include = [f"-I{ROOT / folder}" for folder in ("hooks", "emulator")]
        source = str(ROOT / "bench" / "micro" / "launch.c")
        subprocess.run(
            ["cc", "-O2", "-shared", "-fPIC", "-Wall", *include, "-o", str(loop), source],
            check=True,
        )
        self.ffi: Any = cffi.FFI()  # Any: its stubs know no declared function
        self.ffi.cdef(DECLARATIONS + DRIVER + HOOKS)
        self.driver: Any = self.ffi.dlopen(
            str(paths.emulator_dir() / "libcuda.so.1"), self.ffi.RTLD_GLOBAL
        )
        self.ulms: Any = self.ffi.dlopen(str(paths.library()))
        self.loop: Any = self.ffi.dlopen(str(loop))
        launch = self.ffi.addressof(self.driver, "cuLaunchKernel")
        self.real = self.ffi.cast("launch_function", launch)
        self.hooked = self.ffi.cast("launch_function", self._hooked("cuLaunchKernel"))
        assert self.real != self.hooked
        self.blocks = 0
        self._start()

    def _hooked(self, name: str) -> Any:
        handle = self.ffi.cast("void *", 0)  # RTLD_DEFAULT
        return self.ulms.dlsym(handle, name.encode())

    def _start(self) -> None:
        one = self.ffi.new("void *[4]")
        init = self.ffi.cast("int (*)(unsigned)", self._hooked("cuInit"))
        allocate = self.ffi.cast("int (*)(uint64_t *, size_t)", self._hooked("cuMemAlloc_v2"))
        base = self.ffi.new("uint64_t *")
        assert init(0) == 0
        assert self.driver.cuDevicePrimaryCtxRetain(one, 0) == 0
        assert self.driver.cuCtxSetCurrent(one[0]) == 0
        image = self.ffi.addressof(self.loop, "bench_image")
        assert self.driver.cuModuleLoadData(one + 1, image) == 0
        assert self.driver.cuModuleGetFunction(one + 2, one[1], b"twelve") == 0
        assert self.driver.cuStreamCreate(one + 3, 1) == 0
        self.function, self.stream = one[2], one[3]
        assert allocate(base, MANY * BLOCK) == 0
        self.base = int(base[0])
        word, address = self.ffi.new("void **"), self.ffi.new("uint64_t *")
        assert self.driver.cuMemHostAlloc(word, 4, 2) == 0
        assert self.driver.cuMemHostGetDevicePointer_v2(address, word[0], 0) == 0
        self.gate = self.ffi.new("struct bench_driver *")
        self.gate.gate = self.ffi.cast("uint32_t *", word[0])
        self.gate.gate_address = address[0]
        for field, name in (
            ("wait_value", "cuStreamWaitValue32_v2"),
            ("synchronize", "cuStreamSynchronize"),
        ):
            function = self.ffi.addressof(self.driver, name)
            setattr(self.gate, field, self.ffi.cast("void *", function))

    def grow(self, blocks: int) -> None:
        """Tells blocks as PyTorch's allocator would, and points the arguments at them."""
        tell = self.ulms._ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE
        for i in range(self.blocks, blocks):
            tell(self.base + i * BLOCK, BLOCK, 0, 0, 1)
        self.blocks = max(blocks, self.blocks)
        self.loop.bench_arguments(self.base, self.blocks)

    def launch_ns(self, launch: Any, batches: int = 200) -> float:
        """Nanoseconds a launch, the median over batches."""
        loop = self.loop.bench_launch
        return float(loop(launch, self.gate, self.function, self.stream, batches))

    def cost_ns(self, pairs: int = 400) -> tuple[float, float]:
        """(unhooked, hooked) nanoseconds a launch: the least of the medians of alternating runs.

        The least, because others use the machine, too.
        """
        runs = [(self.launch_ns(f, 50) for f in (self.real, self.hooked)) for _ in range(pairs)]
        plain, hooked = zip(*runs, strict=True)
        return min(plain), min(hooked)


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ULMS_BACKEND", "observe")
        yield Bench(tmp_path_factory.mktemp("launch"))


@pytest.mark.skipif(not shutil.which("valgrind"), reason="no valgrind")
def test_instructions_of_a_launch(tmp_path: Path, tell: Callable[[str], None]) -> None:
    of = partial(launch_cost.instructions, tmp_path, paths.library(), paths.emulator_dir())
    few, many, unread = of(FEW, "observe"), of(MANY, "observe"), of(FEW, "um")
    tell(
        f"instructions a launch: {few} at {FEW} blocks, {many} at {MANY}; {unread} in um that fits"
    )
    assert few <= launch_cost.MOST
    assert unread <= launch_cost.MOST_UNREAD
    assert many < few * GROWTH


@pytest.mark.parametrize("blocks", [FEW, MANY])
def test_hooked_launch(
    bench: Bench, benchmark: Any, tell: Callable[[str], None], blocks: int
) -> None:
    bench.grow(blocks)
    plain, hooked = bench.cost_ns()
    benchmark.extra_info |= {"unhooked_ns": plain, "hooked_ns": hooked, "over_ns": hooked - plain}
    benchmark(bench.launch_ns, bench.hooked, 20)
    over = hooked - plain
    tell(f"{blocks} blocks: {plain:.0f} ns unhooked, {hooked:.0f} hooked, {over:.0f} over it")
    assert over <= (BOUND_NS if blocks == FEW else BOUND_NS * GROWTH)
