"""What ulms.so shows to programs that load it: the tables' symbols and its own, no more."""

import platform
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from hooks.gen import shipped  # noqa: E402
from hooks.generator.lists import exported_symbols  # noqa: E402
from pump import paths  # noqa: E402

pytestmark = pytest.mark.unit

GLIBC = re.compile(
    r"(dl(sym|vsym|close)|_?longjmp|siglongjmp|__longjmp_chk|pthread_exit)@GLIBC_[\d.]+"
)
FRAMEWORK = "_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE"


def test_exports_are_the_list() -> None:
    """`nm -D` is the generated list, glibc's functions, and what csrc/ulms.h declares."""
    command: list[str | Path] = ["nm", "-D", "--defined-only", "--format=posix", paths.library()]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    lines = [line.split() for line in text.splitlines()]
    symbols = {
        words[0].replace("@@", "@").removesuffix("@ULMS") for words in lines if words[1] != "A"
    }
    header = (ROOT / "csrc" / "ulms.h").read_text(encoding="utf-8")
    own = set(re.findall(r"\b(ulms_\w+)\([^)]*\);", header)) | {FRAMEWORK}
    tables = shipped()
    listed = set(exported_symbols(tables.rows, tables.libraries))
    glibc = {symbol for symbol in symbols if GLIBC.fullmatch(symbol)}
    assert len(glibc) == (11 if platform.machine() == "x86_64" else 6)
    assert symbols - glibc == listed | own
    assert len(listed) > 1500


def test_versions_are_the_libraries() -> None:
    """Every version node is our own, glibc's, or one of a library that the tables name."""
    command: list[str | Path] = ["readelf", "-V", "-W", paths.library()]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    definitions = text[text.index("Version definition section") :].split("Version needs")[0]
    names = set(re.findall(r"Name: (\S+)", definitions))
    libraries = {v for library in shipped().libraries for v in library.symbol_versions}
    others = {name for name in names - libraries if not name.startswith("GLIBC_")}
    assert libraries <= names
    assert others == {"ulms.so", "ULMS"}
