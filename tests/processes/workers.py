"""What the processes of these tests run. Each function is the target of a process of its own.

Processes are started with ``spawn``. A *nursery* is such a process that forks: it has imported everything and
started no thread, so that a victim costs milliseconds and can be killed by the hundred.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import resource
import shutil
import signal
import time
import traceback
from multiprocessing import get_context
from pathlib import Path

import pyarrow as pa

import lakespark
import lakespark.engine.duckdb  # a forked victim has no time to import it
from lakespark.errors import (
    ConflictException,
    ContentionError,
    NameTakenError,
    NothingToCommitError,
    NothingToMergeError,
    ObjectNotFoundException,
    StorageError,
)
from lakespark.operations.opened import OpenRepository
from lakespark.storage import open_store
from lakespark.testing.faults import FaultyStore

SPAWN = get_context("spawn")
REPOSITORY = "analytics"


def run(*calls):
    """Run functions in processes at once, each with a connection as its last argument; what they sent, in order."""
    running = []
    for function, *arguments in calls:
        ours, theirs = SPAWN.Pipe()
        process = SPAWN.Process(target=_reporting, args=(function, arguments, theirs))
        process.start()
        theirs.close()
        running.append((process, ours))
    sent = [_received(connection) for _, connection in running]
    for process, _ in running:
        process.join()
    failures = [message for messages in sent for message in messages if isinstance(message, _Failure)]
    assert not failures, failures[0].trace
    return sent


class _Failure:
    """The traceback of an error that ended a process."""

    def __init__(self, trace):
        self.trace = trace


def _reporting(function, arguments, connection):
    try:
        function(*arguments, connection)
    except BaseException:  # noqa: BLE001 - shown by the test
        connection.send(_Failure(traceback.format_exc()))


def _received(connection):
    messages = []
    while True:
        try:
            messages.append(connection.recv())
        except EOFError:
            return messages


def branch_of(lake, name):
    return lakespark.Lake(lake, user=name).repository(REPOSITORY).branch(name)


# -- working at once -------------------------------------------------------------------------------------------


def commit_each(lake, branch, writer, count, connection):
    """Upload an object and commit it, again and again; sends each path with its commit, or None if another's had it."""
    target = branch_of(lake, branch)
    for number in range(count):
        path = f"{writer}/{number}"
        target.object(path).upload(path)
        try:
            commit_id = target.commit(path, committer=writer).id
        except NothingToCommitError:
            commit_id = None
        connection.send((path, commit_id))


def write_until(lake, paths, done, connection):
    """Upload growing numbers over a few paths of ``main``, now and then delete one, until a file shows up.

    Sends each path and what it holds then.
    """
    target = branch_of(lake, "main")
    for number in range(100_000):
        path = f"p{number % paths}"
        if number % 7 == 6:
            target.delete_objects(path)
            connection.send((path, None))
        else:
            target.object(path).upload(str(number))
            connection.send((path, str(number)))
        if Path(done).exists():
            return


def commit_often(lake, count, done, connection):
    """Commit whatever is staged on ``main``, so many times, then make a file; sends the commits."""
    target = branch_of(lake, "main")
    committed = 0
    while committed < count:
        try:
            connection.send(target.commit(f"commit {committed}").id)
            committed += 1
        except NothingToCommitError:
            time.sleep(0.001)
    Path(done).touch()


def create_names(lake, kind, count, barrier, connection):
    """Create one name after the other, each when the other process is there too; sends whether it won."""
    repo = lakespark.Lake(lake).repository(REPOSITORY)
    for number in range(count):
        ref = repo.branch(f"n{number}") if kind == "branch" else repo.tag(f"n{number}")
        barrier.wait()
        try:
            ref.create("main")
            connection.send(True)
        except NameTakenError:
            connection.send(False)


def create_repositories(lake, settings, barrier, connection):
    """Create one repository after the other at once with another process; sends whether it won.

    ``settings``: how many, below which folder (None: where the lake puts them), and ``exist_ok``.
    """
    count, folder, exist_ok = settings
    for number in range(count):
        name = f"repo-{number}"
        namespace = None if folder is None else f"{folder}/{name}"
        barrier.wait()
        try:
            lakespark.Lake(lake).repository(name).create(namespace, exist_ok=exist_ok)
            connection.send(True)
        except NameTakenError:
            connection.send(False)


# -- being killed ----------------------------------------------------------------------------------------------


def create(store):
    """The creation of a repository, every storage call of which passes through ``store``."""
    from lakespark.operations import creation
    from lakespark.tables.catalog import Catalog

    new = creation.NewRepository(REPOSITORY, "lake", str(store.location), "main", {"k": "v"}, None)
    creation.create(Catalog(store, user="ann"), lambda _: opened(store), new, exist_ok=True)


def opened(store):
    return OpenRepository(store, user="ann", options={})


def repository_at(store):
    return lakespark.Repository(None, None, opened(store))


TABLE = pa.table({"id": [1, 2, 3], "p": ["a", "b", "a"]})
WORK = {
    "create": create,
    "upload": lambda store: repository_at(store).branch("main").object("new").upload("contents"),
    "commit": lambda store: repository_at(store).branch("main").commit("mine", date=1),
    "merge": lambda store: repository_at(store).branch("dev").merge_into("work", message="mine", date=1),
    "write": lambda store: repository_at(store).branch("main").write(TABLE, "t/", partition_by="p"),
    "create a branch": lambda store: repository_at(store).branch("new").create("dev"),
}


def kill_at_each_call(template, folder, connection):
    """Nursery: every work on a copy of ``template`` each, killed at its k-th storage call, until it gets through.

    Sends name, copy (``folder/<name>/<k>``), and whether the work got through.
    """
    _warm_up()
    for name, work in WORK.items():
        for number in range(0, 1000, 1 if name == "create" else 2):
            copy = f"{folder}/{name}/{number}"
            if name == "create":
                Path(copy).mkdir(parents=True)
            else:
                shutil.copytree(template, copy)
            code = _exit_code(_fork(lambda work=work, copy=copy, number=number: work(_deadly(copy, number))))
            assert code in (0, -signal.SIGKILL), f"{name} failed by itself at call {number}"
            done = code == 0
            connection.send((name, copy, done))
            if done:
                break


def _warm_up():
    """The first use of pyarrow imports pandas where there is one, which no victim has time for."""
    pa.table({"path": ["a"]}).to_pylist()


def _deadly(folder, number):
    """A store at which the process kills itself at its k-th call."""

    def kill(call):
        if call.number == number:
            os.kill(os.getpid(), signal.SIGKILL)

    return FaultyStore(open_store(folder), on_call=kill)


def _fork(act):
    """Run a function in a forked process, which ends with it; its process id."""
    pid = os.fork()
    if pid == 0:
        try:
            act()
        except BaseException:  # noqa: BLE001 - the exit code says it
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    return pid


def _exit_code(pid):
    """How a process ended: negative for a signal."""
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def kill_at_random(lake, seed, kills, connection):
    """Nursery: a victim at a time works on a branch of its own and is killed after a random while.

    Sends for each victim the work that it began, each item ``[verb, path or name, number]``, how many of these were
    acknowledged (all or all but the last), and what is found afterwards.
    """
    _warm_up()
    chance = random.Random(seed)
    for victim in range(kills):
        reads, writes = os.pipe()
        pid = _fork(lambda victim=victim, writes=writes: work_until_killed(lake, seed, victim, writes))
        os.close(writes)
        with os.fdopen(reads, "rb", buffering=0) as acknowledged:
            said = _until_done(acknowledged)
            time.sleep(chance.uniform(0, 0.2))
            os.kill(pid, signal.SIGKILL)
            said += acknowledged.readall()
        assert _exit_code(pid) == -signal.SIGKILL
        lines = said.split(b"\n")[:-1]  # what follows the last line feed was cut short
        begun = [json.loads(line) for line in lines if line != b"done"]
        connection.send((begun, lines.count(b"done"), looked_up(lake, f"w{seed}")))


def looked_up(lake, branch):
    """Checksums by path of a branch, its head and its part of ``main``, and the names that it made.

    Path by path: a query would start threads, after which no process can be forked.
    """
    repo = lakespark.Lake(lake).repository(REPOSITORY)
    names = {ref.id for ref in (*repo.branches(), *repo.tags()) if ref.id.startswith(f"{branch}-")}
    refs = (repo.ref(branch), repo.ref(f"{branch}@"), repo.ref("main@"))
    return (*({path: _checksum(ref, path) for path in paths_of(branch)} for ref in refs), names)


def paths_of(branch):
    return [f"{branch}/{number}" for number in range(20)]


def _checksum(ref, path):
    try:
        return ref.object(path).stat().checksum
    except ObjectNotFoundException:
        return None


def _until_done(acknowledged):
    said = b""
    while b"done" not in said:
        more = acknowledged.read(100)
        assert more, "the victim died by itself"
        said += more
    return said


def work_until_killed(lake, seed, victim, writes):
    """Random work for ever; writes down what is begun, and ``done`` when it is acknowledged."""
    chance = random.Random(f"{seed} {victim}")
    branch = f"w{seed}"
    repo = lakespark.Lake(lake, user=branch).repository(REPOSITORY)
    target = repo.branch(branch)
    for number in range(10_000_000):
        verb = chance.choices(["put", "delete", "commit", "merge", "branch", "tag"], [10, 2, 4, 2, 1, 1])[0]
        name = chance.choice(paths_of(branch)) if verb in ("put", "delete") else f"{branch}-{victim}-{number}"
        os.write(writes, json.dumps([verb, name, number]).encode() + b"\n")
        with contextlib.suppress(NothingToCommitError, NothingToMergeError, ContentionError):
            _work(repo, target, verb, name, number)
        os.write(writes, b"done\n")


def contents_of(path, number):
    """What a victim puts at a path."""
    return f"{path} {number}"


def _work(repo, target, verb, name, number):
    if verb == "put":
        target.object(name).upload(contents_of(name, number))
    elif verb == "delete":
        target.delete_objects(name)
    elif verb == "commit":
        target.commit(name)
    elif verb == "merge":
        target.merge_into("main", message=name)
    elif verb == "branch":
        repo.branch(name).create(target)
    else:
        repo.tag(name).create(target)


# -- a full disk -----------------------------------------------------------------------------------------------


def work_on_a_full_disk(lake, connection):
    """Commit and upload where no file may grow beyond a few kilobytes, then without that; sends what happens."""
    target = branch_of(lake, "main")
    target.stage(random_entries(30_000))
    unlimited = resource.getrlimit(resource.RLIMIT_FSIZE)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, unlimited[1]))
    for work in (
        lambda: target.commit("too large"),
        lambda: target.object("large").upload(b"0" * 100_000),
        lambda: _stream(target.object("streamed"), 100_000),
        lambda: target.stage(random_entries(30_000)),
    ):
        try:
            work()
            connection.send("no error")
        except (StorageError, ConflictException) as error:
            connection.send((type(error).__name__, str(error)))
        connection.send(seen(target))
    resource.setrlimit(resource.RLIMIT_FSIZE, unlimited)
    target.commit("fits again")
    connection.send(seen(target))


def _stream(target, size):
    with target.writer() as writer:
        for _ in range(size // 1000):
            writer.write(b"0" * 1000)


def seen(branch):
    """Head's message, number of objects in head, and number of uncommitted changes."""
    return branch.get_commit().message, branch.head.objects_table().num_rows, branch.uncommitted_table().num_rows


def random_entries(count):
    """Entries that compress badly."""
    chance = random.Random(0)
    return pa.table(
        {
            "path": [f"{chance.randbytes(8).hex()}" for _ in range(count)],
            "physical_address": [f"s3://bucket/{chance.randbytes(16).hex()}" for _ in range(count)],
            "size_bytes": [chance.randrange(1 << 40) for _ in range(count)],
            "checksum": [chance.randbytes(16).hex() for _ in range(count)],
        }
    )
