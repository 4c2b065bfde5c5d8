"""An LSTM of 4 layers by cuDNN, training, fp32, batch 64 of 128 places, AdamW."""

import torch_train
from torch_train import lstm

from bench.gpu.workloads.work import Work


def make(device: str, tiny: bool) -> Work:
    """The program of tests/gpu."""
    torch_train.DEVICE = device
    step, losses = lstm(32, 8, 4) if tiny else lstm()
    return Work(step, losses)
