"""The thread that hashes and writes: a queue bounded by the memory its copies take, emptied in order."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

#: a longer step does not keep the thread from its work
HELD_SECONDS = 1.0
#: as much is taken at a time, or one item
BATCH_BYTES = 16 << 20


class Background:
    """Calls ``work`` with the items in their order, several at a time, on a thread of its own.

    While it is held, it leaves what was queued since then: two threads that run Python take turns of milliseconds, and
    a sampled step would take several times as long. Memory that runs short ends that, and so does a second.

    An exception of ``work`` stops it: it is kept in ``error``, and what is queued or comes later is thrown away.
    """

    def __init__(self, work: Callable[[list[Any]], None], limit: int) -> None:
        self.error: BaseException | None = None
        self._work, self._limit = work, limit
        self._items: deque[tuple[Any, int] | None] = deque()
        self._free = 0  # how many of the items may be taken although it is held
        self._held = self._ended = False
        self._until = 0.0  # when being held ends by itself
        self._waiting = 0  # callers that wait for room
        self._pending = 0  # bytes of what is queued or in work
        # Taken by itself and not through the condition, whose own code a signal's handler may leave with the lock held.
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._thread = threading.Thread(target=self._run, name="hawkeye-record", daemon=True)
        self._thread.start()

    def hold(self) -> None:
        """Leave what is queued from now on until the next hold, go, or finish."""
        with self._lock:
            self._free, self._held = len(self._items), True
            self._until = time.monotonic() + HELD_SECONDS
            self._changed.notify_all()

    def go(self) -> None:
        """Take everything."""
        with self._lock:
            self._held = False
            self._changed.notify_all()

    def admit(self, nbytes: int, wait: bool) -> bool:
        """Wait for room, before the copies of an item are made. False: there is none, or the thread stops.

        An item larger than the limit gets its room once nothing else is pending. Nothing is set aside: of a call that
        a signal's handler interrupts nothing may stay behind, and each thread makes one call at a time.
        """
        with self._lock:
            while self._takes() and self._pending and self._pending + nbytes > self._limit:
                if not wait:
                    self._free = len(self._items)
                    self._changed.notify_all()
                    return False
                try:
                    self._waiting += 1
                    self._changed.notify_all()
                    self._changed.wait()
                finally:
                    self._waiting -= 1
            return self._takes()

    def put(self, item: Any, nbytes: int) -> bool:
        """Queue an item that takes so much memory. False: the thread ends, and leaves it."""
        with self._lock:
            if self._ended:
                return False
            self._items.append((item, nbytes))
            self._pending += nbytes
            if not self._held or self._waiting:
                self._changed.notify_all()
            return True

    def finish(self) -> None:
        """Wait until everything queued is done, and end the thread."""
        with self._lock:
            self._items.append(None)
            self._ended = True
            self._changed.notify_all()
        self._thread.join()

    def _takes(self) -> bool:
        """Whether anything more would be done. Threads of the program may still be in a call when recording ends."""
        return self.error is None and not self._ended

    def _may_take(self) -> bool:
        return bool(self._free or self._waiting or self._ended or not self._held or time.monotonic() >= self._until)

    def _run(self) -> None:
        while True:
            items: list[Any] = []
            taken, last = 0, False
            with self._lock:
                while not (self._items and self._may_take()):
                    self._changed.wait(max(self._until - time.monotonic(), 0) + 0.01 if self._held else None)
                while self._items and self._may_take() and not last:
                    entry = self._items[0]
                    if entry is not None and items and taken + entry[1] > BATCH_BYTES:
                        break
                    self._items.popleft()
                    self._free = max(self._free - 1, 0)
                    if entry is None:
                        last = True
                    else:
                        items.append(entry[0])
                        taken += entry[1]
                        del entry
            try:
                if self.error is None and items:
                    self._work(items)
            except BaseException as error:
                self.error = error
            finally:
                del items  # frees the copies before their room is given back
                with self._lock:
                    self._pending -= taken
                    self._changed.notify_all()
            if last:
                return
