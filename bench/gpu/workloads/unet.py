"""A diffusion U-Net with attention, training to tell noise, 32 images of 64 x 64, bf16 autocast."""

from typing import Any

import torch
from torch import nn

from bench.gpu.workloads.by_torch import training
from bench.gpu.workloads.work import Work


class Residual(nn.Module):  # type: ignore[misc]
    """Two convolutions beside the way through; the time is added between them."""

    def __init__(self, into: int, out: int, time: int) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.GroupNorm(8, into), nn.SiLU(), nn.Conv2d(into, out, 3, 1, 1))
        self.time = nn.Linear(time, out)
        self.second = nn.Sequential(nn.GroupNorm(8, out), nn.SiLU(), nn.Conv2d(out, out, 3, 1, 1))
        self.through = nn.Conv2d(into, out, 1) if into != out else nn.Identity()

    def forward(self, x: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
        hidden = self.first(x) + self.time(time)[:, :, None, None]
        sum_of: torch.Tensor = self.second(hidden) + self.through(x)
        return sum_of


class Attention(nn.Module):  # type: ignore[misc]
    """Every place looks at every other."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(8, width)
        self.look = nn.MultiheadAttention(width, max(1, width // 64), batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        places = self.norm(x).flatten(2).transpose(1, 2)
        seen, _ = self.look(places, places, places, need_weights=False)
        return x + seen.transpose(1, 2).reshape(x.shape)


class UNet(nn.Module):  # type: ignore[misc]
    """Down by halves, attention at the bottom, and up again beside what was on the way down."""

    def __init__(self, base: int, levels: tuple[int, ...], depth: int) -> None:
        super().__init__()
        time = 4 * base
        self.time = nn.Sequential(nn.Linear(1, time), nn.SiLU(), nn.Linear(time, time))
        self.enter = nn.Conv2d(3, base, 3, 1, 1)
        widths = [base * level for level in levels]
        self.down, self.up = nn.ModuleList(), nn.ModuleList()
        now, kept = base, [base]
        for i, width in enumerate(widths):
            for _ in range(depth):
                self.down.append(Residual(now, width, time))
                now = width
                kept.append(now)
            if i + 1 < len(widths):
                self.down.append(nn.Conv2d(now, now, 3, 2, 1))
                kept.append(now)
        self.middle = nn.ModuleList([Residual(now, now, time), Attention(now)])
        for i, width in reversed(list(enumerate(widths))):
            for _ in range(depth + 1):
                self.up.append(Residual(now + kept.pop(), width, time))
                now = width
            if i:
                self.up.append(nn.ConvTranspose2d(now, now, 2, 2))
        self.leave = nn.Sequential(nn.GroupNorm(8, now), nn.SiLU(), nn.Conv2d(now, 3, 3, 1, 1))

    def forward(self, x: torch.Tensor, moment: torch.Tensor) -> Any:
        time = self.time(moment[:, None])
        x = self.enter(x)
        kept = [x]
        for layer in self.down:
            x = layer(x, time) if isinstance(layer, Residual) else layer(x)
            kept.append(x)
        x = self.middle[1](self.middle[0](x, time))
        for layer in self.up:
            if isinstance(layer, Residual):
                x = layer(torch.cat([x, kept.pop()], 1), time)
            else:
                x = layer(x)
        return self.leave(x)


def make(device: str, tiny: bool) -> Work:
    """Noise is added to random images, and told again."""
    return denoise(device, tiny, (2, 16) if tiny else (32, 64))


def denoise(device: str, tiny: bool, shape: tuple[int, int]) -> Work:
    """So many images, and how long their sides are."""
    model = UNet(16, (1, 2), 1) if tiny else UNet(192, (1, 2, 3, 4), 2)
    model = model.to(device)
    batch, size = shape
    images = torch.randn(batch, 3, size, size, device=device)
    noise = torch.randn_like(images)
    moment = torch.rand(batch, device=device)
    share = moment[:, None, None, None]
    noisy = (1 - share).sqrt() * images + share.sqrt() * noise

    def loss() -> torch.Tensor:
        with torch.autocast(device, dtype=torch.bfloat16):
            told = model(noisy, moment)
        return torch.nn.functional.mse_loss(told.float(), noise)

    blocks = [each for each in model.modules() if isinstance(each, Residual)]
    return training(loss, model, blocks)
