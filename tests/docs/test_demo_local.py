"""The demo without Spark, run as a person runs it, on the first months of the data."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import lakespark
from jobs import demo_lake, demo_local

ROOT = Path(__file__).parents[2]
MONTHS = 4
STEPS = 12
pytestmark = pytest.mark.processes


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    return tmp_path_factory.mktemp("demo") / "demo-lake"


@pytest.fixture(scope="module")
def told(lake):
    """What a run of four months prints."""
    command = [sys.executable, "-m", "jobs.demo_local", "--lake", str(lake), "--months", str(MONTHS)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_steps_are_numbered_without_a_gap(told):
    numbers = re.findall(r"^(\d+)\. ", told, re.MULTILINE)
    assert numbers == [str(number) for number in range(1, STEPS + 1)]


def test_all_checks_hold_and_are_counted(told):
    held = told.count("[ok]")
    assert held >= STEPS
    assert f"{held} of {held} checks passed" in told
    assert "FAILED" not in told


def test_the_conflict_table_names_the_month_that_both_sides_changed(told):
    refused = told.split("\n7. ")[1].split("\n8. ")[0]
    assert re.search(r"flights/month=02/flights\.parquet +changed/changed( +[\d,]+){3}$", refused, re.MULTILINE)
    assert "month=01" not in refused


def test_the_numbers_are_those_of_the_data(told):
    assert re.search(r"^ +weather +1 +26,115 +[\d,]+$", told, re.MULTILINE)
    assert "49 of 24,951 flights are filled in" in told
    assert "destinations BQN, PSE, SJU, STT are not in airports.parquet" in told


@pytest.mark.usefixtures("told")
def test_the_lake_stays_for_a_person_to_look_at(lake):
    repo = lakespark.Lake(lake).repository(demo_lake.REPOSITORY)
    assert [tag.id for tag in repo.tags()] == ["v1.0", "v1.1"]
    assert [branch.id for branch in repo.branches()] == ["fix-delays", "main"]
    assert repo.branch("main").get_commit().message == "Revert 'clean up'"


@pytest.mark.usefixtures("told")
def test_a_second_run_makes_its_lake_anew(lake):
    first = lakespark.Lake(lake).repository(demo_lake.REPOSITORY).branch("main").get_commit()
    assert demo_local.main(["--lake", str(lake), "--months", str(MONTHS)]) == 0
    main = lakespark.Lake(lake).repository(demo_lake.REPOSITORY).branch("main")
    assert [commit.message for commit in main.log()].count("load months 1 to 2") == 1
    assert first.meta_range_id == main.get_commit().meta_range_id


def test_a_folder_that_is_not_a_demo_lake_is_left_alone(tmp_path, capsys):
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(SystemExit) as refused:
        demo_local.main(["--lake", str(tmp_path)])
    assert refused.value.code == 2
    assert "holds something else" in capsys.readouterr().err
    assert (tmp_path / "thesis.txt").read_text() == "years of work"


def test_a_lake_with_repositories_of_others_is_left_alone(tmp_path):
    lakespark.Lake(tmp_path).repository("mine").create()
    with pytest.raises(SystemExit):
        demo_local.main(["--lake", str(tmp_path)])
    assert [repo.id for repo in lakespark.Lake(tmp_path).repositories()] == ["mine"]


def test_a_check_that_does_not_hold_makes_the_exit_code_one(capsys):
    tell = demo_local.Narration()
    tell.check("water is wet", holds=True)
    tell.check("the moon is a cheese", holds=False)
    assert tell.close() == 1
    out = capsys.readouterr().out
    assert "1 of 2 checks passed" in out
    assert "FAILED: the moon is a cheese" in out
