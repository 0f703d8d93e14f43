"""Every order in which operations can meet at a store: a scheduler that lets one storage call happen at a time.

Each operation runs in a thread of its own, over a handle of its own, and stops before each call of its store. The
scheduler lets one of them go on, up to its next call. Run after run it takes another order, until all are taken but
those that differ only in the order of calls that do not touch each other (sleep sets: Godefroid, *Partial-Order
Methods for the Verification of Concurrent Systems*, 1996). The first schedule that goes wrong is the last one: it is
raised with the calls that led there, also if its operations do not end.
"""

from __future__ import annotations

import itertools
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from lakespark.storage import Store, open_store
from lakespark.testing.faults import Call, FaultyStore

READS = frozenset({"get", "get_range", "list", "size", "stat"})
MOST_CALLS = 1000
"""A schedule of more calls than this is taken for one that does not end."""
PATIENCE_S = 60.0
"""An operation that goes on for so long without a call and without an end is taken for one that waits for ever."""
_SHOWN_CALLS = 200
_numbers = itertools.count()

Actor = Callable[[Store], Callable[[], Any]]
"""Opens a handle on the store, reads ahead if it likes, and gives the operation that is to be scheduled."""
Touch = Callable[[Call, Call], bool]


class Outcome(NamedTuple):
    """What an operation answered, or the error that it raised."""

    value: Any
    error: Exception | None


class Explored(NamedTuple):
    """How many schedules ran to their end, and how many were given up as equal to one of those."""

    schedules: int
    redundant: int


def explore(
    template: Store,
    actors: Sequence[Actor],
    check: Callable[[Store, Sequence[Outcome]], None],
    *,
    touch: Touch | None = None,
    most_calls: int = MOST_CALLS,
    patience_s: float = PATIENCE_S,
) -> Explored:
    """Run the operations in every order, each time on a copy of the template, and check what came of it.

    ``touch`` says whether the order of two calls can matter (default ``may_touch``). What ``check`` raises is raised,
    with the schedule that led there as a note. Raises AssertionError, with the same note, if a schedule has more than
    ``most_calls`` calls, an operation neither ends nor calls its store for ``patience_s`` seconds, its thread dies of
    something that is no Exception, or operations do other calls when they take the same turns again.
    """
    path: list[_Choice] = []
    schedules = redundant = 0
    while True:
        with copy_of(template) as store:
            run = _Run(store, actors, touch or may_touch, patience_s)
            try:
                if run.follow(path, most_calls):
                    check(store, run.outcomes)
                    schedules += 1
                else:
                    redundant += 1
            except BaseException as error:
                error.add_note(f"schedule {schedules + 1}:\n{run.shown()}")
                raise
            finally:
                run.end()
        while path and not path[-1].advance():
            path.pop()
        if not path:
            return Explored(schedules, redundant)


class copy_of:  # noqa: N801 - reads as what it gives
    """A memory store with the files of another, from ``with`` to the end of its block."""

    def __init__(self, store: Store) -> None:
        self._template = store

    def __enter__(self) -> Store:
        self._copy = open_store(f"memory://schedule-{next(_numbers)}")
        for file in self._template.list(""):
            self._copy.put(file.key, self._template.get(file.key) or b"")
        return self._copy

    def __exit__(self, *_: object) -> None:
        for file in list(self._copy.list("")):
            self._copy.delete(file.key)


def may_touch(one: Call, other: Call) -> bool:
    """Whether the order of two calls can matter: one of them changes what the other reads or changes."""
    if one.method in READS and other.method in READS:
        return False
    if "list" in (one.method, other.method):
        listing, change = (one, other) if one.method == "list" else (other, one)
        return change.key.startswith(listing.key)
    return one.key == other.key


@dataclass
class _Choice:
    """A point of a schedule: the calls that the operations are about to make, and which of them go on.

    ``asleep``: those whose turn here would only lead to orders that have been seen.
    """

    calls: dict[int, Call]
    asleep: set[int]
    tried: list[int] = field(default_factory=list)

    def advance(self) -> bool:
        """Take the next operation that is worth its turn. False if there is none."""
        found = next((n for n in sorted(self.calls) if n not in self.asleep and n not in self.tried), None)
        if found is None:
            return False
        self.tried.append(found)
        return True

    def require_same(self, calls: dict[int, Call]) -> None:
        """Raises AssertionError if the operations are about to make other calls than the last time."""
        then, now = ({n: call.method for n, call in each.items()} for each in (self.calls, calls))
        if then != now:
            raise AssertionError(f"the operations depend on more than their turns: they were to call {then}, now {now}")

    def asleep_after(self, touch: Touch) -> set[int]:
        """Who sleeps on at the next point."""
        taken = self.calls[self.tried[-1]]
        return {n for n in self.asleep | set(self.tried[:-1]) if n in self.calls and not touch(self.calls[n], taken)}


class _GivenUp(BaseException):
    """Ends the thread of an operation whose schedule is of no more interest."""


class _Run:
    """One execution of the operations on one store."""

    def __init__(self, store: Store, actors: Sequence[Actor], touch: Touch, patience_s: float) -> None:
        self.outcomes: list[Outcome] = [Outcome(None, None)] * len(actors)
        self._trace: list[str] = []
        self._touch = touch
        self._patience_s = patience_s
        self._changed = threading.Condition()
        self._waiting: dict[int, Call] = {}
        self._running = set(range(len(actors)))
        self._died: dict[int, BaseException] = {}
        self._turn: int | None = None
        self._is_over = False
        self._threads = [
            threading.Thread(target=self._act, args=(number, actor, store), daemon=True)
            for number, actor in enumerate(actors)
        ]
        for thread in self._threads:
            thread.start()

    def follow(self, path: list[_Choice], most_calls: int) -> bool:
        """Take the choices of a path and go on to the end, adding to it. False if that end has been seen before."""
        depth = 0
        while calls := self._all_stopped():
            if depth == most_calls:
                raise AssertionError(f"livelock: the operations have not ended after {depth:,} calls")
            if depth < len(path):
                path[depth].require_same(calls)
            else:
                path.append(_Choice(calls, path[-1].asleep_after(self._touch) if path else set()))
                if not path[-1].advance():
                    return False
            self._let_go(path[depth].tried[-1])
            depth += 1
        return True

    def end(self) -> None:
        """Give up the operations that have not ended. One that waits for ever is left to itself."""
        with self._changed:
            self._is_over = True
            ending = [thread for number, thread in enumerate(self._threads) if number not in self._running]
            self._changed.notify_all()
        for thread in ending:
            thread.join()

    def shown(self) -> str:
        """The calls in the order that they were made in, the last ones if they are many."""
        left_out = len(self._trace) - _SHOWN_CALLS
        return "\n".join([f"  ... {left_out:,} calls before", *self._trace[left_out:]] if left_out > 0 else self._trace)

    def _all_stopped(self) -> dict[int, Call]:
        with self._changed:
            if not self._changed.wait_for(lambda: not self._running, self._patience_s):
                stuck = min(self._running)
                raise AssertionError(
                    f"operation {stuck} has neither ended nor called its store for {self._patience_s:g} s, "
                    f"while the others stand still. It is at\n{self._place_of(stuck)}"
                )
            if self._died:
                number, cause = self._died.popitem()
                raise AssertionError(f"the thread of operation {number} died of {cause!r}") from cause
            return dict(self._waiting)

    def _place_of(self, number: int) -> str:
        frame = sys._current_frames().get(self._threads[number].ident or 0)  # noqa: SLF001 - documented all the same
        return "".join(traceback.format_stack(frame)).rstrip()

    def _let_go(self, number: int) -> None:
        with self._changed:
            call = self._waiting.pop(number)
            self._trace.append(f"  {number}: {call.method} {call.key}")
            self._running.add(number)
            self._turn = number
            self._changed.notify_all()

    def _act(self, number: int, actor: Actor, store: Store) -> None:
        stepped = FaultyStore(store)
        try:
            operation = actor(stepped)
            stepped.on_call = lambda call: self._stop(number, call)
            value = operation()
        except Exception as error:  # noqa: BLE001 - an outcome like any other
            self.outcomes[number] = Outcome(None, error)
        except _GivenUp:
            pass
        except BaseException as error:  # noqa: BLE001 - raised by the thread that explores
            self._died[number] = error
        else:
            self.outcomes[number] = Outcome(value, None)
        finally:
            stepped.on_call = None  # whoever looks at the handle later, were it for a repr, must not wait for a turn
            with self._changed:
                self._running.discard(number)
                self._changed.notify_all()

    def _stop(self, number: int, call: Call) -> None:
        with self._changed:
            self._waiting[number] = call
            self._running.discard(number)
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._turn == number or self._is_over)
            if self._is_over:
                raise _GivenUp
            self._turn = None
