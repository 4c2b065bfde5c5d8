"""A decoder of 8 billion parameters, bf16: one token a step for 4 sequences."""

from typing import Any

import torch

from bench.gpu.workloads.llama import EIGHT, TINY, Decoder
from bench.gpu.workloads.work import Work


def make(device: str, tiny: bool) -> Work:
    """Greedy; the cache grows by a token a step."""
    return decode(device, TINY if tiny else EIGHT, (4, 8 if tiny else 64))


def decode(device: str, size: dict[str, int], shape: tuple[int, int]) -> Work:
    """Any size; sequences, and how long the prompt is."""
    decoder = Decoder(device, size, shape)
    numbers: list[torch.Tensor] = []
    state: dict[str, Any] = {"last": decoder.prompt, "cache": None}

    def step() -> None:
        reply = decoder.scores(state["last"], state["cache"])
        last = reply.logits[:, -1].argmax(-1, keepdim=True)
        state.update(last=last, cache=reply.past_key_values)
        numbers.append(reply.logits.float().abs().sum())

    def begin() -> None:
        decoder.begin()
        step()  # the prompt

    return Work(step, numbers, offload=decoder.weights.offload, begin=begin)
