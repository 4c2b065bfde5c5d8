"""The generated wrappers at work, in a program whose recorder prints what they say."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from hooks.gen import HOOKS, shipped  # noqa: E402
from tests.conftest import BUILD, BUILT_WRAPPERS  # noqa: E402

pytestmark = pytest.mark.unit

TABLES = shipped()
ROWS = TABLES.rows
HARNESS = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "driver/fast_path.h"
#include "interpose/record/wrap.h"
#include "ulms.h"

struct home home = {.here = true, .fast_path = SLOW_ALL & ~SLOW_MOVES};
bool home_begun = true;

bool within_still(struct within *now)
{
    (void)now;
    return true;
}
__thread struct thread thread_here;
void *api_real[API_COUNT][2];

static uint64_t counts[COUNTERS];
static bool refuse;
static CUresult answer;

bool wrap_open(struct op *op, enum api api, enum op_kind kind, uint64_t stream)
{
    memset(op, 0, sizeof *op);
    printf("open %s kind %d stream %#lx\n", api_rows[api].symbol, kind, (unsigned long)stream);
    return !refuse;
}

void wrap_touch(struct op *op, addr_t start, uint64_t bytes, enum touch_mode mode)
{
    op->count++;
    printf("touch %#lx %lu mode %d\n", (unsigned long)start, (unsigned long)bytes, mode);
}

void wrap_admit(struct op *op)
{
    printf("admit %u touches, object %#lx\n", op->count, (unsigned long)op->object);
}

void wrap_close(struct op *op, CUresult status)
{
    printf("close %u touches, status %d\n", op->count, status);
}

void wrap_pointers(struct op *op, addr_t dst, const void *src, uint64_t bytes)
{
    (void)op;
    printf("pointers %#lx from %p %lu\n", (unsigned long)dst, src, (unsigned long)bytes);
}

void wrap_pinned(struct op *op, addr_t dst, const void *src, uint64_t bytes)
{
    (void)op;
    printf("pinned %#lx from %p %lu\n", (unsigned long)dst, src, (unsigned long)bytes);
}

static bool leaves;

bool bounds_kept(addr_t start, uint64_t bytes)
{
    printf("bounds %#lx %lu\n", (unsigned long)start, (unsigned long)bytes);
    return !leaves;
}

/* The driver's function, called with whatever arguments: none is looked at. */
static CUresult real(void)
{
    puts(home.place[1].passing ? "real, passing" : "real");
    return answer;
}

void *real_first(enum api api, int variant)
{
    printf("find %s %d\n", api_rows[api].symbol, variant);
    return (void *)real;
}

CUresult custom_cuLaunchKernel(int variant, CUfunction f, unsigned gx, unsigned gy, unsigned gz,
                               unsigned bx, unsigned by, unsigned bz, unsigned shared,
                               CUstream stream, void **parameters, void **extra)
{
    printf("custom %d %p %u%u%u %u%u%u %u %p %p %p\n", variant, (void *)f, gx, gy, gz, bx, by, bz,
           shared, (void *)stream, (void *)parameters, (void *)extra);
    return CUDA_SUCCESS;
}

static bool is_lost(int api, const struct api_row *row)
{
    char twin[128];
    bool has_twin = row->thread_suffix, above = library_versions[row->library][0];
    int by_base = row->library == LIBRARY_CUDA ? api : -1;
    snprintf(twin, sizeof twin, "%s%s", row->symbol, has_twin ? row->thread_suffix : "");
    return api_by_symbol(row->symbol) != 2 * api || api_by_symbol(twin) != 2 * api + has_twin ||
           api_by_base(row->base, row->since) != by_base ||
           api_by_base(row->symbol, row->since) != by_base ||
           !row->wrapper[0] != !row->wrapper[1] ||
           (row->wrapper[0] && (has_twin || above) != (row->wrapper[0] != row->wrapper[1]));
}

static int rows(void)
{
    for (int api = 0; api < API_COUNT; api++) {
        const struct api_row *row = &api_rows[api];
        if (is_lost(api, row))
            return printf("%s is lost\n", row->symbol), 1;
    }
    return printf("%d rows\n", API_COUNT), 0;
}

/* On these machines a function may be called with fewer arguments than it ignores. */
static int absent(const char *symbol)
{
    void *const *stand_in = api_absent[api_by_symbol(symbol) / 2];
    printf("%d %d\n", ((int (*)(void))stand_in[0])(), ((int (*)(void))stand_in[1])());
    return 0;
}

static void *wrapper(const char *symbol)
{
    int key = api_by_symbol(symbol);
    if (key < 0 || !api_rows[key / 2].wrapper[key % 2])
        exit(2);
    return api_rows[key / 2].wrapper[key % 2];
}

#define LONGS(x) x, x, x, x, x, x, x, x, x, x, x, x, x, x
typedef void (*any)(LONGS(long), LONGS(long));

/* In a child. More arguments than any function has: those that it ignores do no harm. */
static int left(void)
{
    int wrapped = 0;
    home.here = false;
    for (int api = 0; api < API_COUNT; api++)
        for (int variant = 0; variant < 2; variant++) {
            any function = (any)api_rows[api].wrapper[variant];
            if (!function || (variant && api_rows[api].wrapper[0] == (void *)function))
                continue;
            function(LONGS(0), LONGS(0));
            wrapped++;
        }
    return printf("%d wrappers\n", wrapped), 0;
}

#define STREAM ((CUstream)0x55)

static void call(const char *symbol)
{
    void *function = wrapper(symbol);
    if (!strncmp(symbol, "cuMemcpyHtoD_v2", 15))
        ((pfn_cuMemcpyHtoD_v2)function)(0x1000, (void *)0x20, 64);
    else if (!strncmp(symbol, "cuMemcpyDtoD_v2", 15))
        ((pfn_cuMemcpyDtoD_v2)function)(0x1000, 0x2000, 64);
    else if (!strncmp(symbol, "cuMemcpyAsync", 13))
        ((pfn_cuMemcpyAsync)function)(0x1000, 0x2000, 64, STREAM);
    else if (!strncmp(symbol, "cuMemsetD2D16Async", 18))
        ((pfn_cuMemsetD2D16Async)function)(0x1000, 512, 7, 100, 3, STREAM);
    else if (!strncmp(symbol, "cuMemsetD2D8_v2", 15))
        ((pfn_cuMemsetD2D8_v2)function)(0x1000, 512, 7, 100, 0);
    else if (!strncmp(symbol, "cuMemsetD32_v2", 14))
        ((pfn_cuMemsetD32_v2)function)(0x1000, 7, 16);
    else if (!strncmp(symbol, "cuStreamSynchronize", 19))
        ((pfn_cuStreamSynchronize)function)(NULL);
    else if (!strncmp(symbol, "cuStreamWaitEvent", 17))
        ((pfn_cuStreamWaitEvent)function)(STREAM, (CUevent)0x66, 0);
    else if (!strncmp(symbol, "cuStreamWriteValue32", 20))
        ((pfn_cuStreamWriteValue32)function)(STREAM, 0x1000, 1, 0);
    else if (!strncmp(symbol, "cuLaunchKernel", 14))
        ((pfn_cuLaunchKernel)function)((CUfunction)0x9, 1, 2, 3, 4, 5, 6, 7, STREAM, (void **)0x8,
                                       NULL);
    else
        exit(2);
}

int main(int count, char **words)
{
    if (count == 2 && !strcmp(words[1], "rows"))
        return rows();
    if (count == 2 && !strcmp(words[1], "left"))
        return left();
    if (count == 4 && !strcmp(words[1], "base")) {
        int api = api_by_base(words[2], (uint32_t)atoi(words[3]));
        return puts(api < 0 ? "none" : api_rows[api].symbol), 0;
    }
    if (count == 3 && !strcmp(words[1], "absent"))
        return absent(words[2]);
    leaves = count == 4 && !strcmp(words[3], "leaving");
    refuse = count == 4 && !strcmp(words[3], "refused");
    answer = count == 4 && !strcmp(words[3], "failing") ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
    if (count == 4 && (!strcmp(words[3], "resting") || leaves || !strcmp(words[3], "nested"))) {
        home.fast_path = SLOW_ALL;
        thread_here = (struct thread){.slot = 1, .counts = counts, .inside = words[3][0] == 'n'};
    }
    call(words[2]);
    if (counts[COUNT_launches_unread])
        printf("unread %lu of %lu\n", (unsigned long)counts[COUNT_launches_unread],
               (unsigned long)counts[COUNT_launches]);
    if (counts[COUNT_memsets])
        printf("memsets %lu\n", (unsigned long)counts[COUNT_memsets]);
    return home.place[1].passing || thread_here.inside > 1;
}
"""


@pytest.fixture(scope="module")
def harness(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program; the wrappers written by hand are missing in it, but for one."""
    folder = tmp_path_factory.mktemp("harness")
    (folder / "harness.c").write_text(HARNESS, encoding="utf-8")
    folders = [f"-I{path}" for path in (BUILD / "gen", HOOKS, ROOT / "csrc")]
    options = ["-std=gnu11", "-O0", "-Wall", "-Wextra", "-Werror", "-fvisibility=hidden", "-no-pie"]
    options.append("-Wl,--unresolved-symbols=ignore-all")
    sources: list[str | Path] = [folder / "harness.c", *BUILT_WRAPPERS]
    command: list[str | Path] = ["cc", *options, *folders, "-o", folder / "harness", *sources]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    return folder / "harness"


def said(harness: Path, *words: str) -> list[str]:
    """The lines that the program prints."""
    ran = subprocess.run([harness, *words], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout
    return ran.stdout.splitlines()


def test_every_row_is_found_again(harness: Path) -> None:
    """By symbol, by twin, by base and version."""
    typed = sum(row.prototype is not None for row in TABLES.rows)
    assert said(harness, "rows") == [f"{typed} rows"]


def test_what_is_absent_is_not_supported(harness: Path) -> None:
    """A stand-in answers its library's "not supported", which may differ between versions."""
    answers = {"CUresult": "801 801", "nvmlReturn_t": "3 3", "cublasStatus_t": "15 15"}
    answers |= {"cudnnStatus_t": "9 3000", "ncclResult_t": "5 5"}
    rows = {row.library: row for row in TABLES.rows if row.prototype}  # the last of each
    assert len(rows) == 6
    for row in rows.values():
        assert row.prototype
        assert said(harness, "absent", row.symbol) == [answers[row.prototype.result]]


@pytest.mark.parametrize(
    ("name", "version", "symbol"),
    [
        ("cuMemPrefetchAsync", 7050, "none"),
        ("cuMemPrefetchAsync", 8000, "cuMemPrefetchAsync"),
        ("cuMemPrefetchAsync", 12010, "cuMemPrefetchAsync"),
        ("cuMemPrefetchAsync", 12020, "cuMemPrefetchAsync_v2"),
        ("cuMemPrefetchAsync", 13000, "cuMemPrefetchAsync_v2"),
        ("cuMemPrefetchAsync_v2", 13000, "cuMemPrefetchAsync_v2"),
        ("cuMemPrefetchAsync_v2", 12010, "none"),
        ("cuMemAlloc", 2000, "none"),
        ("cuMemAlloc", 3020, "cuMemAlloc_v2"),
        ("cuMemAlloc", 13050, "cuMemAlloc_v2"),
        ("cuGetProcAddress", 11080, "cuGetProcAddress"),
        ("cuGetProcAddress", 12000, "cuGetProcAddress_v2"),
        ("cuStreamGetCaptureInfo", 11020, "cuStreamGetCaptureInfo"),
        ("cuStreamGetCaptureInfo", 12020, "cuStreamGetCaptureInfo_v2"),
        ("cuStreamGetCaptureInfo", 12030, "cuStreamGetCaptureInfo_v3"),
        ("cuMemcpyBatchAsync", 12080, "cuMemcpyBatchAsync"),
        ("cuMemcpyBatchAsync", 13000, "cuMemcpyBatchAsync_v2"),
        ("cuCtxSynchronize", 12090, "cuCtxSynchronize"),
        ("cuCtxSynchronize", 13000, "cuCtxSynchronize_v2"),
        ("cuNoSuchFunction", 13000, "none"),
        ("", 13000, "none"),
        ("nvmlDeviceGetMemoryInfo", 13000, "none"),
    ],
)
def test_version_chooses_the_row(harness: Path, name: str, version: int, symbol: str) -> None:
    """The newest parameter list that the version may have, of drivers only."""
    assert said(harness, "base", name, str(version)) == [symbol]


@pytest.mark.parametrize(
    ("symbol", "lines"),
    [
        (
            "cuMemcpyHtoD_v2",
            [
                "open cuMemcpyHtoD_v2 kind 1 stream 0x1",
                "touch 0x1000 64 mode 2",
                "touch 0x20 64 mode 1",
                "admit 2 touches, object 0",
                "find cuMemcpyHtoD_v2 0",
                "real",
                "pointers 0x1000 from 0x20 64",
                "close 2 touches, status 0",
            ],
        ),
        (
            "cuMemcpyAsync_ptsz",
            [
                "open cuMemcpyAsync kind 1 stream 0x55",
                "touch 0x1000 64 mode 2",
                "touch 0x2000 64 mode 1",
                "admit 2 touches, object 0",
                "find cuMemcpyAsync 1",
                "real",
                "pointers 0x1000 from 0x2000 64",
                "close 2 touches, status 0",
            ],
        ),
        (
            "cuMemcpyDtoD_v2",
            [
                "open cuMemcpyDtoD_v2 kind 1 stream 0x1",
                "touch 0x1000 64 mode 2",
                "touch 0x2000 64 mode 1",
                "admit 2 touches, object 0",
                "find cuMemcpyDtoD_v2 0",
                "real",
                "pinned 0x1000 from 0x2000 64",
                "close 2 touches, status 0",
            ],
        ),
        (
            "cuMemsetD2D16Async",
            [
                "open cuMemsetD2D16Async kind 2 stream 0x55",
                "touch 0x1000 1224 mode 3",  # two pitches of 512 and one row of 200
                "admit 1 touches, object 0",
                "find cuMemsetD2D16Async 0",
                "real",
                "close 1 touches, status 0",
            ],
        ),
        (
            "cuMemsetD2D8_v2_ptds",
            [
                "open cuMemsetD2D8_v2 kind 2 stream 0x2",
                "touch 0x1000 0 mode 3",  # no rows
                "admit 1 touches, object 0",
                "find cuMemsetD2D8_v2 1",
                "real",
                "close 1 touches, status 0",
            ],
        ),
        (
            "cuMemsetD32_v2",
            [
                "open cuMemsetD32_v2 kind 2 stream 0x1",
                "touch 0x1000 64 mode 2",
                "admit 1 touches, object 0",
                "find cuMemsetD32_v2 0",
                "real",
                "close 1 touches, status 0",
            ],
        ),
        (
            "cuStreamSynchronize_ptsz",
            [
                "open cuStreamSynchronize kind 7 stream 0x2",
                "admit 0 touches, object 0x2",
                "find cuStreamSynchronize 1",
                "real",
                "close 0 touches, status 0",
            ],
        ),
        (
            "cuStreamWaitEvent",
            [
                "open cuStreamWaitEvent kind 6 stream 0x55",
                "admit 0 touches, object 0x66",
                "find cuStreamWaitEvent 0",
                "real",
                "close 0 touches, status 0",
            ],
        ),
        (
            "cuStreamWriteValue32",
            [
                "open cuStreamWriteValue32 kind 2 stream 0x55",
                "touch 0x1000 4 mode 2",
                "admit 1 touches, object 0",
                "find cuStreamWriteValue32 0",
                "real",
                "close 1 touches, status 0",
            ],
        ),
        ("cuLaunchKernel", ["custom 0 0x9 123 456 7 0x55 0x8 (nil)"]),
        ("cuLaunchKernel_ptsz", ["custom 1 0x9 123 456 7 0x55 0x8 (nil)"]),
    ],
)
def test_a_wrapper_says_what_its_row_says(harness: Path, symbol: str, lines: list[str]) -> None:
    """Open, touches, admit, the real call, pointers, close: in this order, with these numbers."""
    assert said(harness, "call", symbol) == lines


def test_a_refused_operation_is_only_passed_on(harness: Path) -> None:
    """Recording is off: the real call, and nothing else."""
    assert said(harness, "call", "cuMemcpyHtoD_v2_ptds", "refused") == [
        "open cuMemcpyHtoD_v2 kind 1 stream 0x2",
        "find cuMemcpyHtoD_v2 1",
        "real",
    ]


def test_a_failed_copy_brought_no_pointers(harness: Path) -> None:
    """The status reaches the recorder; what was not copied is not looked at."""
    lines = said(harness, "call", "cuMemcpyHtoD_v2", "failing")
    assert "close 2 touches, status 2" in lines
    assert not [line for line in lines if line.startswith("pointers")]


def test_in_a_child_every_wrapper_is_the_real_function(harness: Path) -> None:
    """It says nothing before or after; those written by hand are missing, and would crash."""
    *calls, last = said(harness, "left")
    assert last == f"{len(calls) // 2} wrappers"
    assert len(calls) // 2 > sum(row.wrapped for row in ROWS)
    assert all(line == "real" for line in calls[1::2])
    found = [line.split()[1] for line in calls[::2]]
    assert set(found) == {row.symbol for row in ROWS if row.wrapped}


def test_a_launch_passes_while_nobody_asks(harness: Path) -> None:
    """It is only counted, and only if its thread is in no other wrapper."""
    lines = ["find cuLaunchKernel 0", "real, passing", "unread 1 of 1"]
    assert said(harness, "call", "cuLaunchKernel", "resting") == lines
    in_a_handler = ["find cuLaunchKernel 0", "real"]
    assert said(harness, "call", "cuLaunchKernel", "nested") == in_a_handler
    assert said(harness, "call", "cuMemsetD32_v2", "resting") == [
        "bounds 0x1000 64",
        "find cuMemsetD32_v2 0",
        "real, passing",
        "memsets 1",
    ]
    assert said(harness, "call", "cuMemsetD32_v2", "leaving")[:2] == [
        "bounds 0x1000 64",
        "open cuMemsetD32_v2 kind 2 stream 0x1",
    ]
    assert said(harness, "call", "cuMemcpyAsync", "resting")[0].startswith("open")
