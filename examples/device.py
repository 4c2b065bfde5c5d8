"""The driver, by ctypes: arrays of floats, and the one kernel that the programs here launch."""

import ctypes
import struct
from pathlib import Path

DRIVER = ctypes.CDLL("libcuda.so.1")
BLOCK = 256
Number = ctypes.c_float | ctypes.c_uint64


def call(name: str, *arguments: object) -> None:
    """A function of the driver; ends the program if the driver refuses."""
    if status := getattr(DRIVER, name)(*arguments):
        raise SystemExit(f"{name}: error {status}")


class Array:
    """So many MiB of floats, all of one value."""

    def __init__(self, mib: int, value: float) -> None:
        self.count, self.start = mib << 18, ctypes.c_uint64()
        (word,) = struct.unpack("I", struct.pack("f", value))
        call("cuMemAlloc_v2", ctypes.byref(self.start), ctypes.c_size_t(4 * self.count))
        call("cuMemsetD32_v2", self.start, ctypes.c_uint(word), ctypes.c_size_t(self.count))

    def add(self, factor: float, other: "Array") -> None:
        """Adds factor * other, on the device."""
        count, scale = ctypes.c_uint64(self.count), ctypes.c_float(factor)
        values: tuple[Number, ...] = scale, other.start, self.start, count
        pointers = (ctypes.c_void_p * 4)(*map(ctypes.addressof, values))
        sizes = (-(-self.count // BLOCK), 1, 1, BLOCK, 1, 1, 0)
        call("cuLaunchKernel", AXPY, *sizes, None, pointers, None)

    def last(self) -> float:
        """The last value, when all that was launched before is done."""
        host = ctypes.c_float()
        at = ctypes.c_uint64(self.start.value + 4 * (self.count - 1))
        call("cuMemcpyDtoH_v2", ctypes.byref(host), at, ctypes.c_size_t(4))
        return host.value


context, module, AXPY = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
call("cuInit", 0)
call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
call("cuCtxSetCurrent", context)
image = Path(__file__).with_name("axpy.ptx").read_bytes()
if DRIVER.cuModuleLoadData(ctypes.byref(module), image):  # no compiler: the emulated device
    call("cuModuleLoadData", ctypes.byref(module), b"emu:builtin")
call("cuModuleGetFunction", ctypes.byref(AXPY), module, b"axpy")
