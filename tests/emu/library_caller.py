"""Calls functions of libraries as standard input says; run by tests, in a process of its own.

First {"libraries": [names], "bytes": size of one device allocation, "blocks": [[offset, bytes]...]
that a framework tells of, or none}. Then one call a line:
{"library", "symbol", "result", "arguments": [[type, value]...]}. A value is a number, null,
{"device": offset}, {"host": hex}, {"array": offset, "of": [offsets]} for a device array of
addresses, {"handle": "host" or "device"}, where its scalars lie, or a descriptor of cublasLt:
{"make": [symbol, arguments], "set": [symbol, [attribute, type, value]...]}, or a communicator of
NCCL: {"ranks": how many, "rank": of these}. Prints the allocation's address, then each result.
"""

import ctypes
import json
import sys
from typing import Any


class Complex(ctypes.Structure):
    """cuComplex."""

    _fields_ = (("x", ctypes.c_float), ("y", ctypes.c_float))


class DoubleComplex(ctypes.Structure):
    """cuDoubleComplex."""

    _fields_ = (("x", ctypes.c_double), ("y", ctypes.c_double))


TYPES: dict[str, Any] = {
    "char": ctypes.c_char,
    "int": ctypes.c_int,
    "unsigned": ctypes.c_uint,
    "int64_t": ctypes.c_int64,
    "size_t": ctypes.c_size_t,
    "float": ctypes.c_float,
    "double": ctypes.c_double,
    "cuComplex": Complex,
    "cuDoubleComplex": DoubleComplex,
    "pointer": ctypes.c_void_p,
}


def check(status: int) -> None:
    """Raises RuntimeError for a driver's error."""
    if status:
        raise RuntimeError(f"CUresult {status}")


class Device:
    """The driver, one allocation, and the libraries with a handle each."""

    def __init__(self, libraries: list[str], size: int) -> None:
        self.cuda = ctypes.CDLL("libcuda.so.1")
        check(self.cuda.cuInit(0))
        context = ctypes.c_void_p()
        check(self.cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))
        check(self.cuda.cuCtxSetCurrent(context))
        base = ctypes.c_uint64()
        check(self.cuda.cuMemAlloc_v2(ctypes.byref(base), ctypes.c_size_t(size)))
        self.base = base.value
        self.libraries = {name: ctypes.CDLL(name) for name in libraries}
        self.handle = ctypes.c_void_p()
        blas = [lib for name, lib in self.libraries.items() if "cublas.so" in name]
        if blas:
            self.blas = blas[0]
            check(self.blas.cublasCreate_v2(ctypes.byref(self.handle)))
        self.kept: list[Any] = []

    def tell(self, blocks: list[list[int]]) -> None:
        """Says as a framework does that blocks of the allocation were handed out."""
        report = ctypes.CDLL(None)["_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE"]
        cuda_device_0 = ctypes.c_int16(1)
        for offset, size in blocks:
            start = ctypes.c_void_p(self.base + offset)
            report(start, ctypes.c_int64(size), *[ctypes.c_size_t(size)] * 2, cuda_device_0)

    def value(self, value: Any) -> Any:
        """What to give ctypes; host memory lives until the next call."""
        if not isinstance(value, dict):
            return value
        if "device" in value:
            return self.base + value["device"]
        if "host" in value:
            data = bytes.fromhex(value["host"])
            memory = ctypes.create_string_buffer(data, max(len(data), 1))
            self.kept.append(memory)
            return ctypes.addressof(memory)
        if "array" in value:
            words = (ctypes.c_uint64 * len(value["of"]))(*[self.base + at for at in value["of"]])
            start, size = self.base + value["array"], ctypes.c_size_t(ctypes.sizeof(words))
            if size.value:
                check(self.cuda.cuMemcpyHtoD_v2(ctypes.c_uint64(start), words, size))
            return start
        if "make" in value:
            return self.descriptor(*value["make"], *value["set"])
        if "ranks" in value:
            comms = (ctypes.c_void_p * value["ranks"])()
            check(self.libraries["libnccl.so.2"].ncclCommInitAll(comms, value["ranks"], None))
            return comms[value["rank"]]
        self.set_mode(int(value["handle"] == "device"))
        return self.handle.value

    def descriptor(self, symbol: str, words: list[Any], setter: str, *attributes: Any) -> int:
        """A descriptor of cublasLt with its attributes set."""
        lt = next(lib for name, lib in self.libraries.items() if "cublasLt" in name)
        made = ctypes.c_void_p()
        arguments = [TYPES[kind](value) for kind, value in words]
        check(lt[symbol](ctypes.byref(made), *arguments))
        for attribute, kind, value in attributes:
            memory = TYPES[kind](self.value(value) or 0)
            size = ctypes.c_size_t(ctypes.sizeof(memory))
            check(lt[setter](made, attribute, ctypes.byref(memory), size))
        assert made.value
        return made.value

    def set_mode(self, mode: int) -> None:
        """Where the handle finds scalars: 0 host, 1 device."""
        check(self.blas.cublasSetPointerMode_v2(self.handle, mode))

    def call(self, call: dict[str, Any]) -> int:
        """One call; its result as an integer, 0 where it has none."""
        function = self.libraries[call["library"]][call["symbol"]]
        function.argtypes = [TYPES[kind] for kind, _ in call["arguments"]]
        function.restype = TYPES.get(call["result"])
        values = []
        for kind, value in call["arguments"]:
            if kind in ("cuComplex", "cuDoubleComplex"):
                value = TYPES[kind](*value)
            elif kind == "char":
                value = value.encode()
            values.append(self.value(value))
        result = function(*values)
        self.kept.clear()
        return int(result) if isinstance(result, int) else 0


def main() -> None:
    """Reads, calls, prints."""
    head = json.loads(sys.stdin.readline())
    device = Device(head["libraries"], head["bytes"])
    device.tell(head.get("blocks", []))
    print(device.base)
    for line in sys.stdin:
        print(device.call(json.loads(line)))
    check(device.cuda.cuCtxSynchronize())


main()
