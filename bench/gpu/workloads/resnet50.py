"""ResNet-50 training, fp32, batch 64, SGD."""

import torch_train
from torch_train import resnet

from bench.gpu.workloads.work import Work


def make(device: str, tiny: bool) -> Work:
    """The program of tests/gpu; a tiny one is as large."""
    torch_train.DEVICE = device
    step, losses = resnet()
    return Work(step, losses)
