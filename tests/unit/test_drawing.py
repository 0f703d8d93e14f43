"""The drawn history: examples to look at, and for any history, that following the edges finds the parents."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakespark.cli.drawing import Graph

EXAMPLES = {
    "a line": ("c:b b:a a", "* c\n* b\n* a"),
    "a merge": ("m:b,c c:a b:a a", "* m\n|\\\n| * c\n* | b\n|/\n* a"),
    "two branches at once": ("x:a y:a a", "* x\n| * y\n|/\n* a"),
    "an edge behind another lane": ("e:b x:a c:b b:a a", "* e\n| * x\n| | * c\n|_|/\n* | b\n|/\n* a"),
    "two roots": ("b:a d:c a c", "* b\n| * d\n* | a\n /\n* c"),
}


def drawn(history):
    graph = Graph()
    return "\n".join(graph.draw(commit, parents, commit) for commit, parents in history)


def history(text):
    """Commits and their parents from words ``id:parent,parent``, the newest first."""
    words = [word.partition(":") for word in text.split()]
    return [(commit, tuple(filter(None, parents.split(",")))) for commit, _, parents in words]


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_history_is_drawn(name):
    text, drawing = EXAMPLES[name]
    assert drawn(history(text)) == drawing


@st.composite
def histories(draw):
    """A connected history with one root, of up to 14 commits with up to three parents each, the newest first."""
    commits = [("0", ())]
    for number in range(1, draw(st.integers(1, 14))):
        parents = draw(st.lists(st.integers(0, number - 1), min_size=1, max_size=3, unique=True))
        commits.append((str(number), tuple(map(str, parents))))
    return commits[::-1]


@given(histories())
@settings(max_examples=200, deadline=None)
def test_following_the_edges_finds_the_parents(commits):
    assert traced(drawn(commits).split("\n")) == {commit: set(parents) for commit, parents in commits}


def traced(lines):
    """Parents by commit, read off the drawing alone. A strand is the commit it comes from, at a column."""
    strands = set()
    parents = {}
    for line in lines:
        if "*" in line:
            column, name = line.index("*"), line.split()[-1]
            parents[name] = set()
            for origin in {origin for origin, at in strands if at == column}:
                parents[origin].add(name)
            strands = {strand for strand in strands if strand[1] != column} | {(name, column)}
        else:
            strands = {(origin, to) for origin, at in strands for to in followed(line, at)}
    return parents


def followed(line, column):
    """The columns to which an edge at a column leads across a line without a commit."""
    cells = line.ljust(column + 2)
    if cells[column] == "|":
        yield column
    if cells[column + 1] == "\\":
        yield column + 2
    if column and cells[column - 1] == "/":
        left = column - 2
        while left and cells[left - 1] == "_":
            left -= 2
        yield left
