r"""Export a ref as files: ``lakespark.jobs.export`` for ``spark-submit``.

    spark-submit --properties-file conf/s3.conf --py-files dist/lakespark-0.1.0-py3-none-any.whl jobs/export.py \
        --lake s3://bucket/lake lakefs://analytics/v2.3 s3://other/analytics

Everything it can do is in ``--help``; its exit codes are those of the command line.
"""

from lakespark.jobs.export import entry

if __name__ == "__main__":
    entry()
