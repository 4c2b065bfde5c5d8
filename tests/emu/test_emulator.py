"""The emulated driver from outside: what the environment makes of it, and what it says."""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from pump import paths
from tests.conftest import BUILD, ROOT, RunEmulated

pytestmark = pytest.mark.emu

Answers = Callable[..., str]

PRELUDE = """
import ctypes as c, os, sys
cuda = c.CDLL("libcuda.so.1")
def out(kind, call, *rest):
    value = kind()
    result = call(c.byref(value), *rest)
    return value.value if result == 0 else f"error {result}"
def proc(name, version, flags=0):
    found, status = c.c_void_p(), c.c_int(-1)
    look_up, flags = cuda.cuGetProcAddress_v2, c.c_uint64(flags)
    result = look_up(name, c.byref(found), version, flags, c.byref(status))
    return result, found.value, status.value
def address(symbol):
    return c.cast(getattr(cuda, symbol), c.c_void_p).value
def begin():
    context = c.c_void_p()
    assert cuda.cuInit(0) == 0
    assert cuda.cuDevicePrimaryCtxRetain(c.byref(context), 0) == 0
    assert cuda.cuCtxSetCurrent(context) == 0
"""


@pytest.fixture
def python(run_emulated: RunEmulated) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs Python statements in a process of their own with the emulator loaded."""

    def run(text: str, env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-P", "-c", PRELUDE + text]
        return run_emulated(command, env, preloaded=False)

    return run


@pytest.fixture
def answers(python: Callable[..., subprocess.CompletedProcess[str]]) -> Answers:
    """The same; what they print, when they end well and nothing is said on stderr."""

    def run(text: str, env: Mapping[str, str] | None = None) -> str:
        done = python(text, env)
        assert (done.stderr, done.returncode) == ("", 0)
        return done.stdout.strip()

    return run


def test_no_device(answers: Answers) -> None:
    assert answers("print(cuda.cuInit(0))", {"EMU_DEVICES": "0"}) == "100"


def test_several_devices_each_with_its_memory(answers: Answers) -> None:
    text = """
cuda.cuInit(0)
print(out(c.c_int, cuda.cuDeviceGetCount), out(c.c_size_t, cuda.cuDeviceTotalMem_v2, 2))
print(out(c.c_size_t, cuda.cuDeviceTotalMem_v2, 3))
"""
    said = answers(text, {"EMU_DEVICES": "3", "EMU_MEMORY": "1GiB"})
    assert said.split("\n") == ["3 1073741824", "error 101"]


def test_a_number_that_is_none_is_named_and_not_used(
    python: Callable[..., subprocess.CompletedProcess[str]],
) -> None:
    text = "cuda.cuInit(0)\nprint(out(c.c_size_t, cuda.cuDeviceTotalMem_v2, 0))"
    done = python(text, {"EMU_MEMORY": "much"})
    assert done.stdout.strip() == str(8 << 30)
    assert done.stderr.count("EMU_MEMORY=much") == 1


def test_nothing_happens_before_init(answers: Answers) -> None:
    text = """
print(len(os.listdir("/proc/self/task")), sum("memfd" in line for line in open("/proc/self/maps")))
"""
    assert answers(text) == "1 0"


@pytest.mark.parametrize(
    ("base", "version", "flags", "symbol"),
    [
        ("cuMemAlloc", 3020, 0, "cuMemAlloc_v2"),
        ("cuMemPrefetchAsync", 8000, 0, "cuMemPrefetchAsync"),
        ("cuMemPrefetchAsync", 12010, 0, "cuMemPrefetchAsync"),
        ("cuMemPrefetchAsync", 12020, 0, "cuMemPrefetchAsync_v2"),
        ("cuMemPrefetchAsync", 13000, 2, "cuMemPrefetchAsync_v2_ptsz"),
        ("cuLaunchKernel", 13000, 1, "cuLaunchKernel"),
        ("cuLaunchKernel", 13000, 2, "cuLaunchKernel_ptsz"),
        ("cuMemcpyHtoD", 13000, 2, "cuMemcpyHtoD_v2_ptds"),
        ("cuCtxCreate", 12040, 0, "cuCtxCreate_v3"),
        ("cuCtxCreate", 13000, 0, "cuCtxCreate_v4"),
        ("cuStreamGetCaptureInfo", 11030, 0, "cuStreamGetCaptureInfo_v2"),
        ("cuInit", 13000, 2, "cuInit"),
    ],
)
def test_get_proc_address_chooses_the_version(
    base: str, version: int, flags: int, symbol: str, answers: Answers
) -> None:
    text = f"print(proc({base.encode()!r}, {version}, {flags}) == (0, address({symbol!r}), 0))"
    assert answers(text) == "True"


def test_get_proc_address_tells_what_is_not_there(answers: Answers) -> None:
    text = """
print(proc(b"cuNoSuchThing", 13000), proc(b"cuMemPrefetchAsync", 7000))
found = c.c_void_p()
print(cuda.cuGetProcAddress(b"cuNoSuchThing", c.byref(found), 13000, c.c_uint64(0)), found.value)
"""
    assert answers(text) == "(0, None, 1) (0, None, 2)\n500 None"


def test_an_older_driver_lacks_what_came_later(
    python: Callable[..., subprocess.CompletedProcess[str]],
) -> None:
    text = """
begin()
print(out(c.c_int, cuda.cuDriverGetVersion), proc(b"cuFuncGetParamInfo", 13000))
print(proc(b"cuMemPrefetchAsync", 13000)[1] == address("cuMemPrefetchAsync_v2"))
print(cuda.cuFuncGetParamInfo(None, 0, None, None))
"""
    done = python(text, {"EMU_DRIVER_VERSION": "12030"})
    assert done.stdout.split("\n")[:3] == ["12030 (0, None, 1)", "True", "801"]
    assert done.stderr.count("cuFuncGetParamInfo") == 1


def test_what_is_not_emulated_says_so_once(
    python: Callable[..., subprocess.CompletedProcess[str]],
) -> None:
    text = "begin()\nprint(cuda.cuSurfObjectDestroy(1), cuda.cuSurfObjectDestroy(1))"
    done = python(text)
    assert done.stdout.strip() == "801 801"
    assert done.stderr.count("cuSurfObjectDestroy is not emulated") == 1


def test_every_symbol_of_the_driver_is_exported(emulator_dir: Path) -> None:
    listed = subprocess.run(
        ["nm", "-D", "--defined-only", str(emulator_dir / "libcuda.so.1")],
        capture_output=True,
        text=True,
        check=True,
    )
    exported = {line.split()[-1] for line in listed.stdout.splitlines()}
    names = json.loads(paths.coverage().read_text(encoding="utf-8"))
    driver = {row["symbol"] for row in names if row["library"] == "cuda"}
    assert len(driver) > 500
    assert sorted(driver - exported) == []
    assert sorted(name for name in exported if not name.startswith(("cu", "emu_"))) == []


def test_failures_from_the_environment(
    python: Callable[..., subprocess.CompletedProcess[str]],
) -> None:
    text = """
begin()
print([out(c.c_uint64, cuda.cuMemAlloc_v2, c.c_size_t(4)) == "error 2" for i in range(4)])
"""
    done = python(text, {"EMU_FAIL": "cuMemAlloc:after=1:error=2"})
    assert (done.stdout.strip(), done.stderr) == ("[False, True, False, False]", "")
    done = python(text, {"EMU_FAIL": "cuMemAlloc:soon"})
    assert done.stdout.strip() == "[False, False, False, False]"
    assert done.stderr.count("EMU_FAIL=cuMemAlloc:soon") == 1


def test_nvml_agrees_with_the_driver(answers: Answers) -> None:
    text = """
nvml = c.CDLL("libnvidia-ml.so.1")
class Memory(c.Structure):
    _fields_ = [("total", c.c_uint64), ("free", c.c_uint64), ("used", c.c_uint64)]
device, memory, name = c.c_void_p(), Memory(), c.create_string_buffer(64)
print(nvml.nvmlDeviceGetHandleByIndex_v2(0, c.byref(device)))
nvml.nvmlInit_v2()
nvml.nvmlDeviceGetHandleByIndex_v2(0, c.byref(device))
nvml.nvmlDeviceGetName(device, name, 64)
nvml.nvmlDeviceGetMemoryInfo(device, c.byref(memory))
print(name.value.decode(), memory.total, memory.used)
begin()
out(c.c_uint64, cuda.cuMemAlloc_v2, c.c_size_t(3 << 20))
nvml.nvmlDeviceGetMemoryInfo(device, c.byref(memory))
print(memory.used, memory.free)
"""
    said = answers(text, {"EMU_MEMORY": "64MiB"})
    assert said.split("\n") == ["1", "Emulated GPU 67108864 0", f"{4 << 20} {60 << 20}"]


def test_error_names(answers: Answers) -> None:
    text = """
print(out(c.c_char_p, lambda p: cuda.cuGetErrorName(700, p)).decode())
print(out(c.c_char_p, lambda p: cuda.cuGetErrorString(2, p)).decode())
print(out(c.c_char_p, lambda p: cuda.cuGetErrorName(12345, p)))
print(out(c.c_char_p, lambda p: cuda.cuGetErrorName(46, p)).decode())
"""
    said = answers(text).split("\n")
    assert said[:3] == ["CUDA_ERROR_ILLEGAL_ADDRESS", "out of memory", "error 1"]
    assert said[3] == "CUDA_ERROR_DEVICE_UNAVAILABLE"


def sanitizer_obstacle() -> str | None:
    """Why nothing can be tried under ThreadSanitizer here; None when it can."""
    for tool in ("cc", "setarch"):
        if not shutil.which(tool):
            return f"no {tool}"
    if subprocess.run(["setarch", "-R", "true"], capture_output=True, check=False).returncode:
        return "address randomisation cannot be switched off"
    command = ["cc", "-fsanitize=thread", "-xc", "-", "-o", "/dev/null"]
    source = "int main(void) { return 0; }"
    made = subprocess.run(command, input=source, text=True, capture_output=True, check=False)
    return "the compiler has no ThreadSanitizer" if made.returncode else None


def test_many_threads_under_thread_sanitizer(tmp_path: Path) -> None:
    obstacle = sanitizer_obstacle()
    if obstacle:
        pytest.skip(obstacle)
    sources = [path for path in (ROOT / "emulator").glob("*.c") if path.name != "nvml.c"]
    program = tmp_path / "stress"
    generated = BUILD / "gen"
    command = ["cc", "-std=gnu11", "-O0", "-g1", "-D_GNU_SOURCE", "-fsanitize=thread"]
    command += [f"-I{folder}" for folder in (ROOT / "hooks", ROOT / "emulator", generated)]
    sources += [generated / "emulator_calls.c", ROOT / "tests" / "c" / "emu_stress.c"]
    command += [str(path) for path in sources]
    subprocess.run([*command, "-o", str(program), "-lpthread", "-lm"], check=True)
    done = subprocess.run(
        ["setarch", "-R", str(program)], capture_output=True, text=True, timeout=120, check=False
    )
    assert "WARNING: ThreadSanitizer" not in done.stderr, done.stderr[:4000]
    assert done.returncode == 0, done.stdout + done.stderr
