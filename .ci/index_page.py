"""README.md as an index of packages shows it: what lies in the repository is named, not linked.

A metadata provider of scikit-build-core.
"""

import re
from collections.abc import Mapping
from pathlib import Path

RELATIVE = r"\((?!https?:|#)[^)]*\)"


def plain(page: str) -> str:
    """The page without pictures and links that only the repository has, and without comments."""
    page = re.sub(rf"!\[[^]]*\]{RELATIVE}\n\n", "", page)
    page = re.sub(r"<!--.*?-->\n", "", page, flags=re.DOTALL)
    return re.sub(rf"\[([^]]*)\]{RELATIVE}", r"\1", page)


def dynamic_metadata(field: str, settings: Mapping[str, object], *_: object) -> dict[str, str]:
    """What becomes of `readme`, the one field that asks for this."""
    page = plain(Path("README.md").read_text(encoding="utf-8"))
    return {"content-type": "text/markdown", "text": page}
