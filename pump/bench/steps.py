"""What the recorded steps are, and what they are called elsewhere."""

from collections.abc import Sequence
from difflib import get_close_matches

PROBED = "by an early probe, whose reads and writes are guessed"
STEPS = {
    "bert-base": "BERT base, fine-tuning, 32 x 384 tokens",
    "bert-large": "BERT large, fine-tuning, 16 x 384 tokens",
    "decode-3b": "a 3B decoder, one token for 4 sequences",
    "decode-8b": "an 8B decoder, one token for 4 sequences",
    "gpt2-medium": "GPT-2 medium, training, 4 x 512 tokens",
    "gpt2-small": "GPT-2 small, training, 4 x 512 tokens",
    "gpt2m": f"gpt2-medium {PROBED}",
    "gpt2xl": "GPT-2 XL, training, 2 x 512 tokens: gpt2-xl on a GPU",
    "hash-join": "a hash join in CuPy, 64 million rows",
    "llama": f"decode-8b {PROBED}",
    "lstm": "an LSTM of 4 layers by cuDNN, training",
    "prefill-3b": "a 3B decoder reads 2 x 2048 tokens",
    "prefill-8b": "an 8B decoder reads 4 x 2048 tokens",
    "resnet": f"resnet50 {PROBED}",
    "resnet50": "ResNet-50, training, batch 64",
    "unet": "a diffusion U-Net, training, 32 images",
    "unet-half": "the same U-Net, 16 images",
    "vit-b": "ViT-B/16, training, batch 64",
    "vit-l": "ViT-L/16, training, batch 64",
}
ELSEWHERE = {"gpt2-xl": "gpt2xl"}
"""Recorded steps of programs with other names."""
NAMESAKES = {"gpt2m": "gpt2-medium", "llama": "decode-8b", "resnet": "resnet50"}
"""Programs that do what a recorded step of another name did."""


def meant(name: str, known: Sequence[str]) -> str:
    """The one of those known that a name not among them may stand for; "" where there is none."""
    other = {step: program for program, step in ELSEWHERE.items()} | ELSEWHERE | NAMESAKES
    same = [other[name]] if other.get(name) in known else get_close_matches(name, known, 1)
    return next(iter(same), "")
