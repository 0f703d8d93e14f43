"""Staged rows to changes: for each path the newest row that covers it, wherever that stands.

Staged rows have ``number``, which grows in the order of writing. ``put``, ``delete`` and ``reset`` cover their
path, ``delete-prefix`` and ``reset-prefix`` every path that starts with theirs. A path whose newest row is a
reset is as it was committed.
"""

from lakespark.entries import ENTRY_COLUMNS

_REST = ", ".join(f"s.{name}" for name in ENTRY_COLUMNS[1:])

NEWEST = """
select s.*
from {staged} s
where s.op <> 'reset' and s.number in (select max(number) from {staged} group by path)
"""
"""Staged rows without prefix rows to changes, one a path."""

NEWEST_WITH_PREFIXES = f"""
with prefixes as (
    select number, op, path as prefix from {{staged}} where op in ('delete-prefix', 'reset-prefix')
),
exact as (
    select path, max(number) as number from {{staged}} where op in ('put', 'delete', 'reset') group by path
),
paths as (
    select path from exact union select path from {{committed}}
),
covering as (
    select p.path, max(x.number) as number
    from paths p join prefixes x on substr(p.path, 1, length(x.prefix)) = x.prefix
    group by p.path
),
newest as (
    select path, max(number) as number
    from (select path, number from exact union all select path, number from covering) n
    group by path
)
select
    n.path, s.number,
    case when s.op = 'put' then 'put' else 'delete' end as op,
    {_REST},
    s.written_by, s.written_at
from newest n join {{staged}} s on s.number = n.number
where s.op not in ('reset', 'reset-prefix')
"""
"""The same where there are prefix rows. ``committed``: the committed paths under the deleted prefixes."""

UNCOMMITTED = """
select
    c.path,
    case when c.op = 'delete' then 'removed' when b.path is null then 'added' else 'changed' end as type,
    c.size_bytes, c.written_by, c.written_at
from {changes} c left join {committed} b on c.path = b.path
where c.identity is distinct from b.identity
order by path
"""
"""Changes and the committed entries at their paths to what really differs (a delete has a null identity)."""
