"""Operands that an operation is given or gives back, and that by definition no kernel touches.

Nothing else is excused: every other tensor of an operation must be found.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass


@dataclass(frozen=True)
class Unread:
    """An operand, and why no kernel touches it."""

    operand: str
    reason: str
    unless: str = ""
    """Touched where the operation gives this back."""


_SHAPE = "only its shape counts"
_LIKE = (Unread("self", "only its shape and type count"),)
_STATISTICS = tuple(
    Unread(name, "of use in evaluation only, not in training")
    for name in ("running_mean", "running_var")
)

UNREAD: dict[str, tuple[Unread, ...]] = {
    **{f"aten.{name}_like": _LIKE for name in ("empty", "zeros", "ones", "full", "rand", "randn")},
    **{f"aten.new_{name}": _LIKE for name in ("empty", "zeros", "ones", "full")},
    "aten.nll_loss_backward": (Unread("self", "only its shape counts: the target tells where"),),
    "aten.max_pool2d_with_indices_backward": (
        Unread("self", "only its shape counts: the indices tell where"),
    ),
    "aten._adaptive_avg_pool2d_backward": (Unread("self", _SHAPE),),
    "aten.cudnn_batch_norm_backward": _STATISTICS,
    "aten.native_batch_norm_backward": _STATISTICS,
    "aten.batch_norm_backward": _STATISTICS,
    "aten.native_layer_norm_backward": (Unread("bias", _SHAPE),),
    "aten.convolution_backward": (
        Unread("weight", "of use for the gradient of the input only", unless="return 0"),
        Unread("input", "of use for the gradient of the weight only", unless="return 1"),
    ),
    "aten._scaled_dot_product_flash_attention": (
        Unread("return 7", "a place for an offset that its seed already holds"),
    ),
    "aten._scaled_dot_product_flash_attention_backward": (
        Unread("philox_offset", "a place for an offset that its seed already holds"),
    ),
}


def packet(name: str) -> str:
    """An operation's name without its overload: `aten.add.Tensor` is one of `aten.add`."""
    return ".".join(name.split(".")[:2])


def excuse(name: str, role: str, roles: Collection[str]) -> Unread | None:
    """Why the operand `role` of an operation with these operands is not touched; None: it is."""
    for each in UNREAD.get(packet(name), ()):
        if each.operand == role and (not each.unless or each.unless not in roles):
            return each
    return None
