"""The kernels of `tests/kernels`, compiled by NVRTC, and what `csrc/code` says of them."""

import ctypes
import os
import re
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.unit.disassembly import BUILD

FOLDER = Path(__file__).parents[1] / "kernels"
AUDIT = Path(os.environ.get("PUMP_AUDIT", "none"))
NVRTC = next(AUDIT.glob("nvidia/*/lib/libnvrtc.so.*"), None)
KERNEL = re.compile(r"^K (\w+)\((.*?)\) \{\n(.*?)^\}", re.M | re.S)
POINTER = re.compile(r"(.*\*(?: ?const)?) ?(\w+)")
SIZES = {"int": 4, "u32": 4, "float": 4, "int3": 12, "i64": 8, "u64": 8, "double": 8}
STRUCTS = {
    "pair": (24, {0: "_r", 1: "_w"}),
    "part": (16, {0: "_r"}),
    "list": (192, dict.fromkeys(range(16), "_rw")),
}
"""Bytes, and the words that are pointers."""
EVERY = frozenset(range(512))


@dataclass(frozen=True)
class Kernel:
    """One that a source defines."""

    name: str
    parameters: tuple[str, ...]
    body: str

    @property
    def pointers(self) -> dict[int, str]:
        """The words of the parameters that are pointers, and how their names end."""
        found, at = dict[int, str](), 0
        for parameter in self.parameters:
            kind, _, name = parameter.rpartition(" ")
            size, words = STRUCTS.get(kind, (SIZES.get(kind, 8), dict[int, str]()))
            if POINTER.fullmatch(parameter):
                size, words = 8, {0: name[name.rfind("_") :]}
            align = 4 if size in (4, 12) else 8
            at = -(-at // align) * align
            found |= {at // 8 + word: suffix for word, suffix in words.items()}
            at += size
        return found


def kernels(source: str) -> list[Kernel]:
    """All that a file defines."""
    text = (FOLDER / source).read_text(encoding="utf-8")
    return [
        Kernel(name, tuple(p.strip() for p in parameters.split(",")), body)
        for name, parameters, body in KERNEL.findall(text)
    ]


def text_of(*sources: str) -> str:
    """The sources one behind the other."""
    names = ("common.cuh", *sources)
    return "\n".join((FOLDER / name).read_text(encoding="utf-8") for name in names)


def compiled(source: str, architecture: str) -> bytes:
    """The cubin that NVRTC makes."""
    for part in AUDIT.glob("nvidia/*/lib/libnvrtc-builtins.so.*"):  # which it would look for
        ctypes.CDLL(str(part), mode=ctypes.RTLD_GLOBAL)
    nvrtc = ctypes.CDLL(str(NVRTC))
    program, size = ctypes.c_void_p(), ctypes.c_size_t()
    options = [f"--gpu-architecture=sm_{architecture}", "-std=c++17"]
    array = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
    nvrtc.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"k.cu", 0, None, None)
    failed = nvrtc.nvrtcCompileProgram(program, len(options), array)
    what = "ProgramLog" if failed else "CUBIN"
    getattr(nvrtc, f"nvrtcGet{what}Size")(program, ctypes.byref(size))
    out = ctypes.create_string_buffer(size.value)
    getattr(nvrtc, f"nvrtcGet{what}")(program, out)
    nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
    if failed:
        raise RuntimeError(out.value.decode())
    return out.raw


@dataclass(frozen=True)
class Verdict:
    """What is said of a kernel. Rules: the words of which one, and none, must be an address."""

    name: str
    verdict: str
    reason: str
    reads: frozenset[int]
    writes: frozenset[int]
    rules: tuple[tuple[frozenset[int], frozenset[int]], ...]

    def trusts(self, addresses: Iterable[int]) -> bool:
        """At a launch where these words hold addresses."""
        here = frozenset(addresses)
        holds = all(
            (not one or len(one & here) == 1) and not none & here for one, none in self.rules
        )
        return self.verdict == "direct" or (self.verdict == "indexed" and holds)


def words(text: str) -> frozenset[int]:
    """As `read_code` prints them."""
    return EVERY if text == "all" else frozenset(map(int, text.split()))


def verdicts(*arguments: str | Path, lines: str = "") -> Iterator[Verdict]:
    """What `read_code` says with these arguments."""
    command = [str(BUILD / "read_code"), *map(str, arguments)]
    done = subprocess.run(command, input=lines, capture_output=True, text=True, check=True)
    for line in done.stdout.splitlines():
        name, verdict, reason, _, _, *sets = line.split("\t")
        reads, writes, _, *rules = map(words, sets)
        pairs = tuple(zip(rules[::2], rules[1::2], strict=True))
        yield Verdict(name, verdict, reason, reads, writes, pairs)


WAYS = {
    "direct": "{t} {n} = *{n}_;",
    "shuffled": "{t} {n} = ({t})__shfl_sync(ALL, (u64)*{n}_, 6);",
    "hidden": "{t} {n} = ({t})((u64)*{n}_ ^ 0x777777777777ull);",
    "halves": "{t} {n} = ({t})((u64)((u32 *){n}_)[5] << 32 | ((u32 *){n}_)[2]);",
    "shared": """__shared__ {t} s_{n};
        if (!threadIdx.x) s_{n} = *{n}_;
        __syncthreads();
        {t} {n} = s_{n};""",
    "tagged": "{t} {n} = ({t})((u64)*{n}_ & ~7ull);",
    "local": """{t} l_{n}[4];
        for (int z = 0; z < 4; z++) l_{n}[z] = {n}_[z];
        {t} {n} = l_{n}[blockIdx.z & 3];""",
    "chosen": "{t} {n} = blockIdx.z == 9 ? *{n}_ : ({t}){n}_;",
    "atomic": "{t} {n} = ({t})atomicExch((u64 *){n}_, 0ull);",
    "difference": "{t} {n} = ({t})((i64){n}_ + opaque((i64)*{n}_ - (i64){n}_));",
    "quarters": "{t} {n} = ({t})((i64){n}_ + 4 * opaque(((i64)*{n}_ - (i64){n}_) >> 2));",
    "shared_difference": """__shared__ i64 s_{n};
        if (!threadIdx.x) s_{n} = (i64)*{n}_ - (i64){n}_;
        __syncthreads();
        {t} {n} = ({t})((i64){n}_ + s_{n});""",
    "shuffled_difference": """i64 d_{n} = __shfl_sync(ALL, (i64)*{n}_ - (i64){n}_, 4);
        {t} {n} = ({t})((i64){n}_ + d_{n});""",
}
"""How a mutant takes a pointer, of type t and name n, from memory."""


def mutants(source: str) -> tuple[str, dict[str, tuple[Kernel, str]]]:
    """A source with each kernel's mutants in the kernel's place, and those by name: the kernel, and
    the name of the pointer that comes from memory.
    """
    found: dict[str, tuple[Kernel, str]] = {}

    def mutated(match: re.Match[str]) -> str:
        kernel = Kernel(match[1], tuple(p.strip() for p in match[2].split(",")), match[3])
        out = []
        for place, parameter in enumerate(kernel.parameters):
            pointer = POINTER.fullmatch(parameter)
            for way, text in WAYS.items() if pointer else ():
                assert pointer
                name = f"{kernel.name}_{place}_{way}"
                found[name] = kernel, pointer[2]
                changed = list(kernel.parameters)
                changed[place] = f"{pointer[1]} *{pointer[2]}_"
                start = text.format(t=pointer[1], n=pointer[2])
                out.append(f"K {name}({', '.join(changed)}) {{ {start}\n{kernel.body}}}\n")
        return "".join(out)

    return KERNEL.sub(mutated, text_of(source)), found
