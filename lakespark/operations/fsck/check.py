"""The whole check, part by part."""

from __future__ import annotations

from collections.abc import Iterator

from lakespark.errors import RepositoryNotFoundError
from lakespark.operations import creation
from lakespark.operations.fsck import objects as contents
from lakespark.operations.fsck import places, trees
from lakespark.operations.fsck.ledger import History, check_ledger
from lakespark.operations.fsck.reach import attribute, reachable
from lakespark.operations.fsck.report import Finding, FsckReport, OnFsckProgress
from lakespark.operations.fsck.run import Found, Run
from lakespark.operations.fsck.staging import StagedObject, check_staging
from lakespark.operations.opened import OpenRepository
from lakespark.tables.catalog import Catalog


def fsck(
    opened: OpenRepository,
    *,
    objects: bool = False,
    catalog: Catalog | None = None,
    name: str | None = None,
    on_progress: OnFsckProgress | None = None,
) -> FsckReport:
    """Check everything that the refs reach, and change nothing; with ``objects`` the contents as well.

    ``catalog`` and ``name``: the lake's table of repositories, and what the repository is called there.
    Raises RepositoryNotFoundError if there is nothing at all, UnsupportedFormatError for a repository that this
    lakespark cannot judge, and StorageError if the store does not list its files.
    """
    run = Run(opened, on_progress)
    try:
        return _Check(run, with_objects=objects).report(catalog, name)
    finally:
        run.close()


class _Check:
    """One check, and what it has found so far."""

    def __init__(self, run: Run, *, with_objects: bool) -> None:
        self._run = run
        self._with_objects = with_objects
        self._found: list[Found] = []

    def report(self, catalog: Catalog | None, name: str | None) -> FsckReport:
        """Every part in its order."""
        run = self._run
        history, self._found = check_ledger(run)
        if history.log.version < 0 and run.store.size(creation.FORMAT_KEY) is None:
            raise RepositoryNotFoundError(f"no repository at {run.store.location}: nothing to check")
        run.count(refs=len(history.refs))
        self._add(places.check_format(run, history.settings, history.log.version))
        if catalog is not None and name is not None:
            self._add(places.check_lake_row(run, catalog, name, history.settings))
        records = reachable(history.commits, history.refs)
        known, found = trees.check_metaranges(run, records)
        self._found += found
        self._check_contents(history, known)
        self._add(places.foreign_files(run))
        findings = attribute(self._found, records, history.refs)
        return FsckReport(str(run.store.location), history.log.version, run.counts, findings)

    def _add(self, findings: Iterator[Finding]) -> None:
        self._found += [Found(finding) for finding in findings]

    def _check_contents(self, history: History, known: trees.Trees) -> None:
        """Ranges, staging tables and, if wanted, the objects that both name."""
        run = self._run
        staged, found = check_staging(run, history.refs, with_objects=self._with_objects)
        self._found += found
        wrong: dict[str, list[Finding]] = {}
        problems = list(contents.check_objects(run, self._objects(known, staged, wrong)))
        holders = trees.commits_with(run, known, frozenset(wrong))
        for file, findings in wrong.items():
            self._found += [Found(finding, commits=tuple(holders[file])) for finding in findings]
        self._found += contents.attribute_objects(run, known, staged, problems)

    def _objects(
        self, known: trees.Trees, staged: dict[str, list[StagedObject]], wrong: dict[str, list[Finding]]
    ) -> Iterator[StagedObject]:
        """Every object that is committed or staged, if objects are wanted, while the ranges are checked."""
        for checked in trees.check_ranges(self._run, known, keeps_objects=self._with_objects):
            self._run.count(ranges=1, entries=checked.entries)
            if checked.problems:
                wrong.setdefault(checked.part.ref.file, []).extend(checked.problems)
            yield from contents.objects_of(checked.objects)
        for objects in staged.values():
            yield from objects
