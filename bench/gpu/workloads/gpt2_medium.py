"""GPT-2 medium (355 million parameters) training, 4 x 512 tokens, bf16 autocast, AdamW."""

from typing import Any

import torch
from transformers import GPT2Config, GPT2LMHeadModel

from bench.gpu.workloads.by_torch import training
from bench.gpu.workloads.work import Work

MEDIUM = {"n_layer": 24, "n_head": 16, "n_embd": 1024}
TINY = {"n_layer": 2, "n_head": 2, "n_embd": 32, "n_positions": 64, "vocab_size": 128}


def make(device: str, tiny: bool) -> Work:
    """As its size is known."""
    return gpt2(device, TINY if tiny else MEDIUM, (2, 16) if tiny else (4, 512))


def gpt2(device: str, size: dict[str, Any], tokens: tuple[int, int]) -> Work:
    """Any size; batch and length."""
    config = GPT2Config(**size)
    model = GPT2LMHeadModel(config).to(device)
    words = torch.randint(0, config.vocab_size, tokens, device=device)

    def loss() -> torch.Tensor:
        with torch.autocast(device, dtype=torch.bfloat16):
            value: torch.Tensor = model(words, labels=words, use_cache=False).loss
        return value

    return training(loss, model, list(model.transformer.h))
