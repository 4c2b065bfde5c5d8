"""A decoder replayed as a CUDA graph, static cache, bf16: 2 prompts of 1024 tokens a step."""

from bench.gpu.workloads.cached import decoder, replayed
from bench.gpu.workloads.sizes import GRAPH_PREFILL
from bench.gpu.workloads.work import Work


def make(device: str, tiny: bool) -> Work:
    """Other prompts in each step, which fill the cache anew."""
    size = GRAPH_PREFILL[tiny]
    one, prompt = decoder(device, size)

    def run() -> None:
        one.run(prompt)
        prompt.add_(1).remainder_(size.words)

    return replayed(one, run)
