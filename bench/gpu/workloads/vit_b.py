"""ViT-B/16 training, bf16 autocast, batch 64, AdamW."""

import torchvision

from bench.gpu.workloads.vit_l import TINY, classify
from bench.gpu.workloads.work import Work


def make(device: str, tiny: bool) -> Work:
    """Images of 224 x 224 in 1000 classes."""
    model = TINY() if tiny else torchvision.models.vit_b_16()
    return classify(device, model, (2, 32) if tiny else (64, 224))
