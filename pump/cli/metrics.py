"""`pump metrics`."""

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, cast

from pump.cli.samples import Metric, metrics
from pump.cli.top import NOBODY, Top
from pump.terminal.command import UsageError

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

MISSING = "prometheus-client is not installed: `pip install prometheus-client`"
LOCAL = "127.0.0.1"
MOST_PORT = 65535


class Metrics:
    """Tell monitoring what `pump top` shows.

    Prints it once as text for Prometheus, or serves it.
    """

    name = "metrics"

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        """In which form, and where."""
        form = parser.add_mutually_exclusive_group()
        form.add_argument("--json", action="store_true", help="print once, as JSON")
        form.add_argument(
            "--listen",
            metavar="HOST:PORT",
            help=f"serve http://HOST:PORT/metrics until interrupted; PORT alone: on {LOCAL}",
        )

    def run(self) -> list[Metric]:
        """What there is now."""
        return metrics(Top().run(None))

    def main(self, args: argparse.Namespace) -> int:
        """Prints once, or serves until interrupted."""
        if args.listen:
            serve(*address(args.listen), registry(self.run))
            return 0
        found = self.run()
        if args.json:
            print(json.dumps(as_json(found)))
        else:
            print(as_text(registry(lambda: found)), end="")
        if not any(sum(each.samples.values()) for each in found):
            print(f"pump: {NOBODY}", file=sys.stderr)
        return 0


def address(words: str) -> tuple[str, int]:
    """Host and port of HOST:PORT. Raises UsageError."""
    host, _, port = words.rpartition(":")
    if not port.isascii() or not port.isdecimal() or int(port) > MOST_PORT:
        raise UsageError(f"--listen {words}: HOST:PORT or PORT is accepted, a port to {MOST_PORT}")
    return host.removeprefix("[").removesuffix("]") or LOCAL, int(port)


def as_json(found: list[Metric]) -> dict[str, Any]:
    """The same names, labels and values as in the text."""
    return {
        "time": round(time.time(), 3),
        "metrics": [
            {
                "name": each.full_name,
                "type": each.kind,
                "help": each.help,
                "samples": [{"labels": dict(at), "value": n} for at, n in each.samples.items()],
            }
            for each in found
        ],
    }


def registry(look: Callable[[], list[Metric]]) -> "CollectorRegistry":
    """What looks each time that the library asks it. Raises UsageError without the library."""
    try:
        from prometheus_client import CollectorRegistry
        from prometheus_client import Metric as Family
    except ImportError as error:
        raise UsageError(MISSING) from error

    class Collector:
        def collect(self) -> Iterator[Family]:
            for each in look():
                family = Family(each.name, each.help, each.kind)
                for labels, value in each.samples.items():
                    family.add_sample(each.full_name, dict(labels), value)
                yield family

    made = CollectorRegistry()
    made.register(cast(Any, Collector()))
    return made


def as_text(found: "CollectorRegistry") -> str:
    """In Prometheus's format."""
    from prometheus_client import generate_latest

    return str(generate_latest(found), "utf-8")


def serve(host: str, port: int, found: "CollectorRegistry") -> None:
    """Answers until interrupted. Raises OSError, which names the address."""
    from prometheus_client import start_http_server

    name = f"[{host}]" if ":" in host else host
    try:
        server, thread = start_http_server(port, host, found)
    except OSError as error:
        raise OSError(error.errno, error.strerror, f"{name}:{port}") from error
    where = f"http://{name}:{server.server_port}/metrics"
    print(f"pump: serving {where} until interrupted", file=sys.stderr, flush=True)
    try:
        thread.join()
    finally:
        server.shutdown()
        server.server_close()
