"""What runs beside other work: in order, its failures told to whom they concern, and not too much of it at once."""

from __future__ import annotations

import threading
import time

import pytest

from lakespark.errors import StorageError
from lakespark.storage import Location
from lakespark.storage import background as backgrounds
from lakespark.storage.background import Background

FAR, NEAR = Location("s3", "bucket", "lake"), Location("file", "", "/lake")


def fail():
    raise StorageError("full")


@pytest.mark.parametrize("location", [FAR, NEAR])
def test_answers_come_in_the_order_of_the_items_and_failures_are_raised(location):
    background = Background(location)
    for many in (background.each, lambda work, items: background.ahead(work, items)()):
        assert many(str, range(40)) == [str(number) for number in range(40)]
        assert many(str, []) == []
        with pytest.raises(ZeroDivisionError):
            many(lambda number: 1 // number, [1, 0, 2])
    assert background.both(lambda: 1, lambda: 2) == (1, 2)


def test_reading_ahead_begins_at_once_far_away_and_when_it_is_wanted_nearby():
    begun = threading.Event()
    answers = Background(FAR).ahead(lambda _: begun.set(), [1])
    assert begun.wait(10)
    assert answers() == [None]
    begun.clear()
    answers = Background(NEAR).ahead(lambda _: begun.set(), [1])
    assert not begun.is_set()
    assert answers() == [None]
    assert begun.is_set()


def test_a_failed_write_is_told_to_the_thread_that_started_it():
    background, written = Background(FAR), []
    background.start(fail)
    background.start(lambda: written.append(1))
    other = threading.Thread(target=background.settle)
    other.start()
    other.join()
    with pytest.raises(StorageError, match="full"):
        background.settle()
    assert written == [1]
    background.settle()
    background.start(fail)
    background.drop()
    background.settle()
    with pytest.raises(StorageError, match="full"):
        Background(FAR, runs_now=True).start(fail)


def test_writes_that_wait_for_the_store_are_not_heaped_up(monkeypatch):
    """Whoever starts one too many waits for an earlier one."""
    monkeypatch.setattr(backgrounds, "_MOST_STARTED", 3)
    background, gate, started = Background(FAR), threading.Event(), []

    def start_many():
        for number in range(10):
            background.start(lambda: gate.wait(10))
            started.append(number)
        background.settle()

    writer = threading.Thread(target=start_many)
    writer.start()
    while len(started) < 3:
        time.sleep(0.001)
    writer.join(0.1)
    assert started == [0, 1, 2]
    gate.set()
    writer.join(10)
    assert len(started) == 10
