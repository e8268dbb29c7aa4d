"""Goal: who may put files into a folder reads no other by them. Method: links to a file within it, and to one outside."""

from __future__ import annotations

from pathlib import Path

from headrace.sources.connectors.files.folder import Folder


def test_a_link_that_leads_out_of_the_folder_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "token.csv").write_text("id\nsecret\n")
    inside = tmp_path / "in"
    (inside / "..data").mkdir(parents=True)
    (inside / "..data/b.csv").write_text("id\n1\n")  # as a mounted volume has its files
    (inside / "a.csv").symlink_to(tmp_path / "token.csv")
    (inside / "b.csv").symlink_to(Path("..data/b.csv"))
    (inside / "c.csv").symlink_to(inside / "missing.csv")
    (inside / "d.csv").write_text("id\n2\n")
    (tmp_path / "linked").symlink_to(inside)
    for folder in (inside, tmp_path / "linked"):
        assert [file.name for file in Folder(folder, None, None, "").look()] == ["b.csv", "d.csv"]
