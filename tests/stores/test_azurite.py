"""The contract on Azurite, Microsoft's local Azure Blob Storage: ``pytest -m npm tests/stores`` fetches it."""

from __future__ import annotations

import base64
import hashlib
import hmac
import itertools
import subprocess
import urllib.request
from collections.abc import Iterator
from email.utils import formatdate

import pytest

import lakespark
from lakespark.errors import BadRequestException
from lakespark.storage import Store, open_store
from lakespark.testing import stores
from lakespark.testing.stores import StoreContract

pytestmark = [pytest.mark.npm, pytest.mark.processes]
ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
"""The account that every Azurite has, as its documentation gives it."""
_VERSION = "2021-12-02"
_numbers = itertools.count()


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory) -> Iterator[str]:
    """The account's URL in a server of its own."""
    place = ["--blobHost", "127.0.0.1", "--blobPort", "0", "--location", str(tmp_path_factory.mktemp("azurite"))]
    command = ["npx", "--yes", "--package", "azurite@3.37.0", "azurite-blob", *place, "--skipApiVersionCheck"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    started = next(line for line in process.stdout if "successfully listen" in line)
    yield f"{started.rstrip().rsplit(' ', 1)[1]}/{ACCOUNT}"
    process.terminate()
    process.wait()


@pytest.fixture
def options(endpoint) -> dict:
    """What a lake is opened with."""
    return {"endpoint": endpoint, "account_name": ACCOUNT, "account_key": KEY}


@pytest.fixture
def container(endpoint) -> str:
    """A new container, by a request signed with the account's key: obstore makes none."""
    name = f"container-{next(_numbers)}"
    headers = {"x-ms-date": formatdate(usegmt=True), "x-ms-version": _VERSION}
    resource = f"/{ACCOUNT}/{ACCOUNT}/{name}\nrestype:container"
    text = "PUT" + "\n" * 12 + "".join(f"{header}:{value}\n" for header, value in headers.items()) + resource
    signature = base64.b64encode(hmac.digest(base64.b64decode(KEY), text.encode(), hashlib.sha256)).decode()
    headers["Authorization"] = f"SharedKey {ACCOUNT}:{signature}"
    request = urllib.request.Request(f"{endpoint}/{name}?restype=container", method="PUT", headers=headers)
    with urllib.request.urlopen(request) as answer:
        assert answer.status == 201
    return name


class TestAzureStore(StoreContract):
    @pytest.fixture
    def store(self, container, options) -> Store:
        return open_store(f"az://{container}/50%41/é#?/a b", **options)

    def test_names_are_taken_as_they_are(self, store: Store) -> None:
        """All but those with a backslash, which are refused."""
        with pytest.raises(BadRequestException, match=r"/a\\b is out of reach: a backslash"):
            store.put("a\\b", b"1")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(stores, "_ODD_NAMES", [name for name in stores._ODD_NAMES if "\\" not in name])
            super().test_names_are_taken_as_they_are(store)

    def test_a_presigned_url_reads_the_file_without_credentials(self, store: Store, container, options) -> None:
        """Where its name is plain: obstore signs others wrongly."""
        with pytest.raises(BadRequestException, match="only plain ASCII names"):
            store.presign("file", 60)
        plain = open_store(f"az://{container}/lake-1_x.y~z", **options)
        plain.put("data/month=1/file", b"contents")
        with urllib.request.urlopen(plain.presign("data/month=1/file", 60).url) as answer:
            assert answer.read() == b"contents"


def test_a_lake_in_a_container(container, options):
    """From the first object to a merge, fsck of all of it, and a URL that any client can read."""
    repo = lakespark.Lake(f"az://{container}/lake", user="ann", **options).repository("demo").create()
    main = repo.branch("main")
    main.object("a/1").upload("one")
    main.commit("first")
    dev = repo.branch("dev").create("main")
    dev.object("a/2").upload("two")
    dev.commit("second")
    dev.merge_into("main")
    assert [found.path for found in main.objects()] == ["a/1", "a/2"]
    assert repo.fsck(objects=True).is_clean
    with urllib.request.urlopen(main.object("a/2").presign(seconds=60).url) as answer:
        assert answer.read() == b"two"
