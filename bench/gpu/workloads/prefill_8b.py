"""A decoder of 8 billion parameters, bf16: 4 prompts of 2048 tokens a step."""

import torch

from bench.gpu.workloads.llama import EIGHT, TINY, Decoder
from bench.gpu.workloads.work import Work


def make(device: str, tiny: bool) -> Work:
    """Only the last token's scores are wanted."""
    return prefill(device, TINY if tiny else EIGHT, (2, 16) if tiny else (4, 2048))


def prefill(device: str, size: dict[str, int], shape: tuple[int, int]) -> Work:
    """Any size; prompts, and how long they are."""
    decoder = Decoder(device, size, shape)
    numbers: list[torch.Tensor] = []

    def step() -> None:
        numbers.append(decoder.answer().logits.float().abs().sum())

    return Work(step, numbers, offload=decoder.weights.offload, begin=decoder.begin)
