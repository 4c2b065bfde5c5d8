"""Greedy decoding with a Llama-shaped model, bf16, about 5 GiB of weights: one token a step."""

import sys

import torch
from report import report, run_steps
from transformers import LlamaConfig, LlamaForCausalLM

DEVICE = "cuda"
LAYERS = 12


def main() -> None:
    warm, timed = int(sys.argv[1]), int(sys.argv[2])
    torch.manual_seed(0)
    torch.use_deterministic_algorithms(True)
    torch.utils.deterministic.fill_uninitialized_memory = False
    torch.set_default_dtype(torch.bfloat16)
    config = LlamaConfig(
        hidden_size=4096,
        intermediate_size=14336,
        num_hidden_layers=LAYERS,
        num_attention_heads=32,
        num_key_value_heads=8,
        vocab_size=32000,
    )
    with torch.device(DEVICE):
        model = LlamaForCausalLM(config).eval()
        tokens = torch.randint(0, 32000, (4, 64))
    with torch.no_grad():
        reply = model(tokens, use_cache=True)
    cache, last = reply.past_key_values, reply.logits[:, -1].argmax(-1, keepdim=True)
    chosen = []

    def step() -> None:
        nonlocal cache, last
        with torch.no_grad():
            reply = model(last, past_key_values=cache, use_cache=True)
        cache, last = reply.past_key_values, reply.logits[:, -1].argmax(-1, keepdim=True)
        chosen.append((last.sum() + 0.0, reply.logits.float().abs().sum()))

    step_ms = run_steps(step, torch.cuda.synchronize, warm, timed)
    report(
        [number.item() for pair in chosen for number in pair],
        step_ms,
        max_reserved=torch.cuda.max_memory_reserved(),
        max_allocated=torch.cuda.max_memory_allocated(),
        torch=torch.__version__,
    )


if __name__ == "__main__":
    main()
