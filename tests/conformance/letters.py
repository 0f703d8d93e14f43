"""Trees of letters: an object of contents A at a path is linked, not read; ``-`` is nothing."""

import pyarrow as pa

from lakespark.testing import trees

ABSENT = "-"
RANGE_ENTRIES = 3


def linked(path, letter):
    """Entry columns of an object with a letter as its contents."""
    return {
        "path": path,
        "physical_address": address(path, letter),
        "size_bytes": ord(letter),
        "checksum": f"x:{letter}",
    }


def address(path, letter):
    return f"data/{letter}/{path.encode().hex()}"


def identity(letter):
    return trees.Entry("", ord(letter), f"x:{letter}", "application/octet-stream", ()).identity


def commit_letters(branch, letters, **described):
    """Make the branch hold just these letters by path (``-`` is nothing), and commit."""
    wanted = {path: letter for path, letter in letters.items() if letter != ABSENT}
    now = letters_at(branch)
    gone = [path for path in now if path not in wanted]
    new = [linked(path, letter) for path, letter in wanted.items() if now.get(path) != letter]
    if new:
        branch.stage(pa.Table.from_pylist(new))
    branch.delete_objects(gone)
    return branch.commit(described.pop("message", "letters"), engine="duckdb", allow_empty=True, **described)


def letters_at(reference):
    """The letter at each path."""
    rows = reference.objects_table().select(["path", "checksum"]).to_pylist()
    return {row["path"]: row["checksum"].removeprefix("x:") for row in rows}


def make(lake, name="merges"):
    return lake.repository(name).create(range_entries=RANGE_ENTRIES)


def sides(repository, cases, prefix=""):
    """Branches base, source and destination, by path and case (base, source, destination letter)."""
    base = repository.branch(f"{prefix}base").create("main")
    commit_letters(base, {path: case[0] for path, case in cases.items()})
    found = [base]
    for number, name in ((1, "source"), (2, "destination")):
        found.append(repository.branch(prefix + name).create(base))
        commit_letters(found[-1], {path: case[number] for path, case in cases.items()}, message=name)
    return found


def is_pure(reference):
    """Whether the metarange id is that of the contents, worked out without the library."""
    rows = reference.objects_table().to_pylist(maps_as_pydicts="strict")
    columns = ("physical_address", "size_bytes", "checksum", "content_type")
    entries = {row["path"]: trees.Entry(*(row[name] for name in columns), ()) for row in rows}
    threshold = trees.threshold_for(RANGE_ENTRIES)
    ranges = tuple(trees.Range(0, run) for run in trees.cut(entries, threshold))
    return trees.Tree(0, threshold, ranges).id == reference.get_commit().meta_range_id
