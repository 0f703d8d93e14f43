"""Every notebook runs from its first cell to its last, and what its cells found is what its text says."""

import json
import tempfile
from pathlib import Path

import pytest

import lakespark

NOTEBOOKS = sorted((Path(__file__).parents[2] / "notebooks").glob("*.ipynb"))
MOST_CODE_CELLS = 12
IDS = [path.stem for path in NOTEBOOKS]


def cells(path, kind):
    """Sources of the cells of a kind."""
    found = json.loads(path.read_text())["cells"]
    return ["".join(cell["source"]) for cell in found if cell["cell_type"] == kind]


class Run:
    """A notebook after its cells were executed: its names, and what it displayed, as a notebook would show it."""

    def __init__(self, path, spark):
        self.shown = []
        self.names = {"spark": spark, "display": self.display, "__name__": "__main__"}
        for number, source in enumerate(cells(path, "code")):
            exec(compile(source, f"{path.name}[{number}]", "exec"), self.names)

    def display(self, value):
        self.shown.append(value._repr_html_())

    def __getitem__(self, name):
        return self.names[name]


@pytest.fixture
def run(spark, tmp_path, monkeypatch):
    """Runs a notebook on the session of the tests; its temporary lake is the test's."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def run_notebook(name):
        done = Run(next(path for path in NOTEBOOKS if path.stem == name), spark)
        assert Path(done["LAKE"]).parent == tmp_path
        return done

    return run_notebook


def test_there_are_notebooks_to_look_at():
    expected = ["01_quickstart", "02_write_audit_publish", "03_reproduce_and_roll_back", "04_merge_conflicts"]
    assert expected == IDS


@pytest.mark.parametrize("path", NOTEBOOKS, ids=IDS)
def test_a_notebook_is_of_the_format_that_it_names(path):
    book = json.loads(path.read_text())
    assert (book["nbformat"], book["nbformat_minor"]) == (4, 5)
    assert book["metadata"]["kernelspec"]["name"] == "python3"
    assert len({cell["id"] for cell in book["cells"]}) == len(book["cells"])
    for cell in book["cells"]:
        required = {"cell_type", "id", "metadata", "source"}
        code_only = {"execution_count", "outputs"}
        assert set(cell) == (required | code_only if cell["cell_type"] == "code" else required)
        assert cell["cell_type"] in ("code", "markdown")
        assert all(line.endswith("\n") for line in cell["source"][:-1])


@pytest.mark.parametrize("path", NOTEBOOKS, ids=IDS)
def test_a_notebook_is_short_and_is_stored_without_results(path):
    book = json.loads(path.read_text())
    code = [cell for cell in book["cells"] if cell["cell_type"] == "code"]
    assert 1 <= len(code) <= MOST_CODE_CELLS
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in code)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=IDS)
def test_the_first_cell_says_where_the_lake_is_and_the_second_takes_a_session_that_is_there(path):
    first, second, *_ = cells(path, "code")
    assert "LAKE = " in first
    assert 'if "spark" not in globals()' in second


@pytest.mark.spark
def test_quickstart(run):
    done = run("01_quickstart")
    assert done["files"] == 3
    assert list(done["by_month"].month) == [1, 2, 3]
    assert done["by_month"].flights.sum() == len(done["flights"].collect())
    assert {change.type for change in done["changes"]} == {"added", "removed"}
    assert list(done["compared"].km) == [round(miles * 1.609344) for miles in done["compared"].miles]
    assert [commit.message for commit in done["log"]][:2] == ["Merge 'metric' into 'main'", "distances in km"]
    assert "Repository quickstart" in done.shown[0]
    assert "3 changes" in done.shown[1]
    assert "v1.0" in done.shown[-1]


@pytest.mark.spark
def test_write_audit_publish(run):
    done = run("02_write_audit_publish")
    assert list(done["before"].rule) == ["missing"]
    assert list(done["first_audit"].rule) == ["hours_early"]
    assert (done["early"].arr_time < done["early"].sched_arr_time).all()
    assert done["second_audit"].empty
    assert done["published"].empty
    assert done["merged"].commit.parents[0] == done["repo"].tag("loaded").get_commit().id
    assert [branch.id for branch in done["repo"].branches()] == ["main"]
    assert "Merged" in done.shown[-3]


@pytest.mark.spark
def test_reproduce_and_roll_back(run, capsys):
    done = run("03_reproduce_and_roll_back")
    assert done["again"] == done["reported"] != done["now"]
    assert [message for message, _ in done["left"]][:2] == ["tidy up", "load month 3"]
    assert done["left"][0][1] + done["lost"].lost.sum() == done["left"][1][1] == done["after_revert"]
    assert (done["lost"].cancelled > 0).all()
    assert done["same_tree"]
    assert len(done["deleted"]) == 1
    assert done["rest"] == []
    out = capsys.readouterr().out
    assert "reproduced" in out
    assert "not reproduced" not in out
    assert "█" in out


@pytest.mark.spark
def test_merge_conflicts(run):
    done = run("04_merge_conflicts")
    path = done["month_path"](2)
    assert done["conflicts"]["path"].to_pylist() == [path]
    assert done["unmoved"]
    assert done["seen"]["base"][0] == done["seen"]["ann"][0] > done["seen"]["ben"][0]
    assert done["seen"]["ann"][1] == 0 < done["seen"]["ben"][1] <= done["seen"]["base"][1]
    assert done["airtran"] == 0
    assert [change.type for change in done["changes"] if change.path == path] == ["conflict"]
    by_month = {int(row.month): row.flights for row in done["result"].itertuples()}
    assert by_month[2] == done["seen"]["ben"][0]
    assert done["by_strategy"].conflicts["path"].to_pylist() == [path]
    assert isinstance(done["merged"], lakespark.MergeResult)
    assert "Decided by the strategy" in done.shown[-2]
