"""`pump top` and `pump metrics` before a program that shares an emulated device."""

import time
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

from pump.cli.top import Look, Top
from pump.share import broker
from tests.conftest import PATIENCE_S
from tests.emu.shared_device import Device, binary, device
from tests.unit.test_cli_metrics import samples, text_of
from tests.unit.test_screen import Driven, Hands

__all__ = ["binary", "device"]
pytestmark = pytest.mark.emu


WORKS = """
import os
starts = [allocated(32 * MIB) for _ in range(5)]
while not os.path.exists(TOLD):
    for start in starts:
        fill(start, 7, 32 * MIB)
print([words_of(start, 32 * MIB) for start in starts])
"""


async def until(true: Callable[[], bool], what: Callable[[], Awaitable[None]]) -> None:
    """Does it again and again."""
    end = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < end
        await what()


class Real(Driven):
    """The screen before one real program: others of this machine are left out."""

    def __init__(self, pid: int) -> None:
        super().__init__()
        self.pid = pid
        self.last = Look([])

    def look(self, before: Look | None) -> Look:
        """As `pump top` does."""
        found = Top().run(None, before)
        own = [view for view in found.views if view.now.pid == self.pid]
        self.last = replace(found, views=own)
        return self.last

    def suspend(self, pid: int, suspended: bool) -> None:
        """As `pump top` does."""
        broker.suspend(broker.folder(), f"pid:{pid}", suspended=suspended)


def test_it_is_seen_put_away_and_brought_back(
    device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ULMS_SHARE_DIR", str(device.folder))
    told = device.folder / "told"
    program = device.small(f"TOLD = {str(told)!r}\n{WORKS}", "vmm", "g", ULMS_STATS="on")
    device.wait_for(1)
    real = Real(program.pid)

    async def keys(hands: Hands) -> None:
        def works() -> bool:
            rows = hands.screen.rows
            return any(row.rates and row.state == "alone" and row.part == 1 for row in rows)

        await until(works, hands.look)
        assert [row.pid for row in hands.screen.rows] == [program.pid]
        assert f"process {program.pid} of g: alone, 100 % of 160.0 MiB" in hands.text()
        ((labels, _),) = samples(text_of(real.last))["ulms_tenant_resident_bytes"]
        assert f'pid="{program.pid}",program="python' in labels
        assert 'share="g"' in labels
        await hands.press("s", "y")
        await until(lambda: "away_ns" in device.tenants()[0], hands.look)
        await until(lambda: "of g: suspended, 5 %" in hands.text(), hands.look)  # one page of 20
        shown = samples(text_of(real.last))
        assert 'state="suspended"' in shown["ulms_tenant_state"][0][0]
        ((_, evicted),) = shown["ulms_process_evicted_bytes_total"]
        assert evicted > 0
        await hands.press("r")
        told.touch()
        assert program.communicate(timeout=PATIENCE_S) == (f"{[{7}] * 5}\n", "")
        await until(lambda: not hands.screen.rows, hands.look)
        assert "no program shares a GPU" in hands.text()

    real.run(keys, (120, 30))
