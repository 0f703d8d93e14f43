"""Listing entries in order of path, with folders where a delimiter asks for them."""

from lakespark.entries import ENTRY_COLUMNS

IN_ORDER = "select * from {entries} order by path"

WITHIN = """
select c.* from {changes} c
where exists (select 1 from {bounds} b where c.path > b.lower and (b.upper is null or c.path <= b.upper))
"""
"""The changes of one page: those with paths in (lower, upper]."""

_REST = ", ".join(f"max_by({name}, path) as {name}" for name in ENTRY_COLUMNS[1:])

FOLDERS = f"""
with cut as (
    select e.*, p.start, p.delimiter, instr(substr(e.path, p.start), p.delimiter) as place
    from {{entries}} e, {{parameters}} p
),
named as (
    select
        cut.*,
        case when place > 0 then substr(path, 1, cast(start + place + length(delimiter) - 2 as int)) end as folder
    from cut
)
select coalesce(folder, path) as path, folder, {_REST}
from named
group by coalesce(folder, path), folder
order by path
"""
"""Entries to objects and folders. ``parameters`` has one row: delimiter, and start, the place after the prefix
counted from 1 in characters. A folder's row has the folder; the rest of it means nothing."""
