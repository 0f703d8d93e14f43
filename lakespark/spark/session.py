"""What a SparkSession needs for lakespark: nothing but Spark itself, and Delta for zero-copy views."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyspark
from pyspark.sql import SparkSession

from lakespark.errors import BadRequestException
from lakespark.spark.starting import DELTA_EXTENSION, EXTENSIONS, explain_start, option


@dataclass(frozen=True)
class _Release:
    """Versions that go with a release of Spark: of Delta, of its Hadoop, and of the AWS SDK of that Hadoop."""

    delta: str
    hadoop: str
    aws_sdk: str


_RELEASES = {
    "4.0": _Release(delta="4.4.0", hadoop="3.4.1", aws_sdk="2.24.8"),
    "4.1": _Release(delta="4.4.0", hadoop="3.4.2", aws_sdk="2.29.52"),
    "4.2": _Release(delta="4.4.0", hadoop="3.5.0", aws_sdk="2.35.4"),
}
_AWS_MODULES = ("s3", "s3-transfer-manager", "sts")
_DELTA_CATALOG = "org.apache.spark.sql.delta.catalog.DeltaCatalog"
_LOCAL = "local"

SHIPPED_WITH_SPARK = (
    "com.fasterxml.jackson.core:jackson-annotations",
    "com.fasterxml.jackson.core:jackson-core",
    "com.fasterxml.jackson.core:jackson-databind",
    "com.fasterxml.jackson.datatype:jackson-datatype-jdk8",
    "com.github.luben:zstd-jni",
    "com.google.code.findbugs:jsr305",
    "commons-codec:commons-codec",
    "commons-logging:commons-logging",
    "commons-pool:commons-pool",
    "io.airlift:aircompressor",
    "io.netty:*",
    "io.unitycatalog:unitycatalog-client",
    "io.unitycatalog:unitycatalog-hadoop",
    "javax.annotation:javax.annotation-api",
    "org.apache.hadoop:hadoop-client-api",
    "org.apache.hadoop:hadoop-client-runtime",
    "org.apache.httpcomponents:httpclient",
    "org.apache.httpcomponents:httpcore",
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
"""What Delta and hadoop-aws ask for and Spark has already, or what three small AWS modules stand in for.

A second Netty is not only of no use: it breaks requests of Spark Connect on Spark 4.0.
"""


def configure(
    builder: SparkSession.Builder,
    delta: bool = True,  # noqa: FBT001, FBT002 - reads as configure(builder, delta=..., s3=...)
    s3: bool = False,  # noqa: FBT001, FBT002
) -> SparkSession.Builder:
    """Add to a builder what Delta and S3 need; lists that it has are added to, nothing is started.

    Fetched are only the JARs that Spark lacks: 5 for Delta (13 MB). ``getOrCreate`` of the builder then says what to
    set if Spark cannot start. A builder of another machine's Spark (``remote("sc://...")``, ``DatabricksSession``)
    comes back as it is: the server has its own JARs. Raises BadRequestException for a Spark that no Delta release is
    known for.
    """
    if not _starts_spark_here(builder):
        return builder
    if delta or s3:
        for key, values in settings(pyspark.__version__, delta=delta, s3=s3).items():
            _append(builder, key, values)
    return explain_start(builder)


def settings(spark_version: str, *, delta: bool, s3: bool) -> Mapping[str, Sequence[str]]:
    """The Spark properties that ``configure`` sets for a version of Spark, each a list. Raises BadRequestException."""
    name = ".".join(spark_version.split(".")[:2])
    release = _RELEASES.get(name)
    if release is None:
        raise BadRequestException(
            f"no Delta and S3 JARs are known for Spark {spark_version}: use Spark {', '.join(_RELEASES)}, "
            "or configure(builder, delta=False) on a session that has them already"
        )
    properties: dict[str, Sequence[str]] = {}
    packages = []
    if delta:
        packages.append(f"io.delta:delta-spark_{name}_2.13:{release.delta}")
        properties[EXTENSIONS] = [DELTA_EXTENSION]
        properties["spark.sql.catalog.spark_catalog"] = [_DELTA_CATALOG]
    if s3:
        packages.append(f"org.apache.hadoop:hadoop-aws:{release.hadoop}")
        packages += [f"software.amazon.awssdk:{module}:{release.aws_sdk}" for module in _AWS_MODULES]
    return {**properties, "spark.jars.packages": packages, "spark.jars.excludes": SHIPPED_WITH_SPARK}


def _starts_spark_here(builder: object) -> bool:
    """Whether a builder starts Spark on this machine, with JARs of our choice."""
    if not isinstance(builder, SparkSession.Builder):
        return False
    return option(builder, "spark.remote", _LOCAL).startswith(_LOCAL)


def _append(builder: SparkSession.Builder, key: str, values: Sequence[str]) -> None:
    """Add values to a comma-separated setting, each once."""
    known = [value.strip() for value in option(builder, key, "").split(",")]
    builder.config(key, ",".join(dict.fromkeys([*filter(None, known), *values])))
