"""The one-way rule of ``docs/design.md``, read from the imports themselves, and what the library must not touch."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import lakespark

PACKAGE = Path(lakespark.__file__).parent
PROJECT = PACKAGE.parent

LAYERS = (
    {"cli", "jobs"},
    {"transfer"},
    {
        *("lake", "repository", "reference", "branch", "tag", "objects"),
        *("data_writes", "inspection", "import_manager", "filesystem", "file_writers", "html"),
    },
    {"spark"},
    {"operations"},
    {"algebra"},
    {"engine"},
    {"tree", "tables"},
    {"storage"},
    {"errors", "model", "names", "digest", "uri", "refspec", "graph", "entries", "html"},
)
"""The table of ``docs/design.md``: each row may import the rows below it and its own, never those above."""

PLACES = {"__main__": "cli", "__init__": "lake", "exceptions": "errors"}
"""Modules that stand in the row of another one."""

PURE_TEXT = {"algebra"}
"""SQL and no more: nothing but the names of an entry's columns, and the limits of names, is imported."""
ONLY_TESTS_IMPORT = {"testing"}
MAY_IMPORT_PYSPARK = ("engine/spark.py", "spark/")
MAY_PRINT_AND_READ_THE_ENVIRONMENT = ("cli/", "jobs/", "__main__.py")

SOURCES = sorted(PACKAGE.rglob("*.py"))


def module_name(path):
    """Dotted name of a source file."""
    parts = path.relative_to(PROJECT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(path): path for path in SOURCES}


def unit_of(module):
    """The row's word for a module: its folder, or its own name at the top."""
    parts = module.split(".")
    unit = parts[1] if len(parts) > 1 else "__init__"
    return PLACES.get(unit, unit)


def imports_of(path, *, at_module_level=False):
    """Modules that a file imports, but for those that only type checkers see."""
    found = set()

    def visit(node):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            for other in node.orelse:
                visit(other)
            return
        if at_module_level and isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            return
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute"
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                found.add(whole if whole in MODULES else node.module)
        for child in ast.iter_child_nodes(node):
            visit(child)

    visit(ast.parse(path.read_text()))
    return found


def own_imports_of(path, **how):
    return {name for name in imports_of(path, **how) if name.split(".")[0] == "lakespark"}


def row_of(unit):
    """Number of the row of a unit, from the top."""
    rows = [number for number, row in enumerate(LAYERS) if unit in row]
    assert rows, f"lakespark/{unit} stands in no row: give it one here and in docs/design.md"
    return rows[0]


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_module_imports_its_own_row_and_those_below(path):
    unit = unit_of(module_name(path))
    imported = {unit_of(name) for name in own_imports_of(path)} - {unit}
    if unit in ONLY_TESTS_IMPORT:
        return
    assert not imported & ONLY_TESTS_IMPORT
    above = {other for other in imported if row_of(other) < row_of(unit)}
    assert not above, f"{path.relative_to(PACKAGE)} imports {above}, which stand above {unit!r}"
    if unit in PURE_TEXT:
        assert {unit_of(name) for name in imports_of(path)} <= {unit, "entries", "names"}


def test_the_rows_are_those_of_the_document():
    text = (PROJECT / "docs/design.md").read_text()
    rows = re.findall(r"^\| (`.*?) \|", text, re.MULTILINE)[: len(LAYERS)]
    written = [{re.sub(r"(/|\.py)$", "", word) for word in re.sub(r"[`,]", " ", row).split()} for row in rows]
    assert written == list(LAYERS)


def test_no_modules_import_each_other_in_a_circle():
    graph = {name: own_imports_of(path, at_module_level=True) - {name} for name, path in MODULES.items()}
    try:
        order = list(TopologicalSorter(graph).static_order())
    except CycleError as error:
        pytest.fail(f"imports go round: {' -> '.join(error.args[1])}")
    assert len(order) == len(MODULES)


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_module_touches_only_what_it_may(path):
    """pyspark is for Spark's own modules; printing and the environment are for the command line."""
    where = str(path.relative_to(PACKAGE))
    if not where.startswith(MAY_IMPORT_PYSPARK):
        assert not {name for name in imports_of(path) if name.split(".")[0] in ("pyspark", "delta")}
    if where.startswith(MAY_PRINT_AND_READ_THE_ENVIRONMENT):
        return
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            assert node.func.id not in ("print", "input"), f"{where}:{node.lineno}"
        if isinstance(node, ast.Attribute):
            assert node.attr not in ("environ", "environb", "getenv", "expandvars"), f"{where}:{node.lineno}"


ABSENT = """
import sys
for name in ("pyspark", "delta", "boto3"):
    sys.modules[name] = None
"""
"""A module that is None in ``sys.modules`` cannot be imported."""


def run(code):
    """What a fresh interpreter prints."""
    done = subprocess.run([sys.executable, "-c", code], cwd=PROJECT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_importing_the_package_imports_nothing_heavy():
    heavy = ("pyspark", "duckdb", "deltalake", "boto3", "obstore", "pandas", "pyarrow.dataset")
    code = f"import sys, lakespark; print([name for name in {heavy!r} if name in sys.modules])"
    assert run(code) == "[]\n"


def test_a_repository_works_without_pyspark(tmp_path):
    code = f"""{ABSENT}
import lakespark
main = lakespark.Lake({str(tmp_path)!r}).repository("analytics").create().branch("main")
main.object("a").upload("hello")
main.commit("first")
dev = main._repository.branch("dev").create("main")
dev.object("b").upload("there")
dev.commit("second")
dev.merge_into(main)
print([o.path for o in main.objects()], main.object("a").reader("r").read())
"""
    assert run(code) == "['a', 'b'] hello\n"


def test_every_other_module_can_be_imported_without_pyspark():
    names = [
        name for name, path in MODULES.items() if not str(path.relative_to(PACKAGE)).startswith(MAY_IMPORT_PYSPARK)
    ]
    names.remove("lakespark.__main__")
    code = f"""{ABSENT}
import importlib
for name in {names!r}:
    importlib.import_module(name)
print(len({names!r}))
"""
    assert run(code) == f"{len(names)}\n"
