"""A decoder of Llama's shape: 8 billion parameters, 3, or few."""

from typing import Any

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from bench.gpu.workloads.weights import Weights

EIGHT = {
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
}
THREE = EIGHT | {"num_hidden_layers": 9}
TINY = {
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 128,
}


class Decoder:
    """The model, bf16, without weights until `begin`, and what it is asked."""

    def __init__(self, device: str, size: dict[str, int], shape: tuple[int, int]) -> None:
        torch.set_default_dtype(torch.bfloat16)
        config = LlamaConfig(**size)
        with torch.device("meta"):
            self.model = LlamaForCausalLM(config).eval()
        inner = self.model.model
        with torch.device(device):  # computed, not a weight
            inner.rotary_emb = type(inner.rotary_emb)(config)
        blocks = [inner.embed_tokens, *inner.layers, inner.norm, self.model.lm_head]
        self.weights = Weights(blocks, device, config.initializer_range)
        self.prompt = torch.randint(0, config.vocab_size, shape, device=device)

    def begin(self) -> None:
        """Makes the weights."""
        self.weights.make(self.answer)

    def answer(self) -> Any:
        """To the prompt: the scores of what follows it, and the cache."""
        return self.scores(self.prompt, None)

    def scores(self, words: torch.Tensor, cache: Any) -> Any:
        """Of the last place only; the cache grows by the words."""
        with torch.no_grad():
            return self.model(words, past_key_values=cache, use_cache=True, logits_to_keep=1)
