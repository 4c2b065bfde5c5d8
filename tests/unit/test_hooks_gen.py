"""The hook tables' grammar, and what hooks/gen.py makes of them."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from hooks.gen import HOOKS, outputs, read_all, shipped  # noqa: E402
from hooks.generator.expression import Extent, parse_extent, to_c  # noqa: E402
from hooks.generator.hot import HOT, check_hot  # noqa: E402
from hooks.generator.lists import exported_symbols  # noqa: E402
from hooks.generator.row import Custom, Passed, Recorded, TableError, Told  # noqa: E402
from hooks.generator.text import listed  # noqa: E402
from tests.conftest import BUILT_WRAPPERS  # noqa: E402

pytestmark = [pytest.mark.unit, pytest.mark.slow]

TABLES = shipped()
ROWS = TABLES.rows
TYPES = """
typedef unsigned long long CUdeviceptr;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef enum {
    CUDA_SUCCESS = 0,
} CUresult;
"""
COPY = "3020 CUresult cuCopy_v2(CUdeviceptr dst, const void *src, size_t n, CUstream s) ptsz\n"


def read(tmp_path: Path, table: str) -> list[object]:
    """The rows of one table of the driver, beside an empty one of NVML."""
    (tmp_path / "cuda").mkdir()
    (tmp_path / "nvml").mkdir()
    (tmp_path / "cuda/abi.h").write_text(TYPES, encoding="utf-8")
    (tmp_path / "cuda/copy.hooks").write_text(table, encoding="utf-8")
    return list(read_all(tmp_path).rows)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (
            COPY + "    kind copy\n    write dest bytes(n)\n",
            "3: unknown argument 'dest' of cuCopy_v2",
        ),
        (COPY + "    kind copy\n    write dst bytes(m)\n", "3: unknown argument 'm' of cuCopy_v2"),
        (
            COPY + "    kind copy\n    write n bytes(n)\n",
            "3: argument 'n' is a size_t, not an address",
        ),
        (
            COPY + "    kind copy\n    write dst bytes(src)\n",
            "3: argument 'src' is a const void *, not a number",
        ),
        (COPY + "    kind copy\n    stream n\n", "3: argument 'n' is a size_t, not a CUstream"),
        (COPY + "    kind copies\n", "2: unknown kind 'copies'; known: launch, copy,"),
        (COPY + "    kind copy\n    kind copy\n", "3: 'kind' twice"),
        (COPY + "    touch dst bytes(n)\n", "2: unknown verb 'touch'"),
        (COPY + "    write dst bytes(n)\n", "1: no kind"),
        (COPY + "    kind copy\n    write dst bytes(n +)\n", "3: expected a name in 'bytes(n +)'"),
        (COPY + "    kind copy\n    write dst bytes(n\n", "3: a parenthesis is never closed"),
        (COPY + "    kind copy\n    write dst bytes(n) n\n", "3: unexpected 'n' in 'bytes(n) n'"),
        (COPY + "    kind copy\n    write dst bytes(n & 1)\n", "3: unexpected '&'"),
        (COPY + "    kind copy\n    write dst rows(n, n)\n", "3: 'rows' takes 3 operands"),
        (COPY + "    kind copy\n    write dst bytes(twice(n))\n", "3: no function is known here"),
        (COPY + "    kind copy\n    write dst tiles(n)\n", "3: unknown extent 'tiles'"),
        (COPY + "    kind copy\n    host src to dst bytes(n)\n", "3: expected 'host SOURCE into"),
        (COPY + '    kind copy\n    pass "no"\n', "1: a description beside 'custom' or 'pass'"),
        (COPY + '    pass "no"\n    pass "no"\n', "3: 'custom' or 'pass' twice"),
        (COPY + '    fast_path\n    pass "no"\n', "1: 'fast_path' stands alone, below 'custom'"),
        (COPY + "    kind copy\n    fast_path\n", "1: 'fast_path' stands alone, below 'custom'"),
        (
            COPY + '    custom recorded "it"\n    fast_path now\n',
            "1: 'fast_path' stands alone, below",
        ),
        (COPY + "    then f(s)\n", "1: 'then' takes a 'note', and 'unless' beside it"),
        (COPY + '    then f(s)\n    note "it"\n    kind copy\n', "1: 'then' takes a 'note'"),
        (COPY + "    pass no\n", "2: expected words in quotes, found 'no'"),
        (COPY + '    custom done "it"\n', "2: unknown status 'done'; known: recorded,"),
        (COPY, "1: cuCopy_v2 does not say what it touches"),
        (COPY.replace("ptsz", "ptdz"), "1: unknown word 'ptdz'; known: ptds, ptsz"),
        (COPY.replace("size_t", "site_t"), "1: unknown type 'site_t'"),
        (COPY.replace("CUresult", "CUresults"), "1: unknown type 'CUresults'"),
        (COPY.replace("const void *src", "const src"), "1: not a type: 'const'"),
        (COPY.replace("CUstream s", "CUstream n"), "1: two arguments named 'n'"),
        (
            COPY.replace("size_t n", "size_t op") + "    kind copy\n",
            "1: argument 'op' needs another",
        ),
        (COPY.replace("3020 ", ""), "1: neither a row nor 'passed \"why\"'"),
        ("3020 CUresult cuInit(\n    CUstream s\n", "1: a parenthesis is never closed"),
        ("    kind copy\n", "1: an indented line that belongs to nothing"),
        ('passed "why"\n    cuInit\n', "2: expected 'version symbol': 'cuInit'"),
        (
            COPY + '    pass "no"\n' + COPY + '    pass "no"\n',
            "3: cuCopy_v2 is already at cuda/copy.hooks:1",
        ),
        (
            COPY + '    kind copy\npassed "why"\n    13000 cuCopy_v3\n',
            "4: cuCopy_v3 needs a prototype: cuCopy_v2 has a wrapper",
        ),
        (
            COPY + '    pass "no"\npassed "why"\n    3020 cuCopy\n',
            "4: cuCopy starts at the version of cuCopy_v2",
        ),
    ],
)
def test_mistakes_are_told_with_file_and_line(tmp_path: Path, table: str, message: str) -> None:
    """Every mistake is an error that names file, line and what is wrong."""
    with pytest.raises(TableError) as error:
        read(tmp_path, table)
    assert str(error.value).startswith(f"cuda/copy.hooks:{message}")


def test_a_row_is_read_as_it_is_written(tmp_path: Path) -> None:
    """Version, base, twin, verbs, comments and continued prototypes."""
    table = (
        "# copies\n3020 CUresult cuCopy_v2(CUdeviceptr dst,  # to\n"
        "                        const void *src, size_t n, CUstream s) ptsz\n"
        "    kind copy\n    stream s\n\n    write dst bytes(n * 2)\n"
        "    host src into dst bytes(n)\n"
    )
    (row,) = read(tmp_path, table)
    assert isinstance(row, type(ROWS[0]))
    assert (row.symbol, row.base, row.since, row.suffix) == ("cuCopy_v2", "cuCopy", 3020, "ptsz")
    assert str(row.where) == "cuda/copy.hooks:2"
    assert isinstance(row.treatment, Recorded)
    assert [touch.text for touch in row.treatment.touches] == ["write dst bytes(n * 2)"]
    assert [(s.source, s.target) for s in row.treatment.sources] == [("src", "dst")]


@pytest.mark.parametrize(
    ("text", "c"),
    [
        ("bytes(n)", ["n"]),
        ("bytes(a + b * 4)", ["a + b * 4"]),
        ("bytes((a + b) * 4)", ["(a + b) * 4"]),
        ("bytes(a - (b - c))", ["a - (b - c)"]),
        ("bytes(a - b - c)", ["a - b - c"]),
        ("bytes((((a)))/2 % 3)", ["a / 2 % 3"]),
        ("rows(pitch, width * 2, height)", ["pitch", "width * 2", "height"]),
    ],
)
def test_expressions_keep_their_meaning(text: str, c: list[str]) -> None:
    """C has the parentheses that the meaning needs, and reading it again gives the same tree."""
    extent = parse_extent(text)
    written = [to_c(operand) for operand in extent.operands]
    assert written == c
    assert parse_extent(f"{extent.form}({', '.join(written)})") == Extent(
        extent.form, extent.operands
    )


def test_long_calls_go_on_below_the_parenthesis() -> None:
    """No generated line is longer than 120 columns, and nothing is lost between them."""
    items = [f"argument_{i}" for i in range(20)]
    lines = listed("    return real(", items, ";").splitlines()
    assert len(lines) > 1
    assert all(len(line) <= 120 for line in lines)
    assert all(line.startswith(" " * len("    return real(")) for line in lines[1:])
    assert " ".join(line.strip() for line in lines) == f"return real({', '.join(items)});"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the command makes of the tables."""
    out = tmp_path_factory.mktemp("made")
    subprocess.run([sys.executable, HOOKS / "gen.py", "--out", out], check=True)
    return out


def compile_c(made: Path, out: Path, *words: str | Path) -> None:
    """Compiles for this machine, unoptimized; the words are sources and options."""
    folders = [f"-I{folder}" for folder in (made, HOOKS, ROOT / "csrc")]
    options = ["-std=gnu11", "-O0", "-Wall", "-Wextra", "-Werror", "-fvisibility=hidden"]
    command: list[str | Path] = ["cc", *options, *folders, "-o", out, *words]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr


def test_a_mistake_ends_the_command(tmp_path: Path) -> None:
    """Status 1, one line on stderr, and nothing written."""
    shutil.copytree(HOOKS, tmp_path / "hooks")
    table = tmp_path / "hooks/cuda/memset.hooks"
    table.write_text(table.read_text(encoding="utf-8") + "nonsense\n", encoding="utf-8")
    out = tmp_path / "out"
    command = [sys.executable, str(tmp_path / "hooks/gen.py"), "--out", str(out)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 1
    assert len(ran.stderr.splitlines()) == 1
    assert ran.stderr.startswith("cuda/memset.hooks:")
    assert not out.exists()


@pytest.mark.parametrize("name", HOT)
def test_what_is_hot_is_in_a_table(name: str) -> None:
    """A slip in hot.py would else be silent: nothing would lie where it should."""
    with pytest.raises(TableError, match=f"generator/hot.py:1: no table has {name}$"):
        check_hot([row for row in ROWS if row.symbol != name])
    check_hot(ROWS)


def test_unchanged_files_are_left_alone(made: Path) -> None:
    """A second run writes nothing, so that nothing is built again."""
    before = {path.name: path.stat().st_mtime_ns for path in made.iterdir()}
    subprocess.run([sys.executable, HOOKS / "gen.py", "--out", made], check=True)
    assert {path.name: path.stat().st_mtime_ns for path in made.iterdir()} == before


def test_both_machines_get_their_first_glibc() -> None:
    """dlsym's first version is another on each machine that CUDA runs on."""
    assert "GLIBC_2.2.5 {" in outputs(TABLES, "x86_64")["exports.map"]
    assert "GLIBC_2.17 {" in outputs(TABLES, "aarch64")["exports.map"]


def test_names_are_the_rows(made: Path) -> None:
    """One name a row; wrapped ones say what they do, the others why not."""
    names = json.loads((made / "names.json").read_text(encoding="utf-8"))
    assert [(n["library"], n["symbol"]) for n in names] == [(r.library, r.symbol) for r in ROWS]
    for name, row in zip(names, ROWS, strict=True):
        match row.treatment:
            case Passed(why):
                assert (name["status"], name["why"], name["touches"]) == ("passed", why, [])
            case Custom(status, note):
                assert (name["status"], name["why"], name["touches"]) == (status, "", [note])
            case Recorded() | Told():
                assert name["status"] == "recorded"
                known = [touch.text for touch in row.treatment.touches]
                assert name["touches"][: len(known)] == known


DRIVER = {row.symbol: row for row in ROWS if row.library == "cuda"}
NEWER = re.compile(r"(?P<base>\w+)_v(?P<version>\d+)")


def older(symbol: str) -> str | None:
    """What the driver exports, too, for programs that were built before."""
    newer = NEWER.fullmatch(symbol)
    if not newer:
        return None
    version = int(newer["version"]) - 1
    return newer["base"] if version == 1 else f"{newer['base']}_v{version}"


def test_an_older_name_is_hooked_or_has_a_reason() -> None:
    """That no reason is empty is the grammar's."""
    names = {name for symbol in DRIVER if (name := older(symbol))}
    assert len(names) > 60
    assert names <= set(DRIVER)


def test_a_wait_for_what_the_device_cannot_bring_about_is_a_gate() -> None:
    """`op_gates` (csrc/launch/op.h): it waits for no event. Lists are written by hand."""
    waits = {s: r for s, r in DRIVER.items() if re.match("cuStreamWaitValue|cuWaitExternal", s)}
    assert len(waits) == 5
    for row in waits.values():
        assert isinstance(row.treatment, Recorded)
        assert (row.treatment.kind, row.treatment.object) == ("after", None)


def test_exports_are_the_wrappers(made: Path, tmp_path: Path) -> None:
    """The library exports each wrapped symbol, twin and version, and nothing else of its own."""
    library = tmp_path / "wrappers.so"
    script = f"-Wl,--version-script={made / 'exports.map'}"
    compile_c(made, library, "-shared", script, *BUILT_WRAPPERS)
    command: list[str | Path] = ["nm", "-D", "--defined-only", "--format=posix", library]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    versioned = [line.split()[0].replace("@@", "@") for line in lines if " A " not in line]
    exported = [symbol.removesuffix("@ULMS") for symbol in versioned]
    assert sorted(exported) == exported_symbols(ROWS, TABLES.libraries)
    assert "cuLaunchKernel_ptsz" in exported
    assert "cublasSgemm_v2@libcublas.so.12" in exported


def test_emulator_rows_are_the_driver(made: Path, tmp_path: Path) -> None:
    """The list can be expanded, twins and all, and has a line for each driver row."""
    source = tmp_path / "rows.c"
    source.write_text(
        '#include <stdio.h>\n#include "emulator_rows.h"\n#define TWIN_none ""\n'
        '#define TWIN_ptds "ptds"\n#define TWIN_ptsz "ptsz"\n'
        "#define LINE(symbol, base, since, twin) "
        'printf("%s %s %d %s\\n", #symbol, #base, since, TWIN_##twin);\n'
        "int main(void)\n{\n    EMULATOR_ROWS(LINE)\n    return 0;\n}\n",
        encoding="utf-8",
    )
    compile_c(made, tmp_path / "rows", source)
    command = [tmp_path / "rows"]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    mine = [row for row in ROWS if row.library == "cuda"]
    assert text.splitlines() == [f"{r.symbol} {r.base} {r.since} {r.suffix or ''}" for r in mine]
