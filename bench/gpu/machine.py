"""The machine a result was measured on, and the guard that keeps its GPU safe."""

from pump.bench.machine import LIMIT, describe, managed_limit, query_gpu, refuse_unless_safe

__all__ = ["LIMIT", "describe", "managed_limit", "query_gpu", "refuse_unless_safe"]
