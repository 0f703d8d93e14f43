"""The three-way table: what a merge does with each path that the source changed.

    base   source   destination   outcome
    A      A        any           (not a change of the source: the destination stays)
    A      B        A             source
    A      B        B             same
    A      B        C             conflict

where A, B and C are identities or "no such path". A value of a virtual base that stands for a conflict equals
nothing, so both sides count as changed there.
"""

from lakespark.entries import ENTRY_COLUMNS

_REST = ", ".join(f"e.{name}" for name in ENTRY_COLUMNS[1:])

THREE_WAY = """
select
    s.path,
    s.left_identity as base_identity,
    s.right_identity as source_identity,
    case when d.path is null then s.left_identity else d.right_identity end as destination_identity,
    case
        when d.path is null then 'source'
        when s.right_identity is not distinct from d.right_identity then 'same'
        else 'conflict'
    end as outcome
from {source_changes} s left join {destination_changes} d on s.path = d.path
"""
"""The changes from the base to the source and to the destination to one row a path that the source changed."""

FOLD_BASES = """
select
    m.path,
    case
        when m.outcome = 'source' then m.source_identity
        when m.source_identity is null or m.destination_identity is null then m.base_identity
        else 'conflict %s'
    end as identity
from {merged} m
where m.outcome <> 'same'
"""
"""What the three-way merge of two bases does to the second of them: the new identity of each path, or null.

A modify/delete conflict takes the value of its own base, any other conflict a value equal to nothing, which a
number put in for ``%s`` makes different from every other. As git's recursive merge does with whole files.
"""

APPLY_FOLDED = """
select d.path, d.identity from {destination} d where not exists (select 1 from {folded} f where f.path = d.path)
union all
select f.path, f.identity from {folded} f where f.identity is not null
"""
"""The destination with folded values in place of its own."""

UNRESOLVED = """
select
    m.path,
    case when m.base_identity is null then 'added' when m.source_identity is null then 'removed' else 'changed' end
        || '/' ||
    case when m.base_identity is null then 'added' when m.destination_identity is null then 'removed' else 'changed' end
        as conflict,
    b.identity as base_identity, b.size_bytes as base_size_bytes, b.physical_address as base_physical_address,
    m.source_identity, s.size_bytes as source_size_bytes, s.physical_address as source_physical_address,
    m.destination_identity, d.size_bytes as destination_size_bytes,
    d.physical_address as destination_physical_address
from {merged} m
left join {base} b on m.path = b.path
left join {source} s on m.path = s.path
left join {destination} d on m.path = d.path
where m.outcome = 'conflict'
order by path
"""
"""The conflicts with what each side has there: of the base nothing, if its own bases are in conflict."""

PUT_OR_DELETE = f"""
select
    case when e.path is null then 'delete' else 'put' end as op,
    p.path, {_REST}
from {{paths}} p left join {{entries}} e on p.path = e.path
"""
"""Changes that put the entries at their paths and delete what has none."""

BASE_OF = """
select p.path, m.base_identity, m.path is not null as is_changed
from {paths} p left join {merged} m on p.path = m.path
"""
"""Paths with the base's identity, where the source changed them."""

OF_IDENTITY = """
select e.* from {entries} e join {rows} r on e.path = r.path and e.identity = r.base_identity
"""
"""Entries that are the base's at their paths."""

ONE_A_PATH = """
select %s from (
    select e.*, row_number() over (partition by path order by physical_address) as place from {entries} e
) ranked
where place = 1
"""
"""One of several equal entries of a path."""

WITHOUT_BASE = """
select r.path from {rows} r
where r.base_identity is not null and not exists (select 1 from {entries} e where e.path = r.path)
"""
"""Paths whose base has a value that no entry stands for: a conflict of the bases."""
