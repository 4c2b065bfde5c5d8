"""What bench.gpu.host says of a thread's pace."""

import pytest

from bench.gpu import host

pytestmark = pytest.mark.unit


def test_what_is_slow_is_told_of_all_turns() -> None:
    told = host.line("alone", [[4.0, 4.0, 4.0], [9.0, 9.0, 5.0]], quick=4.0)
    assert "4.50 ms in the median, 33% slower than 1.5 x 4.00" in told
    assert told.endswith("turns 4.00 9.00")


def test_the_loop_is_timed_at_least_once() -> None:
    assert all(ms > 0 for ms in host.timed(0))
    assert len(host.timed(0)) >= 1
