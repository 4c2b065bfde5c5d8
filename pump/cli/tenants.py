"""Tables of the programs that share GPUs, for `pump share status` and `pump top`."""

import uuid
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from rich.console import RenderableType

from pump.cli.quantities import TENANT, per_cent
from pump.nvml import NoNvmlError, Nvml
from pump.sizes import format_size
from pump.terminal.tables import table

SHOWN = [quantity for quantity in TENANT if quantity.heading]
COLUMNS = (
    *("share", ">pid", "program", "state", "asked"),
    *(f">{quantity.heading}" for quantity in SHOWN),
)

LEAVES = (
    *("switches", "turns", "in a file", "asked", "budget", "waited", "needs"),
    *("out", "in", "had 10 s", "program"),
)
"""Headings of columns: the first one leaves first where there is no room."""


def each(now: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The tenants of the broker's status, each with its GPU, program and state."""
    for gpu in now["gpus"]:
        for tenant in gpu["tenants"]:
            alone = len(gpu["tenants"]) == 1
            more = {"program": program(tenant["pid"]), "state": state(tenant, alone=alone)}
            yield {"gpu": gpu["uuid"]} | tenant | more


def counted(rows: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Each with the bytes that NVML counts for the process, its context included, if it does."""
    found: dict[str, dict[int, int]] = {}
    for row in rows:
        gpu = row["gpu"]
        if gpu not in found:
            found[gpu] = {}
            with suppress(NoNvmlError):
                found[gpu] = nvml(gpu).processes()
        used = found[gpu].get(row["pid"])
        yield row if used is None else row | {"nvml_used": used}


@cache
def nvml(gpu: str) -> Nvml:
    """Of the GPU that the broker calls so. Raises NoNvmlError."""
    return Nvml(f"GPU-{uuid.UUID(gpu)}")


def page(now: dict[str, Any]) -> list[RenderableType]:
    """A table a GPU, and where the settings are from."""
    tenants = list(each(now))
    parts: list[RenderableType] = [
        table(COLUMNS, [row(t) for t in tenants if t["gpu"] == gpu["uuid"]], title(gpu), LEAVES)
        for gpu in now["gpus"]
    ]
    if wrong := now.get("config_wrong"):
        parts.append(f"{wrong}; the settings stay as they were")
    elif config := now.get("config"):
        parts.append(f"settings from {config}")
    return parts


def title(gpu: dict[str, Any], digits: int | None = None) -> str:
    """What is shared, and how; with so many digits of the GPU's name, or all."""
    how = f"turns ({gpu['turns']:,} so far)" if gpu["taking_turns"] else "all run at once"
    name = str(uuid.UUID(gpu["uuid"]))[:digits]
    return f"GPU-{name}: {format_size(gpu['capacity'])} to share, {how}"


def row(tenant: dict[str, Any]) -> tuple[object, ...]:
    """A program, as COLUMNS has it."""
    who = (tenant["group"], tenant["pid"], tenant["program"], tenant["state"], asked(tenant))
    return (*who, *(quantity.text(tenant[quantity.key]) for quantity in SHOWN))


def asked(tenant: dict[str, Any]) -> str:
    """The settings that its group asked for, or was given."""
    request, limit, priority = (tenant[name] for name in ("request", "limit", "priority"))
    words = [per_cent(request)] if request else []
    words += [f"at most {per_cent(limit)}{' hard' * tenant['hard']}"] if limit else []
    words += [f"priority {priority}"] if priority else []
    words += [format_size(tenant["memory_limit"])] if tenant["memory_limit"] else []
    words += [f"idle {tenant['idle_s']:g} s"] if tenant["idle_s"] else []
    words += ["pin"] if tenant["pin"] else []
    return ", ".join(words)


def state(tenant: dict[str, Any], *, alone: bool) -> str:
    """What it does just now."""
    if tenant["released"]:
        return "released"
    if tenant["suspended"]:
        put_away = "parked" if tenant["parked"] else "suspended"
        return put_away if "away_ns" in tenant else "leaves"
    if alone:
        return "alone"
    if tenant["wants"] and not tenant["may_issue"]:
        return "waits"
    return "runs" if tenant["wants"] or tenant["in_flight"] else "idle"


def program(pid: int) -> str:
    """The name of the process; "" where /proc does not show it, as from another container."""
    try:
        return Path(f"/proc/{pid}/comm").read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""
