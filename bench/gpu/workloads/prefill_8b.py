"""A decoder of 8 billion parameters, bf16: 4 prompts of 2048 tokens a step."""

import torch

from bench.gpu.workloads.llama import llama
from bench.gpu.workloads.work import Work


def make(device: str, tiny: bool) -> Work:
    """Only the last token's scores are wanted."""
    model = llama(device, tiny)
    numbers: list[torch.Tensor] = []
    shape = (2, 16) if tiny else (4, 2048)
    prompt = torch.randint(0, model.config.vocab_size, shape, device=device)

    def step() -> None:
        with torch.no_grad():
            reply = model(prompt, use_cache=True, logits_to_keep=1)
        numbers.append(reply.logits.float().abs().sum())

    return Work(step, numbers)
