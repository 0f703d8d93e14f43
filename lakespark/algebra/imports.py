"""What an import changes: a put for each entry, a delete for what gives way to them."""

from lakespark.entries import ENTRY_COLUMNS

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
