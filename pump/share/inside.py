"""This process, which shares a GPU (`pump run --share`), suspends itself."""

import time

from pump.binding import library
from pump.share.broker import ShareError

LOOK_S = 0.001


def suspend(timeout: float = 60.0) -> None:
    """Returns once its memory has left the GPU. What any thread issues from now on waits for
    `resume`, here or by the command. Raises ShareError; TimeoutError: it has not left after so many
    seconds, and stays suspended.
    """
    _ask(suspended=True)
    end = time.monotonic() + timeout
    while not library().ulms_is_away():
        if time.monotonic() > end:
            raise TimeoutError(f"what runs on the GPU has not ended after {timeout:g} s")
        time.sleep(LOOK_S)


def resume() -> None:
    """The first operation runs once its own memory is back. Raises ShareError."""
    _ask(suspended=False)


def _ask(*, suspended: bool) -> None:
    if not library().ulms_suspend(suspended):
        raise ShareError("this process shares no GPU: `pump run --share NAME` starts one that does")
