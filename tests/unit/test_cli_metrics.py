"""`pump metrics`: what monitoring is told of programs, tenants and GPUs."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from pump import stats
from pump.cli import main
from pump.cli.metrics import as_json, as_text, registry
from pump.cli.quantities import GPU, TENANT
from pump.cli.samples import metrics
from pump.cli.top import Look, Top, View
from pump.share import broker
from pump.stats import Counter, StatsError
from tests.conftest import PATIENCE_S
from tests.tenants import GIB, Tenant
from tests.unit.test_cli_top import EARLIER, STATS

pytestmark = pytest.mark.unit

LINE = re.compile(r"(ulms_[a-z_]+)(?:\{(.*)\})? (\S+)")
NVML = "nvml_used"
"""What the broker does not tell itself."""


def every_counter() -> dict[str, Counter]:
    """As the library has them; each stands at its own number."""
    rows = re.findall(
        r'^ {4}X\((\w+), "(B?)", "(.*)"\)', STATS.read_text(encoding="utf-8"), flags=re.MULTILINE
    )
    return {name: Counter(name, unit, what, at) for at, (name, unit, what) in enumerate(rows, 1)}


def text_of(look: Look) -> str:
    return as_text(registry(lambda: metrics(look)))


MOST = {"largest_bytes", "gated_bytes"}
"""No sums."""


def samples(text: str) -> dict[str, list[tuple[str, float]]]:
    """By name: labels and value."""
    found: dict[str, list[tuple[str, float]]] = {}
    for line in text.splitlines():
        if not line.startswith("#"):
            match = LINE.fullmatch(line)
            assert match, line
            found.setdefault(match[1], []).append((match[2] or "", float(match[3])))
    return found


def test_every_counter_has_a_name_in_base_units() -> None:
    counters = every_counter()
    assert len(counters) > 50
    text = text_of(Look([View(replace(EARLIER, counters=counters))]))
    told = samples(text)
    labels = 'pid="7",program="train"'
    for name, counter in counters.items():
        stem = name.removesuffix("_ns") + "_seconds" * name.endswith("_ns")
        total = "" if name in MOST else "_total"
        value = counter.value * (1e-9 if name.endswith("_ns") else 1)
        ((of, shown),) = told[f"ulms_process_{stem}{total}"]
        assert of == labels
        assert shown == pytest.approx(value)
    assert "# TYPE ulms_process_kernels_total counter\n" in text
    assert "# TYPE ulms_process_largest_bytes gauge\n" in text
    assert "nanoseconds" not in text
    part = "of ulms_process_filled_bytes_total, before an operation asked for them"
    assert f"# HELP ulms_process_early_bytes_total {part}\n" in text


def test_memory_is_that_of_a_device_and_no_limit_is_told_where_there_is_none() -> None:
    told = samples(text_of(Look([View(EARLIER)])))
    first, second = (f'device="{number}",pid="7",program="train"' for number in (0, 1))
    assert told["ulms_process_memory_used_bytes"] == [(first, 3 << 20), (second, 0)]
    assert told["ulms_process_memory_capacity_bytes"] == [(second, 8 << 30)]
    assert told["ulms_process_idle_seconds"] == [('pid="7",program="train"', 0.5)]


def test_a_program_may_have_any_name() -> None:
    """And one whose file was left behind by an exec is told of once."""
    odd = 'a "b"\\\n{c}'
    views = [View(replace(EARLIER, program=odd, opened=at)) for at in (0.0, 1.0)]
    told = samples(text_of(Look(views)))
    assert told["ulms_process_opened_seconds"] == [('pid="7",program="a \\"b\\"\\\\\\n{c}"', 1.0)]


def test_the_json_says_what_the_text_says() -> None:
    look = Look([View(replace(EARLIER, counters=every_counter()))])
    objects = as_json(metrics(look))["metrics"]
    told = samples(text_of(look))
    assert {each["name"]: [s["value"] for s in each["samples"]] for each in objects} == {
        name: [value for _, value in rows] for name, rows in told.items()
    }


def test_all_that_is_told_of_tenants_and_gpus_is_there(folder: Path) -> None:
    main(["share", "start"])
    tenant = Tenant(folder, "notebook")
    (gpu,) = broker.status(folder)["gpus"]
    assert {quantity.key for quantity in GPU} <= set(gpu)
    assert {quantity.key for quantity in TENANT} - set(gpu["tenants"][0]) == {NVML}
    tenant.ends()


def test_an_older_broker_tells_fewer(folder: Path) -> None:
    main(["share", "start"])
    tenant = Tenant(folder, "notebook")
    status = broker.status(folder)
    del status["gpus"][0]["thrashed"], status["gpus"][0]["tenants"][0]["evicted"]
    told = samples(text_of(Look([], status)))
    assert "ulms_gpu_thrashed_total" not in told
    assert "ulms_tenant_evicted_bytes_total" not in told
    assert len(told["ulms_tenant_refilled_bytes_total"]) == 1
    tenant.ends()


def test_it_serves_what_is_so_when_it_is_asked(folder: Path) -> None:
    main(["share", "start"])
    tenant = Tenant(folder, "notebook")
    words = [sys.executable, "-m", "pump", "metrics", "--listen", "0"]
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as serves:
        assert serves.stderr
        line = serves.stderr.readline()
        (where,) = re.findall(r"http://127\.0\.0\.1:\d+/metrics", line)
        assert resident(where) == 0
        tenant.says("REPORT", need=3 * GIB, resident=2 * GIB)
        while resident(where) != 2 * GIB:
            pass
        tenant.ends()
        while resident(where) is not None:
            pass
        serves.send_signal(signal.SIGINT)
        assert serves.wait(PATIENCE_S) == 130
        assert serves.stderr.read() == ""


def resident(where: str) -> float | None:
    """What the only tenant has on the GPU; None: there is none."""
    with urlopen(where, timeout=PATIENCE_S) as answer:
        told = samples(answer.read().decode())
    rows = told.get("ulms_tenant_resident_bytes")
    assert told["ulms_host_tenants"] == [("", 1 if rows else 0)]
    if not rows:
        return None
    ((labels, value),) = rows
    assert f'pid="{os.getpid()}",program="' in labels
    assert 'share="notebook",tenant="' in labels
    return value


def test_a_program_that_ends_while_it_is_read_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As are those of other users, and files that make no sense."""
    for number in range(4):
        (tmp_path / f"ulms-{number}-1").touch()
    raised = [FileNotFoundError(), PermissionError(), StatsError("makes no sense"), None]

    def read(path: Path) -> Any:
        error = raised[int(path.name.split("-")[1])]
        if error:
            raise error
        return EARLIER

    monkeypatch.setattr(stats, "read", read)
    found = stats.running(tmp_path)
    monkeypatch.setattr(stats, "running", lambda: found)
    assert [view.now for view in Top().run(None).views] == [EARLIER]


def test_where_nobody_runs_it_says_so(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert not broker.serves(folder)
    assert main(["metrics", "--json"]) == 0
    out, error = capsys.readouterr()
    if json.loads(out)["metrics"][0]["samples"][0]["value"] == 0:  # of this machine's programs
        assert error.startswith("pump: no program shares a GPU or shows counters")


def test_without_the_library_it_says_what_to_install(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    assert main(["metrics"]) == 2
    told = "pump: prometheus-client is not installed: `pip install prometheus-client`\n"
    assert capsys.readouterr().err == told
    assert main(["metrics", "--json"]) == 0


def test_a_port_that_is_taken_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        where = f"127.0.0.1:{taken.getsockname()[1]}"
        assert main(["metrics", "--listen", where]) == 1
    assert capsys.readouterr().err == f"pump: {where}: Address already in use\n"


@pytest.mark.parametrize("words", ["host", "host:", ":-1", "a::1x", "127.0.0.1:65536", "1.2"])
def test_what_is_no_address_is_wrong_usage(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["metrics", "--listen", words]) == 2
    assert capsys.readouterr().err == (
        f"pump: --listen {words}: HOST:PORT or PORT is accepted, a port to 65535\n"
    )
