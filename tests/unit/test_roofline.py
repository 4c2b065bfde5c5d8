"""What a step takes on another GPU, by data sheets."""

from dataclasses import replace
from itertools import product

import pytest

from pump import paths
from pump.predict import roofline
from pump.predict.plan import needs_of
from pump.sim.engine import READ, SPARSE, UPDATE, Touch
from pump.sim.hardware import GPUS, Gpu, recorded_on
from pump.sim.recorded import open_sequence
from pump.sim.sequence import Block, Given, Operation, Sequence, SequenceError

pytestmark = [pytest.mark.unit, pytest.mark.slow]

H200, H100 = GPUS["H200"], GPUS["H100"]
PAIRS = list(product(GPUS.values(), repeat=2))
LONG, SHORT = 1_000_000, 8_000  # ns


def operation(ns: float, loads_ns: float, source: Gpu) -> Operation:
    """One that takes so long, and whose bytes alone take so long on a GPU."""
    return Operation(0, round(ns), (Touch(0, round(loads_ns * source.bandwidth), UPDATE),))


@pytest.mark.parametrize("share", [0, 0.2, 0.5, 0.69, 0.8, 1])
def test_the_range_contains_what_data_sheets_allow_on_every_gpu(share: float) -> None:
    """An operation that loads, at any rate; one that computes, and loads beside it; one that takes
    long to begin.
    """
    for source, gpu in PAIRS:
        loads = source.bandwidth / gpu.bandwidth
        tensor, fp32 = source.tensor / gpu.tensor, source.fp32 / gpu.fp32
        kept, bytes_ns = 1 - share, share * loads
        found = roofline.span_of(operation(LONG, share * LONG, source), False, source, gpu)
        allowed = [loads]
        if share < roofline.NEAR:
            allowed += [max(tensor, bytes_ns), max(fp32, bytes_ns)]
            allowed += [kept + bytes_ns, max(1, bytes_ns)]
        for time in allowed:
            assert found.least * 0.999 <= time * LONG <= found.most * 1.001
        assert found.least >= 0.999 * bytes_ns * LONG


def test_the_start_of_a_kernel_takes_as_long_everywhere() -> None:
    for source, gpu in PAIRS:
        assert roofline.span_of(operation(SHORT, 0, source), False, source, gpu) == (SHORT, SHORT)


def test_a_library_s_kernels_load_little_twice() -> None:
    far = operation(LONG, 0.1 * LONG, H200)
    assert roofline.span_of(far, False, H200, H100).most == pytest.approx(LONG * 4800 / 3350)
    assert roofline.span_of(far, True, H200, H100).most < 1.05 * LONG


def test_bytes_count_once() -> None:
    touches = (Touch(0, 10, READ), Touch(5, 10, UPDATE), Touch(90, 5, READ))
    assert roofline.bytes_of(Operation(0, 1, touches)) == 20
    assert roofline.bytes_of(Operation(0, 1, (Touch(0, 10, READ | SPARSE),))) == 0


def test_only_operations_are_scaled() -> None:
    given = Given(Block(0, 64), True)
    step = Sequence((), ((given, operation(LONG, LONG, H200)),))
    fast, slow = roofline.ends(step, GPUS["L4"])
    assert fast == slow
    assert fast.steps[0] == (given, operation(LONG, LONG, H200)._replace(duration_ns=16 * LONG))


def test_times_of_an_unknown_gpu_are_told_of_no_other() -> None:
    other = replace(Sequence((), ((operation(LONG, LONG, H200),),)), device="NVIDIA H100 PCIe")
    with pytest.raises(SequenceError, match="recorded on NVIDIA H100 PCIe, whose data sheet"):
        roofline.ends(other, H200)
    assert roofline.ends(other, None).fast is other
    assert recorded_on("NVIDIA H100 80GB HBM3") is H100
    same = replace(other, device="NVIDIA H100 80GB HBM3")
    assert roofline.ends(same, H100).slow is same
    assert roofline.ends(same, H200).fast.native_ns() == round(LONG * 3350 / 4800)


@pytest.mark.parametrize("name", paths.traces())
def test_recorded_steps_are_within_their_data_sheets(name: str) -> None:
    """On every GPU a step takes no less than its bytes do, and a decoder's little more."""
    step = open_sequence(paths.traces()[name])
    recorded_ms = step.native_ns() / 1e6
    for gpu in GPUS.values():
        needs = needs_of(step, gpu.memory, gpu=gpu)
        least, most = needs.native_ms, needs.most_native_ms
        if gpu is H200:
            assert least == most == recorded_ms
            continue
        ratios = [H200.bandwidth / gpu.bandwidth, *(a / b for a, b in roofline.peaks(H200, gpu))]
        assert roofline.bytes_ms(step, gpu) < least < most < 1.001 * max(ratios) * recorded_ms
        assert least > 0.999 * min(1, *ratios) * recorded_ms
    if name == "decode-8b":
        needs = needs_of(step, 0, gpu=GPUS["RTX-4090"])
        assert 24 < roofline.bytes_ms(step, GPUS["RTX-4090"]) < needs.native_ms < 36


@pytest.mark.parametrize(
    ("name", "ms"),
    [("resnet50", 38.1), ("prefill-3b", 36.4), ("prefill-8b", 250), ("hash-join", 6.64)],
)
def test_steps_recorded_on_an_h200_are_told_of_an_h100(name: str, ms: float) -> None:
    """Within a fifth of what was measured on an H100 80GB HBM3, of the steps that no thread bounds.

    The files are h100-vmm-systems.json and h100-known.json of bench/results before 75f4619.
    """
    step = open_sequence(paths.traces()[name])
    needs = needs_of(step, H100.memory, gpu=H100)
    assert (needs.native_ms + needs.most_native_ms) / 2 == pytest.approx(ms, rel=0.2)
    assert needs.native_ms / 1.05 <= ms <= needs.most_native_ms
