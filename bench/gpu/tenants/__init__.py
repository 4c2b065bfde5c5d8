"""Programs that share a GPU: `python -m bench.gpu.tenants` measures how well."""

PIECE = 256 << 20
"""Bytes that a step of `pieces` changes."""
