"""ViT-L/16 training, bf16 autocast, batch 64, AdamW."""

from functools import partial
from typing import Any

import torch
import torchvision

from bench.gpu.workloads.by_torch import training
from bench.gpu.workloads.work import Work

TINY = partial(
    torchvision.models.vision_transformer.VisionTransformer,
    32,
    16,
    num_layers=2,
    num_heads=2,
    hidden_dim=32,
    mlp_dim=64,
)


def make(device: str, tiny: bool) -> Work:
    """Images of 224 x 224 in 1000 classes."""
    model = TINY() if tiny else torchvision.models.vit_l_16()
    return classify(device, model, (2, 32) if tiny else (64, 224))


def classify(device: str, model: Any, shape: tuple[int, int]) -> Work:
    """Any of them; images, and how long their sides are."""
    model = model.to(device)
    batch, size = shape
    images = torch.randn(batch, 3, size, size, device=device)
    labels = torch.randint(0, 1000, (batch,), device=device)

    def loss() -> torch.Tensor:
        with torch.autocast(device, dtype=torch.bfloat16):
            return torch.nn.functional.cross_entropy(model(images), labels)

    return training(loss, model, list(model.encoder.layers))
