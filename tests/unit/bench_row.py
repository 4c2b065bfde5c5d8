"""A row of pump-bench, as a test wants it."""

from pump.bench.row import Row


def row(system: str, ms: float, **more: object) -> Row:
    given = {"workload": "w", "device": "sim", "oversubscription": 2.0}
    sizes = {"capacity_bytes": 1 << 30, "footprint_bytes": 2 << 30}
    return Row(**(given | sizes | {"system": system, "step_ms": [ms], "native_ms": 1.0} | more))  # type: ignore[arg-type]
