"""The demo, on four months of the data and the session of the tests."""

import argparse
import re

import pytest

import lakespark
from jobs import demo, demo_lake

MONTHS = 4
STEPS = 8
pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    return tmp_path_factory.mktemp("demo") / "demo-lake"


@pytest.fixture(scope="module")
def told(spark, lake):
    """What a run prints; it must end with code 0."""
    printed = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("builtins.print", lambda *words, **_: printed.append(" ".join(map(str, words))))
        code = demo.run(spark, argparse.Namespace(lake=lake, months=MONTHS))
    out = "\n".join(printed)
    assert code == 0, out
    return out


def test_steps_are_numbered_without_a_gap(told):
    assert re.findall(r"^(\d+)\. ", told, re.MULTILINE) == [str(number) for number in range(1, STEPS + 1)]


def test_all_checks_hold_and_are_counted(told):
    held = told.count("[ok]")
    assert held >= STEPS
    assert f"{held} of {held} checks passed" in told


def test_the_first_audit_finds_the_flights_that_landed_after_midnight(told):
    first, second = re.findall(r"^ +2 +24,951 +(\d+) +(\d+)$", told, re.MULTILINE)
    assert first == ("0", "5")
    assert second == ("0", "0")


def test_what_changed_between_two_refs_is_what_was_filled_in(told):
    compared = told.split("\n7. ")[1]
    assert re.findall(r"^ +(\d) +(\d+) +(\d+) +\d+$", compared, re.MULTILINE) == [("2", "49", "49"), ("3", "41", "41")]


@pytest.mark.usefixtures("told")
def test_the_lake_stays_for_a_person_to_look_at(spark, lake):
    repo = lakespark.Lake(lake).repository(demo_lake.REPOSITORY)
    main = repo.branch("main")
    assert [branch.id for branch in repo.branches(hidden=True)] == ["fix-delays", "main"]
    assert main.get_commit().message == "Merge 'fix-delays' into 'main'"
    assert main.read(spark, "flights/").count() == repo.tag("v1.0").read(spark, "flights/").count() == 109_119


def test_a_folder_that_is_not_a_demo_lake_is_left_alone(tmp_path, capsys):
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(SystemExit) as refused:
        demo.main(["--lake", str(tmp_path)])
    assert refused.value.code == 2
    assert (tmp_path / "thesis.txt").read_text() == "years of work"


def test_a_check_that_does_not_hold_makes_the_exit_code_one(spark, tmp_path, monkeypatch, capsys):
    for step in ("correct", "audit", "publish", "read_at_tag", "compare_refs", "history"):
        monkeypatch.setattr(demo, step, lambda scene: None)
    monkeypatch.setattr(demo, "load", lambda scene: scene.tell.check("the moon is a cheese", holds=False))
    assert demo.run(spark, argparse.Namespace(lake=tmp_path / "lake", months=2)) == 1
    assert "FAILED: the moon is a cheese" in capsys.readouterr().out
