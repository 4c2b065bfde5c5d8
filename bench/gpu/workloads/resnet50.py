"""ResNet-50 training, fp32, batch 64, SGD."""

import torch_train
import torchvision
from torch_train import resnet

from bench.gpu.workloads.work import Work


def make(device: str, tiny: bool) -> Work:
    """The program of tests/gpu."""
    torch_train.DEVICE = device
    model = torchvision.models.resnet50()
    step, losses = resnet(*((16, 32) if tiny else (64, 224)), model)
    layers = (model.layer1, model.layer2, model.layer3, model.layer4)
    return Work(step, losses, [block for layer in layers for block in layer])
