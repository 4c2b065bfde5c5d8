"""`python -m pump.bench`."""

import sys

from pump.bench.cli import main

if __name__ == "__main__":
    sys.exit(main())
