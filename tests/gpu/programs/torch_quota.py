"""PyTorch under a memory limit: what it is told, what it can do after an out-of-memory error."""

import pynvml
import torch
from report import report

GIB = 1 << 30


def main() -> None:
    limit = 2 * GIB
    torch.zeros(1, device="cuda")
    free, total = torch.cuda.mem_get_info()
    refused = 0
    held: list[torch.Tensor] = []
    try:
        while len(held) < 64:
            held.append(torch.ones(GIB // 16, dtype=torch.float32, device="cuda"))
    except torch.OutOfMemoryError:
        refused = 1
    most = torch.cuda.memory_reserved()
    free_at_limit, _ = torch.cuda.mem_get_info()
    del held[2:]  # to compare takes memory, too
    right = all(bool((tensor == 1).all()) for tensor in held)
    held.clear()
    torch.cuda.empty_cache()
    free_after, _ = torch.cuda.mem_get_info()
    again = float(torch.ones(GIB // 16, device="cuda").sum())
    pynvml.nvmlInit()
    told = pynvml.nvmlDeviceGetMemoryInfo(pynvml.nvmlDeviceGetHandleByIndex(0))
    properties = torch.cuda.get_device_properties(0).total_memory
    report(
        [again],
        [],
        limit=limit,
        total=total,
        free=free,
        refused=refused,
        most=most,
        free_at_limit=free_at_limit,
        free_after=free_after,
        right=right,
        nvml_total=told.total,
        properties_total=properties,
    )


if __name__ == "__main__":
    main()
