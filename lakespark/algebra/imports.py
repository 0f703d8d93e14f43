"""What an import finds to entries, and entries to what the import changes.

Rows of a source have the columns of ``ROW_COLUMNS``. A ``reason`` leaves a row out, a ``problem`` refuses all of them.
"""

from lakespark.algebra.identity import IDENTITY
from lakespark.algebra.incoming import PROBLEM
from lakespark.entries import ENTRY_COLUMNS
from lakespark.names import MAX_PATH_BYTES

ROW_COLUMNS = (
    *("path", "physical_address", "size_bytes", "checksum", "mtime", "content_type", "data_schema", "data_stats"),
    *("reason", "problem"),
)

_ADDRESS = """case
        when given like '/%' then 'file://' || replace(given, '%', '%25')
        when given like 's3a://%' or given like 's3n://%' then 's3://' || substr(given, 7)
        when not (given like 'file://%' or given like 'local://%') then given
        when regexp_like(given, '%([^0-9a-fA-F]|.[^0-9a-fA-F]|.?$)') then given
        else 'file://' || replace(
            try_url_decode(replace(regexp_replace(given, '^(file|local)://', ''), '+', '%2B')), '%', '%25'
        )
    end"""
"""Addresses in the one form of each: ``s3://`` for Hadoop's names of S3, ``file://`` URLs for local paths."""

_ADDRESS_PROBLEM = """case
        when given is null then 'have no address'
        when address is null or not regexp_like(address, '(?s)^(file:///|(memory|s3|gs|abfss|az)://[^/]+/.)')
            then 'have an address that is no full URL of a store'
        when regexp_like(address, '(?s)^file://.*(/[.][.]?(/|$)|%([^2]|2[^5]|.?$))')
            then 'have an address that goes through . or .., or in which a % escapes nothing'
        when startswith(address, p.namespace || '/')
            then 'have an address inside the namespace of this repository: such objects are linked by stage()'
        when p.base is not null and not startswith(address, p.base || '/')
            then 'have an address that is not below the base'
    end"""

_KEY = """case
        when p.base is not null then substr(address, length(p.base) + 2)
        when address like 'file://%' then regexp_replace(address, '^file:/+', '')
        else regexp_replace(address, '^[a-z0-9]+://[^/]*/', '')
    end"""

_CHECKSUM = """case
        when length(plain) = 32 and not regexp_like(plain, '[^0-9a-fA-F]') then lower(plain)
        when plain = '' or instr(plain, ':') > 0 then plain
        else 'etag:' || plain
    end"""
"""MD5s in lower case, checksums that carry their kind as they stand, everything else as ETags."""

_SECONDS = """case
        when not regexp_like(mtime, '[^0-9]') then try_cast(mtime as bigint)
        when regexp_like(mtime, '(Z|[+-][0-9][0-9]:?[0-9][0-9])$') then unix_seconds(try_to_timestamp(mtime))
        else unix_seconds(try_to_timestamp(mtime || 'Z'))
    end"""
"""Unix seconds, or times as ISO 8601 has them, which are UTC where they name no zone."""

LISTED = f"""
with current as (
    select l.*, coalesce(address, 's3://' || bucket || '/' || key) as given
    from {{listing}} l
    where lower(coalesce(is_latest, 'true')) = 'true' and lower(coalesce(is_delete_marker, 'false')) = 'false'
),
addressed as (
    select
        given, {_ADDRESS} as address, path, size_bytes, trim(both '" ' from checksum) as plain, mtime,
        {_SECONDS} as seconds, content_type, data_schema, data_stats, is_text
    from current
),
keyed as (
    select /*+ broadcast(p) */ a.*, {_ADDRESS_PROBLEM} as problem, {_KEY} as name, p.destination
    from addressed a cross join {{parameters}} p
)
select
    destination || coalesce(
        path, case when address like 'file://%' then replace(name, '%25', '%') else name end
    ) as path,
    coalesce(address, given) as physical_address,
    size_bytes,
    {_CHECKSUM} as checksum,
    seconds as mtime,
    content_type, data_schema, data_stats,
    case when not is_text then 'its address or path is not UTF-8' end as reason,
    case
        when not is_text then null
        when problem is not null then problem
        when mtime is not null and seconds is null then 'have a time of modification that cannot be read'
    end as problem
from keyed
"""
"""A listing to rows.

A listing has address, or bucket and key; path, checksum, mtime, content_type, data_schema, data_stats, is_latest and
is_delete_marker; all of them texts, null where there is none; size_bytes, a number; and is_text: whether the texts are
UTF-8. ``parameters`` has one row: destination, base (a URL, or null) and namespace.
"""

STORED = """
select /*+ broadcast(p) */
    p.destination || key as path,
    coalesce(address, p.root || '/' || replace(key, '%', p.percent)) as physical_address,
    size_bytes,
    coalesce(checksum, 'stat:' || cast(time_ms as string) || '-' || cast(size_bytes as string)) as checksum,
    cast(floor(time_ms / 1000) as bigint) as mtime,
    cast(null as string) as content_type,
    cast(null as string) as data_schema,
    cast(null as string) as data_stats,
    reason,
    cast(null as string) as problem
from {files} f cross join {parameters} p
"""
"""Files of a store to rows.

Files have key, or the whole address; size_bytes, time_ms, the checksum if there is one, and perhaps a reason.
``parameters`` has one row: destination, root (a URL), and percent, what a ``%`` of a key is in such a URL.
"""

_REASON = f"""case
        when reason is not null or problem is not null then reason
        when path = '' then 'its path would be empty'
        when octet_length(path) > {MAX_PATH_BYTES} then 'its path is longer than {MAX_PATH_BYTES:,} bytes'
        when instr(path, chr(0)) > 0 then 'its path holds a NUL character'
        when physical_address like '%/' and size_bytes = 0 then
            'it is empty and its key ends with /: the marker of a folder'
        when regexp_like(
            physical_address,
            '(?s)^(SCHEMES)://[^/]*/(|.*/)(/|[.][.]?(/|$)|$|.*[' || chr(0) || '-' || chr(31) || chr(127) || '])'
        ) then 'its key has an empty part, . or .., or a control character: only boto3 can address it, and only in S3'
    end"""


def checked(unreachable: str) -> str:
    """Rows to checked entries (see ``algebra.incoming``).

    ``unreachable``: the schemes, with ``|`` between them, of stores whose odd keys nothing here can read. A local file
    may be called anything. ``defaults`` has one row: mtime, content_type and metadata.
    """
    return f"""
with completed as (
    select /*+ broadcast(d) */
        path, physical_address, size_bytes, checksum,
        coalesce(r.mtime, d.mtime) as mtime,
        coalesce(r.content_type, d.content_type) as content_type,
        d.metadata,
        data_schema, data_stats,
        {_REASON.replace("SCHEMES", unreachable)} as reason,
        problem
    from {{rows}} r cross join {{defaults}} d
)
select
    path, {IDENTITY} as identity, {", ".join(ENTRY_COLUMNS[2:])}, reason,
    case when reason is null then coalesce(problem, {PROBLEM}) end as problem
from completed
"""


UNION = "select {columns} from {{left}} union all select {columns} from {{right}}".format(
    columns=", ".join(ROW_COLUMNS)
)
"""The rows of two sources."""

_ENTRY = ", ".join(ENTRY_COLUMNS)
_NONE = ", ".join(f"null as {name}" for name in ENTRY_COLUMNS[1:])

PUTS = f"""
select {_ENTRY}, 'put' as op from {{entries}}
"""
"""Entries to changes."""

PUTS_AND_DELETES = f"""
select {_ENTRY}, 'put' as op from {{entries}}
union all
select path, {_NONE}, 'delete' as op
from {{committed}} c where not exists (select 1 from {{entries}} e where e.path = c.path)
"""
"""The same where everything else that is ``committed`` (paths) is to go."""
