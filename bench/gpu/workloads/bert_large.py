"""BERT large fine-tuning for two classes, batch 16 of 384 tokens, bf16 autocast, AdamW."""

import torch
from transformers import BertConfig, BertForSequenceClassification

from bench.gpu.workloads.work import Work, training

LARGE = {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16}
TINY = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}


def make(device: str, tiny: bool) -> Work:
    """All weights are trained."""
    size = TINY | {"intermediate_size": 64} if tiny else LARGE | {"intermediate_size": 4096}
    model = BertForSequenceClassification(BertConfig(**size, num_labels=2)).to(device)
    batch, length = (2, 16) if tiny else (16, 384)
    words = torch.randint(0, 30000, (batch, length), device=device)
    labels = torch.randint(0, 2, (batch,), device=device)

    def loss() -> torch.Tensor:
        with torch.autocast(device, dtype=torch.bfloat16):
            value: torch.Tensor = model(words, labels=labels).loss
        return value

    return training(loss, model, list(model.bert.encoder.layer), rate=2e-5)
