"""``fs locate``: from a file of the store back to those who hold it."""


def test_an_object_is_found_on_branches_and_in_commits(demo):
    head = demo.json("log", "lakefs://demo/main")[0]["id"]
    info = demo.json("fs", "stat", "lakefs://demo/main/a.txt")
    demo.put("lakefs://demo/main/new.txt", "new")
    assert demo.lines("fs", "locate", "lakefs://demo", info["physical_address"]) == [
        f"KIND    NAME{' ' * 62}PATH   UNCOMMITTED",
        f"branch  main{' ' * 62}a.txt  False",
        f"commit  {head}  a.txt  False",
    ]
    staged = demo.json("fs", "stat", "lakefs://demo/main/new.txt")["physical_address"]
    assert demo.json("fs", "locate", "lakefs://demo", staged[staged.index("data/") :]) == [
        {"path": "new.txt", "kind": "branch", "name": "main", "commit_id": head, "uncommitted": True}
    ]


def test_an_object_that_nobody_holds_is_not_found(demo):
    failed = demo.json("fs", "locate", "lakefs://demo", "data/nothing", code=1)
    assert failed["error"]["kind"] == "object-not-found"
    assert "data/nothing" in failed["error"]["message"]


def test_locating_needs_a_repository_and_an_address(demo):
    demo("fs", "locate", "lakefs://demo/main/a.txt", "data/x", code=2)
    demo("fs", "locate", "lakefs://demo", code=2)
