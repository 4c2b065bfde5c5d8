"""ResNet-50 training, fp32, batch 64, SGD."""

import torch_train
from torch_train import resnet

from bench.gpu.workloads.work import Work


def make(device: str, tiny: bool) -> Work:
    """The program of tests/gpu."""
    torch_train.DEVICE = device
    step, losses = resnet(2, 32) if tiny else resnet()
    return Work(step, losses)
