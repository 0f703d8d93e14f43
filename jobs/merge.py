r"""Merge a ref into a branch: ``lakespark.jobs.merge`` for ``spark-submit``.

    spark-submit --properties-file conf/s3.conf --py-files dist/lakespark-0.1.0-py3-none-any.whl jobs/merge.py \
        --lake s3://bucket/lake lakefs://analytics/dev lakefs://analytics/main

Everything it can do is in ``--help``; its exit codes are those of the command line.
"""

from lakespark.jobs.merge import entry

if __name__ == "__main__":
    entry()
