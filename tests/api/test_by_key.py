"""Goal: a row by its key is answered at once where that is plain, as its route would answer it, and by the route else.

Method: a view published by hand, asked by real HTTP; which of the two answered is told by which of them was asked.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from served_project import site

from headrace.governance.audit import Wanted
from headrace.governance.roles import Role
from headrace.serve import mirror
from headrace.serve.mirror import Mirror
from headrace.serve.questions import Questions
from published_view import Published, Rows


def rows(first: int, count: int, weight: int = 1) -> Rows:
    return Rows({(id, id * 10): weight for id in range(first, first + count)})


def test_a_view_is_at_hand_once_it_is_held_and_little_was_published_since(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mirror, "ROWS_AT_HAND", 5)
    published = Published(tmp_path / "shop")
    held = Mirror(published.folder)
    assert held.at_hand("sums") is None and held.at_hand("none") is None
    published.step([rows(0, 20)])
    assert held.at_hand("sums") is None  # it would have to be read from its files
    held.moment(["sums"])
    published.step([rows(20, 5)])
    found = held.at_hand("sums")
    assert found is not None and (found[1].commit, found[1].contents["sums"].table().num_rows) == (2, 25)
    published.step([rows(30, 6)])
    assert held.at_hand("sums") is None
    assert held.moment(["sums"]).contents["sums"].table().num_rows == 31
    with held._locks["sums"]:
        assert held.at_hand("sums") is None  # another is at it: nobody waits
    assert held.at_hand("sums") is not None
    published.step([rows(40, 1)])
    published.held = [Rows()] * published.upto + [rows(0, 25) + rows(30, 6) + rows(40, 1)]
    published.base()
    found = held.at_hand("sums")  # by the delta, which is kept with its step though the base has it
    assert found is not None and found[1].contents["sums"].table().num_rows == 32
    published.held = [Rows()] * (published.upto + 3)
    published.step([Rows()])
    published.step([Rows()])
    published.held[published.upto] = rows(0, 25) + rows(30, 6) + rows(40, 1)
    published.base()
    published.catalog.forget_steps(published.number)
    assert held.at_hand("sums") is None  # it would be read from its base, however little came since
    assert held.moment(["sums"]).contents["sums"].table().num_rows == 32
    published.step([rows(41, 1)])
    found = held.at_hand("sums")
    assert found is not None and found[1].contents["sums"].table().num_rows == 33
    held.close()


def test_both_ways_answer_the_same_and_refuse_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    published = Published(tmp_path / "shop")
    published.step([rows(0, 9)])
    asked = Counter[str]()
    for name in ("row", "row_at_hand"):
        kept = getattr(Questions, name)

        def counted(self: Questions, *given: object, name: str = name, kept: object = kept) -> object:
            found = kept(self, *given)  # type: ignore[operator]
            asked[name] += found is not None
            return found

        monkeypatch.setattr(Questions, name, counted)
    path = "/api/views/sums/row?id=7"
    with site(published.folder) as running, running.client() as owner:
        slow, quick = owner.get(path), owner.get(path)
        assert asked == {"row": 1, "row_at_hand": 1}
        assert quick.json() == slow.json() == {"commit": 1, "row": {"id": 7, "n": 70}}
        assert {k: v for k, v in quick.headers.items() if k != "date"} == {
            k: v for k, v in slow.headers.items() if k != "date"
        }
        published.step([Rows({(7, 70): -1, (7, 71): 1})])
        assert owner.get(path).json() == {"commit": 2, "row": {"id": 7, "n": 71}}
        assert asked == {"row": 1, "row_at_hand": 2}
        absent = owner.get("/api/views/sums/row?id=4711")
        assert (absent.status_code, absent.json()["code"]) == (404, "row.unknown")
        assert owner.get("/api/views/sums/row?n=7").json()["code"] == "query.filter"
        _, other = running.tokens.create("other", Role.VIEWER, ("orders",))
        _, sums = running.tokens.create("sums", Role.VIEWER, ("sum*",))
        for token, status, code in ((other, 404, "view.unknown"), ("wrong", 401, "access.token"), (sums, 200, None)):
            with running.client(token) as client:
                answer = client.get(path)
            assert (answer.status_code, answer.json().get("code")) == (status, code)
        running.tokens.revoke("sums")
        with running.client(sums) as client:
            assert client.get(path).status_code == 401
        refused, _ = running.access.log.recent(Wanted(outcome="refused"), 10)
        assert [(entry["who"], entry["detail"]["code"]) for entry in refused] == [
            ("other", "view.unknown"), ("", "access.token")
        ]  # fmt: skip
        counted_as = 'headrace_api_requests_total{route="/views/{name}/row",method="GET",status="200"} 4\n'
        assert counted_as in owner.get("/metrics").text
    with site(published.folder, asks=False) as running, running.client("") as client:
        assert client.get(path).json() == client.get(path).json() == {"commit": 2, "row": {"id": 7, "n": 71}}
        assert client.get(path, headers={"Host": "evil.example"}).json()["code"] == "access.token"
