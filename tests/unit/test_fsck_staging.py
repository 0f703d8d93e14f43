"""fsck on the staging tables that branches name."""

from __future__ import annotations

import pytest
from fsck_cases import (
    DAMAGES,
    damage,
    entries,
    errors,
    staging_log,
)

from lakespark.tables.staging import staged_rows, staged_table


@pytest.mark.parametrize("how", DAMAGES)
def test_a_damaged_staging_file_is_named_with_its_branch(repo, how):
    root, log = staging_log(repo, "main")
    (file,) = log.files.values()
    found = damage(repo, f"{root}/{file.name}", how)
    (finding,) = errors(repo)
    assert (finding.subject, finding.name) == ("table file", f"{root}/{file.name}")
    assert (finding.expected, finding.found) == (file.sha256, found)
    assert finding.refs == ("main",)


def test_a_missing_staging_table_is_named_with_its_branch(repo):
    root, log = staging_log(repo, "main")
    for number in range(log.version + 1):
        repo.opened.store.delete(f"{root}/_delta_log/{number:020d}.json")
    (finding,) = errors(repo)
    assert (finding.kind, finding.subject, finding.name, finding.refs) == ("missing", "staging table", root, ("main",))


def test_a_sealed_table_that_lost_its_end_is_told_by_the_watermark(repo):
    (sealed_token,) = repo.opened.ledger.ref("dev").sealed
    root = f"_lakespark/staging/{sealed_token.token}"
    repo.opened.store.delete(f"{root}/_delta_log/{sealed_token.watermark:020d}.json")
    (finding,) = errors(repo)
    assert (finding.kind, finding.name, finding.refs) == ("missing", root, ("dev",))
    assert (finding.expected, finding.found) == (str(sealed_token.watermark), str(sealed_token.watermark - 1))


def test_staged_rows_that_cannot_be_are_inconsistent(repo):
    _, log = staging_log(repo, "main")
    for rows in (
        staged_rows([{"op": "rename", "path": "a"}], user="ann"),
        staged_table(entries("x", identity=["0" * 64]), user="ann"),
    ):
        assert log.put_rows(log.write_file(rows), log.version + 1)
    problems = [finding.problem for finding in errors(repo)]
    assert len(problems) == 2
    assert any("'rename'" in problem for problem in problems)
    assert any("'x': its identity" in problem for problem in problems)


def test_a_staged_row_without_a_path_is_inconsistent(repo):
    _, log = staging_log(repo, "main")
    assert log.put_rows(log.write_file(staged_rows([{"op": "delete", "path": None}], user="ann")), log.version + 1)
    assert [finding.problem for finding in errors(repo)] == ["it has a row without a path"]


def test_contents_that_were_committed_and_moved_away_from_are_checked_no_more(repo):
    """The sealed token still has their rows, below its watermark: no branch shows them."""
    old = repo.branch("old")
    key = old.object("z").stat().physical_address.split("/ns/")[1]
    old.move_to("main")
    damage(repo, key, "missing")
    assert errors(repo, objects=True) == ()
