"""Checking everything that the refs of a repository reach, without changing anything.

report   what was found: the public values
run      what the parts share: store, threads, counts
tables   one Delta table: its log entries and the files that they name
ledger   the rows of the ledger: commits, refs and settings; and the derived snapshot
trees    metaranges and ranges
entries  the columns of entries: legal, identities right, cut where they must be
staging  the staging tables that branches name
objects  contents at their physical addresses
places   format.json, the lake's row, and files that are not lakespark's
reach    which refs a finding touches
check    all of them in order
"""
