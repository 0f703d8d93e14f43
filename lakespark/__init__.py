"""Version control for data lakes, without a server.

    lake = lakespark.Lake("s3://bucket/lake")
    repo = lake.repository("analytics").create()
    main = repo.branch("main")

Importing the package reads no environment, starts no JVM and imports neither pyspark nor DuckDB; what its names
stand for is imported when one of them is first used.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

from lakespark import errors, graph

if TYPE_CHECKING:
    from lakespark.branch import Branch, Transaction
    from lakespark.import_manager import ImportManager, ImportStatus
    from lakespark.inspection import Inspection
    from lakespark.lake import Lake, repository
    from lakespark.model import (
        Change,
        Commit,
        CommonPrefix,
        ObjectInfo,
        OperationInfo,
        ProtectionRule,
        RepositoryProperties,
    )
    from lakespark.objects import ObjectWriter, StoredObject, WriteableObject
    from lakespark.operations.fsck.report import Finding, FsckCounts, FsckReport
    from lakespark.reference import MergeResult, Reference
    from lakespark.repository import Repository
    from lakespark.tag import Tag

__version__ = "0.1.0"

__all__ = [
    "Branch",
    "Change",
    "Commit",
    "CommonPrefix",
    "Finding",
    "FsckCounts",
    "FsckReport",
    "ImportManager",
    "ImportStatus",
    "Inspection",
    "Lake",
    "MergeResult",
    "ObjectInfo",
    "ObjectWriter",
    "OperationInfo",
    "ProtectionRule",
    "Reference",
    "Repository",
    "RepositoryProperties",
    "StoredObject",
    "Tag",
    "Transaction",
    "WriteableObject",
    "errors",
    "graph",
    "repository",
]

_HOMES = {
    "branch": ("Branch", "Transaction"),
    "import_manager": ("ImportManager", "ImportStatus"),
    "inspection": ("Inspection",),
    "lake": ("Lake", "repository"),
    "model": (
        *("Change", "Commit", "CommonPrefix", "ObjectInfo"),
        *("OperationInfo", "ProtectionRule", "RepositoryProperties"),
    ),
    "objects": ("ObjectWriter", "StoredObject", "WriteableObject"),
    "operations.fsck.report": ("Finding", "FsckCounts", "FsckReport"),
    "reference": ("MergeResult", "Reference"),
    "repository": ("Repository",),
    "tag": ("Tag",),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """A public name, from the module that it is at home in."""
        if name not in _HOME:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = getattr(importlib.import_module(f"lakespark.{_HOME[name]}"), name)
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})


class _Package(ModuleType):
    """This module, in which ``repository`` is the function, also when the module of that name is imported."""

    def __setattr__(self, name: str, value: object) -> None:
        if name != "repository" or not isinstance(value, ModuleType):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
