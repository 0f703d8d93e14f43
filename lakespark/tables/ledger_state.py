"""What the rows of a ledger come to: refs, settings, features, commits, and the idempotency keys that were used."""

from __future__ import annotations

from collections.abc import Iterable

from lakespark.errors import UnsupportedFormatError
from lakespark.model import CommitRecord, Operation, RefChange, RefState, SettingChange
from lakespark.tables import ledger_rows

KNOWN_FEATURES = frozenset({"ranges-v1", "staging-v1"})


class LedgerState:
    """Refs and settings at one version, and of commits and keys (with their entry's number) those read so far.

    Not synchronised: its owner holds a lock.
    """

    def __init__(self, place: str) -> None:
        """``place``: what to call the repository in messages."""
        self.refs: dict[str, RefState] = {}
        self.settings: dict[str, str] = {}
        self.commits: dict[str, CommitRecord] = {}
        self.keys: dict[str, int] = {}
        self._features: set[str] = set()
        self._place = place

    def apply(self, rows: Iterable[ledger_rows.Row]) -> None:
        """Take in the rows of the next entries, in order. Raises UnsupportedFormatError for an unknown feature."""
        for row in rows:
            kind = row["kind"]
            if kind == "operation":
                self._note_key(row)
            elif kind == "commit":
                self.commits.setdefault(row["name"], ledger_rows.commit_record(row))
            elif kind in ("branch", "tag"):
                change = ledger_rows.ref_change(row)
                if change.after is None:
                    self.refs.pop(change.name, None)
                else:
                    self.refs[change.name] = change.after
            elif kind == "setting":
                setting = ledger_rows.setting_change(row)
                if setting.after is None:
                    self.settings.pop(setting.name, None)
                else:
                    self.settings[setting.name] = setting.after
            elif kind == "feature":
                self._require(row["name"])

    def add_older(self, rows: Iterable[ledger_rows.Row]) -> None:
        """Take in commits and keys of entries before those read so far: of one id the first record counts."""
        for row in rows:
            if row["kind"] == "operation":
                self._note_key(row)
            elif row["kind"] == "commit":
                record = ledger_rows.commit_record(row)
                known = self.commits.get(record.commit.id)
                if known is None or record.number < known.number:
                    self.commits[record.commit.id] = record

    def holds(self, operation: Operation, settings: dict[str, str]) -> bool:
        """Whether this, all settings included, is still the state that an operation was decided on."""
        refs_hold = all(self.refs.get(change.name) == change.before for change in operation.changes)
        is_new = not any(record.commit.id in self.commits for record in operation.commits)
        return refs_hold and is_new and self.settings == settings

    def rows(self, heads: Iterable[CommitRecord]) -> list[ledger_rows.Row]:
        """The rows that say all of it but older commits: ``heads`` are those that refs point at."""
        rows = [ledger_rows.ref_row(RefChange(name, None, state)) for name, state in self.refs.items()]
        rows += [ledger_rows.setting_row(SettingChange(name, None, value)) for name, value in self.settings.items()]
        rows += [ledger_rows.feature_row(name) for name in sorted(self._features)]
        for record in heads:
            entry, position = ledger_rows.commit_place(record)
            commit = {"kind": "commit", "name": record.commit.id, "commit": ledger_rows.commit_row(record)}
            rows.append({**commit, "entry": entry, "position": position})
        return rows

    def _note_key(self, row: ledger_rows.Row) -> None:
        key = row.get("idempotency_key")
        if key is not None:
            self.keys[key] = row["entry"]

    def _require(self, feature: str) -> None:
        if feature not in KNOWN_FEATURES:
            raise UnsupportedFormatError(
                f"the repository at {self._place} needs the feature {feature!r}, "
                "which this lakespark does not know: upgrade lakespark"
            )
        self._features.add(feature)
