"""What `pump top` shows, as names, labels and numbers that monitoring understands."""

import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pump.cli import tenants
from pump.cli.quantities import GPU, MEMORY, PROCESS, TENANT, THOUSANDTHS, Quantity
from pump.cli.top import PART, Look, with_parts
from pump.stats import Counter, Snapshot

MOST = " at most"
"""In the help of a counter that is no sum but the greatest value so far."""
UNITS = {"_ns": ("_seconds", 1e-9), "_s": ("_seconds", 1.0), "_bytes": ("_bytes", 1.0)}
"""By the end of a key: what stands there in Prometheus's base units, and the factor."""
BYTES, SECONDS, RATIO = ("_bytes", 1.0), ("_seconds", 1.0), ("_ratio", 1e-3)
OF_UNIT = {"": ("", 1.0), "B": BYTES, "s": SECONDS, THOUSANDTHS: RATIO}

Labels = dict[str, str]


@dataclass
class Metric:
    """One name, and its value for each that has it."""

    name: str
    """Without the `_total` of a counter."""
    kind: str
    """`counter` or `gauge`."""
    help: str
    samples: dict[tuple[tuple[str, str], ...], float] = field(default_factory=dict)
    """By labels: of two that look alike, the latter."""

    @property
    def full_name(self) -> str:
        """As Prometheus's text has it."""
        return f"{self.name}_total" if self.kind == "counter" else self.name


class Metrics(dict[str, Metric]):
    """By name, in the order in which they came."""

    def add(self, noun: str, quantity: Quantity, labels: Labels, value: float) -> Metric:
        """A value of a process, tenant or GPU, in its metric."""
        name, factor = base_unit(f"ulms_{noun}_{quantity.key}", quantity.unit)
        kind = "counter" if quantity.grows else "gauge"
        metric = self.setdefault(name, Metric(name, kind, quantity.help))
        metric.samples[tuple(labels.items())] = value * factor if factor != 1 else value
        return metric

    def add_all(
        self, noun: str, quantities: Iterable[Quantity], labels: Labels, values: Mapping[str, Any]
    ) -> None:
        """Those of the quantities that are told: a broker of another version may tell fewer."""
        for quantity in quantities:
            if quantity.key in values:
                self.add(noun, quantity, labels, values[quantity.key])


def base_unit(key: str, unit: str) -> tuple[str, float]:
    """A name that ends in the base unit, and what a value is multiplied with."""
    for end, (word, factor) in UNITS.items():
        if key.endswith(end):
            return key.removesuffix(end) + word, factor
    word, factor = OF_UNIT[unit]
    return key + word, factor


def metrics(look: Look) -> list[Metric]:
    """All that a look shows. The numbers of programs and tenants are always there."""
    made = Metrics()
    programs = [view.now for view in look.views]
    rows = list(tenants.counted(tenants.each(look.shared)))
    made.add("host", Quantity("processes", "programs that show counters"), {}, len(programs))
    made.add("host", Quantity("tenants", "programs that share a GPU"), {}, len(rows))
    for gpu in look.shared["gpus"]:
        made.add_all("gpu", GPU, {"gpu": gpu_name(gpu["uuid"])}, gpu)
    for row in rows:
        add_tenant(made, row)
    for program in programs:
        add_program(made, program)
    return list(made.values())


def add_tenant(made: Metrics, row: Mapping[str, Any]) -> None:
    """One process on one GPU, which joined under a number."""
    labels = {"gpu": gpu_name(row["gpu"]), "share": row["group"], "tenant": str(row["tenant"])}
    labels |= {"pid": str(row["pid"]), "program": row["program"]}
    made.add_all("tenant", TENANT, labels, row)
    state = Quantity("state", "1: the program is in the state that the label names")
    made.add("tenant", state, labels | {"state": row["state"]}, 1)


def add_program(made: Metrics, program: Snapshot) -> None:
    """One process that shows counters."""
    labels = {"pid": str(program.pid), "program": program.program}
    for quantity in PROCESS:
        made.add("process", quantity, labels, getattr(program, quantity.key))
    for memory in program.memory:
        told = {key: value for key, value in vars(memory).items() if value or key != "capacity"}
        made.add_all("process_memory", MEMORY, labels | {"device": str(memory.device)}, told)
    for whole, *parts in with_parts(program.counters.values()).values():
        of = made.add("process", counted(whole, whole.help), labels, whole.value).full_name
        for part in parts:
            text = f"of {of}, {part.help.removeprefix(PART)}"
            made.add("process", counted(part, text), labels, part.value)


def counted(counter: Counter, text: str) -> Quantity:
    """A counter, with its help."""
    text = text.replace("nanoseconds", "seconds")
    return Quantity(counter.name, text, counter.unit, grows=MOST not in text)


def gpu_name(told: str) -> str:
    """As NVML and `nvidia-smi` call it."""
    return f"GPU-{uuid.UUID(told)}"
