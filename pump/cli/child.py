"""A program beside this process, which stands for it: it passes on signals, and ends alike."""

import os
import resource
import signal
from collections.abc import Mapping

FROM_TERMINAL = (signal.SIGINT, signal.SIGQUIT)
PASSED_ON = (*FROM_TERMINAL, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
IGNORED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)


def run_child(command: tuple[str, ...], environment: Mapping[str, str]) -> int:
    """Runs a program to its end and returns its wait status. Raises OSError where it cannot start.

    Signals are handled from then on: the process is to end, too.
    """
    told = signals()
    child = os.posix_spawnp(command[0], command, environment, setsigdef=IGNORED_BY_PYTHON)
    return attend(child, told)


def signals() -> int:
    """From now on signals to this process are handled: each is a byte to be read there."""
    told, wakes = os.pipe()
    os.set_blocking(wakes, False)
    # a handler might run before the child is known, or as a wait begins
    signal.set_wakeup_fd(wakes)
    for number in (signal.SIGCHLD, *PASSED_ON):
        if number == signal.SIGCHLD or signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, lambda *_: None)
    return told


def attend(child: int, told: int) -> int:
    """Passes on what is told of signals, until the child has ended; its wait status."""
    while True:
        came = os.read(told, 1)[0]
        if came == signal.SIGCHLD:
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                return status
        elif not (came in FROM_TERMINAL and in_foreground() and is_beside(child)):
            os.kill(child, came)


def is_beside(child: int) -> bool:
    """In this process's group; one that was restarted may have its own."""
    try:
        return os.getpgid(child) == os.getpgrp()
    except ProcessLookupError:
        return True


def in_foreground() -> bool:
    """What a terminal sends goes to this process and its child alike."""
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY)
    except OSError:
        return False  # there is none
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    finally:
        os.close(terminal)


def end_like(status: int) -> int:
    """The exit status of a wait status; does not return where a signal ended the program."""
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # the program has left its own
        if -code != signal.SIGKILL:
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    return code
