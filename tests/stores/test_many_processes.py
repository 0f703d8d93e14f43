"""Eight processes at work on one S3 server, some of them killed: the repository is what each of them was told.

``--many-processes-seconds=60`` has them work for a minute.
"""

from __future__ import annotations

import hashlib
import itertools
import random
import signal
import time
from collections import Counter
from multiprocessing import get_context

import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder
from expected_history import Expected, claims, landed
from many_writers import REPOSITORY, SHARED, WRITERS, plan, told, work

import lakespark

pytestmark = pytest.mark.processes

SECONDS_BETWEEN_KILLS = 2.0
KILLED_AT_THE_END = 3
"""So many are killed when the time is over, and nobody takes their place."""
_CREATED = "Repository created"


class Crowd:
    """The processes of the writers; ``replaced`` counts those that took the place of a killed one."""

    def __init__(self, location, options, folder):
        self._stop, self._spawn = folder / "stop", get_context("spawn")
        self._arguments = {writer: (location, options, folder / f"{writer}.jsonl", self._stop) for writer in WRITERS}
        self._processes = {writer: self._start(writer) for writer in WRITERS}
        self.cut_off = []

    def _start(self, writer):
        process = self._spawn.Process(target=work, args=self._arguments[writer])
        process.start()
        return process

    def told(self):
        return [told(file) for _, _, file, _ in self._arguments.values()]

    def wait_for_all(self):
        """Until everybody has been answered once."""
        while not all(writer.answers for writer in self.told()):
            assert all(process.is_alive() for process in self._processes.values())
            time.sleep(0.1)

    def kill(self, writer):
        process = self._processes.pop(writer)
        process.kill()
        process.join()
        assert process.exitcode == -signal.SIGKILL
        known = told(self._arguments[writer][2])
        if known.begun > len(known.answers):
            self.cut_off.append(plan(writer, known.begun - 1).verb)

    def replace(self, writer):
        self.kill(writer)
        self._processes[writer] = self._start(writer)

    def end(self):
        """Everybody finishes the step that is under way."""
        self._stop.touch()
        for process in self._processes.values():
            process.join()
            assert process.exitcode == 0

    def kill_all(self):
        """Leave nobody behind, whatever failed."""
        for process in self._processes.values():
            process.kill()
            process.join()


def let_them_work(crowd, seconds):
    """Kill one after the other, in changing order, and put another in its place; how many."""
    chance = random.Random(0)
    crowd.wait_for_all()
    end = time.monotonic() + seconds
    for replaced in itertools.count():
        time.sleep(max(0, min(chance.uniform(0.5, 1.5) * SECONDS_BETWEEN_KILLS, end - time.monotonic())))
        if time.monotonic() >= end:
            break
        crowd.replace(WRITERS[(replaced * 3) % len(WRITERS)])
    for writer in chance.sample(WRITERS, KILLED_AT_THE_END):
        crowd.kill(writer)
    crowd.end()
    return replaced


def test_eight_processes_are_told_the_truth(s3_server, tmp_path, request):
    location = f"s3://{s3_server.make_bucket()}/lake"
    repo = lakespark.Lake(location, **s3_server.options).repository(REPOSITORY).create()
    for branch in (*WRITERS, *SHARED):
        repo.branch(branch).create("main")
    crowd = Crowd(location, s3_server.options, tmp_path)
    try:
        replaced = let_them_work(crowd, request.config.getoption("--many-processes-seconds"))
    finally:
        crowd.kill_all()
    everybody = crowd.told()
    done = Counter(step.verb for writer in everybody for step, is_answered in writer.steps() if is_answered)
    print(f"answered: {dict(done)}; replaced: {replaced}; cut off: {crowd.cut_off}")
    assert replaced >= 3
    assert crowd.cut_off
    assert all(
        done[verb] for verb in ("upload", "claim", "delete", "commit", "merge", "branch", "tag", "reset", "undo")
    )

    report = repo.fsck(objects=True)
    assert report.is_clean, report.findings
    check_contents(repo, everybody)
    check_claims(repo, everybody)
    check_logs(repo, everybody)
    check_names(repo, everybody)
    check_keys(repo, everybody, s3_server.endpoint)
    check_that_work_goes_on(repo)


def checksums(reference):
    return {found.path: found.checksum for found in reference.objects()}


def is_one_of(values, found):
    return found in {None if key is None else hashlib.md5(key.encode()).hexdigest() for key in values}


def check_contents(repo, everybody):
    """Every answered upload is on its branch and, once committed, in its head, unless a later step took it away."""
    main = checksums(repo.ref("main"))
    on_branch = {branch: checksums(repo.branch(branch)) for branch in (*WRITERS, *SHARED)}
    in_head = {branch: checksums(repo.ref(f"{branch}@")) for branch in (*WRITERS, *SHARED)}
    for writer in everybody:
        expected = Expected(writer)
        for values, found in ((expected.visible, on_branch), (expected.committed, in_head)):
            for path, possible in values.items():
                assert is_one_of(possible, found[path.split("/")[0]].get(path)), (path, possible)
        for path, possible in expected.merged.items():
            assert is_one_of(possible, main.get(path)), (path, possible)


def check_claims(repo, everybody):
    """Of all that wanted one path exclusively one has it, and everybody was told the same one."""
    for (branch, path), said in claims(everybody).items():
        (owner,) = {whose for _, _, whose in said}
        assert repo.branch(branch).object(path).reader("r").read() == owner
        assert all(whose == step.key for step, is_accepted, whose in said if is_accepted)


def check_logs(repo, everybody):
    """Every answered commit and merge is in the log of its branch once, and nothing that nobody has begun."""
    for branch in (*WRITERS, *SHARED):
        check_log(repo.branch(branch).log(), *landed(everybody, "commit", branch=branch))
    check_log(repo.branch("main").log(first_parent=True), *landed(everybody, "merge"))


def check_log(log, answered, unanswered):
    *commits, first = log
    found = {commit.message: commit.id for commit in commits}
    assert first.message == _CREATED
    assert len(found) == len(commits)
    assert answered.items() <= found.items()
    assert found.keys() - answered.keys() <= unanswered


def check_names(repo, everybody):
    """Every answered branch and tag is there, at the commit that was answered."""
    for verb, refs in (("branch", repo.branches()), ("tag", repo.tags())):
        answered, unanswered = landed(everybody, verb)
        found = {ref.id: ref.get_commit().id for ref in refs if ref.id not in ("main", *WRITERS, *SHARED)}
        assert answered.items() <= found.items()
        assert found.keys() - answered.keys() <= unanswered


def check_keys(repo, everybody, endpoint):
    """By the rows of the ledger: one operation for each key, one commit for each commit and merge."""
    options = {"aws_endpoint": endpoint, "aws_access_key_id": "a", "aws_secret_access_key": "b"}
    table = DeltaTable(
        str(repo.opened.store.location.child("_lakespark/ledger")),
        storage_options={**options, "aws_region": "us-east-1", "aws_allow_http": "true"},
    )
    query = "select kind, idempotency_key, name from ledger where kind in ('commit', 'operation')"
    found = pa.table(QueryBuilder().register("ledger", table).execute(query).read_all()).to_pylist()
    keys = [row["idempotency_key"] for row in found if row["idempotency_key"] is not None]
    answered, unanswered = landed(everybody, "commit", "merge", "tag")
    assert len(keys) == len(set(keys))
    assert answered.keys() <= set(keys)
    assert set(keys) - answered.keys() <= unanswered

    commits = [row["name"] for row in found if row["kind"] == "commit"]
    answered, unanswered = landed(everybody, "commit", "merge")
    assert len(commits) == len(set(commits))
    assert 0 <= len(commits) - 1 - len(answered) <= len(unanswered)


def check_that_work_goes_on(repo):
    """What is left is committed and merged, and main has then what the branches have."""
    main = repo.branch("main")
    for branch in (*WRITERS, *SHARED):
        repo.branch(branch).commit("the rest", allow_empty=True)
    main.merge_all([*WRITERS, *SHARED])
    expected = {}
    for branch in (*WRITERS, *SHARED):
        expected |= checksums(repo.branch(branch))
    assert checksums(main) == expected
