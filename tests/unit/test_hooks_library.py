"""The grammar of the tables of libraries, and the wrappers that are made of it."""

import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from hooks.gen import Tables, outputs, read_all  # noqa: E402
from hooks.generator.row import Passed, TableError, Told  # noqa: E402

pytestmark = pytest.mark.unit

TYPES = """
typedef struct CUstream_st *CUstream;
typedef enum {
    CUDA_R_32F = 0,
} cudaDataType_t;
typedef CUstream cudaStream_t;
typedef struct graph *cudaGraph_t;
"""
EXTENTS = """
struct span {
    int64_t low, high;
};
static inline struct span library_count(int64_t n) {
    return n;
}
struct span library_pair(struct span one, int64_t n);
static inline int64_t library_twice(int64_t n) {
    return 2 * n;
}
"""
OWN = """
struct span cublas_asked(int variant, thing_t thing);
cudaDataType_t cublas_kind(thing_t thing);
bool cublas_device(int variant, handle_t handle);
"""
OWN_TYPES = """
typedef struct thing *thing_t;
typedef struct handle *handle_t;
typedef enum {
    GOOD = 0,
    ABSENT = 7,
} status_t;
"""
HEAD = """library blas libblas.so.1 libblas.so.2
    handle handle_t
    absent status_t ABSENT
    scalars device(handle)

"""
ROW = (
    "status_t blasCopy(handle_t handle, int n, const float *a, const float *x, float *y, thing_t t)"
)


def read(tmp_path: Path, table: str, *others: str) -> Tables:
    """The tables of one library."""
    for name, file, text in [
        ("cuda", "abi.h", ""),
        ("nvml", "abi.h", ""),
        ("library", "abi.h", TYPES),
        ("library", "extent.h", EXTENTS),
        ("cublas", "abi.h", OWN_TYPES),
        ("cublas", "extent.h", OWN),
        ("cublas", "a.hooks", table),
        *[("cublas", f"b{i}.hooks", other) for i, other in enumerate(others)],
    ]:
        (tmp_path / name).mkdir(exist_ok=True)
        (tmp_path / name / file).write_text(text, encoding="utf-8")
    return read_all(tmp_path)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("    read z count(n)\n", "7: unknown argument 'z' of blasCopy"),
        ("    read x count(m)\n", "7: unknown argument 'm' of blasCopy"),
        ("    read n count(n)\n", "7: argument 'n' is a int, not an address"),
        ("    read x[n] count(n)\n", "7: argument 'x' is a const float *, not a device array"),
        ("    read x\n", "7: expected an extent"),
        ("    read x tiles(n)\n", "7: unknown function 'tiles'; known: asked, count, device,"),
        ("    read x count(n, n)\n", "7: 'count' takes 1 operands"),
        ("    read x twice(n)\n", "7: 'twice(n)' is no extent"),
        ("    read x count(y)\n", "7: 'count' takes a int64_t, not a float *"),
        ("    read x count(count(n))\n", "7: 'count' takes a int64_t, not a struct span"),
        ("    read x pair(n, n)\n", "7: 'pair' takes a struct span, not a int"),
        ("    read x count(count(n) + 1)\n", "7: a struct span is not a number"),
        ("    read x count(n) of m\n", "7: unknown argument 'm'"),
        ("    touch x count(n)\n", "7: unknown verb 'touch'"),
        ("    write y count(n)\n    when a != 0 read y\n", "8: a const float * is no number, nor"),
        ("    scalar read a\n    when a != 0 read y\n", "8: 'y' is not written above"),
        ("    when n read y count(n)\n", "7: expected 'when A == B TOUCH'"),
        ("    when n == 1 scalar read a\n", "7: a scalar cannot be conditional"),
        ('    touches "x"\n    touches "x"\n', "8: 'touches' twice"),
        ('    read x count(n)\n    pass "no"\n', "6: a description beside 'custom' or 'pass'"),
        ('    custom done "x"\n', "7: unknown status 'done'"),
        ("", "6: blasCopy does not say what it touches"),
    ],
)
def test_mistakes_of_a_row(tmp_path: Path, lines: str, message: str) -> None:
    """Told with file and line."""
    with pytest.raises(TableError) as error:
        read(tmp_path, f"{HEAD}{ROW}\n{lines}")
    assert str(error.value).startswith(f"cublas/a.hooks:{message}")


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (f"{ROW}\n    read x count(n)\n", "1: no library yet"),
        ("library blas\n", "1: library 'blas' has no versions"),
        ("library blas l.1\n    absent status_t 1\n", "1: library 'blas' has no handle"),
        ("library blas l.1 l.2 l.3\n    handle handle_t\n", "1: more than 2 versions"),
        (HEAD + HEAD, "6: library 'blas' is already at cublas/a.hooks:1"),
        (
            "library blas l.1 l.2\n    absent status_t 1 2 3\n",
            "2: 'status_t' needs one value, or 2",
        ),
        ("library blas l.1\n    file x\n", "2: unknown verb 'file'"),
        ("set any X T\n    S\n", "2: expected 2 words"),
        ("set any X\n    S\nset any X\n    S\n", "3: set 'any' twice"),
        (f"{HEAD}{ROW} for some\n    read x count(n)\n", "6: unknown set 'some'; known: "),
        (f"{HEAD}{ROW.replace('Copy', '{X}')}\n    read x count(n)\n", "6: nothing stands for"),
        (f"{HEAD}{ROW.replace('thing_t', 'other_t')}\n    read x count(n)\n", "6: unknown type"),
        (
            f"{HEAD}{ROW.replace('status_t', 'int')}\n    read x count(n)\n",
            "6: blas has no 'absent",
        ),
        (
            f"{HEAD}{ROW}\n    read x count(n)\n{ROW}\n    read x count(n)\n",
            "8: blasCopy is already",
        ),
        (f"{HEAD}3020 {ROW}\n    read x count(n)\n", "6: unknown type '3020'"),
        (f"{HEAD}nonsense\n", "6: neither a row nor 'passed', 'set' or 'library'"),
        ("    read x count(n)\n", "1: an indented line that belongs to nothing"),
    ],
)
def test_mistakes_of_a_table(tmp_path: Path, table: str, message: str) -> None:
    """Told with file and line."""
    with pytest.raises(TableError) as error:
        read(tmp_path, table)
    assert str(error.value).startswith(f"cublas/a.hooks:{message}")


def test_mistakes_that_only_c_shows(tmp_path: Path) -> None:
    """What an argument points to must be known, and scalars are compared with 0."""
    row = ROW.replace("const float *x", "const thing_t *x").replace("float *a", "void *a")
    for lines, text in [
        ("    read x count(n)\n", "what does 'x', a const thing_t *, point to?"),
        ("    scalar read a\n    write y count(n)\n    when a != 0 read y\n", "of what type is"),
        ("    scalar read a of 0\n    write y count(n)\n    when a == 1 read y\n", "a scalar is"),
    ]:
        with pytest.raises(TableError, match=re.escape(text)) as error:
            outputs(read(tmp_path, f"{HEAD}{row}\n{lines}"), "x86_64")
        assert str(error.value).startswith("cublas/a.hooks:6: ")


def test_families(tmp_path: Path) -> None:
    """Sets hold in all files; `wide` adds the functions of 64 bits, and only `int` changes."""
    sets = "set any X T\n    S float\n    D double\n\nset more X T\n    - cudaStream_t\n"
    row = "status_t blas{X}Copy(int n, long long int s, const {T} *const x[]) for any, more wide\n"
    names = 'passed for any "why not"\n    blas{X}One blas{X}Two\n    blasThree\n'
    tables = read(tmp_path, f'library blas\n\n{row}    pass "no"\n\n{names}', HEAD + sets)
    found = {row.symbol: row for row in tables.rows}
    copies = ["blasSCopy", "blasSCopy_64", "blasDCopy", "blasDCopy_64", "blasCopy", "blasCopy_64"]
    passed = ["blasSOne", "blasDOne", "blasSTwo", "blasDTwo", "blasThree"]
    assert sorted(found) == sorted([*copies, *passed])
    prototype = found["blasDCopy_64"].prototype
    assert prototype
    assert [str(argument) for argument in prototype.arguments] == [
        "int64_t n",
        "long long int s",
        "const double *const *x",
    ]
    assert found["blasThree"].treatment == Passed("why not")


def test_a_wrapper_says_what_its_row_says(tmp_path: Path) -> None:
    """Touches in the row's order, with types, conditions, and hand-written parts."""
    lines = """    scalar read a
    read x pair(asked(t), n * 2) of kind(t)
    write y count(twice(n))
    when a != 0 read y
    when n == 3 scratch y count(4)
    touches "more"
"""
    tables = read(tmp_path, f"{HEAD}{ROW}\n{lines}")
    (row,) = tables.rows
    assert isinstance(row.treatment, Told)
    assert [touch.text for touch in row.treatment.touches] == [
        "scalar read a",
        "read x pair(asked(t), n * 2) of kind(t)",
        "write y count(twice(n)); when a != 0 read y",
        "when n == 3 scratch y count(4)",
    ]
    made = outputs(tables, "x86_64")
    body = " ".join(made["wrappers_cublas.c"].split())
    for text in [
        "struct call *call = call_open(API_blasCopy, CALL_LAUNCHES);",
        "if (call_tells(call)) { bool device = cublas_device(variant, handle);",
        "if (device) call_touch(call, (addr_t)(uintptr_t)a, library_count(1), "
        "library_bits(CUDA_R_32F), TOUCH_READ);",
        "library_pair(cublas_asked(variant, t), (int64_t)n * (int64_t)2), "
        "library_bits(cublas_kind(t)), TOUCH_READ);",
        "(device || !library_is_zero(a, CUDA_R_32F)) ? TOUCH_UPDATE : TOUCH_WRITE);",
        "if (n == 3) call_touch(call, (addr_t)(uintptr_t)y, library_count(4),",
        "touches_blasCopy(call, variant, handle, n, a, x, y, t); call_told(call); }",
        'EXPORT(of_1_blasCopy, blasCopy, "@libblas.so.1");',
        'EXPORT(of_2_blasCopy, blasCopy, "@libblas.so.2");',
    ]:
        assert text in body, text
    assert "libblas.so.1 {\n    global:\n        blasCopy;\n" in made["exports.map"]
    look = " ".join(made["lookalike_blas.c"].split())
    assert "LOOKALIKE_HELD(a, x, y);" in look
    assert "lookalike_run(lookalike_stream_blas(handle), held, 3);" in look


def test_kernels_of_a_call_may_be_one_operation(tmp_path: Path) -> None:
    made = outputs(read(tmp_path, f"{HEAD}{ROW}\n    together\n    write y count(n)\n"), "x86_64")
    assert "call_open(API_blasCopy, CALL_TOGETHER);" in made["wrappers_cublas.c"]
    with pytest.raises(TableError, match="a description beside"):
        read(tmp_path, f'{HEAD}{ROW}\n    together\n    pass "why"\n')


def test_what_a_call_puts_into_a_graph_is_always_told(tmp_path: Path) -> None:
    """It may be launched when memory moves, though none did when it was made."""
    name = "status_t blasInto(handle_t handle, const float *x, thing_t t, cudaGraph_t graph)"
    table = f"{HEAD}{name}\n    read x pair(asked(t), 2)\n"
    made = outputs(read(tmp_path, table), "x86_64")["wrappers_cublas.c"]
    assert "call_open(API_blasInto, CALL_BUILDS);" in made


def test_what_touches_ask_alike_is_asked_once(tmp_path: Path) -> None:
    """But never for a touch that may not happen: its descriptor may be none."""
    lines = """    when n == 3 read x asked(t)
    read x pair(asked(t), 2)
    write y asked(t)
"""
    made = outputs(read(tmp_path, f"{HEAD}{ROW}\n{lines}"), "x86_64")["wrappers_cublas.c"]
    body = [line.strip() for line in made.splitlines() if "asked" in line or "answer" in line]
    x, y = ("call_touch(call, (addr_t)(uintptr_t)" + name for name in "xy")
    assert body == [
        f"{x}, cublas_asked(variant, t), library_bits(CUDA_R_32F), TOUCH_READ);",
        "struct span answer_0 = cublas_asked(variant, t);",
        f"{x}, library_pair(answer_0, 2), library_bits(CUDA_R_32F), TOUCH_READ);",
        f"{y}, answer_0, library_bits(CUDA_R_32F), TOUCH_WRITE);",
    ]
