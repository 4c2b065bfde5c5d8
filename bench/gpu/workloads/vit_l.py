"""ViT-L/16 training, bf16 autocast, batch 64, AdamW."""

import torch
import torchvision

from bench.gpu.workloads.work import Work, training


def make(device: str, tiny: bool) -> Work:
    """Images of 224 x 224 in 1000 classes."""
    vit = torchvision.models.vision_transformer.VisionTransformer
    if tiny:
        model = vit(32, 16, num_layers=2, num_heads=2, hidden_dim=32, mlp_dim=64)
    else:
        model = torchvision.models.vit_l_16()
    model = model.to(device)
    batch, size = (2, 32) if tiny else (64, 224)
    images = torch.randn(batch, 3, size, size, device=device)
    labels = torch.randint(0, 1000, (batch,), device=device)

    def loss() -> torch.Tensor:
        with torch.autocast(device, dtype=torch.bfloat16):
            return torch.nn.functional.cross_entropy(model(images), labels)

    return training(loss, model, list(model.encoder.layers))
