"""How values look in a notebook: what one can see, and that nothing a user wrote is obeyed as HTML."""

from html.parser import HTMLParser

import pytest

import lakespark
from lakespark import html
from lakespark.model import Change, Commit

NASTY = "<script>alert('x')</script>&\"quoted\""
VOID = {"br"}


class Seen(HTMLParser):
    """What a browser would make of the markup: its elements, and its text. Raises for elements left open."""

    def __init__(self, markup):
        super().__init__()
        self.open, self.tags, self.text = [], [], ""
        self.feed(markup)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data + " "

    def count(self, tag):
        return sum(name == tag for name, _ in self.tags)


def commit(number, message="load", **more):
    """A commit; the message and metadata are what a user wrote."""
    identity = f"{number:064x}"
    return Commit(identity, (), more.get("committer", "ann"), message, 1_700_000_000, "m", more.get("metadata", {}))


def change(path, kind="added", **more):
    return Change(kind, path, "object", 1234, more.get("by"), more.get("at"))


@pytest.fixture
def repo(request):
    lake = lakespark.Lake(f"memory://{request.node.name.lower()}/lake", user=NASTY)
    return lake.repository("analytics").create()


def test_log_shows_commits_in_the_order_given():
    seen = Seen(html.log([commit(2, "second"), commit(1, "first")])._repr_html_())
    assert seen.text.index("second") < seen.text.index("first")
    assert "2 commits" in seen.text
    assert "2023-11-14 22:13:20" in seen.text


def test_log_shows_the_names_of_refs_beside_their_commits():
    one = commit(1)
    assert "v1.0" in Seen(html.log([one], {one.id: ["v1.0"]}).html).text


def test_further_lines_and_metadata_of_a_message_are_folded_away():
    seen = Seen(html.log([commit(1, "title\n\nbody", metadata={"ticket": "12"})]).html)
    assert seen.count("details") == 1
    assert [word for word in ("title", "body") if word not in seen.text.split()] == []
    assert "ticket = 12" in seen.text


def test_rows_past_the_first_are_folded_away():
    seen = Seen(html.log(commit(n) for n in range(html.OPEN_ROWS + 5)).html)
    assert seen.count("details") == 1
    assert "5 more" in seen.text
    assert seen.count("tr") == html.OPEN_ROWS + 5 + 2  # a header each


def test_an_endless_log_is_cut():
    def endless():
        while True:
            yield commit(1)

    seen = Seen(html.log(endless()).html)
    assert "more than 1,000 commits" in seen.text
    assert "Only the first 1,000 are shown." in seen.text
    assert seen.count("tr") == html.MOST_ROWS + 2


def test_diff_counts_the_changes_of_each_kind():
    seen = Seen(html.diff([change("a"), change("b", "removed"), change("c")]).html)
    assert "3 changes" in seen.text
    assert "2 added, 1 removed" in seen.text
    assert "1,234" in seen.text
    assert "written" not in seen.text


def test_diff_says_who_wrote_what_is_uncommitted():
    seen = Seen(html.diff([change("a", by="ben", at=1_700_000_000)]).html)
    assert "written" in seen.text
    assert "ben, 2023-11-14 22:13:20 UTC" in seen.text


def test_no_changes_are_no_table():
    seen = Seen(html.diff([]).html)
    assert "0 changes" in seen.text
    assert seen.count("table") == 0


@pytest.mark.parametrize(
    "markup",
    [
        html.log(
            [commit(1, NASTY + "\n" + NASTY, committer=NASTY, metadata={NASTY: NASTY})], {"0" * 63 + "1": [NASTY]}
        ),
        html.diff([change(NASTY, NASTY, by=NASTY, at=0)]),
        html.absent(NASTY, NASTY),
    ],
    ids=["log", "diff", "absent"],
)
def test_what_a_user_wrote_is_text_and_no_markup(markup):
    seen = Seen(markup.html)
    assert seen.count("script") == 0
    assert NASTY in seen.text
    assert "<script" not in markup.html


def test_what_cannot_be_seen_is_written_as_an_escape():
    assert html.text("a\u202eb\x00\n") == "a\\u202eb\\x00\\n"


def test_a_time_that_no_calendar_holds_is_shown_in_seconds():
    assert html.when(10**15) == "1000000000000000 s since 1970"


def test_a_repository_shows_its_branches_and_tags(repo):
    repo.branch("dev").create("main")
    repo.branch("hidden").create("main", hidden=True)
    repo.tag("v1").create("main")
    seen = Seen(repo._repr_html_())
    assert "Repository analytics" in seen.text
    assert "2 branches" in seen.text
    assert "1 tag " in seen.text
    assert "dev" in seen.text
    assert "hidden" not in seen.text
    assert repo.branch("main").head.id[:12] in seen.text


def test_many_branches_are_folded_away(repo):
    for number in range(html.OPEN_ROWS + 1):
        repo.branch(f"b{number}").create("main")
    details = [attributes for tag, attributes in Seen(repo._repr_html_()).tags if tag == "details"]
    assert [("open" in attributes) for attributes in details] == [
        False,
        False,
        True,
    ]  # branches, the rest of them, tags


def test_a_repository_that_does_not_exist_says_so():
    lake = lakespark.Lake("memory://html-absent/lake")
    assert "not found" in Seen(lake.repository("missing")._repr_html_()).text


def test_a_merge_shows_parents_base_and_what_its_strategy_decided(repo):
    main = repo.branch("main")
    base = main.head.id
    dev = repo.branch("dev").create("main")
    for branch, body in ((main, "ours"), (dev, "theirs")):
        branch.object(NASTY).upload(body)
        branch.commit(NASTY)
    merged = dev.merge_into(main, strategy="source-wins", message=NASTY)
    seen = Seen(merged._repr_html_())
    assert "Merged" in seen.text
    assert all(shown[:12] in seen.text for shown in (merged, base, *merged.commit.parents))
    assert "added/added" in seen.text
    assert seen.count("script") == 0


def test_the_conflicts_of_a_refused_merge_are_a_table(repo):
    main = repo.branch("main")
    dev = repo.branch("dev").create("main")
    for branch, body in ((main, "ours"), (dev, "theirs!")):
        branch.object("a").upload(body)
        branch.commit("write a")
    with pytest.raises(lakespark.errors.MergeConflictError) as refused:
        dev.merge_into(main)
    seen = Seen(html.conflicts(refused.value.conflicts).html)
    assert "1 conflict " in seen.text
    assert [word for word in ("a", "added/added", "7", "4") if word not in seen.text.split()] == []
