"""LoRA of a 3B decoder by PEFT and Hugging Face's Trainer: 2 x 512 tokens, bf16, checkpointing."""

import atexit
import tempfile
from collections.abc import Callable
from threading import Semaphore, Thread
from typing import Any

import torch
from peft import LoraConfig, get_peft_model
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainerCallback, TrainingArguments

from bench.gpu.workloads.llama import EIGHT, TINY
from bench.gpu.workloads.work import Work

SIZE = EIGHT | {"num_hidden_layers": 12, "vocab_size": 32000}
STEPS = 1000  # more than anybody asks for


def make(device: str, tiny: bool) -> Work:
    """Every linear layer gets an adapter. Batches are made up, no two alike."""
    size, length = (TINY, 16) if tiny else (SIZE, 512)
    torch.set_default_dtype(torch.bfloat16)
    with torch.device(device):
        base = LlamaForCausalLM(LlamaConfig(**size, use_cache=False))
    torch.set_default_dtype(torch.float32)
    model = get_peft_model(base, LoraConfig(target_modules="all-linear", task_type="CAUSAL_LM"))
    numbers: list[torch.Tensor] = []
    turns = Turns()
    folder = tempfile.TemporaryDirectory()
    atexit.register(folder.cleanup)
    options = TrainingArguments(
        folder.name,
        per_device_train_batch_size=2,
        max_steps=STEPS,
        bf16=True,
        gradient_checkpointing=True,
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
        dataloader_pin_memory=False,
        use_cpu=device == "cpu",
    )
    words = torch.randint(0, size["vocab_size"], (2 * STEPS, length))
    batches = [{"input_ids": row, "labels": row} for row in words]

    class Kept(Trainer):  # type: ignore[misc]
        """Keeps each step's loss."""

        def training_step(self, *args: Any, **options: Any) -> torch.Tensor:
            loss: torch.Tensor = super().training_step(*args, **options)
            numbers.append(loss)
            return loss

    trainer = Kept(model, options, train_dataset=batches, callbacks=[turns])
    return Work(turns.runner(trainer), numbers)


class Turns(TrainerCallback):  # type: ignore[misc]
    """The trainer, in a thread of its own, goes on by one step whenever it is told to."""

    def __init__(self) -> None:
        self.begins, self.over = Semaphore(0), Semaphore(0)
        self.error: BaseException | None = None
        self.ends = False

    def on_step_begin(self, *_: object, **__: object) -> None:
        self.begins.acquire()
        if self.ends:
            raise SystemExit

    def on_step_end(self, *_: object, **__: object) -> None:
        self.over.release()

    def runner(self, trainer: Any) -> Callable[[], None]:
        """What makes it go on, and waits for the step. Raises what the trainer raised."""

        def train() -> None:
            try:
                trainer.train()
            except BaseException as error:
                self.error = error
            self.over.release()

        def step() -> None:
            if not thread.ident:
                thread.start()
                atexit.register(end)
            self.begins.release()
            self.over.acquire()
            if self.error:
                raise self.error

        def end() -> None:
            self.ends = True
            self.begins.release()
            thread.join()

        thread = Thread(target=train, daemon=True)
        return step
