"""Work in processes beside each other."""

import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import TypeVar

ENDS = (signal.SIGINT, signal.SIG_DFL)
Task = TypeVar("Task")
Result = TypeVar("Result")


def results(
    work: Callable[[Task], Result], tasks: Sequence[Task], workers: int | None = None
) -> Iterator[tuple[Task, Result]]:
    """What came of each task, in order. Raises what `work` raises.

    workers: processes; None: as many as this one may use processors.
    """
    workers = min(workers or len(os.sched_getaffinity(0)), len(tasks))
    if workers < 2:
        for task in tasks:
            yield task, work(task)
        return
    # Not forked: a progress display may run a thread. An interrupt ends them without a word.
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(workers, context, signal.signal, ENDS)
    try:
        made = [pool.submit(work, task) for task in tasks]
        for task, future in zip(tasks, made, strict=True):
            yield task, future.result()
    finally:
        # cancelled by the pool's thread: it complains of those that another cancels as it ends
        pool.shutdown(cancel_futures=True)
