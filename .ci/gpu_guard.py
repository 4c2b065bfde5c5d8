"""Refuses to run the tests that need a GPU unless managed memory is limited.

Managed memory beyond what the card has free can hang the GPU for everybody on the host.
"""

import os
import sys

from pump.sizes import GIB, parse_size


def main() -> int:
    """Exit status 1 and one line unless ULMS_MANAGED_LIMIT is set to 8GiB or less."""
    text = os.environ.get("ULMS_MANAGED_LIMIT", "")
    try:
        allowed = 0 < parse_size(text) <= 8 * GIB
    except ValueError:
        allowed = False
    if not allowed:
        print(
            "make gpu: set ULMS_MANAGED_LIMIT to 8GiB or less first"
            " (managed memory beyond what is free can hang the GPU)",
            file=sys.stderr,
        )
    return 0 if allowed else 1


if __name__ == "__main__":
    sys.exit(main())
