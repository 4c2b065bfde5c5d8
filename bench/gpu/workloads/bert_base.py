"""BERT base fine-tuning for two classes, batch 32 of 384 tokens, bf16 autocast, AdamW."""

from bench.gpu.workloads.bert_large import TINY, bert
from bench.gpu.workloads.work import Work


def make(device: str, tiny: bool) -> Work:
    """All weights are trained."""
    return bert(device, TINY if tiny else {}, (2, 16) if tiny else (32, 384))
