"""Rows that come from outside to entries with an identity, each with what is wrong with it, if anything is.

``problem`` says why none of the rows are taken, ``reason`` why this one alone is left out; a good row has neither.
"""

from lakespark.algebra.identity import IDENTITY
from lakespark.entries import ENTRY_COLUMNS
from lakespark.names import MAX_PATH_BYTES

_ENTRY = ", ".join(ENTRY_COLUMNS)

PROBLEM = f"""case
    when path is null then 'have no path'
    when path = '' then 'have an empty path'
    when octet_length(path) > {MAX_PATH_BYTES} then 'have a path that is longer than {MAX_PATH_BYTES:,} bytes'
    when instr(path, chr(0)) > 0 then 'have a path that holds a NUL character'
    when coalesce(physical_address, '') = '' then 'have no physical_address'
    when regexp_like(physical_address, '^[^:]*(^|/)[.][.](/|$)|^/')
        then 'have a physical_address that is neither a full URL nor a key inside the namespace'
    when coalesce(checksum, '') = '' then 'have no checksum'
    when size_bytes is null or size_bytes < 0 then 'have no size_bytes, or a negative one'
end"""
"""What is wrong with a row that is to be an entry, or null."""

CHECKED = f"""
select
    path, {IDENTITY} as identity, {", ".join(ENTRY_COLUMNS[2:])},
    cast(null as string) as reason,
    {PROBLEM} as problem
from {{entries}}
"""
"""Entries without an identity to checked entries."""

SUMMARY = """
select
    count(*) as rows,
    count(reason) as skipped,
    count(problem) as problems,
    count(distinct case when reason is null then path end) as paths
from {checked}
"""
"""Checked entries to one row of counts; ``paths``: how many different ones of rows that are not left out."""

PROBLEMS = """
with wrong as (
    select
        problem,
        case when problem like '%address%' then physical_address end as wrong_address,
        path
    from {checked}
    where problem is not null
),
ranked as (
    select
        problem,
        coalesce(wrong_address, path) as example,
        count(*) over (partition by problem) as rows,
        row_number() over (partition by problem order by coalesce(wrong_address, path)) as place
    from wrong
)
select problem, example, rows from ranked where place <= 5 order by problem, place
"""
"""Checked entries to the problems that there are, with a few rows of each."""

REPEATED = """
select 'have a path that stands more than once' as problem, path as example, sum(count(*)) over () as rows
from {checked}
where reason is null
group by path
having count(*) > 1
order by path
limit 5
"""
"""The same for paths that stand more than once."""

MAX_SKIPPED = 100_000

SKIPPED = f"""
select physical_address as address, reason
from {{checked}}
where reason is not null
order by address, reason
limit {MAX_SKIPPED}
"""
"""Checked entries to what is left out, though not more of it than a list can show."""

TAKEN = f"select {_ENTRY} from {{checked}} where reason is null"
"""Checked entries to those that are not left out."""
