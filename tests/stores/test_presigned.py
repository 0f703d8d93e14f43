"""Presigned URLs of objects: in Python, on the command line, and read by a plain HTTP client."""

from __future__ import annotations

import json
import time
import urllib.request

import pytest
from click.testing import CliRunner

import lakespark
from lakespark.cli.app import app
from lakespark.errors import BadRequestException, ObjectNotFoundException


@pytest.fixture
def lake(s3_server):
    lake = lakespark.Lake(f"s3://{s3_server.make_bucket()}/a lake", **s3_server.options)
    lake.repository("demo").create().branch("main").object("a b/50%.txt").upload(b"contents")
    return lake


@pytest.fixture
def run(lake, s3_server, tmp_path):
    """Runs the command line on the lake, with the options of its store in a configuration file."""
    options = "".join(f'{name} = "{value}"\n' for name, value in s3_server.options.items())
    (tmp_path / "lake.toml").write_text(f'lake = "{lake.location}"\n[storage]\n{options}')

    def invoke(*arguments: str) -> str:
        result = CliRunner().invoke(app, ["--config", str(tmp_path / "lake.toml"), *arguments], prog_name="lakespark")
        assert result.exit_code == 0, result.output
        return result.output

    return invoke


def read(url: str) -> bytes:
    with urllib.request.urlopen(url) as response:
        return response.read()


def test_stat_gives_a_url_and_its_expiry(lake):
    target = lake.repository("demo").branch("main").object("a b/50%.txt")
    assert target.stat().physical_address_expiry is None
    info = target.stat(pre_sign=True)
    assert read(info.physical_address) == b"contents"
    assert time.time() + 890 < info.physical_address_expiry <= time.time() + 900
    assert (info.path, info.size_bytes) == ("a b/50%.txt", 8)


def test_a_url_can_be_good_for_longer(lake):
    signed = lake.repository("demo").ref("main").object("a b/50%.txt").presign(7 * 86400)
    assert read(signed.url) == b"contents"
    assert signed.expires > time.time() + 7 * 86400 - 10
    with pytest.raises(BadRequestException, match="1 to 604800 seconds, not 604801"):
        lake.repository("demo").ref("main").object("a b/50%.txt").presign(7 * 86400 + 1)


def test_an_object_that_is_not_there_has_no_url(lake):
    with pytest.raises(ObjectNotFoundException):
        lake.repository("demo").branch("main").object("none").presign()


def test_a_folder_has_no_urls_and_says_so(tmp_path):
    main = lakespark.Lake(tmp_path).repository("demo").create().branch("main")
    main.object("a").upload(b"1")
    for act in (lambda: main.object("a").stat(pre_sign=True), main.object("a").presign):
        with pytest.raises(
            BadRequestException, match=f"no URL can be made for {tmp_path}.*a local folder has no server"
        ):
            act()


def test_the_command_line_prints_the_url_alone(run):
    url = run("fs", "presign", "lakefs://demo/main/a b/50%.txt", "--expires", "60")
    assert read(url.strip()) == b"contents"
    found = json.loads(run("--json", "fs", "presign", "lakefs://demo/main/a b/50%.txt"))
    assert read(found["url"]) == b"contents"
    assert time.time() < found["expires"] <= time.time() + 900


def test_the_command_line_shows_it_with_what_is_known_of_the_object(run):
    found = json.loads(run("--json", "fs", "stat", "--pre-sign", "lakefs://demo/main/a b/50%.txt"))
    assert read(found["physical_address"]) == b"contents"
    assert found["physical_address_expiry"] > time.time()
    shown = run("fs", "stat", "lakefs://demo/main/a b/50%.txt", "--pre-sign")
    assert "X-Amz-Expires=900" in shown
    assert "address good until" in shown
