"""Staged rows: what covers what, over tokens and watermarks, and writers that race with committers."""

import itertools
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lakespark
from lakespark import Lake, Repository
from lakespark.errors import NothingToCommitError, ObjectExistsException, StorageError
from lakespark.operations import refs, staged, writes
from lakespark.operations.opened import OpenRepository
from lakespark.operations.resolve import branch_state, commit_record
from lakespark.storage import open_store
from lakespark.tables import delta_log
from lakespark.tables.staging import SMALL_BATCHES, staged_rows
from lakespark.testing.faults import FaultyStore
from lakespark.testing.judge import entry_of
from lakespark.testing.model import ModelRepository
from lakespark.testing.model_state import Description, StagedOp
from lakespark.testing.trees import Entry, hash_of, threshold_for

PATHS = ("a", "a/b", "a/b/c", "ab", "b", "é/🦆", "é/🦆x", "\U0010ffff")
PREFIXES = ("", "a", "a/", "a/b", "é", "é/🦆", "b", "c", "\U0010ffff")
RANGE_ENTRIES = 2
_numbers = itertools.count()


def put(path, number=None):
    """A staged put with an address of its own."""
    number = next(_numbers) if number is None else number
    entry = Entry(f"data/{number}", 1, f"etag:{hash_of(number)}", "text/plain", ())
    return StagedOp("put", path, entry)


def row_of(op):
    """A staged op as the row that the library stages."""
    if op.entry is None:
        return {"op": op.op, "path": op.path}
    values = {**op.entry._asdict(), "metadata": dict(op.entry.metadata), "identity": op.entry.identity, "mtime": 0}
    return {"op": op.op, "path": op.path, **values}


class Twins:
    """A repository in memory and its model, written to alike. ``namespace`` opens the repository again."""

    def __init__(self):
        self.repository = Lake(f"memory://staging-{next(_numbers)}/lake", user="ann").repository("twins")
        self.repository.create(range_entries=RANGE_ENTRIES)
        first = self.repository.branch("main").get_commit()
        described = Description(first.message, first.committer, first.creation_date)
        self.model = ModelRepository(threshold_for(RANGE_ENTRIES), described)
        self.namespace = self.repository.properties.storage_namespace

    def stage(self, ops):
        writes.append(self.repository.opened, "main", staged_rows(map(row_of, ops), user="ann"))
        self.model.stage("main", ops)

    def commit(self):
        self.repository.branch("main").commit("x", committer="ann", date=len(self.model.commits))
        self.model.commit("main", Description("x", "ann", len(self.model.commits)))

    def agree(self, *, afresh=False):
        """The fold in SQL, the look-up of each path, and the listing say what the model says."""
        repository = Repository.open(self.namespace) if afresh else self.repository
        opened = repository.opened
        view = staged.newest_view(opened, "main")
        tree = opened.tree(commit_record(opened, view.state.commit_id))
        changes = opened.local_engine.collect(staged.changes(opened.local_engine, view, tree))
        rows = changes.to_pylist(maps_as_pydicts="strict")
        folded = {row["path"]: entry_of(row) if row["op"] == "put" else None for row in rows}
        assert len(folded) == len(rows)
        assert folded == self.model.changes("main")
        expected = self.model.entries("main")
        assert [info.path for info in repository.branch("main").objects()] == list(expected)
        for path in PATHS:
            newest = view.look_up(path)
            covering = [op for op in self.model.branch("main").staged if op.covers(path)]
            assert (newest and newest.op) == (covering[-1].op if covering else None)
            found = repository.branch("main").object(path)
            assert found.exists() == (path in expected)
            if path in expected:
                assert found.stat().physical_address == opened.full_address(expected[path].physical_address)


@pytest.mark.parametrize(
    ("ops", "visible"),
    [
        ([put("a", 1)], {"a": 1, "b": 0, "b/c": 0}),
        ([put("a", 1), put("a", 2)], {"a": 2, "b": 0, "b/c": 0}),
        ([put("b", 1), StagedOp("delete", "b")], {"b/c": 0}),
        ([StagedOp("delete", "b"), put("b", 1)], {"b": 1, "b/c": 0}),
        ([StagedOp("delete", "b"), StagedOp("reset", "b")], {"b": 0, "b/c": 0}),
        ([put("b", 1), StagedOp("reset", "b"), StagedOp("delete", "b/c")], {"b": 0}),
        ([put("a", 1), StagedOp("delete-prefix", "b")], {"a": 1}),
        ([StagedOp("delete-prefix", "b"), put("b/c", 1)], {"b/c": 1}),
        ([put("b/d", 1), StagedOp("delete-prefix", "b/")], {"b": 0}),
        ([StagedOp("delete-prefix", ""), StagedOp("reset", "b")], {"b": 0}),
        ([StagedOp("delete-prefix", ""), StagedOp("reset-prefix", "b/")], {"b/c": 0}),
        ([put("a", 1), put("b", 1), StagedOp("reset-prefix", "")], {"b": 0, "b/c": 0}),
        ([put("b", 1), StagedOp("reset-prefix", "b"), put("b/c", 2)], {"b": 0, "b/c": 2}),
    ],
)
@pytest.mark.parametrize("is_one_batch", [True, False])
def test_the_newest_row_that_covers_a_path_wins(ops, visible, is_one_batch):
    """On a branch that has committed b and b/c, with the address data/0."""
    twins = Twins()
    twins.stage([put("b", 0), put("b/c", 0)])
    twins.commit()
    for batch in [ops] if is_one_batch else [[op] for op in ops]:
        twins.stage(batch)
    listed = twins.repository.branch("main").objects_table().to_pylist()
    assert {row["path"]: row["physical_address"] for row in listed} == {p: f"data/{n}" for p, n in visible.items()}
    twins.agree()


def ops():
    """Any staged op on few paths."""
    exact = st.sampled_from(PATHS)
    return st.one_of(
        exact.map(put),
        exact.map(put),
        st.builds(StagedOp, st.sampled_from(["delete", "reset"]), exact, st.none()),
        st.builds(StagedOp, st.sampled_from(["delete-prefix", "reset-prefix"]), st.sampled_from(PREFIXES), st.none()),
    )


def steps():
    """Batches, and what puts what is staged behind a seal."""
    batch = st.lists(ops(), min_size=1, max_size=4)
    return st.lists(st.one_of(batch, batch, batch, st.sampled_from(["commit", "move", "look"])), max_size=25)


@settings(max_examples=25, deadline=None)
@given(steps())
def test_sql_look_up_and_listing_fold_alike(sequence):
    """Whatever is staged in whatever batches, under however many tokens, by a kept handle and a fresh one."""
    twins = Twins()
    for step in sequence:
        if isinstance(step, list):
            twins.stage(step)
        elif step == "move":
            twins.repository.branch("main").move_to("main@")
        elif step == "commit" and twins.model.uncommitted("main"):
            twins.commit()
        else:
            twins.agree()
    twins.agree()
    twins.agree(afresh=True)


def test_many_batches_are_compacted_and_read_the_same():
    """More batches than are kept apart in memory and in files, with every kind of row among them."""
    twins = Twins()
    kinds = itertools.cycle(["put", "put", "delete", "reset", "put", "delete-prefix", "put", "reset-prefix"])
    for number, path in zip(range(SMALL_BATCHES * 5), itertools.cycle(PATHS), strict=False):
        kind = next(kinds)
        prefix = PREFIXES[number // 8 % len(PREFIXES)] or "none"
        twins.stage([put(path) if kind == "put" else StagedOp(kind, prefix if "-" in kind else path)])
        if number % 40 == 0:
            twins.agree()
    twins.agree()
    twins.agree(afresh=True)
    token = branch_state(twins.repository.opened, "main").token
    files = delta_log_of(twins, token).files
    assert len(files) < 2 * delta_log.LEVEL_FACTOR


def delta_log_of(twins, token):
    """The log of a staging table, read anew."""
    log = delta_log.DeltaLog(twins.repository.opened.store, f"_lakespark/staging/{token}", pa.schema([]))
    log.load()
    return log


def test_a_large_batch_among_small_ones_keeps_its_place(monkeypatch):
    """Its file is left out of compaction, so that a compacted file holds rows from before it and after it."""
    monkeypatch.setattr(delta_log, "COMPACTED_FILE_BYTES", 30_000)
    twins = Twins()
    twins.stage([put("a")])
    twins.stage([put("a"), *(put(f"large/{number:04d}") for number in range(1000))])
    for number in range(2 * delta_log.LEVEL_FACTOR):
        twins.stage([put("a") if number % 2 else put(f"large/{number:04d}")])
    sizes = [
        file.rows for file in delta_log_of(twins, branch_state(twins.repository.opened, "main").token).files.values()
    ]
    assert max(sizes) == 1001
    twins.agree()
    twins.agree(afresh=True)


# -- writers and committers ------------------------------------------------------------------------------------


@pytest.fixture
def namespace():
    """The namespace of a repository in memory with one commit."""
    lake = Lake(f"memory://staging-{next(_numbers)}/lake", user="ann")
    repository = lake.repository("races").create(range_entries=RANGE_ENTRIES)
    repository.branch("main").object("first").upload("first")
    repository.branch("main").commit("first")
    return repository.properties.storage_namespace


def opened_with(namespace, on_call):
    """A handle of its own, which does something before calls of its store."""
    store = FaultyStore(open_store(namespace), on_call=on_call)
    return Repository(None, None, OpenRepository(store, user="bob", options={}))


def once(method, part, work):
    """What to do before the first call of a method on a key that holds ``part``."""
    done = []

    def on_call(call):
        if call.method == method and part in call.key and not done:
            done.append(call)
            work()

    return on_call


def contents(repository, ref="main"):
    return {
        info.path: repository.ref(ref).object(info.path).reader("r").read() for info in repository.ref(ref).objects()
    }


LANDING = {"before-it-writes-ranges": ("put", "/ranges/"), "as-it-lands": ("put_if_absent", "ledger/_delta_log/")}


@pytest.mark.parametrize("moment", LANDING)
def test_a_write_that_a_commit_did_not_read_stays_uncommitted(namespace, moment):
    """The writer has its acknowledgement before the commit lands, so the token is still current."""
    writer = Repository.open(namespace, user="ann")
    landing = once(*LANDING[moment], lambda: writer.branch("main").object("late").upload("late"))
    committer = opened_with(namespace, landing)
    committer.branch("main").object("early").upload("early")
    commit = committer.branch("main").commit("second")
    assert set(contents(committer, commit.id)) == {"early", "first"}
    for repository in (writer, committer, Repository.open(namespace)):
        assert [(c.type, c.path, c.written_by) for c in repository.branch("main").uncommitted()] == [
            ("added", "late", "ann")
        ]
        assert contents(repository) == {"first": "first", "early": "early", "late": "late"}
    committer.branch("main").commit("third")
    assert contents(writer, "main@") == {"first": "first", "early": "early", "late": "late"}
    assert [*writer.branch("main").uncommitted()] == []


def test_a_thread_that_shares_the_committers_handle_loses_no_write_either(namespace):
    """The handle's own table has grown by the time the watermark is sealed."""
    on_call = once("put", "/ranges/", lambda: shared.branch("main").object("late").upload("late"))
    shared = opened_with(namespace, on_call)
    shared.branch("main").object("early").upload("early")
    shared.branch("main").commit("second")
    assert [(c.type, c.path) for c in shared.branch("main").uncommitted()] == [("added", "late")]
    shared.branch("main").commit("third")
    assert contents(shared, "main@") == {"first": "first", "early": "early", "late": "late"}


@pytest.mark.parametrize("moment", ["staging/", "data/"])
def test_a_write_whose_token_was_sealed_meanwhile_is_copied_under_the_new_one(namespace, moment):
    """The commit came between the writer's look at the branch and its append."""
    committer = Repository.open(namespace, user="ann")
    committer.branch("main").object("early").upload("early")
    seal = once(
        "put" if moment == "data/" else "put_if_absent", moment, lambda: committer.branch("main").commit("second")
    )
    writer = opened_with(namespace, seal)
    writer.branch("main").object("late").upload("late")
    state = branch_state(committer.opened, "main")
    current = committer.opened.staging(state.token).read(0)
    assert current.rows()["path"].to_pylist() == ["late"]
    assert [c.path for c in committer.branch("main").uncommitted()] == ["late"]
    committer.branch("main").commit("third")
    assert contents(writer, "main@") == {"first": "first", "early": "early", "late": "late"}
    with pytest.raises(NothingToCommitError):
        writer.branch("main").commit("nothing is left")


def test_moving_a_branch_keeps_everything_staged_under_a_fresh_token(namespace):
    """The old token is sealed at watermark 0, and never becomes current again."""
    repository = Repository.open(namespace)
    main = repository.branch("main")
    main.object("a").upload("a")
    tokens = {branch_state(repository.opened, "main").token}
    for target in ("main~1", "main"):
        main.move_to(target)
        state = branch_state(repository.opened, "main")
        assert state.token not in tokens
        assert [sealed.watermark for sealed in state.sealed if sealed.token in tokens] == [0] * len(tokens)
        tokens.add(state.token)
        assert main.object("a").reader("r").read() == "a"
    main.object("a").upload("newer")
    assert main.object("a").reader("r").read() == "newer"
    main.commit("all of it")
    assert len(branch_state(repository.opened, "main").sealed) == 1


def test_staged_rows_that_change_nothing_mean_nothing_after_a_merge(namespace):
    """What was deleted, put back as it is, or never there stays so when a merge changes those paths."""
    repository = Repository.open(namespace)
    main, dev = repository.branch("main"), repository.branch("dev").create("main")
    main.object("first").upload("first")
    main.delete_objects(["new", "first/nothing"])
    dev.object("first").upload("changed")
    dev.object("new").upload("new")
    dev.commit("dev")
    merged = dev.merge_into("main")
    assert [*main.uncommitted()] == []
    assert contents(repository) == {"first": "changed", "new": "new"} == contents(repository, merged)


def test_uncommitted_changes_say_who_wrote_them_and_when(namespace):
    """The newest row counts, and a reset takes its name away."""
    ann, bob = (Repository.open(namespace, user=user).branch("main") for user in ("ann", "bob"))
    ann.object("a").upload("a")
    bob.object("a").upload("b")
    bob.object("first").delete()
    ann.object("c").upload("c")
    ann.reset_changes("object", "c")
    changes = list(ann.uncommitted())
    assert [(c.type, c.path, c.size_bytes, c.written_by) for c in changes] == [
        ("added", "a", 1, "bob"),
        ("removed", "first", None, "bob"),
    ]
    started = ann.get_commit().creation_date
    assert all(started <= change.written_at for change in changes)


@pytest.mark.parametrize("is_shared", [True, False])
@pytest.mark.parametrize("is_committed", [True, False])
def test_of_racing_exclusive_uploads_exactly_one_wins(namespace, is_shared, is_committed):
    """Through one handle and through several; where the path was deleted before, and where it never was."""
    shared = Repository.open(namespace)
    path = "first" if is_committed else "new"
    shared.branch("main").delete_objects([path])
    for _ in range(5):
        barrier = threading.Barrier(4)
        results = []

        def upload(number, barrier=barrier, results=results):
            repository = shared if is_shared else Repository.open(namespace)
            barrier.wait()
            try:
                repository.branch("main").object(path).upload(str(number), "x")
            except ObjectExistsException:
                results.append(None)
            else:
                results.append(str(number))

        threads = [threading.Thread(target=upload, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        winners = [result for result in results if result is not None]
        assert len(results) == 4
        assert winners == [shared.branch("main").object(path).reader("r").read()]
        shared.branch("main").object(path).delete()


def test_an_exclusive_upload_decides_again_when_another_row_comes_first(namespace):
    """Whether the other row is of the same path, which it then finds taken, or of another, which does not matter."""
    other = Repository.open(namespace)
    for path, expected in (("other", "mine"), ("x", ObjectExistsException)):
        append = once("put_if_absent", "staging/", lambda path=path: other.branch("main").object(path).upload("theirs"))
        mine = opened_with(namespace, append).branch("main").object("x")
        if isinstance(expected, str):
            mine.upload("mine", "x")
            assert mine.reader("r").read() == "mine"
            mine.delete()
        else:
            with pytest.raises(expected, match="x"):
                mine.upload("mine", "x")
            assert mine.reader("r").read() == "theirs"


@pytest.mark.parametrize("is_shared", [True, False])
def test_a_conditional_append_is_checked_on_the_very_rows_before_it(namespace, is_shared):
    """Also if the row that comes between was appended through the same handle."""
    mine = Repository.open(namespace).opened
    other = mine if is_shared else Repository.open(namespace).opened
    watermarks = []

    def check(view):
        watermarks.append(view.watermark)
        if len(watermarks) == 1:
            writes.append(other, "main", staged_rows([row_of(put("between"))], user="bob"))

    writes.append_if(mine, "main", staged_rows([row_of(put("x"))], user="ann"), check)
    assert watermarks == [0, 1]
    view = staged.newest_view(other, "main")
    assert view.rows()["path"].to_pylist() == ["between", "x"]


def test_an_exclusive_upload_over_a_commit_is_staged_once(namespace):
    """Its own row under the sealed token is not taken for somebody else's."""
    other = Repository.open(namespace)
    other.branch("main").object("y").upload("y")
    seal = once("put_if_absent", "staging/", lambda: other.branch("main").commit("second"))
    mine = opened_with(namespace, seal).branch("main").object("x")
    mine.upload("mine", "x")
    assert mine.reader("r").read() == "mine"
    other.branch("main").commit("third")
    assert contents(other, "main@") == {"first": "first", "x": "mine", "y": "y"}


def test_a_reset_by_one_handle_is_seen_by_another(namespace):
    """And so is what is written after it."""
    ann, bob = (Repository.open(namespace).branch("main") for _ in range(2))
    ann.object("dir/a").upload("a")
    ann.object("b").upload("b")
    refs.reset(Repository.open(namespace).opened, "main", op="reset-prefix", path="dir/")
    assert [change.path for change in bob.uncommitted()] == ["b"]
    ann.object("dir/a").upload("again")
    assert [change.path for change in bob.uncommitted()] == ["b", "dir/a"]
    assert bob.object("dir/a").reader("r").read() == "again"


def test_the_package_opens_what_it_wrote(namespace):
    """``Repository.open`` and a handle through the lake are the same repository."""
    through_lake = lakespark.repository("races", lake=namespace.rsplit("/", 1)[0])
    assert through_lake.properties == Repository.open(namespace).properties


# -- uploads at once -------------------------------------------------------------------------------------------


def test_threads_share_appends_and_each_gets_its_own_failure():
    """Rows of one append fail together; those of the next are not touched by it."""
    queue, batches, gate = writes._Queue(), [], threading.Event()

    def append_rows(rows):
        batches.append([row["n"] for row in rows])
        if len(batches) == 1:
            gate.wait(10)
        if 13 in batches[-1]:
            raise StorageError("full")

    def upload(number):
        try:
            queue.append({"n": number}, append_rows)
        except StorageError:
            return number
        return None

    with ThreadPoolExecutor(8) as pool:
        first = pool.submit(upload, 0)
        while not batches:
            time.sleep(0.001)
        later = [pool.submit(upload, number) for number in (11, 12, 13)]
        while len(queue._waiting) < 3:
            time.sleep(0.001)
        gate.set()
        assert first.result(10) is None
        assert sorted(filter(None, (each.result(10) for each in later))) == [11, 12, 13]
        assert pool.submit(upload, 20).result(10) is None
    assert sorted(map(sorted, batches)) == [[0], [11, 12, 13], [20]]


def test_an_append_waits_for_the_threads_of_the_last_one_and_no_longer(monkeypatch):
    """The time to wait is far longer here than the test takes."""
    monkeypatch.setattr(writes, "GATHERING_S", 60)
    monkeypatch.setattr(writes, "MOST_GATHERING_S", 60)
    queue, batches, gate = writes._Queue(), [], threading.Event()

    def append_rows(rows):
        batches.append(sorted(row["n"] for row in rows))
        gate.wait(10)

    def upload(number):
        queue.append({"n": number}, append_rows)

    with ThreadPoolExecutor(4) as pool:
        first = pool.submit(upload, 0)
        while not batches:
            time.sleep(0.001)
        later = [pool.submit(upload, number) for number in (1, 2, 3)]
        while len(queue._waiting) < 3:
            time.sleep(0.001)
        gate.set()
        for each in [first, *later]:
            each.result(10)
        again = [pool.submit(upload, 4)]
        time.sleep(0.05)
        again += [pool.submit(upload, number) for number in (5, 6)]
        for each in again:
            each.result(10)
    assert batches == [[0], [1, 2, 3], [4, 5, 6]]


@pytest.mark.parametrize("leads", [False, True])
def test_a_thread_that_is_interrupted_while_it_waits_holds_nobody_up(leads):
    """Also when the lead was just handed to it."""
    queue, gate = writes._Queue(), threading.Event()
    landed = []

    def append_rows(rows):
        landed.extend(row["n"] for row in rows)
        gate.wait(10)

    class Interrupted(threading.Event):
        def wait(self, timeout=None):
            if leads:
                gate.set()
                super().wait(10)
            raise KeyboardInterrupt

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(queue.append, {"n": 1}, append_rows)
        while not landed:
            time.sleep(0.001)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(writes.threading, "Event", Interrupted)
            with pytest.raises(KeyboardInterrupt):
                queue.append({"n": 2}, append_rows)
        gate.set()
        first.result(10)
        pool.submit(queue.append, {"n": 3}, append_rows).result(10)
    assert landed == [1, 3]
