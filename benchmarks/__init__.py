"""Commands that measure lakespark and print JSON. Nothing here judges: the table is in README.md."""
