"""Generates `pump/_NAME.py`, the cffi binding (out-of-line ABI mode) of headers.

Run by the build: `_build_ulms.py OUTPUT HEADER...`.
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
    """Writes the binding of the headers named to the file named first."""
    output, *headers = (Path(arg) for arg in sys.argv[1:])
    ffi = FFI()
    ffi.set_source(f"pump.{output.stem}", None)
    for header in headers:
        ffi.cdef(declarations(header.read_text(encoding="utf-8")))
    ffi.emit_python_code(str(output))


if __name__ == "__main__":
    main()
