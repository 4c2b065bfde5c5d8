"""Files that are whole or not there: they are written beside their place."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


def written_at(path: Path) -> Path:
    """Where what a file is to hold is written first: beside it, but for what is no plain file."""
    plain = path.is_file() or not path.exists()
    return path.with_name(f"{path.name}.new") if plain else path


@contextmanager
def whole(path: Path) -> Iterator[Path]:
    """Where to write what a file is to hold. It gets its name at the end; until then, and after an
    error, what was there stays. Raises OSError, which names the file.
    """
    target = path.resolve()
    into = written_at(target)
    try:
        yield into
        if into != target:
            into.replace(target)
    except BaseException as error:
        if into != target:
            with suppress(OSError):
                into.unlink()
        if isinstance(error, OSError) and error.errno and error.filename in (None, str(into)):
            raise OSError(error.errno, error.strerror, str(path)) from error
        raise


def write_whole(path: Path, text: str) -> None:
    """The same, of text. Raises OSError."""
    with whole(path) as into:
        into.write_text(text, encoding="utf-8")
