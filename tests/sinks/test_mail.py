"""Goal: what enters, leaves and changes is told by mail: at least once, repeats by one Message-ID, never more than asked.

Method: a mail server of sockets that refuses, hangs up and wants TLS or a login; its mails are read by the parser of the
standard library, and their rows compared with what was delivered.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hook_sinks import KEY, NOTE, WHERE, begun, caught, changed, sales, until_taken
from sink_histories import delivery, view

from alert_receivers import HANG_UP, MailServer, certified
from headrace.model.errors import HeadraceError
from headrace.model.finding import OK
from headrace.sinks.alerts import outbox
from headrace.sinks.connectors.mail.connector import MailSink


@pytest.fixture
def server() -> Iterator[MailServer]:
    with MailServer() as made:
        yield made


class Sinks:
    """Sinks of one project folder; each call is another instance, closed after the test."""

    def __init__(self, folder: Path, server: MailServer) -> None:
        self.folder, self.server, self.made = folder, server, list[MailSink]()

    def __call__(self, **options: Any) -> MailSink:
        there = {"host": "127.0.0.1", "port": self.server.port, "timeout_s": 1.0}
        given = {**there, "from": "Shop <alerts@shop.test>", "to": "ann@example.com", **options}
        self.made.append(MailSink("alerts", given, {}, WHERE, "shop", base=self.folder, log="the log"))
        return self.made[-1]

    def opened(self, **options: Any) -> MailSink:
        sink = self(**options)
        sink.open()
        return sink


@pytest.fixture
def sinks(tmp_path: Path, server: MailServer) -> Iterator[Sinks]:
    found = Sinks(tmp_path, server)
    yield found
    for sink in found.made:
        sink.close()


# ---- what is told


def test_a_delivery_is_one_mail_with_a_table(sinks: Sinks, server: MailServer) -> None:
    some = sales((1, "a"), (2, "b"))
    sink = begun(sinks.opened(to=["ann@example.com", "Bob <bob@example.com>"]), some)
    assert server.mails == []
    changed(sink, some, 7, ((1, "a"), -1), ((2, "b"), -1), ((2, "B"), 1), ((30, "<c> & ü"), 1))
    (mail,) = server.mails
    assert (mail.sender, mail.to) == ("alerts@shop.test", ("ann@example.com", "bob@example.com"))
    message = mail.message
    assert message["Subject"] == "sales: 1 row entered, 1 left, 1 changed"
    assert (message["From"], message["To"]) == ("Shop <alerts@shop.test>", "ann@example.com, Bob <bob@example.com>")
    assert message["Auto-Submitted"] == "auto-generated"
    assert re.fullmatch(r"<msg_[0-9a-f]{32}@shop\.test>", message["Message-ID"])
    assert mail.text.splitlines() == [
        "sales at commit 7: 1 row entered, 1 left, 1 changed",
        "",
        "entered:",
        "id  note",
        "--  -------",
        "30  <c> & ü",
        "",
        "left:",
        "id  note",
        "--  ----",
        "1   a",
        "",
        "changed:",
        "id  note",
        "--  ------",
        "2   b -> B",
    ]
    page = message.get_body(("html",))
    assert page is not None
    assert "<td>&lt;c&gt; &amp; ü</td>" in page.get_content()
    assert mail.raw.isascii()


def test_many_rows_are_one_mail_that_says_how_many_more(sinks: Sinks, server: MailServer) -> None:
    some = sales(key=())
    sink = begun(sinks.opened(), some)
    changed(sink, some, 2, *(((number, "x"), 1) for number in range(2345)))
    (mail,) = server.mails
    lines = mail.text.splitlines()
    assert mail.message["Subject"] == "sales: 2,345 rows entered"
    assert [line.split() for line in lines if line.endswith("x")] == [[str(n), "x"] for n in range(50)]
    assert lines[-1] == "and 2,295 more"


def test_templates_are_filled_with_the_values_of_rows(sinks: Sinks, server: MailServer) -> None:
    some = sales((1, "a"))
    templates = {"subject": "{note} {event} {view}", "body": "{id}: {note} at {commit}, {count} in all {{}}"}
    sink = begun(sinks.opened(**templates), some)
    changed(sink, some, 2, ((2, "b"), 1))
    changed(sink, some, 3, ((3, "c"), 1), ((4, None), 1), ((1, "a"), -1))
    one, several = server.mails
    assert (one.message["Subject"], one.text) == ("b entered sales", "2: b at 2, 1 in all {}\n")
    assert several.message["Subject"] == "c entered sales (and 2 more)"
    assert several.text.splitlines() == [
        "3: c at 3, 3 in all {}", "4: null at 3, 3 in all {}", "1: a at 3, 3 in all {}",
    ]  # fmt: skip


def test_a_template_without_columns_is_told_once(sinks: Sinks, server: MailServer) -> None:
    sink = begun(sinks.opened(subject="{view} moved", body="See the page of {view}."), sales())
    changed(sink, sales(), 2, ((2, "b"), 1), ((3, "b"), 1))
    assert (server.mails[0].message["Subject"], server.mails[0].text) == ("sales moved", "See the page of sales.\n")


def test_each_row_can_be_a_mail_of_its_own(sinks: Sinks, server: MailServer) -> None:
    sink = begun(sinks.opened(per="row", subject="{id}"), sales())
    changed(sink, sales(), 2, *(((number, "x"), 1) for number in range(3)))
    assert [mail.message["Subject"] for mail in server.mails] == ["0", "1", "2"]
    assert len({mail.message["Message-ID"] for mail in server.mails}) == 3
    assert server.connections == 1


NASTY = [
    "x\r\nBcc: all@example.com",
    "x\nBcc: all@example.com\n\nbody",
    "x\rBcc: all@example.com",
    "x\u2028Bcc: all@example.com",
    "x\x00\x1b[31m\x85Bcc: all@example.com",
    "\r\n.\r\nMAIL FROM:<x@y>",
    "{view.__class__} {0} %s",
    "=?utf-8?q?Bcc=3A_all=40example=2Ecom?=",
    "é" * 500,
    " ",
    "",
]


@pytest.mark.parametrize("text", NASTY)
def test_no_value_can_become_a_header_or_a_command(sinks: Sinks, server: MailServer, text: str) -> None:
    some = sales()
    sink = begun(sinks.opened(subject="Note {note}!", body="It says: {note}"), some)
    changed(sink, some, 2, ((1, text), 1))
    changed(sink, some, 3, ((2, "after"), 1))
    mail, after = server.mails
    assert mail.to == after.to == ("ann@example.com",)
    assert set(mail.message.keys()) == set(after.message.keys())
    assert "Bcc" not in mail.message
    assert mail.message["To"] == "ann@example.com"
    assert str(mail.message["Subject"]).startswith("Note")
    assert all(sign.isprintable() for sign in str(mail.message["Subject"]))
    shown = re.sub(r"[\x00-\x1f\x85\u2028]", "", text)
    assert re.sub(r"[\r\n]", "", mail.text) == f"It says: {shown}".rstrip("\n")


@pytest.mark.parametrize(
    ("template", "said"),
    [
        ("{note.__class__}", "names the column 'note.__class__'"),
        ("{note[0]}", "names the column 'note[0]'"),
        ("{nota}", "names the column 'nota'"),
    ],
)
def test_a_template_reaches_columns_alone(sinks: Sinks, server: MailServer, template: str, said: str) -> None:
    sink = sinks.opened(subject=template)
    with pytest.raises(HeadraceError) as found:
        begun(sink, sales())
    assert found.value.code == "config.invalid"
    assert said in found.value.what and "names: id, note, view, commit, count, event" in found.value.next
    assert sink.held() == {}


# ---- what goes wrong


def test_a_mail_that_was_not_taken_comes_again_by_the_same_id(sinks: Sinks, server: MailServer) -> None:
    some = sales()
    sink = begun(sinks.opened(), some)
    server.answers += ["451 try later", HANG_UP]
    error = caught(sink, some, 2, ((1, "a"), 1))
    assert (error.code, error.why) == ("sink.refused", "451 try later")
    until_taken(sink)
    changed(sink, some, 3, ((2, "b"), 1))
    first, again, other = server.mails  # the first was taken, but the server hung up
    assert first.message["Message-ID"] == again.message["Message-ID"] != other.message["Message-ID"]
    assert first.raw == again.raw


def test_a_mail_that_is_refused_for_good_becomes_a_dead_letter(sinks: Sinks, server: MailServer) -> None:
    some = sales()
    sink = begun(sinks.opened(), some)
    server.answers.append("554 looks like spam")
    changed(sink, some, 2, ((1, "a"), 1))
    changed(sink, some, 3, ((2, "b"), 1))
    assert [mail.message["Subject"] for mail in server.mails] == ["sales: 1 row entered"]
    assert sink.quarantined == {"sales": 1}


def test_only_who_lacks_a_mail_gets_it_again(sinks: Sinks, server: MailServer) -> None:
    some = sales()
    sink = begun(sinks.opened(to=["ann@example.com", "bob@example.com", "cid@example.com"]), some)
    server.refuses = {"bob@example.com": "450 greylisted", "cid@example.com": "550 nobody here"}
    error = caught(sink, some, 2, ((1, "a"), 1))
    assert "bob@example.com: 450 greylisted" in error.why
    sink.close()
    del server.refuses["bob@example.com"]
    sink = sinks.opened()
    assert [mail.to for mail in server.mails] == [("ann@example.com",), ("bob@example.com",)]
    assert len({mail.message["Message-ID"] for mail in server.mails}) == 1
    assert sink.quarantined == {"sales": 1}


def test_nobody_is_left_out_when_a_server_ends_at_one_of_them(sinks: Sinks, server: MailServer) -> None:
    some = sales()
    everybody = ("ann@example.com", "bob@example.com", "cid@example.com")
    sink = begun(sinks.opened(to=list(everybody)), some)
    server.refuses = {"bob@example.com": "421 too busy"}
    error = caught(sink, some, 2, ((1, "a"), 1))
    assert error.code == "sink.refused" and "bob@example.com: 421 too busy" in error.why
    assert server.mails == []
    server.refuses = {}
    until_taken(sink)
    assert [mail.to for mail in server.mails] == [everybody]


def test_rows_older_than_their_template_go_all_the_same(sinks: Sinks, server: MailServer) -> None:
    """It names a column that the view has since it was edited."""
    some = sales()
    sink = begun(sinks.opened(subject="{note}"), some)
    server.answers.append("451 try later")
    caught(sink, some, 2, ((1, "a"), 1))
    sink.close()
    sinks.opened(subject="{note}{more}", body="{id}: {more}.")
    assert [(mail.message["Subject"], mail.text) for mail in server.mails] == [("a", "1: .\n")]


def test_one_mail_tells_rows_from_before_and_after_an_edit(sinks: Sinks, server: MailServer) -> None:
    some = sales()
    sink = begun(sinks.opened(), some)
    server.answers += ["451 try later"] * 9
    caught(sink, some, 2, ((1, "a"), 1))
    caught(sink, some, 3, ((2, "b"), 1))
    wider = view("sales", [KEY, NOTE, ("more", *NOTE[1:])], ("id",), version=2)
    with pytest.raises(HeadraceError):
        sink.write(delivery(4, [wider], replacements={"sales": wider.whole()}))
    caught(sink, wider, 5, ((3, "c", "new"), 1))
    server.answers.clear()
    until_taken(sink, 20)
    assert server.mails[1].text.splitlines() == [
        "sales at commit 5: 2 rows entered",
        "",
        "entered:",
        "id  note  more",
        "--  ----  ----",
        "2   b",
        "3   c     new",
    ]


def test_more_than_may_be_sent_comes_later_as_one(
    sinks: Sinks, server: MailServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    some, other = sales(), sales(name="other")
    sink = begun(sinks.opened(at_most="2/minute", per="row", subject="{id}"), some, other)
    for number in range(2, 8):
        changed(sink, some, number, ((number, "x"), 1))
    assert [mail.message["Subject"] for mail in server.mails] == ["2", "3"]
    later = SimpleNamespace(time=lambda: time.time() + 61, time_ns=lambda: time.time_ns() + 61 * 10**9)
    monkeypatch.setattr(outbox, "time", later)
    assert sink.ready()
    assert [mail.message["Subject"] for mail in server.mails[2:]] == ["4 (and 3 more)"]
    changed(sink, other, 8, *(((number, "y"), 1) for number in range(4)))
    assert sink.ready()
    assert [mail.message["Subject"] for mail in server.mails[3:]] == ["0 (and 3 more)"]


def test_a_limit_outlives_a_restart(sinks: Sinks, server: MailServer) -> None:
    some = sales()
    sink = begun(sinks.opened(at_most="1/hour"), some)
    changed(sink, some, 2, ((1, "a"), 1))
    changed(sink, some, 3, ((2, "b"), 1))
    sink.close()
    sink = sinks.opened(at_most="1/hour")
    assert len(server.mails) == 1
    sink.close()
    sinks.opened(at_most="2/hour")
    assert [mail.message["Subject"] for mail in server.mails] == ["sales: 1 row entered"] * 2


def test_a_server_that_is_away_is_tried_again(sinks: Sinks, server: MailServer) -> None:
    some = sales()
    begun(sinks.opened(), some).close()
    gone = sinks(port=1)
    with pytest.raises(HeadraceError) as found:
        gone.open()
        changed(gone, some, 2, ((1, "a"), 1))
    assert (found.value.code, found.value.where) == ("sink.connect", WHERE)
    assert "the mail server 127.0.0.1:1 cannot be reached" in found.value.what
    assert sinks.opened().held() == {"sales": 1}
    assert len(server.mails) == 1


# ---- login and TLS


def test_a_login_is_by_reference_and_its_refusal_is_told(
    sinks: Sinks, server: MailServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    some = sales()
    server.users = {"shop": "s3cret-word"}
    sink = begun(sinks.opened(), some)
    error = caught(sink, some, 2, ((1, "a"), 1))
    assert (error.code, error.why) == ("sink.auth", "530 5.7.0 Authentication required")
    sink.close()
    monkeypatch.setenv("MAIL_PASSWORD", "wr0ng-word")
    with pytest.raises(HeadraceError) as found:
        sinks.opened(user="shop", password="env:MAIL_PASSWORD")
    assert (found.value.code, found.value.why) == ("sink.auth", "535 5.7.8 no such user or password")
    assert "wr0ng" not in str(found.value)
    monkeypatch.setenv("MAIL_PASSWORD", "s3cret-word")
    sink = sinks.opened(user="shop", password="env:MAIL_PASSWORD")
    assert server.mails[0].user == "shop"
    assert [finding.state for finding in sink.examine()] == [OK]
    assert b"s3cret" not in b"".join(
        file.read_bytes() for file in (tmp_path / ".headrace").rglob("*") if file.is_file()
    )


@pytest.mark.parametrize("way", ["starttls", "tls"])
def test_a_server_must_prove_who_it_is(tmp_path: Path, way: str) -> None:
    context = certified(tmp_path, "127.0.0.1")
    some = sales()
    with MailServer(**{way: context}) as server:
        sinks = Sinks(tmp_path, server)
        sink = begun(sinks.opened(tls=way), some)
        error = caught(sink, some, 2, ((1, "a"), 1))
        assert error.code == "sink.connect" and "certificate" in error.why and "`ca: FILE`" in error.next
        assert server.mails == []
        sink.close()
        sink = sinks.opened(tls=way, ca="ca.crt")
        assert [mail.secure for mail in server.mails] == [True]
        assert [finding.what for finding in sink.examine()] == [
            f"connects to 127.0.0.1:{server.port} with {way.upper()}"
        ]
        sink.close()


def test_a_server_without_starttls_gets_nothing_when_it_is_asked_for(sinks: Sinks, server: MailServer) -> None:
    some = sales()
    error = caught(begun(sinks.opened(tls="starttls"), some), some, 2, ((1, "a"), 1))
    assert error.code == "sink.connect"
    assert "STARTTLS" in error.why and "`tls:`" in error.next
    assert server.mails == []


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"to": "nobody"}, "is not a mail address"),
        ({"to": "a@b.test\r\nBcc: c@d.test"}, "is not a mail address"),
        ({"from": "a@b.test, c@d.test"}, "is not a mail address"),
        ({"to": []}, "'to'"),
        ({"subject": "{note!r}"}, "is not a template"),
        ({"subject": "{note:>10}"}, "is not a template"),
        ({"body": "{note"}, "is not a template"),
        ({"body": "{}"}, "is not a template"),
        ({"user": "x"}, "'user' and 'password' need each other"),
        ({"host": "mail.example.com", "tls": "none", "user": "x", "password": "env:P"}, "in the clear"),
        ({"hots": "x"}, "did you mean 'host'?"),
    ],
)
def test_a_wrong_option_is_told_by_name(sinks: Sinks, options: dict[str, Any], said: str) -> None:
    with pytest.raises(HeadraceError) as found:
        sinks(**options)
    assert said in str(found.value)
    assert found.value.where == WHERE


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, ("starttls", 587)),
        ({"tls": "tls"}, ("tls", 465)),
        ({"port": 465}, ("tls", 465)),
        ({"host": "localhost"}, ("none", 587)),
        ({"host": "localhost", "tls": "starttls", "port": 25}, ("starttls", 25)),
    ],
)
def test_a_server_elsewhere_is_spoken_to_safely(
    sinks: Sinks, options: dict[str, Any], expected: tuple[str, int]
) -> None:
    made = sinks(**{"host": "mail.example.com", "port": None, **options})
    assert (made._options.security, made._options.at) == expected
