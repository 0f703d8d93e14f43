"""A disk that is full in the middle of the work: a limit on the size of files makes real writes fail."""

from __future__ import annotations

import pytest
import workers

import lakespark

pytestmark = pytest.mark.processes


def test_a_full_disk_fails_the_work_by_name_and_changes_nothing(tmp_path):
    lakespark.Lake(tmp_path).repository(workers.REPOSITORY).create()
    (sent,) = workers.run((workers.work_on_a_full_disk, str(tmp_path)))
    before = ("Repository created", 0, 30_000)
    *failed, after = sent
    for error, seen in zip(failed[::2], failed[1::2], strict=True):
        kind, message = error
        assert kind == "StorageError"
        assert message.startswith(f"cannot write {tmp_path}/{workers.REPOSITORY}/")
        assert message.endswith("File too large")
        assert seen == before
    assert len(failed) == 2 * 4
    assert "/_lakespark/ranges/" in failed[0][1]
    assert after == ("fits again", 30_000, 0)
    unfinished = list((tmp_path / workers.REPOSITORY).rglob(".unfinished-*"))
    assert unfinished == []
