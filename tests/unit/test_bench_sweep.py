"""What a sweep over more memory than there is says of itself."""

import pytest

from bench.gpu.sweep import line

pytestmark = pytest.mark.unit


def test_the_median_step_is_not_what_few_long_ones_make_of_it() -> None:
    rates = {"gb_s_both": 60.0, "gb_s_in": 31.0, "gb_s_out": 29.0}
    told = line({"page": "8MiB", "step_ms": [20.0, 20.0, 50.0], "numbers_equal": True, **rates})
    assert "90.0 GB/s in sum by the median step" in told
    assert "over all 60.0, 31.0 in, 29.0 out" in told
