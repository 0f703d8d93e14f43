"""The wheel, and a real ``spark-submit`` of a job with it."""

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
pytestmark = [pytest.mark.spark, pytest.mark.processes]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The wheel of this project, built as a release is."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", str(ROOT), "--no-deps", "--no-build-isolation", "-w", str(folder)]
    built = subprocess.run([*command, "-q"], capture_output=True, text=True, cwd=folder)
    assert built.returncode == 0, built.stdout + built.stderr
    (file,) = folder.glob("lakespark-*.whl")
    return file


def environment():
    """This process's, without a way to the sources, with its own Python."""
    kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "LAKESPARK_LAKE")}
    return kept | {"PYSPARK_PYTHON": sys.executable}


def submit(wheel, *words, cwd):
    """Run a job by ``spark-submit`` with the wheel, away from the sources."""
    import pyspark

    program = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    options = ["--properties-file", ROOT / "conf" / "local.conf", "--master", "local[2]", "--py-files", wheel]
    command = [program, *options, "--conf", "spark.driver.memory=1g", ROOT / "jobs" / "merge.py", *words]
    return subprocess.run(
        [str(word) for word in command], cwd=cwd, env=environment(), capture_output=True, text=True, timeout=300
    )


def test_the_wheel_holds_the_package_alone_with_its_jobs_and_entry_points(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (entry_points,) = (name for name in names if name.endswith("entry_points.txt"))
        text = archive.read(entry_points).decode()
    assert {name.split("/")[0] for name in names} == {"lakespark", Path(entry_points).parent.name}
    assert {f"lakespark/jobs/{job}.py" for job in ("merge", "import_data", "export")} <= set(names)
    for job in ("merge", "import", "export"):
        assert f"lakespark-{job} = lakespark.jobs." in text


def test_a_merge_by_spark_submit_with_the_wheel_and_its_repeat(wheel, lake, tmp_path):
    words = ("--lake", lake.location, "lakefs://demo/dev", "lakefs://demo/main")
    main = lake.repository("demo").branch("main")
    main.object("c").upload("c")
    main.commit("on main")
    done = submit(wheel, *words, "--engine", "spark", cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]
    summary = json.loads(done.stdout.splitlines()[-1])
    assert (summary["result"], summary["commit"]) == ("done", main.get_commit().id)
    assert [info.path for info in main.objects()] == ["a", "b", "c"]
    again = submit(wheel, *words, "--engine", "duckdb", cwd=tmp_path)
    assert again.returncode == 0
    assert json.loads(again.stdout.splitlines()[-1])["result"] == "up-to-date"


def test_a_failed_merge_gives_its_exit_code_through_spark_submit(wheel, lake, tmp_path):
    for name in ("main", "dev"):
        branch = lake.repository("demo").branch(name)
        branch.object("a").upload(f"from {name}")
        branch.commit("change a")
    ended = submit(wheel, "--lake", lake.location, "lakefs://demo/dev", "lakefs://demo/main", cwd=tmp_path)
    assert ended.returncode == 3, ended.stderr[-3000:]
    assert json.loads(ended.stdout.splitlines()[-1])["error"]["kind"] == "merge-conflict"
