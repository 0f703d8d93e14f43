"""Folders can be given as ``pathlib`` paths wherever a location is taken."""

import lakespark


def test_a_repository_is_created_and_opened_at_a_path(tmp_path):
    repo = lakespark.Lake(tmp_path / "lake").repository("analytics").create(tmp_path / "elsewhere")
    repo.branch("main").object("a").upload("1")
    assert lakespark.Repository.open(tmp_path / "elsewhere").branch("main").object("a").exists()
    assert repo.properties.storage_namespace == str(tmp_path / "elsewhere")
