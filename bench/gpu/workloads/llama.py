"""A decoder of Llama's shape: 8 billion parameters, or few."""

from typing import Any

import torch
from transformers import LlamaConfig, LlamaForCausalLM

EIGHT = {
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
}
TINY = {
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 128,
}


def llama(device: str, tiny: bool) -> Any:
    """The model, bf16, its weights made where they stay."""
    torch.set_default_dtype(torch.bfloat16)
    with torch.device(device):
        return LlamaForCausalLM(LlamaConfig(**(TINY if tiny else EIGHT))).eval()
