"""Files that somebody else may have put in their place: only regular ones are opened, and what
would wait (a pipe) or lead elsewhere (a link) is refused.
"""

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO


def open_regular(path: Path, *, links: bool = True) -> BinaryIO:
    """A file to be read. `links`: a symbolic link is followed, as the user named it. Raises
    OSError, also for what is no regular file.
    """
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
    number = os.open(path, flags | (0 if links else os.O_NOFOLLOW))
    try:
        if not stat.S_ISREG(os.fstat(number).st_mode):
            raise OSError(errno.EINVAL, "is no regular file", str(path))
        return os.fdopen(number, "rb")
    except BaseException:
        os.close(number)
        raise


def read_regular(path: Path) -> bytes:
    """What a file holds. Raises OSError, also for what is no regular file."""
    with open_regular(path) as file:
        return file.read()


def read_own(path: Path, most: int) -> bytes:
    """What this user's file holds; root reads everybody's. Raises OSError for a file that is
    another's, that holds more than `most` bytes, or that is none but a link.
    """
    with open_regular(path, links=False) as file:
        state = os.fstat(file.fileno())
        user = os.geteuid()
        if user not in (0, state.st_uid):
            raise OSError(errno.EACCES, "belongs to another user", str(path))
        data = file.read(most + 1)
    if len(data) > most:
        raise OSError(errno.EFBIG, f"holds more than {most} bytes", str(path))
    return data
