"""PyTorch programs, by name as in PROGRAMS. Deterministic kernels; prints the losses.

`TRUTH=FILE` in the environment adds one step, and writes what it truly touches (truth.py).
"""

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")

import torch
from report import report, run_steps

DEVICE = "cuda"


def resnet(
    batch: int = 64, size: int = 224, model: Any = None
) -> tuple[Callable[[], None], list[torch.Tensor]]:
    """ResNet-50 training, fp32, batch 64."""
    import torchvision

    model = (model or torchvision.models.resnet50()).to(DEVICE)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    images = torch.randn(batch, 3, size, size, device=DEVICE)
    labels = torch.randint(0, 1000, (batch,), device=DEVICE)
    losses: list[torch.Tensor] = []

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        loss = torch.nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())

    return step, losses


def gpt2(batch: int = 16, length: int = 1024) -> tuple[Callable[[], None], list[torch.Tensor]]:
    """GPT-2 small training with AdamW, bf16 autocast."""
    from transformers import GPT2Config, GPT2LMHeadModel

    model = GPT2LMHeadModel(GPT2Config()).to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    tokens = torch.randint(0, 50000, (batch, length), device=DEVICE)
    losses: list[torch.Tensor] = []

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(DEVICE, dtype=torch.bfloat16):
            loss = model(tokens, labels=tokens).loss
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())

    return step, losses


def gpt2_short() -> tuple[Callable[[], None], list[torch.Tensor]]:
    """So few tokens that launching takes longer than computing."""
    return gpt2(8, 512)


def lstm(
    width: int = 1024, length: int = 128, batch: int = 64
) -> tuple[Callable[[], None], list[torch.Tensor]]:
    """A 4-layer LSTM of cuDNN that predicts a class at each place, fp32, batch 64, AdamW."""
    model = torch.nn.LSTM(width, width, num_layers=4).to(DEVICE)
    head = torch.nn.Linear(width, 1000).to(DEVICE)
    optimizer = torch.optim.AdamW([*model.parameters(), *head.parameters()], lr=1e-3)
    x = torch.randn(length, batch, width, device=DEVICE)
    labels = torch.randint(0, 1000, (length * batch,), device=DEVICE)
    losses: list[torch.Tensor] = []

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        states, _ = model(x)
        loss = torch.nn.functional.cross_entropy(head(states).flatten(0, 1), labels)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())

    return step, losses


def bert() -> tuple[Callable[[], None], list[torch.Tensor]]:
    """BERT base, masked language model, with AdamW, bf16 autocast, batch 16 of 512 tokens."""
    from transformers import BertConfig, BertForMaskedLM

    model = BertForMaskedLM(BertConfig()).to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    tokens = torch.randint(0, 30000, (16, 512), device=DEVICE)
    losses: list[torch.Tensor] = []

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(DEVICE, dtype=torch.bfloat16):
            loss = model(tokens, labels=tokens).loss
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())

    return step, losses


def gpt2_half() -> tuple[Callable[[], None], list[torch.Tensor]]:
    """Half as many tokens again: its memory fits a limit of 8 GiB."""
    return gpt2(4, 512)


def compiled() -> tuple[Callable[[], None], list[torch.Tensor]]:
    """A small model through torch.compile: bound by launches, not by the GPU."""
    layers = [
        torch.nn.Sequential(torch.nn.Linear(1024, 1024), torch.nn.GELU(), torch.nn.LayerNorm(1024))
        for _ in range(6)
    ]
    model = torch.nn.Sequential(*layers).to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters())
    fast = torch.compile(model)
    x = torch.randn(256, 1024, device=DEVICE)
    losses: list[torch.Tensor] = []

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        loss = fast(x).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())

    return step, losses


def graph(width: int = 1024, layers: int = 6) -> tuple[Callable[[], None], list[torch.Tensor]]:
    """Inference replayed as a CUDA graph."""
    model = torch.nn.Sequential(*[torch.nn.Linear(width, width) for _ in range(layers)]).to(DEVICE)
    x = torch.randn(256, width, device=DEVICE)
    with torch.no_grad():
        for _ in range(3):
            model(x)
        torch.cuda.synchronize()
        recorded = torch.cuda.CUDAGraph()
        with torch.cuda.graph(recorded):
            y = model(x)
    losses: list[torch.Tensor] = []

    def step(weights: torch.nn.Module = model) -> None:  # which the graph uses: they must stay
        x.mul_(0.999)
        recorded.replay()
        losses.append(y.square().mean())

    return step, losses


PROGRAMS: dict[str, Callable[[], tuple[Callable[[], None], list[torch.Tensor]]]] = {
    "resnet": resnet,
    "gpt2": gpt2,
    "gpt2-short": gpt2_short,
    "gpt2-half": gpt2_half,
    "lstm": lstm,
    "bert": bert,
    "compile": compiled,
    "graph": graph,
    "graph-large": lambda: graph(4096, 28),  # 1.75 GiB
}


def main() -> None:
    which, warm, timed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    torch.manual_seed(0)
    # an error, not a warning: with warnings only, attention's backward pass stays nondeterministic
    torch.use_deterministic_algorithms(True)
    torch.utils.deterministic.fill_uninitialized_memory = False  # kernels of no use to training
    torch.backends.cuda.enable_mem_efficient_sdp(False)
    torch.backends.cudnn.benchmark = False
    step, losses = PROGRAMS[which]()
    step_ms = run_steps(step, torch.cuda.synchronize, warm, timed)
    if truth := os.environ.get("TRUTH"):
        from truth import record

        Path(truth).write_text(json.dumps(record(step, DEVICE)), encoding="utf-8")
    free, total = torch.cuda.mem_get_info()
    report(
        [loss.item() for loss in losses],
        step_ms,
        max_allocated=torch.cuda.max_memory_allocated(),
        max_reserved=torch.cuda.max_memory_reserved(),
        memory_free=free,
        memory_total=total,
        torch=torch.__version__,
    )


if __name__ == "__main__":
    main()
