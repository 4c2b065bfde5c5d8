"""Generates `pump/_ulms.py`, the cffi binding (out-of-line ABI mode), from `csrc/ulms.h`.

Run by the build: `_build_ulms.py ULMS_H OUTPUT`.
"""

import re
import sys
from pathlib import Path

from cffi import FFI


def declarations(header: str) -> str:
    """The C declarations of a header, without its preprocessor lines and comments."""
    plain = re.sub(r"/\*.*?\*/", "", header, flags=re.DOTALL)
    return re.sub(r"^[ \t]*#(?:.*\\\n)*.*$", "", plain, flags=re.MULTILINE)


def main() -> None:
    """Writes the binding for the header named first to the file named second."""
    header, output = (Path(arg) for arg in sys.argv[1:])
    ffi = FFI()
    ffi.set_source("pump._ulms", None)
    ffi.cdef(declarations(header.read_text(encoding="utf-8")))
    ffi.emit_python_code(str(output))


if __name__ == "__main__":
    main()
