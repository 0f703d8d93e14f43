"""Writing to a branch: rows into its staging table, acknowledged once the branch still stages there.

Writers of one process that write to one branch at once share an append: one of them takes what all have queued,
appends it and reads the branch again for all of them.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

import pyarrow as pa

from lakespark.errors import MissingFileError, StateUnknownError, StorageError
from lakespark.model import RefState
from lakespark.operations import protection, staged
from lakespark.operations.opened import OpenRepository
from lakespark.operations.resolve import branch_state
from lakespark.tables.log_entry import DataFile
from lakespark.tables.staging import staged_rows

GATHERING_S, MOST_GATHERING_S = 0.003, 0.1
"""An append that comes after a shared one waits so long, within these bounds, for the rows of others: of those who
waited then or had their rows in that one. When all of them have come it begins.
"""
_ROUND_TRIPS = 3
"""So many requests of an append come one after the other. Contents take one: who waits as long misses nobody."""
_TRIES = 20


def append(repository: OpenRepository, branch: str, rows: pa.Table) -> None:
    """Stage a batch. Returns when it is sure to be in the branch: in its staging area or in a later commit.

    The branch is read again after the append. If its token is no longer current, a commit may have sealed it
    without having read the batch, so the batch is copied under the new token. Raises StateUnknownError after a
    bounded number of copies.
    """
    for _ in range(_TRIES):
        state, file = _written(repository, branch, rows)
        try:
            repository.staging(state.token).append(rows, file)
        except MissingFileError:
            if branch_state(repository, branch) == state:
                raise
            continue
        if _is_current(repository, branch, state.token):
            return
    raise StateUnknownError(
        f"branch {branch!r} was committed {_TRIES} times while a write to it was under way: "
        "the write may be in one of those commits or staged; look before repeating"
    )


def _written(repository: OpenRepository, branch: str, rows: pa.Table) -> tuple[RefState, DataFile]:
    """The branch as it is now, and the batch as a file of its staging table.

    The file is written while the branch is read, on the guess that it stages where it last did.
    """
    guess = repository.ledger.ref(branch)
    if guess is None or guess.kind != "branch":
        state = protection.writable(repository, branch)
        return state, repository.staging(state.token).write_file(rows)
    write = partial(repository.staging(guess.token).write_file, rows)
    state, file = repository.ledger.background.both(partial(protection.writable, repository, branch), write)
    if state.token != guess.token:
        file = repository.staging(state.token).write_file(rows)
    return state, file


def append_if(
    repository: OpenRepository,
    branch: str,
    rows: pa.Table,
    check: Callable[[staged.StagedView], None],
) -> None:
    """Stage a batch if ``check`` passes on the very rows that come before it.

    ``check`` raises if the batch must not be staged. It is asked again whenever another batch came first.
    """

    def decide(before: staged.StagedView) -> pa.Table:
        check(before)
        return rows

    append_decided(repository, branch, decide)


def append_decided(repository: OpenRepository, branch: str, decide: Callable[[staged.StagedView], pa.Table]) -> None:
    """Stage the batch that ``decide`` makes of the very rows that come before it; nothing if it is empty.

    ``decide`` raises if there must be none. It is asked again whenever another batch came first.
    """
    for _ in range(_TRIES):
        before = staged.newest_view(repository, branch)
        protection.check(repository, branch, before.state, "staging_write")
        rows = decide(before)
        if not rows.num_rows:
            return
        if not repository.staging(before.state.token).append_next(rows, before.watermark):
            continue
        if _is_current(repository, branch, before.state.token):
            return
    raise StateUnknownError(f"branch {branch!r} changed {_TRIES} times while an exclusive write to it was under way")


def _is_current(repository: OpenRepository, branch: str, token: str) -> bool:
    """Whether what was appended under a token is acknowledged. Raises StateUnknownError if the store fails."""
    try:
        return branch_state(repository, branch).token == token
    except StorageError as error:
        raise StateUnknownError(
            f"a write to branch {branch!r} is in its staging table, but the branch could not be read again "
            f"to acknowledge it: look before repeating ({error})"
        ) from error


class SharedAppends:
    """Queues of rows to stage, one a branch, appended by whichever waiting thread comes first."""

    def __init__(self, repository: OpenRepository) -> None:
        self._repository = repository
        self._lock = threading.Lock()
        self._queues: dict[str, _Queue] = {}

    def append(self, branch: str, row: dict[str, Any]) -> None:
        """Stage one row; returns when it is acknowledged."""
        with self._lock:
            queue = self._queues.setdefault(branch, _Queue())
        queue.append(row, lambda rows: append(self._repository, branch, staged_rows(rows, user=self._repository.user)))


class _Queue:
    """Rows that wait for an append. One thread leads: it appends its own row and all that wait by then.

    A thread that does not lead sleeps until its row is in or the lead is handed to it: nobody queues for a lock
    behind the one who appends.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: deque[_Waiting] = deque()
        self._is_led = False
        self._gathering_s = 0.0
        self._expected = 1
        self._all_came = threading.Event()

    def append(self, row: dict[str, Any], append_rows: Callable[[list[dict[str, Any]]], None]) -> None:
        mine = _Waiting(row)
        with self._lock:
            mine.leads = not self._is_led
            self._is_led = True
            if not mine.leads:
                self._waiting.append(mine)
            self._note_if_all_came()
        if not mine.leads:
            self._sleep(mine)
        if mine.leads:
            self._append_all(mine, append_rows)
        if mine.failure is not None:
            raise mine.failure

    def _sleep(self, mine: _Waiting) -> None:
        try:
            mine.woken.wait()
        except BaseException:  # an interrupt: this thread will not lead
            with self._lock:
                if mine in self._waiting:
                    self._waiting.remove(mine)
            if mine.leads:
                self._hand_over()
            raise

    def _append_all(self, mine: _Waiting, append_rows: Callable[[list[dict[str, Any]]], None]) -> None:
        batch, failure = [mine], None
        try:
            self._all_came.wait(self._gathering_s)
            with self._lock:
                batch += self._waiting
                self._waiting.clear()
            started = time.monotonic()
            append_rows([waiting.row for waiting in batch])
            self._gathering_s = self._gathering_after(time.monotonic() - started) if len(batch) > 1 else 0.0
        except BaseException as error:  # noqa: BLE001 - handed to every thread whose row it was
            failure = error
        for waiting in batch:
            waiting.failure = failure
            waiting.woken.set()
        self._hand_over(len(batch))

    def _note_if_all_came(self) -> None:
        if len(self._waiting) + 1 >= self._expected:
            self._all_came.set()

    @staticmethod
    def _gathering_after(took_s: float) -> float:
        return min(max(took_s / _ROUND_TRIPS, GATHERING_S), MOST_GATHERING_S)

    def _hand_over(self, appended: int = 0) -> None:
        with self._lock:
            self._expected = appended + len(self._waiting)
            self._all_came.clear()
            if not self._waiting:
                self._is_led = False
                return
            heir = self._waiting.popleft()
            heir.leads = True
            self._note_if_all_came()
        heir.woken.set()


class _Waiting:
    """One row, and the thread that waits for it."""

    __slots__ = ("failure", "leads", "row", "woken")

    def __init__(self, row: dict[str, Any]) -> None:
        self.row = row
        self.leads = False
        self.woken = threading.Event()
        self.failure: BaseException | None = None
