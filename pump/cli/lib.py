"""`pump lib`."""

import argparse
from pathlib import Path

from pump import paths


class Lib:
    """Print the path of ulms.so, for LD_PRELOAD."""

    name = "lib"

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        """Which of the two."""
        parser.add_argument(
            "--emulator",
            action="store_true",
            help="the directory of the emulated driver instead, for LD_LIBRARY_PATH",
        )

    def run(self, args: argparse.Namespace) -> Path:
        """The path asked for."""
        return paths.emulator_dir() if args.emulator else paths.library()

    def main(self, args: argparse.Namespace) -> int:
        """Prints the path."""
        print(self.run(args))
        return 0
