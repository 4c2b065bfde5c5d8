"""PyTorch: eager training, and a graph that is replayed. torch_away.py STEPS; 0: until the standard
input ends. Prints how many there were, and a digest of all that they came to.
"""

import hashlib
import json
import os
import sys
import threading

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")

import torch
from torch import nn

WIDTH, LAYERS, BATCH = 4096, 6, 64


def layers() -> nn.Sequential:
    return nn.Sequential(
        *(nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.GELU()) for _ in range(LAYERS))
    )


def end_with_stdin(over: threading.Event) -> None:
    sys.stdin.read()
    over.set()


def main() -> None:
    most = int(sys.argv[1])
    over = threading.Event()
    torch.manual_seed(0)
    torch.use_deterministic_algorithms(True)
    with torch.device("cuda"):
        model, frozen, x = (
            layers(),
            layers().requires_grad_(requires_grad=False),
            torch.randn(BATCH, WIDTH),
        )
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    frozen(x)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = frozen(x)
    digest, steps = hashlib.sha256(), 0
    print("here", flush=True)
    if not most:
        threading.Thread(target=end_with_stdin, args=(over,), daemon=True).start()
    while steps < most if most else not over.is_set():
        optimizer.zero_grad()
        loss = (model(x) - x).square().mean()
        loss.backward()
        optimizer.step()
        graph.replay()
        x.add_(y, alpha=1e-3)
        digest.update(repr((loss.item(), y.sum().item())).encode())
        steps += 1
    print(json.dumps({"steps": steps, "digest": digest.hexdigest()}))


if __name__ == "__main__":
    main()
