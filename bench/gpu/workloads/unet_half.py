"""The diffusion U-Net, training, half as many images: 16 of 64 x 64, bf16 autocast."""

from bench.gpu.workloads.unet import denoise
from bench.gpu.workloads.work import Work


def make(device: str, tiny: bool) -> Work:
    """Noise is added to random images, and told again."""
    return denoise(device, tiny, (2, 16) if tiny else (16, 64))
