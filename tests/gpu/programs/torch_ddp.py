"""Data-parallel training of a small GPT-2 over NCCL: one of WORLD_SIZE processes, on GPU RANK.

With DDP_SHARDED=1 each rank has a part of each parameter (FSDP). With DDP_BACKEND=gloo the same
steps of a tiny one on the CPU, to try the program without a GPU.
"""

import os
import sys

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")

import torch
from report import report, run_steps
from torch.distributed.fsdp import fully_shard
from transformers import GPT2Config, GPT2LMHeadModel


def spread(net: torch.nn.Module) -> torch.nn.Module:
    """The network over all ranks."""
    if not os.environ.get("DDP_SHARDED"):
        return torch.nn.parallel.DistributedDataParallel(net)
    for block in net.transformer.h:
        fully_shard(block)
    fully_shard(net)
    return net


def main() -> None:
    warm, timed = int(sys.argv[1]), int(sys.argv[2])
    rank = int(os.environ["RANK"])
    backend = os.environ.get("DDP_BACKEND", "nccl")
    device = torch.device("cuda", rank) if backend == "nccl" else torch.device("cpu")
    if backend == "nccl":
        torch.cuda.set_device(device)
    torch.distributed.init_process_group(backend)
    torch.use_deterministic_algorithms(True)
    torch.utils.deterministic.fill_uninitialized_memory = False
    torch.manual_seed(0)
    tiny = {"n_layer": 1, "n_embd": 96, "vocab_size": 500}
    size = {"n_layer": 8} if backend == "nccl" else tiny
    config = GPT2Config(resid_pdrop=0, embd_pdrop=0, attn_pdrop=0, **size)
    model = spread(GPT2LMHeadModel(config).to(device))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    torch.manual_seed(rank)
    tokens = torch.randint(0, 500, (4, 256 if backend == "nccl" else 16), device=device)
    losses: list[torch.Tensor] = []

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        loss = model(tokens, labels=tokens).loss
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())

    def wait() -> None:
        if device.type == "cuda":
            torch.cuda.synchronize()

    step_ms = run_steps(step, wait, warm, timed)
    reserved = torch.cuda.max_memory_reserved() if device.type == "cuda" else 0
    report([loss.item() for loss in losses], step_ms, max_reserved=reserved, rank=rank)
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
