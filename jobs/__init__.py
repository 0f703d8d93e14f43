"""Jobs that people run: each a module with ``main(argv)``, started as ``python -m jobs.<name>``."""
