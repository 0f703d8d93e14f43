"""What the tests of import and export look at."""

import pyarrow as pa
import pytest

from lakespark.errors import ImportManagerException

NAMES = ["a.txt", "a%20b", "sub dir/ü.txt", "x=1/part?#.csv", "deep/er/c"]


def contents(ref):
    """Every object of a ref with its bytes."""
    return {info.path: ref.object(info.path).reader().read() for info in ref.objects()}


def files_in(folder):
    """Every file below a folder with its bytes, but for the record of an export."""
    found = {file.relative_to(folder).as_posix(): file.read_bytes() for file in folder.rglob("*") if file.is_file()}
    found.pop(".lakespark-export.json", None)
    return found


def failure(manager):
    """What an import fails with."""
    with pytest.raises(ImportManagerException) as caught:
        manager.run()
    return caught.value.__cause__


def listing(*rows, **columns):
    """A table of address, size and checksum from rows of these, and further columns."""
    names = ("address", "size", "checksum")
    return pa.table(dict(zip(names, zip(*rows, strict=True), strict=True)) | columns)
