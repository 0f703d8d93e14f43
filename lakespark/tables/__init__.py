"""Append-only Delta tables on a store, and on them the ledger, staging areas and the lake's catalog."""
