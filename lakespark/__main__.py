"""``python -m lakespark`` is the command line."""

from lakespark.cli import main

main()
