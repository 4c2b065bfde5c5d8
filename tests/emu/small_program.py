"""Programs of a few lines over the emulated driver."""

import sys
from pathlib import Path

from tests.conftest import RunEmulated

DRIVER = """
import ctypes

driver, every = ctypes.CDLL("libcuda.so.1"), ctypes.CDLL(None)
MIB = 1 << 20
context = ctypes.c_void_p()


def call(name, *arguments):
    status = getattr(driver, name)(*arguments)
    assert status == 0, (name, status)


def allocated(size):
    start = ctypes.c_uint64()
    call("cuMemAlloc_v2", ctypes.byref(start), ctypes.c_size_t(size))
    return start


def fill(start, word, size):
    call("cuMemsetD32_v2", start, ctypes.c_uint(word), ctypes.c_size_t(size // 4))
    call("cuCtxSynchronize")


def words_of(start, size):
    host = (ctypes.c_uint * (size // 4))()
    call("cuMemcpyDtoH_v2", host, start, ctypes.c_size_t(size))
    whole = bytes(host)
    return {host[0]} if whole == whole[:4] * (size // 4) else set(host)


def counter(name):
    every.ulms_counter.restype = ctypes.c_uint64
    return every.ulms_counter(name.encode())


call("cuInit", 0)
call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
call("cuCtxSetCurrent", context)
"""
"""What such a program begins with."""


def run_small(run: RunEmulated, folder: Path, text: str, *, memory: str, **more: str) -> str:
    """Runs DRIVER and the text with so much memory, under `vmm` unless `more` variables say
    otherwise; what it printed.
    """
    program = folder / "program.py"
    program.write_text(DRIVER + text, encoding="utf-8")
    env = {
        "ULMS_BACKEND": "vmm",
        "ULMS_GPU_MEMORY": memory,
        "ULMS_GPU_MEMORY_FACTOR": "100",
        **more,
    }
    done = run([sys.executable, program], env)
    assert done.returncode == 0, done.stderr
    return done.stdout
