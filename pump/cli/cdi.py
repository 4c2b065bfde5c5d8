"""`pump cdi`."""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from pump import paths
from pump.elf import glibc_needed
from pump.share.broker import folder
from pump.terminal.command import reading
from pump.whole import write_whole

VERSION, KIND = "0.5.0", "ulms/memory"
INSIDE, MEETING = "/usr/local/lib/ulms.so", "/run/ulms"
"""Where the library and the broker's folder lie in a container."""


class Cdi:
    """Print a CDI file, by which Docker, Podman and Kubernetes give containers ulms.so.

    Devices: ulms/memory=um and ulms/memory=vmm choose a backend, ulms/memory=share mounts the
    broker's folder, for containers that set ULMS_SHARE. The GPU itself is NVIDIA's device.
    """

    name = "cdi"

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        """Where to."""
        parser.add_argument(
            "-o", "--output", type=Path, metavar="FILE", help="such as /etc/cdi/ulms.json"
        )

    def run(self, library: Path, meeting: Path) -> dict[str, Any]:
        """The specification, as version 0.5.0 of CDI has it. Paths are of this machine."""
        return {
            "cdiVersion": VERSION,
            "kind": KIND,
            "containerEdits": {
                "env": [f"LD_PRELOAD={INSIDE}"],
                "mounts": [mount(library, INSIDE, "ro")],
            },
            "devices": [
                {"name": "um", "containerEdits": {"env": ["ULMS_BACKEND=um"]}},
                {"name": "vmm", "containerEdits": {"env": ["ULMS_BACKEND=vmm"]}},
                {
                    "name": "share",
                    "containerEdits": {
                        "env": [f"ULMS_SHARE_DIR={MEETING}"],
                        "mounts": [mount(meeting, MEETING, "ro")],
                    },
                },
            ],
        }

    def main(self, args: argparse.Namespace) -> int:
        """Prints or writes it."""
        library = paths.library()
        text = json.dumps(self.run(library, folder()), indent=2) + "\n"
        if args.output:
            with reading():
                write_whole(args.output, text)
        else:
            print(text, end="")
        least = ".".join(map(str, glibc_needed(library)))
        print(f"pump: containers need glibc {least} or newer", file=sys.stderr)
        return 0


def mount(outside: Path, inside: str, access: str) -> dict[str, Any]:
    """A bind mount."""
    options = [access, "nosuid", "nodev", "bind"]
    return {"hostPath": str(outside), "containerPath": inside, "options": options}
