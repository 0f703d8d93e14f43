"""What a SparkSession needs for lakespark: nothing but Spark itself, and Delta for zero-copy views."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyspark

from lakespark.errors import BadRequestException

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_DELTA = {
    "4.0": "io.delta:delta-spark_2.13:4.0.1",
    "4.1": "io.delta:delta-spark_2.13:4.1.0",
    "4.2": "io.delta:delta-spark_2.13:4.4.0",
}
"""The Delta release for each Spark release."""
_HADOOP_AWS = ("org.apache.hadoop:hadoop-aws:3.5.0",)
_AWS_SDK = tuple(f"software.amazon.awssdk:{name}:2.35.4" for name in ("s3", "s3-transfer-manager", "sts"))
_DELTA_EXTENSION = "io.delta.sql.DeltaSparkSessionExtension"
_DELTA_CATALOG = "org.apache.spark.sql.delta.catalog.DeltaCatalog"

SHIPPED_WITH_SPARK = (
    "com.fasterxml.jackson.core:jackson-annotations",
    "com.fasterxml.jackson.core:jackson-core",
    "com.fasterxml.jackson.core:jackson-databind",
    "com.fasterxml.jackson.datatype:jackson-datatype-jdk8",
    "com.github.luben:zstd-jni",
    "com.google.code.findbugs:jsr305",
    "commons-logging:commons-logging",
    "commons-pool:commons-pool",
    "io.airlift:aircompressor",
    "io.unitycatalog:unitycatalog-client",
    "io.unitycatalog:unitycatalog-hadoop",
    "javax.annotation:javax.annotation-api",
    "org.apache.hadoop:hadoop-client-api",
    "org.apache.hadoop:hadoop-client-runtime",
    "org.apache.logging.log4j:log4j-api",
    "org.apache.logging.log4j:log4j-core",
    "org.apache.logging.log4j:log4j-slf4j2-impl",
    "org.apache.parquet:parquet-column",
    "org.apache.parquet:parquet-common",
    "org.apache.parquet:parquet-encoding",
    "org.apache.parquet:parquet-format-structures",
    "org.apache.parquet:parquet-hadoop",
    "org.apache.parquet:parquet-jackson",
    "org.locationtech.jts:jts-core",
    "org.roaringbitmap:RoaringBitmap",
    "org.roaringbitmap:shims",
    "org.slf4j:slf4j-api",
    "org.xerial.snappy:snappy-java",
    "software.amazon.awssdk:bundle",
)
"""What Delta and hadoop-aws ask for and Spark has already, or what three small AWS modules stand in for."""


def configure(
    builder: SparkSession.Builder,
    delta: bool = True,  # noqa: FBT001, FBT002 - reads as configure(builder, delta=..., s3=...)
    s3: bool = False,  # noqa: FBT001, FBT002
) -> SparkSession.Builder:
    """Add to a builder what Delta and S3 need; lists that it has are added to, nothing is started.

    Fetched are only the JARs that Spark lacks: 5 for Delta (13 MB). Raises BadRequestException for a Spark that
    no Delta release is known for.
    """
    packages: list[str] = []
    if delta:
        packages.append(_delta_package())
        _append(builder, "spark.sql.extensions", [_DELTA_EXTENSION])
        builder.config("spark.sql.catalog.spark_catalog", _DELTA_CATALOG)
    if s3:
        packages += [*_HADOOP_AWS, *_AWS_SDK]
    if packages:
        _append(builder, "spark.jars.packages", packages)
        _append(builder, "spark.jars.excludes", SHIPPED_WITH_SPARK)
    return builder


def _delta_package() -> str:
    release = ".".join(pyspark.__version__.split(".")[:2])
    if release not in _DELTA:
        raise BadRequestException(
            f"no Delta release is known for Spark {pyspark.__version__}: use Spark {', '.join(_DELTA)}, "
            "or configure(builder, delta=False) on a session that has Delta already"
        )
    return _DELTA[release]


def _append(builder: SparkSession.Builder, key: str, values: Any) -> None:
    """Add values to a comma-separated setting, each once."""
    known = getattr(builder, "_options", {}).get(key, "")
    builder.config(key, ",".join(dict.fromkeys([*filter(None, known.split(",")), *values])))
