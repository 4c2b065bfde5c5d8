"""What commands are shown in snapshots: input that is made up, so that it stays the same."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from pump import binding, paths, stats
from pump.bench import cli as bench
from pump.bench import share_row
from pump.binding import Option
from pump.cli import cdi, sim, tenants
from pump.coverage import Function
from pump.doctor import Finding, Level
from pump.predict import plan
from pump.predict.plan import Point, Task
from pump.share import broker
from pump.sizes import GIB, MIB
from pump.stats import Held
from tests.unit.test_cli_top import LATER

MANGLED = "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_15CUDAFunctor_addIfEEEEviT0_T1_"
OPTIONS = [
    Option("ULMS_LOG_LEVEL", (), "WARN", "ERROR, WARN, INFO or DEBUG", "how much is said"),
    Option(
        "ULMS_GPU_MEMORY",
        ("WRAPPER_MAX_MEMORY", "CUDA_DEVICE_MEMORY_LIMIT", "GPU_MEMORY_LIMIT"),
        "",
        "a size above 0, such as 8GiB, 512MiB, 1.5G or 1073741824",
        "device memory that the program may see and use, on each device; not set: all there is",
    ),
]
FUNCTIONS = [
    Function("cuda", "cuInit", "cuInit", 2000, "passed", "asks, and gives the GPU nothing", ()),
    Function("cuda", "cuMemAlloc_v2", "cuMemAlloc", 3020, "accounted", "", ()),
    Function("cuda", "cuMemcpyDtoH_v2", "cuMemcpyDtoH", 3020, "recorded", "", ("src[n]",)),
    Function("cublas", "cublasSgemm_v2", "cublasSgemm", 0, "recorded", "", ("a[m*k]", "c[m*n]")),
]


def tenant(number: int, group: str, **more: object) -> dict[str, Any]:
    """What the broker says of one."""
    names = "had resident budget need waited_ns turns switches refilled evicted filed used"
    settings = "request limit hard priority memory_limit idle_s pin"
    zeros = dict.fromkeys([*names.split(), *settings.split()], 0)
    states = {
        "suspended": False,
        "parked": False,
        "released": 0,
        "may_issue": 1,
        "wants": 1,
        "in_flight": 1,
    }
    return zeros | states | {"tenant": number, "pid": 4000 + number, "group": group} | more


AWAY = {
    "suspended": True,
    "away_ns": 2 * 10**9,
    "evicted": 20 * GIB,
    "files": 0,
    "filed": 0,
    "unfiled": "",
    "stays": 300 * MIB,
    "nvml_used": 800 * MIB,
}
MACHINE = {
    "gpu": "NVIDIA H200",
    "driver": "580.1",
    "commit": "0123456789",
    "when": "2026-01-01T00:00:00+00:00",
}
PLAYED = [
    share_row.row(
        "decoders", share_row.decoders_of(3, 0.5), [80.0, 99.0, 90.0], swap=73.5, bound=100
    ),
    share_row.row("first token", "15 GiB, away", [0.25], faults=1.75),
]
FINDINGS = [
    Finding(Level.OK, "driver", "for CUDA 13.0"),
    Finding(Level.NOTE, "ULMS_TRACE", "t.ulms is there already", "name another file"),
    Finding(Level.PROBLEM, "C library", "glibc 2.12", "take a newer system"),
]
SHARED = {
    "gpus": [
        {
            "uuid": "0011223344556677889900aabbccddee",
            "capacity": 80 * GIB,
            "taking_turns": 1,
            "turns": 1234,
            "tenants": [
                tenant(1, "train", had=700, resident=60 * GIB, need=75 * GIB, request=300),
                tenant(2, "notebook", may_issue=0, waited_ns=10**10, evicted=5 * GIB, limit=600),
                tenant(3, "away", **AWAY),
            ],
        }
    ],
    "config": "/etc/ulms.toml",
}
HELD = [Held(MANGLED, 9 * 10**9, 1234, 3 * GIB), Held("cuMemcpyDtoH_v2", 10**8, 7, GIB)]


def played(_: object, tasks: Iterable[Task], workers: object) -> list[tuple[Task, Point]]:
    """Steps take the longer the less memory there is."""
    del workers
    return [
        (each, Point(each.backend, each.budget, took, took, 0.0, 0.0))
        for each in tasks
        for took in [1e12 / each.budget]
    ]


def ran(name: str, sequence: object, link: Any, over: float, policy: str) -> sim.Row:
    """One run of `pump sim`."""
    del sequence
    figures = (100 * over, 12e9, 3e9, 0.125, 640.0, 128.0)
    return sim.Row(name, 3 * GIB, 25.0, link.name, over, policy, *figures)


def make_up(patch: pytest.MonkeyPatch) -> None:
    """Commands find all this."""
    views = [replace(LATER, held=HELD, opened=datetime(2026, 1, 1, 9, 30).timestamp())]
    patch.setattr("pump.cli.options.option_rows", lambda: OPTIONS)
    patch.setattr("pump.coverage.load", lambda: FUNCTIONS)
    patch.setattr("pump.installed.find", lambda *_: [])
    patch.setattr(stats, "running", lambda: views)
    patch.setattr(broker, "status", lambda _: SHARED)
    patch.setattr(broker, "folder", lambda: Path("/run/user/1000/ulms"))
    patch.setattr(broker, "suspend", lambda *_, **__: None)
    patch.setattr(broker, "start", lambda *_, **__: True)
    patch.setattr("pump.doctor.examine", lambda _: FINDINGS)
    patch.setattr(cdi, "glibc_needed", lambda _: (2, 17))
    patch.setattr(bench, "with_yardsticks", lambda rows, *_, **__: rows)
    patch.delenv("LD_PRELOAD", raising=False)
    patch.setattr(tenants, "program", lambda pid: f"python{pid}")
    patch.setattr(plan, "results", played)
    patch.setattr(sim, "play", ran)


def install(patch: pytest.MonkeyPatch) -> None:
    """The library lies there; what is asked of it is the real one's."""
    binding.library()
    patch.setattr(paths, "library", lambda: Path("/usr/lib/pump/ulms.so"))
