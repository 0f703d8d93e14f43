"""Differences between two sets of entries, path by path."""

_CHANGES = """
select
    %s,
    l.identity as left_identity,
    r.identity as right_identity
from {left} l full outer join {right} r on %s
where l.identity is distinct from r.identity
"""


def _changes(*keys: str) -> str:
    columns = ", ".join(f"coalesce(l.{key}, r.{key}) as {key}" for key in keys)
    return _CHANGES % (columns, " and ".join(f"l.{key} = r.{key}" for key in keys))


CHANGES = _changes("path")
"""``left`` and ``right`` with path and identity to the paths that differ. An absent side is null."""

CHANGES_IN_STEPS = _changes("step", "path")
"""The same for several pairs of sides at once, told apart by the number ``step``."""

DIFF = """
select
    c.path,
    case
        when c.left_identity is null then 'added'
        when c.right_identity is null then 'removed'
        else 'changed'
    end as type,
    e.size_bytes
from {changes} c left join {entries} e on c.path = e.path
order by path
"""
"""Changes and the entries at those paths on the right to rows of a diff."""

DIFF_THREE_WAY = """
select
    m.path,
    case
        when m.outcome = 'conflict' then 'conflict'
        when m.base_identity is null then 'added'
        when m.source_identity is null then 'removed'
        else 'changed'
    end as type,
    e.size_bytes
from {merged} m left join {entries} e on m.path = e.path
where m.outcome <> 'same'
order by path
"""
"""The three-way table of ``algebra.three_way`` (source: the right side) to rows of a diff."""

AT_PATHS = """
select e.* from {entries} e where exists (select 1 from {paths} p where p.path = e.path)
"""
"""The entries whose paths stand in ``paths``."""

BELOW = """
select r.* from {rows} r
where exists (select 1 from {prefixes} x where substr(r.path, 1, length(x.prefix)) = x.prefix)
"""
"""The rows whose paths start with one of the prefixes."""
