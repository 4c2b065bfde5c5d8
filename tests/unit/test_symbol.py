"""Names of kernels as people read them."""

from pathlib import Path

import pytest

from pump import paths, symbol
from pump.symbol import MOST, readable, shortened
from pump.trace import read

pytestmark = pytest.mark.unit

ADD = (
    "_ZN2at6native29vectorized_elementwise_kernelILi2ENS0_21CUDAFunctorOnSelf_addIlEE"
    "St5arrayIPcLm2EEEEviT0_T1_"
)
EQUAL = (
    "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_13AUnaryFunctorIllbNS0_51_GLOBAL__N__"
    "28ce311f_18_CompareEQKernel_cu_d8008c9616CompareEqFunctorIlEEEESt5arrayIPcLm2EEEEviT0_T1_"
)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("_Z4axpyPfi", "axpy"),
        ("_Z3fooILi3EEvv", "foo<3>"),
        ("_ZN12_GLOBAL__N_14stepEPfS0_", "step"),
        (
            ADD,
            "at::native::vectorized_elementwise_kernel<2, at::native::CUDAFunctorOnSelf_add<...>,"
            " std::array<...> >",
        ),
        ("_ZN3cub21CUB_300102_SM_750_8006detail4sortEPi", "cub::detail::sort"),
        ("_ZN6thrust13THRUST_200_NS4sortEP", "thrust::sort"),
        ("nvjet_sm90_tst_320x64", "nvjet_sm90_tst_320x64"),
        ("axpy(float*, int)", "axpy(float*, int)"),
        ("_Z", "_Z"),
        ("_Z9", "_Z9"),
        ("(others)", "(others)"),
        ("", ""),
    ],
)
def test_names_are_as_people_write_them(name: str, expected: str) -> None:
    assert readable(name) == expected


def test_a_name_is_shortened_to_the_room_there_is() -> None:
    """Arguments of templates go first, then its middle."""
    name = "at::native::vectorized_elementwise_kernel"
    assert shortened(ADD, 200) == readable(ADD)
    assert shortened(ADD, 60) == f"{name}<...>"
    assert shortened(ADD, 40) == "at::native::vectorized_el..._kernel<...>"
    for most in range(10, 120):
        for one in (ADD, EQUAL, EQUAL[:159], "nvjet_sm90_tst_320x64" * 9):
            assert len(shortened(one, most)) <= most
            assert shortened(one, most)[:3] == readable(one)[:3]


def test_a_name_that_was_cut_off_is_its_identifiers() -> None:
    assert readable(EQUAL[:159]) == (
        "at::native::vectorized_elementwise_kernel<AUnaryFunctor, CompareEqFunctor, arr, ...>"
    )
    for end in range(len(EQUAL)):
        readable(EQUAL[:end])


def test_without_the_library_names_are_their_identifiers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(symbol, "_demangler", lambda: None)
    readable.cache_clear()
    assert readable("_ZN3foo3barEv") == "foo::bar"
    assert readable(ADD).startswith("at::native::vectorized_elementwise_kernel<CUDAFunctorOnSelf")
    readable.cache_clear()


def test_names_of_a_program_are_short_and_differ() -> None:
    names = set(read(Path(paths.traces()["gpt2xl"])).functions.values())
    short = {readable(name) for name in names}
    assert max(map(len, names)) > 4 * MOST
    assert max(map(len, short)) < 3 * MOST
    assert len(short) > 0.9 * len(names)
    assert not any(name.startswith("_Z") for name in short)
