"""Does more lie on the device than the budget allows, and if so, by which path?

32 arrays of 32 MiB are updated one after the other, forward and backward, step by step, with and
without `ulms.so`. A process of its own asks NVML what is really in use. After that the driver is
asked, without `ulms.so`, what its calls on managed memory do to that figure. Each case asks one
question:

  native       what a step takes while all lies on the device
  um           what does `um` do? its log and its counters tell which path it took:
                 "is left to the driver's own paging": it gave up
                 few bytes moved, much "in place": pages that should lie on the host do not
                 "short" grows: operations were let go without their pages, and faulted them in
                 nothing moved, nothing held, used > budget: operations were not seen
  um-half      half of the arrays are used: does that fit, so that nothing needs to move?
  um-synced    the program waits for each kernel: does the backlog of operations matter?
  um-read      arrays are only read: does what is mostly read keep its place?
  um-new       each kernel writes a new array, the old one is freed (CuPy's pool takes it back)
  um-lru       operations are not held and nothing is used in place: does the peak go?
  um-none      kernels fault pages in, the least recently used leave
  vmm          the same with `vmm`
  driver       what prefetches, advice, discards and faults change in NVML's figure

    ULMS_MANAGED_LIMIT=8GiB python3 -P -m bench.gpu.resident build/dev/ulms.so

With `--emulated` it runs on the emulated device (its folder in LD_LIBRARY_PATH), without CuPy.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

MIB = 1 << 20
PAGE = 2 * MIB
LIMIT_MOST = 8 << 30
PATIENCE_S = 150
"""So long a case may take: what hangs is killed."""


@dataclass(frozen=True)
class Case:
    """A run of the sweep under one setting."""

    pattern: str = "all"
    env: dict[str, str] = field(default_factory=dict)
    backend: str = "um"
    share: float = 1
    """Of the steps."""


CASES = {
    "native": Case(backend=""),
    "um": Case(),
    "um-half": Case("half"),
    "um-synced": Case("synced"),
    "um-read": Case("read"),
    "um-new": Case("new"),
    "um-lru": Case(env={"ULMS_POLICY": "lru"}, share=0.3),
    "um-none": Case(env={"ULMS_POLICY": "none"}, share=0.3),
    "vmm": Case(backend="vmm", share=0.3),
}

# --- the measured program ---


class Driver:
    """What the program calls of the driver, by ctypes."""

    def __init__(self) -> None:
        self.library = ctypes.CDLL("libcuda.so.1")

    def __call__(self, name: str, *arguments: object) -> None:
        status = getattr(self.library, name)(*arguments)
        if status != 0:
            raise RuntimeError(f"{name} gives {status}")

    def has(self, name: str) -> bool:
        return hasattr(self.library, name)

    def address(self, name: str, size: int, *more: object) -> int:
        start = ctypes.c_uint64()
        self(name, ctypes.byref(start), ctypes.c_size_t(size), *more)
        return start.value

    def attribute(self, which: int, start: int, size: int) -> int:
        """Of a range of managed memory; a place: a device, -1 the host, -2 differs or unknown."""
        place = ctypes.c_int(-3)
        self(
            "cuMemRangeGetAttribute",
            ctypes.byref(place),
            ctypes.c_size_t(4),
            which,
            ctypes.c_uint64(start),
            ctypes.c_size_t(size),
        )
        return place.value


PREFERRED, LAST_PREFETCH = 2, 4


class CuPy:
    """Arrays of CuPy's, and kernels that it compiles."""

    def __init__(self, size: int) -> None:
        import cupy

        self.cupy = cupy
        self.count = size // 4
        self.finish: Callable[[], None] = cupy.cuda.Device().synchronize
        self._update = cupy.ElementwiseKernel("float32 a", "float32 b", "b = a * 1.5f", "update_it")
        self._read = cupy.ReductionKernel(
            "float32 a", "float32 s", "a", "a + b", "s = a", "0", "look"
        )
        self._sum = cupy.zeros((), dtype=cupy.float32)
        small = cupy.ones(1024, dtype=cupy.float32)
        self._update(small, small)
        self._read(small, out=self._sum)
        self.finish()

    def array(self) -> Any:
        made = self.cupy.empty(self.count, dtype=self.cupy.float32)
        made.fill(1)
        return made

    def start_of(self, array: Any) -> int:
        return int(array.data.ptr)

    def update(self, array: Any) -> None:
        self._update(array, array)

    def replace(self, array: Any) -> Any:
        return self._update(array)

    def read(self, array: Any) -> None:
        self._read(array, out=self._sum)

    def free(self, arrays: list[Any]) -> None:
        arrays.clear()
        self.cupy.get_default_memory_pool().free_all_blocks()
        self.finish()

    def at(self, start: int, size: int) -> Any:
        """Memory that the driver gave, as an array."""
        memory = self.cupy.cuda.UnownedMemory(start, size, self)
        return self.cupy.ndarray(
            size // 4, self.cupy.float32, self.cupy.cuda.MemoryPointer(memory, 0)
        )


class Emulated:
    """The same on the emulated device: its built-in kernels."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.driver = driver = Driver()
        context, module = ctypes.c_void_p(), ctypes.c_void_p()
        self._scale, self._look = ctypes.c_void_p(), ctypes.c_void_p()
        driver("cuInit", 0)
        driver("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
        driver("cuCtxSetCurrent", context)
        driver("cuModuleLoadData", ctypes.byref(module), b"emu:builtin")
        driver("cuModuleGetFunction", ctypes.byref(self._scale), module, b"scale")
        driver("cuModuleGetFunction", ctypes.byref(self._look), module, b"copy")
        self._sum = driver.address("cuMemAlloc_v2", 4096)

    def finish(self) -> None:
        self.driver("cuCtxSynchronize")

    def array(self) -> int:
        start = self.driver.address("cuMemAlloc_v2", self.size)
        self.driver(
            "cuMemsetD32_v2",
            ctypes.c_uint64(start),
            ctypes.c_uint(0x3F800000),
            ctypes.c_size_t(self.size // 4),
        )
        return start

    def start_of(self, array: int) -> int:
        return array

    def free(self, arrays: list[int]) -> None:
        for start in arrays:
            self.driver("cuMemFree_v2", ctypes.c_uint64(start))

    def at(self, start: int, size: int) -> int:
        return start

    def _launch(self, function: ctypes.c_void_p, *values: Any) -> None:
        parameters = (ctypes.c_void_p * len(values))(
            *(ctypes.cast(ctypes.pointer(each), ctypes.c_void_p) for each in values)
        )
        self.driver(
            "cuLaunchKernel",
            function,
            *(ctypes.c_uint(1),) * 6,
            ctypes.c_uint(0),
            None,
            parameters,
            None,
        )

    def update(self, array: int) -> None:
        count = ctypes.c_uint64(self.size // 4)
        self._launch(self._scale, ctypes.c_uint64(array), ctypes.c_float(1.5), count)

    def replace(self, array: int) -> int:
        new = self.driver.address("cuMemAlloc_v2", self.size)
        count = ctypes.c_uint64(self.size // 4)
        self._launch(self._look, ctypes.c_uint64(new), ctypes.c_uint64(array), count)
        self.driver("cuMemFree_v2", ctypes.c_uint64(array))
        return new

    def read(self, array: int) -> None:
        count = ctypes.c_uint64(1024)
        self._launch(self._look, ctypes.c_uint64(self._sum), ctypes.c_uint64(array), count)


def tell(**what: object) -> None:
    """Says a line to the parent, and waits until it has looked."""
    print(json.dumps(what), flush=True)
    if not sys.stdin.readline():
        sys.exit(1)


def places(driver: Driver, starts: list[int], size: int) -> dict[str, int]:
    """Pages by the place of their last prefetch, and those that are advised to lie on the host."""
    found = {"to_device": 0, "to_host": 0, "never": 0, "advised": 0}
    for start in starts:
        for page in range(-(-start // PAGE) * PAGE, start + size - PAGE + 1, PAGE):
            try:
                last = driver.attribute(LAST_PREFETCH, page, PAGE)
                preferred = driver.attribute(PREFERRED, page, PAGE)
            except RuntimeError:
                return {}  # not managed
            found["to_device" if last >= 0 else "to_host" if last == -1 else "never"] += 1
            found["advised"] += preferred == -1
    return found


def sweep(options: argparse.Namespace, pattern: str, steps: int) -> None:
    """The measured program: tells the parent of each step."""
    size = options.mib * MIB
    program = Emulated(size) if options.emulated else CuPy(size)
    driver = Driver()
    tell(at="context")
    arrays = [program.array() for _ in range(options.arrays)]
    program.finish()
    used = options.arrays // 2 if pattern == "half" else options.arrays
    where = places(driver, [program.start_of(a) for a in arrays], size)
    tell(at="arrays", places=where, shown=True)
    order = [*range(used), *reversed(range(used))]
    for step in range(steps):
        began = time.perf_counter()
        for i in order:
            if pattern == "read":
                program.read(arrays[i])
            elif pattern == "new":
                arrays[i] = program.replace(arrays[i])
            else:
                program.update(arrays[i])
            if pattern == "synced":
                program.finish()
        program.finish()
        ms = (time.perf_counter() - began) * 1e3
        shown = step < 3 or step % 10 == 9 or step >= steps - 3
        where = places(driver, [program.start_of(a) for a in arrays], size) if shown else {}
        tell(at="step", ms=ms, places=where, shown=shown)
    program.free(arrays)
    tell(at="freed", places={}, shown=True)


def calls(options: argparse.Namespace) -> None:
    """What the driver's calls on managed memory change, without ulms.so."""
    size = options.probe * MIB
    program = Emulated(size) if options.emulated else CuPy(size)
    driver = Driver()
    stream = ctypes.c_void_p()
    driver("cuStreamCreate", ctypes.byref(stream), 1)
    host, device = Place(2, 0), Place(1, 0)

    def done(what: str, ms: float | None = None) -> None:
        program.finish()
        tell(at="call", what=what, ms=ms)

    def prefetch(start: int, count: int, to: Place) -> None:
        driver(
            "cuMemPrefetchAsync_v2",
            ctypes.c_uint64(start),
            ctypes.c_size_t(count),
            to,
            ctypes.c_uint(0),
            stream,
        )
        driver("cuStreamSynchronize", stream)

    def advise(start: int, count: int, advice: int, to: Place) -> None:
        driver(
            "cuMemAdvise_v2",
            ctypes.c_uint64(start),
            ctypes.c_size_t(count),
            ctypes.c_int(advice),
            to,
        )

    def kernel(what: str, array: Any, use: Callable[[Any], object], times: int = 1) -> None:
        program.finish()
        began = time.perf_counter()
        for _ in range(times):
            use(array)
        program.finish()
        done(what, (time.perf_counter() - began) * 1e3 / times)

    def managed() -> tuple[int, Any]:
        start = driver.address("cuMemAllocManaged", size, ctypes.c_uint(1))
        return start, program.at(start, size)

    def prepare(start: int, array: Any) -> None:
        """Written by the device, then on the host."""
        prefetch(start, size, device)
        program.update(array)
        program.finish()
        prefetch(start, size, host)

    def free(start: int) -> None:
        program.finish()
        driver("cuMemFree_v2", ctypes.c_uint64(start))
        done("freed")

    set_read, unset_read, set_preferred, unset_preferred, set_accessed, unset_accessed = range(1, 7)
    tell(at="context")
    start, array = managed()
    done("allocated")
    prefetch(start, size, device)
    done("prefetched to the device, never written")
    kernel("a kernel wrote it", array, program.update)
    prefetch(start, size, host)
    done("prefetched to the host")
    kernel("a kernel updated it (faults)", array, program.update)
    prefetch(start, size, host)
    done("prefetched to the host")
    advise(start, size, set_preferred, host)
    advise(start, size, set_accessed, device)
    done("advised: prefer the host, accessed by the device")
    kernel("a kernel updated it in place, ms each of 5", array, program.update, 5)
    kernel("the same, each of 50", array, program.update, 50)
    kernel("a kernel read it in place, each of 50", array, program.read, 50)
    prefetch(start, size, device)
    done("prefetched to the device, advice kept")
    kernel("a kernel updated it", array, program.update)
    prefetch(start, size, host)
    done("prefetched to the host, advice kept")
    advise(start, size, unset_accessed, device)
    done("advice taken back: accessed by")
    kernel("a kernel updated it (prefers the host, not accessed by)", array, program.update)
    advise(start, size, unset_preferred, host)
    done("advice taken back: preferred")
    free(start)

    start, array = managed()
    prefetch(start, size, device)
    program.update(array)
    program.finish()
    prefetch(start, size // 2, host)
    advise(start, size, set_preferred, host)
    advise(start, size, set_accessed, device)
    done("half on the host, all advised to lie there")
    kernel("a kernel updated it, each of 5", array, program.update, 5)
    free(start)

    start, array = managed()
    advise(start, size, set_preferred, host)
    advise(start, size, set_accessed, device)
    kernel("never written, advised to lie on the host, a kernel updated it", array, program.update)
    free(start)

    start, array = managed()
    prepare(start, array)
    advise(start, size, set_read, device)
    prefetch(start, size, device)
    done("mostly read, prefetched to the device")
    prefetch(start, size, host)
    done("prefetched to the host, advice kept")
    advise(start, size, unset_read, device)
    done("advice taken back: mostly read")
    prefetch(start, size, host)
    done("prefetched to the host")
    kernel("a kernel read it (faults)", array, program.read)
    free(start)

    if driver.has("cuMemDiscardBatchAsync"):
        start, array = managed()
        prefetch(start, size, device)
        program.update(array)
        program.finish()
        driver(
            "cuMemDiscardBatchAsync",
            (ctypes.c_uint64 * 1)(start),
            (ctypes.c_size_t * 1)(size),
            ctypes.c_size_t(1),
            ctypes.c_ulonglong(0),
            stream,
        )
        driver("cuStreamSynchronize", stream)
        done("discarded on the device")
        prefetch(start, size, host)
        done("prefetched to the host")
        advise(start, size, set_preferred, host)
        advise(start, size, set_accessed, device)
        kernel("advised to lie on the host, a kernel updated it", array, program.update)
        kernel("again", array, program.update)
        free(start)

    contexts = ctypes.c_void_p(), ctypes.c_void_p()
    driver("cuCtxGetCurrent", ctypes.byref(contexts[0]))
    driver("cuCtxCreate_v2", ctypes.byref(contexts[1]), 0, 0)
    driver("cuCtxSetCurrent", contexts[0])
    done("a second context")
    start, array = managed()
    prefetch(start, size, device)
    program.update(array)
    program.finish()
    done("memory of the first context, on the device")
    driver("cuCtxSetCurrent", contexts[1])
    driver("cuStreamCreate", ctypes.byref(stream), 1)
    prefetch(start, size, host)
    driver("cuCtxSetCurrent", contexts[0])
    done("prefetched to the host by the second context")
    free(start)


class Place(ctypes.Structure):
    """`CUmemLocation`: 1 a device, 2 the host."""

    _fields_ = [("type", ctypes.c_int), ("id", ctypes.c_int)]


# --- the process that asks NVML ---

COUNTED = {
    "in MiB": ("filled_bytes",),
    "out": ("evicted_bytes",),
    "fault": ("faulted_bytes",),
    "place": ("in_place_bytes",),
    "drop": ("dropped_bytes", "dead_bytes"),
    "late": ("late",),
    "short": ("short_operations",),
    "fail": ("move_failures",),
    "seen": ("operations",),
    "unread": ("launches_unread", "launches_unmatched", "launches_blind"),
}


class Counts:
    """The counters of the measured program, by their file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.last: dict[str, int] = {}

    def grown(self) -> dict[str, int]:
        from pump import stats

        if not self.path.exists():
            return {}
        counters = stats.read(self.path).counters
        now = {name: sum(counters[each].value for each in names) for name, names in COUNTED.items()}
        grown = {name: value - self.last.get(name, 0) for name, value in now.items()}
        self.last = now
        return {
            name: value // MIB if COUNTED[name][0].endswith("_bytes") else value
            for name, value in grown.items()
        }


def environment() -> dict[str, str]:
    """Of a measured program: it finds this module, whatever the current folder."""
    root = str(Path(__file__).resolve().parents[2])
    path = os.environ.get("PYTHONPATH", "")
    return {**os.environ, "PYTHONPATH": f"{root}:{path}" if path else root}


def row(cells: Sequence[object]) -> str:
    return " ".join(f"{each!s:>7}" for each in cells)


def run_case(options: argparse.Namespace, name: str, case: Case, folder: Path) -> dict[str, object]:
    """Runs the program, prints a line for each step that is shown."""
    from pump.bench.resident import Nvml, Sampler

    env = environment()
    counts = Counts(folder / f"{name}.stats")
    if case.backend:
        env |= {
            "LD_PRELOAD": str(options.library.resolve()),
            "ULMS_BACKEND": case.backend,
            "ULMS_GPU_MEMORY": f"{options.limit}MiB",
            "ULMS_LOG_LEVEL": "DEBUG" if options.debug else "INFO",
            "ULMS_STATS": str(counts.path),
            **case.env,
        }
    steps = max(3, round(options.steps * case.share))
    command = [sys.executable, "-P", "-m", "bench.gpu.resident", "--child", case.pattern]
    command += ["--arrays", str(options.arrays), "--mib", str(options.mib), "--steps", str(steps)]
    command += ["--emulated"] if options.emulated else []
    heads = ["step", "ms", "used", "peak", *COUNTED, "to_dev", "to_host", "never", "advised"]
    print(
        f"\n== {name}: {case.pattern}, {case.backend or 'without ulms.so'} {case.env or ''}",
        flush=True,
    )
    log = folder / f"{name}.log"
    told: list[dict[str, object]] = []
    with log.open("w") as errors, Sampler(Nvml(options.device)) as sampler:
        child = subprocess.Popen(
            command,
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
        assert child.stdin
        assert child.stdout
        base = sampler.before
        number = 0
        guard = threading.Timer(PATIENCE_S, child.kill)
        guard.start()
        for line in child.stdout:
            if not line.startswith("{"):
                print(line, end="")
                continue
            said = json.loads(line)
            peak, used = sampler.take_peak(), sampler.look()
            if said["at"] == "context":
                print(f"context and modules: {(used - base) // MIB} MiB; MiB beyond that follow")
                base = used
                print(row(heads))
            else:
                number += said["at"] == "step"
                grown, where = counts.grown(), said["places"]
                cells = {
                    "step": number if said["at"] == "step" else said["at"],
                    "ms": round(said.get("ms", 0), 2),
                    "used": (used - base) // MIB,
                    "peak": (peak - base) // MIB,
                    **{head: grown.get(head, "") for head in COUNTED},
                    "to_dev": where.get("to_device", ""),
                    "to_host": where.get("to_host", ""),
                    "never": where.get("never", ""),
                    "advised": where.get("advised", ""),
                }
                told.append(cells)
                if said["shown"]:
                    print(row([cells[head] for head in heads]), flush=True)
            child.stdin.write("\n")
            child.stdin.flush()
        status = child.wait()
        guard.cancel()
    lines = log.read_text(errors="replace").splitlines()
    for each in lines[:12] + (["..."] if len(lines) > 12 else []):
        print(f"  {each}")
    if status:
        print(f"  the program ended with {status}; its last words: {lines[-3:]}")
    late = [each for each in told if isinstance(each["step"], int)][-5:]
    result: dict[str, object] = {"name": name, "status": status, "steps": told, "log": lines[:200]}
    if late:
        result["ms"] = statistics.median(float(str(each["ms"])) for each in late)
        result["stayed"] = told[-1]["used"] if told[-1]["step"] == "freed" else ""
        result["peak"] = max(int(str(each["peak"])) for each in told)
    return result


def run_calls(options: argparse.Namespace) -> dict[str, object]:
    """What the driver's calls change in NVML's figure."""
    from pump.bench.resident import Nvml, Sampler

    command = [sys.executable, "-P", "-m", "bench.gpu.resident", "--child", "calls"]
    command += ["--probe", str(options.probe), *(["--emulated"] if options.emulated else [])]
    print(f"\n== driver: {options.probe} MiB of managed memory, without ulms.so", flush=True)
    told: list[dict[str, object]] = []
    with Sampler(Nvml(options.device)) as sampler:
        child = subprocess.Popen(
            command,
            env=environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert child.stdin
        assert child.stdout
        base = sampler.before
        guard = threading.Timer(PATIENCE_S, child.kill)
        guard.start()
        for line in child.stdout:
            said = json.loads(line)
            used = sampler.look()
            if said["at"] == "context":
                base = used
                print(f"{'used MiB':>9} {'ms':>8}  after")
            else:
                ms = f"{said['ms']:.2f}" if said["ms"] is not None else ""
                print(f"{(used - base) // MIB:>9} {ms:>8}  {said['what']}", flush=True)
                told.append({**said, "used": used - base})
            child.stdin.write("\n")
            child.stdin.flush()
        status = child.wait()
        guard.cancel()
    return {"name": "driver", "status": status, "calls": told}


def refuse_unless_limited() -> None:
    from pump.sizes import parse_size

    text = os.environ.get("ULMS_MANAGED_LIMIT", "")
    try:
        allowed = 0 < parse_size(text) <= LIMIT_MOST
    except ValueError:
        allowed = False
    if not allowed:
        sys.exit("resident: set ULMS_MANAGED_LIMIT to 8GiB or less first")


def summary(results: list[dict[str, object]], budget: int) -> None:
    print(f"\nbudget {budget} MiB; at the end of each case (stayed: what was in use when all was")
    print("freed; with um the contexts of ulms.so's own threads, which count in the peak, too):")
    print(f"{'case':>10} {'ms':>9} {'peak MiB':>9} {'stayed':>7}")
    for each in results:
        if "ms" in each:
            print(
                f"{each['name']!s:>10} {each['ms']:>9.2f} {each['peak']!s:>9} {each['stayed']!s:>7}"
            )


def main() -> None:
    made = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument("library", type=Path, nargs="?", default=Path("build/dev/ulms.so"))
    made.add_argument("--only", default="", help=f"of {', '.join([*CASES, 'driver'])}, by commas")
    made.add_argument("--arrays", type=int, default=32)
    made.add_argument("--mib", type=int, default=32, help="of an array; default 32")
    made.add_argument("--limit", type=int, default=512, help="ULMS_GPU_MEMORY in MiB; default 512")
    made.add_argument("--probe", type=int, default=256, help="MiB that the driver's calls are for")
    made.add_argument("--steps", type=int, default=60)
    made.add_argument("--device", type=int, default=0, help="NVML's number of it")
    made.add_argument("--emulated", action="store_true")
    made.add_argument("--debug", action="store_true", help="the log of ulms.so says everything")
    made.add_argument("--json", type=Path, help="write everything there")
    made.add_argument("--child", help=argparse.SUPPRESS)
    options = made.parse_args()
    refuse_unless_limited()
    if options.child:
        calls(options) if options.child == "calls" else sweep(options, options.child, options.steps)
        return
    wanted = options.only.split(",") if options.only else [*CASES, "driver"]
    results = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if options.emulated:
            os.environ["EMU_RESIDENT"] = str(folder / "resident")
        for each in wanted:
            if each == "driver":
                results.append(run_calls(options))
            else:
                results.append(run_case(options, each, CASES[each], folder))
            if options.json:
                options.json.write_text(json.dumps(results, indent=1) + "\n")
    summary(results, options.limit * 9 // 10)


if __name__ == "__main__":
    main()
