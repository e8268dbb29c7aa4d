"""Goal: the sinks that tell of changes keep the duties of every sink: whole deliveries, once into the outbox, fenced.

Method: the deliveries of the conformance suite to a webhook, a mail and a page sink. What they have taken is read from the
messages that their receivers got, and from the notices; there is no store to be read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hook_sinks import KEY, NOTE, SECRET, begun, changed, sales
from sink_histories import delivery, view, weighted

from alert_receivers import HookReceiver, MailServer
from headrace.model.errors import HeadraceError
from headrace.model.transaction import TransactionOrigin
from headrace.sinks.alerts.notices import Notices
from headrace.sinks.alerts.sink import AlertSink
from headrace.sinks.connectors.mail.connector import MailSink
from headrace.sinks.connectors.page.connector import PageSink
from headrace.sinks.connectors.webhook.connector import WebhookSink

Make = Callable[..., AlertSink]


@pytest.fixture(params=["webhook", "mail", "page"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Make, Callable[[], int]]]:
    """A maker of sinks of one project, and how many messages their receiver has."""
    made: list[AlertSink] = []
    with HookReceiver() as hook, MailServer() as mails:

        def make(**more: Any) -> AlertSink:
            if request.param == "webhook":
                options = {"url": hook.url, "secret": SECRET, "initial": "send", **more}
                made.append(WebhookSink("alerts", options, {}, base=tmp_path, log="the log"))
            elif request.param == "page":
                made.append(PageSink("alerts", {"initial": "send", **more}, {}, base=tmp_path, log="the log"))
            else:
                options = {
                    "host": "127.0.0.1",
                    "port": mails.port,
                    "from": "a@b.test",
                    "to": "c@d.test",
                    "initial": "send",
                }
                made.append(MailSink("alerts", {**options, **more}, {}, base=tmp_path, log="the log"))
            return made[-1]

        yield make, lambda: len(hook.requests) + len(mails.mails) + len(list(Notices(tmp_path).since(0)))
        for sink in made:
            sink.close()


def opened(make: Make, **more: Any) -> AlertSink:
    sink = make(**more)
    sink.open()
    return sink


def test_a_new_sink_has_no_frontier_and_holds_nothing(place: tuple[Make, Callable[[], int]]) -> None:
    make, _ = place
    sink = make()
    assert sink.open() is None
    assert sink.held() == {}
    begun(sink, sales((1, "a")))
    assert sink.held() == {"sales": 1}
    sink.close()
    assert make().open() == 1


def test_a_delivery_that_fails_in_one_view_tells_of_none(place: tuple[Make, Callable[[], int]]) -> None:
    make, count = place
    good, bad = sales((1, "a")), sales((1, "a"), name="bad")
    sink = begun(opened(make), good, bad)
    before = count()
    deltas = {"sales": weighted(good.schema, [((2, "b"), 1)]), "bad": weighted(bad.schema, [((7, "x"), 2)])}
    with pytest.raises(HeadraceError) as caught:
        sink.write(delivery(2, [good, bad], deltas=deltas))
    assert caught.value.code == "sink.conflict"
    assert count() == before
    sink.close()
    assert make().open() == 1


def test_an_older_instance_is_refused(place: tuple[Make, Callable[[], int]]) -> None:
    make, count = place
    some = sales((1, "a"))
    first = begun(opened(make), some)
    second = make()
    assert second.open() == 1
    before = count()
    for _ in range(2):
        with pytest.raises(HeadraceError) as caught:
            changed(first, some, 9, ((9, "old"), 1))
        assert caught.value.code == "sink.fenced"
    assert count() == before
    changed(second, some, 2, ((2, "b"), 1))
    assert count() == before + 1
    assert make().open() == 2


def test_a_delivery_that_comes_again_is_told_once(place: tuple[Make, Callable[[], int]]) -> None:
    make, count = place
    some, new = sales((1, "a")), sales((2, "b"), name="new")
    sink = begun(opened(make), some)
    sent = delivery(5, [some], deltas={"sales": weighted(some.schema, [((2, "b"), 1)])})
    sink.write(replace(sent, origin=TransactionOrigin("shop", "0/1A2B", 1)))
    before = count()
    sink.write(sent)
    sink.write(replace(sent, commit=4))
    sink.close()
    sink = opened(make)
    sink.write(sent)
    assert count() == before
    arriving = delivery(5, [new, some], replacements={"new": new.whole()}, stale={"sales": "1/0"})
    sink.write(arriving)  # at the commit that is reached already
    sink.write(arriving)
    assert count() == before + 1
    assert sink.held() == {"sales": 1, "new": 1}


def test_views_come_and_go(place: tuple[Make, Callable[[], int]]) -> None:
    make, count = place
    some = sales((1, "a"))
    sink = begun(opened(make), some)
    sink.write(delivery(2, [some], dropped=frozenset({"sales"})))
    assert sink.held() == {}
    again = sales((1, "a"), (2, "b"))
    again.schema = replace(again.schema, version=2)
    sink.write(delivery(3, [again], replacements={"sales": again.whole()}))
    assert sink.held() == {"sales": 2}
    assert count() == 2
    quiet = sales(name="quiet")
    sink.write(delivery(4, [quiet], replacements={"quiet": quiet.whole()}))
    sink.write(delivery(5, [quiet], deltas={"quiet": quiet.whole()}))
    assert (sink.held(), count()) == ({"sales": 2, "quiet": 1}, 2)


def test_an_outbox_that_is_beyond_the_log_begins_anew(place: tuple[Make, Callable[[], int]]) -> None:
    make, count = place
    begun(opened(make), sales((1, "a")), commit=5).close()
    sink = make()
    assert sink.open(3) is None
    assert "it stands at commit 5 and the views at 3" in sink.anew
    assert sink.held() == {}
    begun(sink, sales((1, "a")), commit=3)
    assert sink.open(3) == 3
    before = count()
    changed(sink, sales((1, "a")), 5, ((2, "other"), 1))  # a commit that has said something else before
    assert count() == before + 1


@pytest.mark.parametrize(
    "name", ['qu"ote', "sp ace", "☃", "a.b", "%s", "{x}", "'", "view", "commit", "<b>", "x\r\ny: z"]
)
def test_any_name_is_taken_as_it_is(place: tuple[Make, Callable[[], int]], name: str) -> None:
    make, count = place
    odd = view(name, [KEY, (name, *NOTE[1:])], ("id",))
    sink = begun(opened(make), odd)
    changed(sink, odd, 2, ((1, "a"), 1))
    assert sink.held() == {name: 1}
    assert count() == 1


def test_a_damaged_outbox_is_told(place: tuple[Make, Callable[[], int]], tmp_path: Path) -> None:
    make, _ = place
    begun(opened(make), sales((1, "a"))).close()
    path = tmp_path / ".headrace" / "outbox" / "alerts.db"
    whole = path.read_bytes()
    path.write_bytes(b"no database at all" * 100)
    with pytest.raises(HeadraceError) as caught:
        make().open()
    assert caught.value.code == "state.corrupt"
    path.write_bytes(whole)
    assert make().open() == 1
