"""The thread that hashes and writes: a queue bounded by the memory its copies take, emptied in order."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Any


class Background:
    """Calls ``work`` with one item after the other on a thread of its own.

    An exception of ``work`` stops it: it is kept in ``error``, and what is queued or comes later is thrown away.
    """

    def __init__(self, work: Callable[[Any], None], limit: int) -> None:
        self.error: BaseException | None = None
        self._work, self._limit = work, limit
        self._items: deque[tuple[Any, int] | None] = deque()
        self._pending = 0
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="hawkeye-record", daemon=True)
        self._thread.start()

    def reserve(self, nbytes: int, wait: bool) -> bool:
        """Take room for an item before its copies are made. False: there is none, or the thread has stopped.

        An item larger than the limit gets its room once nothing else is pending.
        """
        with self._changed:
            while self.error is None and self._pending and self._pending + nbytes > self._limit:
                if not wait:
                    return False
                self._changed.wait()
            if self.error is not None:
                return False
            self._pending += nbytes
            return True

    def release(self, nbytes: int) -> None:
        """Give back room that is not used."""
        with self._changed:
            self._pending -= nbytes
            self._changed.notify_all()

    def put(self, item: Any, nbytes: int) -> None:
        """Queue an item in the room taken for it."""
        with self._changed:
            self._items.append((item, nbytes))
            self._changed.notify_all()

    def finish(self) -> None:
        """Wait until everything queued is done, and end the thread."""
        with self._changed:
            self._items.append(None)
            self._changed.notify_all()
        self._thread.join()

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._items:
                    self._changed.wait()
                entry = self._items.popleft()
            if entry is None:
                return
            item, nbytes = entry
            try:
                if self.error is None:
                    self._work(item)
            except BaseException as error:
                self.error = error
            finally:
                del entry, item  # frees the copies before their room is given back
                self.release(nbytes)
