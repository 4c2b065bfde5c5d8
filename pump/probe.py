"""Asks the CUDA driver of this process what it is, and prints a Driver as JSON.

Run in a process of its own (COMMAND), for the driver's sake and ours. Standard library only.
"""

import ctypes
import json
import sys
from dataclasses import asdict, dataclass, field

CONCURRENT_MANAGED_ACCESS = 89  # CUdevice_attribute
NAME_BYTES = 256

COMMAND = (sys.executable, "-I", __file__)


@dataclass
class Device:
    """A device as the driver describes it. Memory in bytes."""

    name: str
    memory: int
    concurrent_managed_access: bool


@dataclass
class Driver:
    """What became of loading the driver and asking it."""

    error: str = ""  # from the loader: why there is no driver at all
    version: int = 0  # 12040 is 12.4
    status: int = 0  # what cuInit answered
    devices: list[Device] = field(default_factory=list)


def probe() -> Driver:
    """Loads `libcuda.so.1` as a program does, and asks."""
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        return Driver(error=str(error))
    found = Driver()
    number = ctypes.c_int()
    if cuda.cuDriverGetVersion(ctypes.byref(number)) == 0:
        found.version = number.value
    found.status = cuda.cuInit(0)
    if found.status == 0 and cuda.cuDeviceGetCount(ctypes.byref(number)) == 0:
        found.devices = [describe(cuda, ordinal) for ordinal in range(number.value)]
    return found


def describe(cuda: ctypes.CDLL, ordinal: int) -> Device:
    """One device."""
    device, access, memory = ctypes.c_int(), ctypes.c_int(), ctypes.c_size_t()
    name = ctypes.create_string_buffer(NAME_BYTES)
    cuda.cuDeviceGet(ctypes.byref(device), ordinal)
    cuda.cuDeviceGetName(name, NAME_BYTES, device)
    cuda.cuDeviceTotalMem_v2(ctypes.byref(memory), device)
    cuda.cuDeviceGetAttribute(ctypes.byref(access), CONCURRENT_MANAGED_ACCESS, device)
    return Device(name.value.decode(errors="replace"), memory.value, bool(access.value))


if __name__ == "__main__":
    print(json.dumps(asdict(probe())))
