"""A decoder of 8 billion parameters, bf16: 4 prompts of 2048 tokens a step."""

import torch

from bench.gpu.workloads.llama import Decoder
from bench.gpu.workloads.work import Work


def make(device: str, tiny: bool) -> Work:
    """Only the last token's scores are wanted."""
    decoder = Decoder(device, tiny, (2, 16) if tiny else (4, 2048))
    numbers: list[torch.Tensor] = []

    def step() -> None:
        numbers.append(decoder.answer().logits.float().abs().sum())

    return Work(step, numbers, offload=decoder.weights.offload, begin=decoder.begin)
