"""Programs that share a GPU: `python -m bench.gpu.tenants` measures how well."""
