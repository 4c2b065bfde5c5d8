"""A decoder of 8 billion parameters, bf16: one token a step for 4 sequences."""

from typing import Any

import torch

from bench.gpu.workloads.llama import llama
from bench.gpu.workloads.work import Work


def make(device: str, tiny: bool) -> Work:
    """Greedy; the cache grows by a token a step."""
    model = llama(device, tiny)
    numbers: list[torch.Tensor] = []
    prompt = torch.randint(0, model.config.vocab_size, (4, 8 if tiny else 64), device=device)
    state: dict[str, Any] = {"last": prompt, "cache": None}

    def step() -> None:
        with torch.no_grad():
            reply = model(state["last"], past_key_values=state["cache"], use_cache=True)
        last = reply.logits[:, -1].argmax(-1, keepdim=True)
        state.update(last=last, cache=reply.past_key_values)
        numbers.append(reply.logits.float().abs().sum())

    step()  # the prompt
    return Work(step, numbers)
