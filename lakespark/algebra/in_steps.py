"""Several merges at once, told apart by the number ``step``, of which no two change one path.

What a step finds at the paths that it changes is then what the destination had there before all of them. So one
three-way table (``algebra.three_way``) serves them all: to each path its own step gives the base and the source.
"""

from lakespark.entries import ENTRY_COLUMNS

_ENTRY = ", ".join(ENTRY_COLUMNS)

BASES = """
select path, left_identity as identity from {changes} where left_identity is not null
"""
"""The changes of the sources (``step, path, left_identity, right_identity``) to what their bases have there."""

OUTCOMES = """
select c.step, m.path, m.outcome from {merged} m join {changes} c on m.path = c.path
"""
"""The three-way table, each path with its step."""

OWN_ENTRIES = """
select e.* from {entries} e join {paths} p on e.step = p.step and e.path = p.path
"""
"""The entries of all sources to those at the paths of their own step."""

OF_STEPS = """
select c.*, p.step from {changes} c join {paths} p on c.path = p.path
"""
"""Changes to lay over the destination, each with its step."""

OVERLAY_IN_STEPS = f"""
select b.*, 0 as since, c.step as until
from (select {_ENTRY} from {{base}}) b left join {{changes}} c on b.path = c.path
union all
select {_ENTRY}, step as since, null as until from {{changes}} where op = 'put'
"""
"""Every row that the tree has before the first step (0) or after one of them, in no particular order.

A row stands in the tree from its step ``since``, up to and not including ``until``; null: it stays.
"""
