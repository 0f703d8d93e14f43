"""Entries and changes as people ask for them: both sides of a change, and addresses in full.

``namespace`` has one row: url of the storage namespace, and percent, what a ``%`` of a key is in such a URL. The
sides of a change have path, identity, size_bytes and physical_address; an absent side is null.
"""

from lakespark.entries import ENTRY_COLUMNS

SIDE_COLUMNS = ("path", "identity", "size_bytes", "physical_address")


def _full(address: str) -> str:
    return (
        f"case when instr({address}, '://') > 0 then {address} "
        f"else n.url || '/' || replace({address}, '%', n.percent) end as "
    )


_ENTRY = ", ".join(
    f"{_full('e.' + name)}{name}" if name == "physical_address" else f"e.{name}" for name in ENTRY_COLUMNS
)

ENTRIES = f"select {_ENTRY} from {{entries}} e cross join {{namespace}} n"
"""Entries with their addresses in full."""

_CHANGE = f"""
    coalesce(r.path, l.path) as path,
    case when l.identity is null then 'added' when r.identity is null then 'removed' else 'changed' end as type,
    l.identity as before_identity,
    l.size_bytes as before_size_bytes,
    {_full("l.physical_address")}before_physical_address,
    r.identity as after_identity,
    r.size_bytes as after_size_bytes,
    {_full("r.physical_address")}after_physical_address
"""

CHANGES = f"""
select {_CHANGE}
from {{left}} l full outer join {{right}} r on l.path = r.path cross join {{namespace}} n
where l.identity is distinct from r.identity
"""
"""Two sides to the paths that differ."""

UNCOMMITTED = f"""
select {_CHANGE}, r.written_by, r.written_at
from {{changes}} r left join {{committed}} l on l.path = r.path cross join {{namespace}} n
where l.identity is distinct from r.identity
"""
"""Staged changes (a delete has a null identity) and the committed entries at their paths to what really differs."""

OF_COMMITS = f"""
select s.commit_id, {", ".join(f"e.{name}" for name in SIDE_COLUMNS)}
from {{entries}} e join {{sides}} s on e.range_number = s.range_number
where s.side = '%s'
"""
"""Numbered entries to one side of the commits in whose comparison their ranges stand. ``%s``: before or after.

``sides`` has commit_id, side and range_number.
"""

HISTORY = f"""
select coalesce(r.commit_id, l.commit_id) as commit_id, {_CHANGE}
from {{left}} l full outer join {{right}} r on l.commit_id = r.commit_id and l.path = r.path
cross join {{namespace}} n
where l.identity is distinct from r.identity
"""
"""The two sides of many commits, each against its first parent, to what each of them changed."""

AT_ADDRESS = """
select e.path, e.range_number from {entries} e
where exists (select 1 from {addresses} a where a.physical_address = e.physical_address)
"""
"""Numbered entries to those of one object, whose address may be written in several ways."""

HELD = """
select h.path, false as uncommitted from {held} h where not exists (select 1 from {changes} c where c.path = h.path)
union all
select c.path, true as uncommitted from {changes} c
where c.op = 'put' and exists (select 1 from {addresses} a where a.physical_address = c.physical_address)
order by path
"""
"""The paths at which a branch's head holds an object, under what is staged, to those at which the branch does."""
