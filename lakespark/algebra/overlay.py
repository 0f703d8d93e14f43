"""Laying changes over entries. A change is a path with ``op`` (put or delete) and, for a put, the entry."""

from lakespark.entries import ENTRY_COLUMNS

_ENTRY = ", ".join(ENTRY_COLUMNS)

OVERLAY = f"""
select {_ENTRY} from {{base}} b where not exists (select 1 from {{changes}} c where c.path = b.path)
union all
select {_ENTRY} from {{changes}} where op = 'put'
"""
"""The entries after the changes, in no particular order."""

WITHIN = """
select c.* from {changes} c cross join {limits} l
where (l.after is null or c.path > l.after) and (l.upto is null or c.path <= l.upto)
"""
"""The changes above ``after``, up to ``upto``, the only row of ``limits``. Null: no limit."""

TOUCHED = """
select
    c.range_number,
    max(case when c.op = 'delete' and r.max_path = c.path then 1 else 0 end) as loses_cut
from {changes} c left join {ranges} r on c.range_number = r.range_number
group by c.range_number
"""
"""Numbered changes and the last paths of the ranges to the range numbers that the changes fall into."""
