"""Which lake and which user: options, then the environment, then the configuration file."""

import os

import pytest

from lakespark.cli.settings import find_settings
from lakespark.errors import BadRequestException


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A home folder."""
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def test_without_a_lake_the_error_says_the_three_ways(cli):
    del cli.environment["LAKESPARK_LAKE"]
    message = cli("repo", "list", code=2).stderr
    for way in ("--lake", "LAKESPARK_LAKE", "~/.lakespark.toml"):
        assert way in message


def test_an_option_comes_before_the_environment_and_that_before_the_file(home):
    (home / ".lakespark.toml").write_text('lake = "s3://file/lake"\nuser = "file"\n')
    environment = {"LAKESPARK_LAKE": "s3://environment/lake", "LAKESPARK_USER": "environment"}
    assert find_settings("s3://option/lake", "option", None, environment)[:2] == ("s3://option/lake", "option")
    assert find_settings(None, None, None, environment)[:2] == ("s3://environment/lake", "environment")
    assert find_settings(None, None, None, {})[:2] == ("s3://file/lake", "file")


def test_the_login_name_is_the_last_resort(home, monkeypatch):
    monkeypatch.setenv("LOGNAME", "somebody")
    assert find_settings("lake", None, None, {}).user == "somebody"


def test_a_relative_lake_is_meant_from_the_file_that_names_it(home):
    (home / "conf").mkdir()
    (home / "conf" / "lake.toml").write_text('lake = "data/lake"\n')
    assert find_settings(None, "ann", str(home / "conf" / "lake.toml"), {}).lake == str(home / "conf/data/lake")


@pytest.mark.parametrize(
    ("body", "part"),
    [
        ("lake = ", "is not TOML"),
        ('lakes = "x"', "'lakes'"),
        ("user = 3", "'user'"),
        ("storage = 3", "'storage'"),
        (b'lake = "\xff"', "is not TOML"),
    ],
)
def test_a_configuration_file_that_is_wrong_is_named(home, body, part):
    file = home / "lake.toml"
    file.write_bytes(body if isinstance(body, bytes) else body.encode())
    with pytest.raises(BadRequestException, match=part) as caught:
        find_settings("lake", "ann", str(file), {})
    assert str(file) in str(caught.value)


def test_options_of_the_stores_stand_in_the_file(home):
    (home / "lake.toml").write_text('lake = "s3://b/lake"\n[storage]\nregion = "eu-west-1"\npath_style = true\n')
    found = find_settings(None, "ann", str(home / "lake.toml"), {})
    assert found.storage == {"region": "eu-west-1", "path_style": True}


@pytest.mark.parametrize("is_durable", [True, False])
def test_a_lake_is_durable_if_the_file_says_so(cli, home, monkeypatch, is_durable):
    synced = []
    monkeypatch.setattr(os, "fsync", synced.append)
    (home / "lake.toml").write_text(f"[storage]\ndurable = {str(is_durable).lower()}\n")
    cli("--config", str(home / "lake.toml"), "repo", "create", "lakefs://demo")
    assert bool(synced) is is_durable


def test_an_option_of_the_stores_that_is_unknown_is_named(cli, home):
    (home / "lake.toml").write_text('[storage]\nregio = "eu-west-1"\n')
    assert "did you mean 'region'?" in cli("--config", str(home / "lake.toml"), "repo", "list", code=2).stderr


def test_a_configuration_file_that_is_asked_for_must_be_there(cli):
    assert "no configuration file at nothing.toml" in cli("--config", "nothing.toml", "repo", "list", code=2).stderr


def test_the_configured_user_stands_behind_what_is_written(cli, tmp_path):
    (tmp_path / ".lakespark.toml").write_text('lake = "configured"\nuser = "configured user"\n')
    del cli.environment["LAKESPARK_LAKE"], cli.environment["LAKESPARK_USER"]
    cli("repo", "create", "lakefs://demo")
    assert cli.json("show", "lakefs://demo/main")["committer"] == "configured user"
    assert cli.json("repo", "list")[0]["storage_namespace"] == str(tmp_path / "configured" / "demo")
