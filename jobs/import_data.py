r"""Import objects into a branch without copying them: ``lakespark.jobs.import_data`` for ``spark-submit``.

    spark-submit --properties-file conf/s3.conf --py-files dist/lakespark-0.1.0-py3-none-any.whl jobs/import_data.py \
        --lake s3://bucket/lake --from s3://bucket/raw --to lakefs://analytics/main/raw

Everything it can do is in ``--help``; its exit codes are those of the command line.
"""

from lakespark.jobs.import_data import entry

if __name__ == "__main__":
    entry()
