"""Version control for data lakes, without a server.

    lake = lakespark.Lake("s3://bucket/lake")
    repo = lake.repository("analytics").create()
    main = repo.branch("main")

Importing the package reads no environment, starts no JVM and imports neither pyspark nor DuckDB.
"""

from lakespark import errors, graph
from lakespark.branch import Branch, Transaction
from lakespark.lake import Lake, repository
from lakespark.model import Change, Commit, CommonPrefix, ObjectInfo, RepositoryProperties
from lakespark.objects import ObjectWriter, StoredObject, WriteableObject
from lakespark.reference import MergeResult, Reference
from lakespark.repository import Repository
from lakespark.tag import Tag

__version__ = "0.1.0"

__all__ = [
    "Branch",
    "Change",
    "Commit",
    "CommonPrefix",
    "Lake",
    "MergeResult",
    "ObjectInfo",
    "ObjectWriter",
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
