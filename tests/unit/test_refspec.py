"""Ref expressions, names and URIs: what is allowed, what it means, and what is said about the rest."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakespark import names, refspec, uri
from lakespark.errors import (
    InvalidNameError,
    InvalidPathError,
    InvalidRefExpressionError,
    InvalidUriError,
    RefNotFoundError,
)
from lakespark.refspec import Step

# The graph at the end of gitrevisions(7): B has three parents, F is a parent of both B and C.
GITREVISIONS = {
    "A": "BC",
    "B": "DEF",
    "C": "F",
    "D": "GH",
    "E": "",
    "F": "IJ",
    "G": "",
    "H": "",
    "I": "",
    "J": "",
}


def lead_to(expression: str) -> str:
    """Where an expression leads in that graph: its base is one of the letters."""
    parsed = refspec.parse(expression)
    return refspec.walk(parsed, parsed.base, GITREVISIONS.__getitem__)


@pytest.mark.parametrize(
    ("commit", "expressions"),
    [
        ("A", ["A", "A^0", "A~0"]),
        ("B", ["A^", "A^1", "A~1", "A~"]),
        ("C", ["A^2"]),
        ("D", ["A^^", "A^1^1", "A~2", "B^", "B^1"]),
        ("E", ["B^2", "A^^2"]),
        ("F", ["B^3", "A^^3", "C^", "A^2^"]),
        ("G", ["A^^^", "A^1^1^1", "A~3", "A~~~", "A~1^1~1"]),
        ("H", ["D^2", "B^^2", "A^^^2", "A~2^2"]),
        ("I", ["F^", "B^3^", "A^^3^", "C~2"]),
        ("J", ["F^2", "B^3^2", "A^^3^2", "A^2^^2", "A~0^^3^0^2"]),
    ],
)
def test_steps_lead_where_gitrevisions_says(commit: str, expressions: list[str]):
    assert [lead_to(expression) for expression in expressions] == [commit] * len(expressions)


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("A^3", "ref 'A^3' not found: commit A has 2 parents, not a parent number 3"),
        ("C^2", "ref 'C^2' not found: commit C has 1 parent, not a parent number 2"),
        ("G~1", "ref 'G~1' not found: commit G has no parents, not a parent number 1"),
        ("A~4", "ref 'A~4' not found: commit G has no parents, not a parent number 1"),
        ("A~999999999999999999", "ref 'A~999999999999999999' not found: commit G has no parents"),
    ],
)
def test_an_absent_parent_is_named(expression: str, said: str):
    with pytest.raises(RefNotFoundError) as caught:
        lead_to(expression)
    assert str(caught.value).startswith(said)


@pytest.mark.parametrize("base", ["main", "dev:joe-bugfix-1234", "v2.3", "_x", "-", "a" * 255, "0123", "f" * 64])
def test_names_and_ids_are_expressions(base: str):
    parsed = refspec.parse(base)
    assert (parsed.base, parsed.steps, parsed.committed, parsed.is_name) == (base, (), False, True)


@pytest.mark.parametrize(
    ("text", "steps", "committed"),
    [
        ("main~", (Step("~", 1),), False),
        ("main^", (Step("^", 1),), False),
        ("main~3^2", (Step("~", 3), Step("^", 2)), False),
        ("main^^0~007", (Step("^", 1), Step("^", 0), Step("~", 7)), False),
        ("main@", (), True),
        ("main~1@", (Step("~", 1),), True),
    ],
)
def test_steps_follow_a_name(text: str, steps: tuple[Step, ...], committed: bool):
    parsed = refspec.parse(text)
    assert parsed == (text, "main", steps, committed)
    assert not parsed.is_name


@pytest.mark.parametrize(
    "text",
    [
        "",
        "~1",
        "^",
        "@",
        "main~-1",
        "main^-1",
        "main~1x",
        "main@~1",
        "main@@",
        "main^{commit}",
        "main ",
        "a/b",
        "a..b",
        ".hidden",
        "x.lock",
        "a" * 256,
        "main\n",
        "main~" + "9" * 19,
        "main~\u0663",
        None,
        7,
    ],
)
def test_a_malformed_expression_is_shown(text: object):
    with pytest.raises(InvalidRefExpressionError) as caught:
        refspec.parse(text)
    assert f"invalid ref expression {text!r}" in str(caught.value)


@given(st.text(max_size=20))
def test_any_text_is_an_expression_or_refused(text: str):
    try:
        parsed = refspec.parse(text)
    except InvalidRefExpressionError:
        return
    assert text.startswith(parsed.base)
    assert names.is_commit_id(parsed.base) or names.check_ref(parsed.base) == parsed.base


@pytest.mark.parametrize("name", ["abc", "0-a", "a" * 63, "analytics-2024"])
def test_repository_names(name: str):
    assert names.check_repository(name) == name


@pytest.mark.parametrize("name", ["", "ab", "a" * 64, "-ab", "Abc", "a_b", "a.b", "abc\n", "\u00e9t\u00e9", None])
def test_bad_repository_names_are_refused(name: object):
    with pytest.raises(InvalidNameError, match="invalid repository name"):
        names.check_repository(name)


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        ("", "empty"),
        (None, "empty"),
        ("a b", "ASCII"),
        ("a/b", "ASCII"),
        ("a~1", "ASCII"),
        ("a\n", "ASCII"),
        ("\u00fc", "ASCII"),
        ("$x", "ASCII"),
        ("a" * 256, "longer than 255"),
        (".a", "starts with"),
        ("a..b", "holds"),
        ("a.lock", "ends with"),
        ("0123456789abcdef" * 4, "commit id"),
    ],
)
def test_bad_ref_names_are_refused_by_the_rule_they_break(name: object, rule: str):
    with pytest.raises(InvalidNameError, match=rule):
        names.check_ref(name)


@pytest.mark.parametrize("path", ["a", "/", "a//b", "/x", "dir/", ".", "..", "a\nb", " ", "\U0010ffff", "x" * 1024])
def test_every_key_of_an_object_store_is_a_path(path: str):
    assert names.check_path(path) == path


@pytest.mark.parametrize(
    ("path", "rule"),
    [
        ("", "empty"),
        ("a\0b", "NUL"),
        ("x" * 1025, "1025 bytes"),
        ("\u20ac" * 342, "1026 bytes"),
        ("\ud800", "UTF-8"),
        (b"a", "str, not bytes"),
    ],
)
def test_bad_paths_are_refused_by_the_rule_they_break(path: object, rule: str):
    with pytest.raises(InvalidPathError, match=rule):
        names.check_path(path)


@pytest.mark.parametrize(
    ("prefix", "end"),
    [
        ("a", "b"),
        ("a/", "a0"),
        ("", None),
        ("a\U0010ffff", "b"),
        ("\U0010ffff\U0010ffff", None),
        ("\ud7ff", "\ue000"),
        ("z\uffff", "z\U00010000"),
    ],
)
def test_prefix_end_is_the_first_string_after_a_prefix(prefix: str, end: str | None):
    assert names.prefix_end(prefix) == end


CHARACTERS = st.one_of(st.sampled_from("a\0\ud7ff\ue000\uffff\U00010000\U0010ffff"), st.characters(codec="utf-8"))
TEXTS = st.text(CHARACTERS, max_size=4)


@given(TEXTS, TEXTS)
def test_a_text_starts_with_a_prefix_if_it_lies_between_it_and_its_end(prefix: str, text: str):
    end = names.prefix_end(prefix)
    for candidate in (text, prefix + text):
        is_between = prefix.encode() <= candidate.encode() and (end is None or candidate.encode() < end.encode())
        assert is_between == candidate.startswith(prefix)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("lakefs://repo", ("repo", None, None)),
        ("lakefs://repo/", ("repo", None, None)),
        ("lakefs://repo/main", ("repo", "main", None)),
        ("lakefs://repo/main/", ("repo", "main", "")),
        ("lakefs://repo/main~1/a//b/", ("repo", "main~1", "a//b/")),
        ("lakefs://repo/main//x", ("repo", "main", "/x")),
    ],
)
def test_uris_split_into_repository_ref_and_path(text: str, parts: tuple[str | None, ...]):
    assert uri.parse(text) == parts
    assert uri.parse(str(uri.parse(text))) == parts


def test_uris_of_one_kind():
    assert uri.parse_repository("lakefs://repo").repository == "repo"
    assert uri.parse_ref("lakefs://repo/main/") == ("repo", "main", None)
    assert uri.parse_path("lakefs://repo/main") == ("repo", "main", "")


@pytest.mark.parametrize(
    ("parse", "text"),
    [
        (uri.parse, "s3://repo/main"),
        (uri.parse, "lakefs://"),
        (uri.parse, "lakefs:///main/x"),
        (uri.parse, "lakefs://repo//x"),
        (uri.parse_ref, "lakefs://repo"),
        (uri.parse_ref, "lakefs://repo/main/x"),
        (uri.parse_repository, "lakefs://repo/main"),
        (uri.parse_path, "lakefs://repo"),
    ],
)
def test_bad_uris_are_shown(parse, text: str):
    with pytest.raises(InvalidUriError) as caught:
        parse(text)
    assert repr(text) in str(caught.value)


def test_a_uri_with_a_bad_repository_name_is_refused():
    with pytest.raises(InvalidNameError, match="'UPPER'"):
        uri.parse("lakefs://UPPER/main")
