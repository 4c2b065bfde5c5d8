"""How much of a device is really in use, as NVML tells it to a process of its own.

A measured program cannot be asked: `ulms.so` answers it with what the program may see. NVML counts
what all processes hold, so a figure is the growth since before the program started.
"""

import ctypes
import threading
import time
from types import TracebackType

SAMPLED_S = 0.002
"""Between two looks."""


class NoNvmlError(Exception):
    """NVML is not there, or does not tell. One line."""


class _Memory(ctypes.Structure):
    """`nvmlMemory_t`."""

    _fields_ = [
        ("total", ctypes.c_ulonglong),
        ("free", ctypes.c_ulonglong),
        ("used", ctypes.c_ulonglong),
    ]


class Nvml:
    """The used memory of one device. Devices have NVML's numbers, whatever CUDA_VISIBLE_DEVICES."""

    def __init__(self, device: int = 0) -> None:
        """Raises NoNvmlError."""
        try:
            self._library = ctypes.CDLL("libnvidia-ml.so.1")
        except OSError as error:
            raise NoNvmlError(f"NVML: {error}") from error
        self._device = ctypes.c_void_p()
        self._call("nvmlInit_v2")
        self._call(
            "nvmlDeviceGetHandleByIndex_v2", ctypes.c_uint(device), ctypes.byref(self._device)
        )

    def _call(self, name: str, *arguments: object) -> None:
        status = getattr(self._library, name)(*arguments)
        if status != 0:
            raise NoNvmlError(f"NVML: {name} gives {status}")

    def used(self) -> int:
        """Bytes, by all processes. Raises NoNvmlError."""
        memory = _Memory()
        self._call("nvmlDeviceGetMemoryInfo", self._device, ctypes.byref(memory))
        return int(memory.used)


class Sampler:
    """Looks every few milliseconds, on a thread of its own, from entry to exit."""

    def __init__(self, nvml: Nvml) -> None:
        """Begins at the memory that is in use now. Raises NoNvmlError."""
        self._nvml = nvml
        self.before = nvml.used()
        """Bytes in use when it was made."""
        self._most = self.before
        self._looks = 0
        self._lock = threading.Lock()
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> "Sampler":
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._end.is_set():
            self.look()
            time.sleep(SAMPLED_S)

    def look(self) -> int:
        """Bytes in use now."""
        try:
            used = self._nvml.used()
        except NoNvmlError:
            return 0
        with self._lock:
            self._most = max(self._most, used)
            self._looks += 1
        return used

    def take_peak(self) -> int:
        """The most bytes that were in use since the last call, or since it was made."""
        now = self.look()
        with self._lock:
            most, self._most = self._most, now
        return most
