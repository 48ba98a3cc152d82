"""Ctrl-C, a request to end, a closed terminal: they wait while a process is started or taken down."""

import signal
from collections.abc import Callable

NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def hold_interrupts() -> Callable[[], None]:
    """From now on an interruption waits until the function that this returns is called.

    Without it one that comes while a process is being started finds nobody who knows of the process yet.
    """
    came: list[int] = []
    before = {number: signal.getsignal(number) for number in NUMBERS}
    for number, handler in before.items():
        if handler is not signal.SIG_IGN:  # as nohup has it
            signal.signal(number, lambda number, _: came.append(number))

    def let_interrupt() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)
        if came:
            raise KeyboardInterrupt

    return let_interrupt
