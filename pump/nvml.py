"""NVML, as far as PUMP asks it."""

import ctypes


class NoNvmlError(Exception):
    """NVML is not there, or does not tell. One line."""


class _Memory(ctypes.Structure):
    """`nvmlMemory_t`."""

    _fields_ = [
        ("total", ctypes.c_ulonglong),
        ("free", ctypes.c_ulonglong),
        ("used", ctypes.c_ulonglong),
    ]


class _Process(ctypes.Structure):
    """`nvmlProcessInfo_v2_t`."""

    _fields_ = [
        ("pid", ctypes.c_uint),
        ("used", ctypes.c_ulonglong),
        ("gpu_instance", ctypes.c_uint),
        ("compute_instance", ctypes.c_uint),
    ]


class Nvml:
    """The used memory of one device: by NVML's number of it, or by its name (GPU-..., MIG-...)."""

    def __init__(self, device: int | str = 0) -> None:
        """Raises NoNvmlError."""
        try:
            self._library = ctypes.CDLL("libnvidia-ml.so.1")
        except OSError as error:
            raise NoNvmlError(f"NVML: {error}") from error
        self._device = ctypes.c_void_p()
        self._call("nvmlInit_v2")
        handle = ctypes.byref(self._device)
        if isinstance(device, int):
            self._call("nvmlDeviceGetHandleByIndex_v2", ctypes.c_uint(device), handle)
        else:
            self._call("nvmlDeviceGetHandleByUUID", device.encode(), handle)

    def _call(self, name: str, *arguments: object) -> None:
        status = getattr(self._library, name)(*arguments)
        if status != 0:
            raise NoNvmlError(f"NVML: {name} gives {status}")

    def kind(self) -> str:
        """What its maker calls it. Raises NoNvmlError."""
        return self._text("nvmlDeviceGetName", self._device)

    def driver(self) -> str:
        """The driver's version. Raises NoNvmlError."""
        return self._text("nvmlSystemGetDriverVersion")

    def _text(self, name: str, *of: object) -> str:
        room = ctypes.create_string_buffer(128)
        if not hasattr(self._library, name):
            raise NoNvmlError(f"NVML: no {name}")
        self._call(name, *of, room, ctypes.c_uint(len(room)))
        return room.value.decode(errors="replace")

    def used(self) -> int:
        """Bytes, by all processes. Raises NoNvmlError."""
        memory = _Memory()
        self._call("nvmlDeviceGetMemoryInfo", self._device, ctypes.byref(memory))
        return int(memory.used)

    def free(self) -> tuple[int, int]:
        """Bytes that are free, and of all. Raises NoNvmlError."""
        memory = _Memory()
        self._call("nvmlDeviceGetMemoryInfo", self._device, ctypes.byref(memory))
        return int(memory.free), int(memory.total)

    def processes(self) -> dict[int, int]:
        """Bytes by the process that has them, contexts included; without those that it does not
        tell. Raises NoNvmlError.
        """
        count = ctypes.c_uint(len(_ROOM))
        name = "nvmlDeviceGetComputeRunningProcesses_v3"
        if not hasattr(self._library, name):
            raise NoNvmlError(f"NVML: no {name}")
        self._call(name, self._device, ctypes.byref(count), _ROOM)
        return {each.pid: each.used for each in _ROOM[: count.value] if each.used != _UNKNOWN}


_ROOM = (_Process * 256)()
_UNKNOWN = 2**64 - 1
