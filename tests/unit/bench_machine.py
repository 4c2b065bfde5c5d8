"""A machine that answers in place of the processes that pump-bench starts on a GPU."""

import json
import subprocess
from typing import Any

from pump.bench.runner import Asked

GIB, MIB = 1 << 30, 1 << 20


def report(numbers: list[str], counters: dict[str, int], reserved: int, charged: int) -> str:
    told = {"numbers": numbers * 2, "step_ms": [2.0, 4.0], "counters": counters}
    told |= {"max_reserved": reserved, "charged": charged}
    told["held"] = {"a kernel": [3 * 10**6, 4 * MIB], "never": [0, 0]} if charged else {}
    return "noise\nREPORT " + json.dumps(told) + "\n"


class Machine:
    """Answers in place of processes, and remembers what was asked."""

    def __init__(self, charged: int) -> None:
        self.charged = charged
        self.fails = False
        self.opaque = self.untrusted = 2 * 4 * MIB
        self.says = "no memory left"
        self.asked: list[tuple[list[str], dict[str, str]]] = []

    def run(self, command: list[str], env: dict[str, str], **_: Any) -> Any:
        self.asked.append((command, env))
        names = [name for name in env.get("REPORT_COUNTERS", "").split(",") if name]
        counters = dict.fromkeys(names, 2 * 4 * MIB)
        doubted = {"opaque": self.opaque, "untrusted": self.untrusted}
        counters |= {name: count for name, count in doubted.items() if name in names}
        numbers = ["0x2"] if "checkpointing" in command else ["0x1"]
        status = 1 if "offload" in command or self.fails else 0
        charged = self.charged if "LD_PRELOAD" in env else 0
        out = report(numbers, counters, self.charged - 64 * MIB, charged)
        return subprocess.CompletedProcess(command, status, out, self.says)


def asked(name: str, systems: list[str], **more: Any) -> Asked:
    return Asked([name], systems, [2.0], quiet=True, **more)
