"""What bench.gpu.pause says of the time between steps."""

from dataclasses import dataclass

import pytest

from bench.gpu import pause

pytestmark = pytest.mark.unit


@dataclass
class Event:
    """Of a device."""

    ms: float

    def elapsed_time(self, later: "Event") -> float:
        return later.ms - self.ms


def test_a_pause_is_from_a_step_s_end_to_the_next_one_s_beginning() -> None:
    begins, ends = [Event(1), Event(12), Event(24.5)], [Event(10), Event(22), Event(33)]
    assert pause.pauses(ends, begins) == [2, 2.5]


def test_the_first_and_the_last_module_of_a_kind_are_found() -> None:
    nn = pytest.importorskip("torch.nn")
    model = nn.Sequential(nn.ReLU(), nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1), nn.ReLU())
    import torch

    first, last = pause.ends_of(
        lambda: model(torch.zeros(1, 2)), lambda module: isinstance(module, nn.Linear)
    )
    assert (first, last) == (model[1], model[3])
    with pytest.raises(ValueError, match="no such module"):
        pause.ends_of(lambda: model(torch.zeros(1, 2)), lambda _: False)


def test_the_median_and_the_tenths_are_told() -> None:
    told = pause.line("decode-8b", [30.0, 31.0, 32.0], [2.0, 2.0, 3.0])
    assert told == "decode-8b: 2.00 ms between two steps of 31.0 ms (tenths: 2.00 to 2.80)"
