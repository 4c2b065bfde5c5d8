"""BERT large fine-tuning for two classes, batch 16 of 384 tokens, bf16 autocast, AdamW."""

from typing import Any

import torch
from transformers import BertConfig, BertForSequenceClassification

from bench.gpu.workloads.by_torch import training
from bench.gpu.workloads.work import Work

LARGE = {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16}
LARGE |= {"intermediate_size": 4096}
TINY = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
TINY |= {"intermediate_size": 64}


def make(device: str, tiny: bool) -> Work:
    """All weights are trained."""
    return bert(device, TINY if tiny else LARGE, (2, 16) if tiny else (16, 384))


def bert(device: str, size: dict[str, Any], tokens: tuple[int, int]) -> Work:
    """Any size; batch and length."""
    model = BertForSequenceClassification(BertConfig(**size, num_labels=2)).to(device)
    words = torch.randint(0, 30000, tokens, device=device)
    labels = torch.randint(0, 2, tokens[:1], device=device)

    def loss() -> torch.Tensor:
        with torch.autocast(device, dtype=torch.bfloat16):
            value: torch.Tensor = model(words, labels=labels).loss
        return value

    return training(loss, model, list(model.bert.encoder.layer), rate=2e-5)
