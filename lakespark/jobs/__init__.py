"""Jobs for a scheduler: each a module with ``run(spark, args)``, ``main(argv)`` and an entry point in the wheel."""
