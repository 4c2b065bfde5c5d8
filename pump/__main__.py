"""`python -m pump` is `pump`."""

import sys

from pump.cli import main

sys.exit(main())
