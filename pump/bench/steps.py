"""What the recorded steps are, and what they are called elsewhere."""

from collections.abc import Sequence
from difflib import get_close_matches

STEPS = {
    "bert-base": "BERT base, fine-tuning, 32 x 384 tokens",
    "bert-large": "BERT large, fine-tuning, 16 x 384 tokens",
    "compiled-mlp": "residual layers, torch.compile, training",
    "cupy-mix": "CuPy: FFT, sort, unique, sparse product, own kernel",
    "decode-3b": "3B decoder, a token for 4 sequences",
    "decode-8b": "8B decoder, a token for 4 sequences",
    "gat": "graph attention network, training, 80 000 nodes",
    "gpt2-medium": "GPT-2 medium, training, 4 x 512 tokens",
    "gpt2-small": "GPT-2 small, training, 4 x 512 tokens",
    "gpt2xl": "GPT-2 XL, training, 2 x 512 tokens: gpt2-xl on a GPU",
    "graph-decode": "1B decoder, four tokens by a CUDA graph",
    "graph-prefill": "1B decoder, prefill of 2 x 1024 by a CUDA graph",
    "hash-join": "hash join in CuPy, 64 million rows",
    "jax-transformer": "JAX transformer, training, 4 x 512 tokens",
    "lora": "3B decoder, LoRA by PEFT and HF Trainer, 2 x 512 tokens",
    "lstm": "LSTM of 4 layers, training",
    "prefill-3b": "3B decoder, prefill of 2 x 2048 tokens",
    "prefill-8b": "8B decoder, prefill of 4 x 2048 tokens",
    "resnet50": "ResNet-50, training, batch 64",
    "triton-mlp": "products by a Triton kernel, training",
    "unet": "diffusion U-Net, training, 32 images",
    "unet-half": "diffusion U-Net, training, 16 images",
    "vit-b": "ViT-B/16, training, batch 64",
    "vit-l": "ViT-L/16, training, batch 64",
}
UNRECORDED = {"moe": "mixture of 8 experts, training, 8 x 512 tokens"}
"""Programs that were measured, of which no step is recorded."""
ELSEWHERE = {"gpt2-xl": "gpt2xl"}
"""Recorded steps of programs with other names."""


def described(name: str) -> str:
    """What a workload is; its name where nobody says."""
    return (STEPS | UNRECORDED).get(ELSEWHERE.get(name, name), name).partition(": ")[0]


def meant(name: str, known: Sequence[str]) -> str:
    """The one of those known that a name not among them may stand for; "" where there is none."""
    other = {step: program for program, step in ELSEWHERE.items()} | ELSEWHERE
    same = [other[name]] if other.get(name) in known else get_close_matches(name, known, 1)
    return next(iter(same), "")
