"""Who runs the SQL: the interface, DuckDB in process, Spark on a session that the caller passes."""

from lakespark.engine.interface import Engine, Frame

__all__ = ["Engine", "Frame"]
