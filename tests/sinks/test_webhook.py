"""Goal: what enters, leaves and changes is told by signed requests: at least once, in order, none lost, repeats by one id.

Method: a real HTTP server that fails, hangs up, is slow or silent. What it was told is added up and compared with the
model of the view in plain Python. Signatures are checked by the standard's own example and computed again here.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hook_sinks import KEY, SECRET, WHERE, Hooks, as_told, begun, caught, changed, sales, until_taken
from sink_histories import EVERY_TYPE, Row, delivery, transfers, view, weighted

from alert_receivers import HANG_UP, SILENT, TRICKLE, HookReceiver, Request, contents, once
from headrace.model.errors import HeadraceError
from headrace.sinks.connectors.webhook import signature
from headrace.sinks.connectors.webhook.connector import WebhookSink

# ---- the signature


def test_the_signature_is_that_of_the_standards_example() -> None:
    made = signature.signed(
        signature.keys([SECRET]), "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}'
    )
    assert made["webhook-signature"] == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def verified(request: Request, secret: str) -> bool:
    content = f"{request.id}.{request.headers['webhook-timestamp']}.".encode() + request.body
    made = hmac.new(base64.b64decode(secret.removeprefix("whsec_")), content, hashlib.sha256).digest()
    return f"v1,{base64.b64encode(made).decode()}" in request.headers["webhook-signature"].split(" ")


def test_a_request_is_signed_by_every_secret(
    sinks: Hooks, receiver: HookReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = "whsec_" + base64.b64encode(bytes(range(32))).decode()
    monkeypatch.setenv("HOOK_SECRET", other)
    sink = begun(sinks.opened(secret=[SECRET, "env:HOOK_SECRET"], headers={"Authorization": "Bearer x"}), sales())
    changed(sink, sales(), 2, ((1, "a"), 1))
    (request,) = receiver.requests
    assert verified(request, SECRET) and verified(request, other)
    assert not verified(request, "whsec_" + base64.b64encode(bytes(32)).decode())
    assert abs(int(request.headers["webhook-timestamp"]) - time.time()) < 5
    assert "." not in request.id
    assert (request.path, request.headers["content-type"]) == ("/hook", "application/json")
    assert request.headers["authorization"] == "Bearer x"
    assert request.headers["host"] == f"127.0.0.1:{receiver.port}"


# ---- what is told


def test_a_delivery_is_one_request_a_view(sinks: Hooks, receiver: HookReceiver) -> None:
    some, plain = sales((1, "a"), (2, "b"), (3, "c")), sales((1, "a"), key=(), name="plain")
    sink = begun(sinks.opened(), some, plain)
    assert receiver.requests == []
    changes = [((1, "a"), -1), ((2, "b"), -1), ((2, "B"), 1), ((4, None), 1)]
    copies = [((1, "a"), -1), ((1, "b"), 2)]
    deltas = {"sales": weighted(some.schema, changes), "plain": weighted(plain.schema, copies)}
    sink.write(delivery(7, [some, plain], deltas=deltas))
    assert receiver.told() == [
        {
            "view": "sales",
            "commit": 7,
            "entered": [{"id": 4, "note": None}],
            "left": [{"id": 1, "note": "a"}],
            "changed": [{"before": {"id": 2, "note": "b"}, "after": {"id": 2, "note": "B"}}],
        },
        {
            "view": "plain",
            "commit": 7,
            "entered": [{"id": 1, "note": "b"}, {"id": 1, "note": "b"}],
            "left": [{"id": 1, "note": "a"}],
        },
    ]


def test_a_declared_key_tells_what_changed(sinks: Hooks, receiver: HookReceiver) -> None:
    plain = sales((1, "a"), key=())
    sink = begun(sinks.opened({"sales": ("note",)}), plain)
    changed(sink, plain, 2, ((1, "a"), -1), ((2, "a"), 1))
    assert receiver.told()[0]["changed"] == [{"before": {"id": 1, "note": "a"}, "after": {"id": 2, "note": "a"}}]
    with pytest.raises(HeadraceError) as found:
        changed(sink, plain, 3, ((3, "x"), 2))
    assert found.value.code == "sink.conflict"


@pytest.mark.parametrize(
    ("on", "expected"),
    [
        ("enter", {"entered": [4], "left": [], "changed": 0}),
        ("leave", {"entered": [], "left": [1], "changed": 0}),
        (["enter", "change"], {"entered": [4], "left": [], "changed": 1}),
        ("both", {"entered": [4], "left": [1], "changed": 1}),
    ],
)
def test_only_what_is_asked_for_is_told(
    sinks: Hooks, receiver: HookReceiver, on: Any, expected: dict[str, Any]
) -> None:
    some = sales((1, "a"), (2, "b"))
    sink = begun(sinks.opened(on=on), some)
    changed(sink, some, 2, ((1, "a"), -1), ((2, "b"), -1), ((2, "B"), 1), ((4, "d"), 1))
    (told,) = receiver.told()
    found = {field: [row["id"] for row in told[field]] for field in ("entered", "left")}
    assert {**found, "changed": len(told["changed"])} == expected
    other = {"enter": ((4, "d"), -1), "leave": ((5, "e"), 1)}.get(on if isinstance(on, str) else "")
    if other:
        changed(sink, some, 3, other)
        assert len(receiver.requests) == 1  # nothing that was asked for has happened


def test_each_row_can_be_a_request_of_its_own(sinks: Hooks, receiver: HookReceiver) -> None:
    plain = sales(key=())
    sink = begun(sinks.opened(per="row"), plain)
    changed(sink, plain, 2, ((1, "a"), 2), ((2, "b"), 1))
    assert [told["entered"] for told in receiver.told()] == [
        [{"id": 1, "note": "a"}], [{"id": 1, "note": "a"}], [{"id": 2, "note": "b"}],
    ]  # fmt: skip
    assert len({request.id for request in receiver.requests}) == 3
    assert receiver.connections == 1


def test_first_contents_are_told_when_asked_for(sinks: Hooks, receiver: HookReceiver) -> None:
    some = sales(*((number, "x") for number in range(2500)))
    begun(sinks.opened(initial="send"), some)
    told = receiver.told()
    assert [(t["initial"], t["part"], t["last"], len(t["entered"])) for t in told] == [
        (True, 1, False, 1000), (True, 2, False, 1000), (True, 3, True, 500),
    ]  # fmt: skip
    assert contents(told) == {"sales": as_told(some)}


@pytest.mark.parametrize("key", [("id",), ()])
@pytest.mark.parametrize("per", ["delivery", "row"])
def test_what_a_random_history_tells_adds_up_to_the_view(
    sinks: Hooks, receiver: HookReceiver, key: tuple[str, ...], per: str
) -> None:
    rng = random.Random(4)
    changing = view("changing", [KEY, *EVERY_TYPE], key)
    changing.change(rng, 20)
    sink = begun(sinks.opened(initial="send", per=per), changing)
    for commit in range(2, 12):
        if commit == 6:
            sink.close()
            sink = sinks()
            assert sink.open() == 5
            assert sink.held() == {"changing": 1}
        sink.write(delivery(commit, [changing], deltas={"changing": changing.change(rng, 12)}))
        assert contents(receiver.told()) == {"changing": as_told(changing)}, commit
    assert len({request.id for request in receiver.requests}) == len(receiver.requests)


def test_an_id_follows_from_sink_view_commit_and_row(receiver: HookReceiver, tmp_path: Path) -> None:
    def ids(folder: str, name: str = "alerts", log: str = "a log", **options: Any) -> list[str]:
        before, some = len(receiver.requests), sales()
        given = {"url": receiver.url, "secret": SECRET, **options}
        sink = WebhookSink(name, given, {}, base=tmp_path / folder, log=log)
        sink.open()
        changed(begun(sink, some), some, 2, *(((number, "x"), 1) for number in range(1500)))
        changed(sink, some, 3, ((1, "x"), -1))
        sink.close()
        return [request.id for request in receiver.requests[before:]]

    first = ids("a")
    assert len(set(first)) == 3
    assert ids("b") == first
    for other in (ids("c", name="other"), ids("d", log="another log"), ids("e", per="row", on="leave")):
        assert not {*first} & {*other}


def test_what_comes_again_is_not_told_again(sinks: Hooks, receiver: HookReceiver) -> None:
    some, new = sales((1, "a")), sales((2, "b"), name="new")
    sink = begun(sinks.opened(initial="send"), some)
    sent = delivery(
        5, [some, new], deltas={"sales": weighted(some.schema, [((2, "b"), 1)])}, replacements={"new": new.whole()}
    )
    sink.write(sent)
    before = len(receiver.requests)
    sink.write(sent)
    sink.close()
    sink = sinks.opened(initial="send")
    sink.write(sent)
    assert len(receiver.requests) == before == 3
    sink.write(delivery(6, [some], dropped=frozenset({"new"})))
    assert sink.held() == {"sales": 1}
    assert len(receiver.requests) == before


# ---- what goes wrong


@pytest.mark.parametrize("wrong", [500, 503, 429, 408, 409, 425, 302, HANG_UP, SILENT, TRICKLE])
def test_what_was_not_taken_comes_again_by_the_same_id(sinks: Hooks, receiver: HookReceiver, wrong: Any) -> None:
    some = sales()
    sink = begun(sinks.opened(timeout_s=0.3 if wrong in (SILENT, TRICKLE) else 10.0), some)
    receiver.answers.append(wrong)
    error = caught(sink, some, 2, ((1, "a"), 1))
    assert error.code == ("sink.refused" if isinstance(wrong, int) else "sink.connect")
    assert (f"HTTP {wrong}" in error.why) if isinstance(wrong, int) else (error.where == WHERE)
    assert ("within 0.3 s" in error.why) == (wrong in (SILENT, TRICKLE))
    assert "nothing is lost" in error.next
    until_taken(sink)
    changed(sink, some, 3, ((2, "b"), 1))
    ids = [request.id for request in receiver.requests]
    assert ids[0] == ids[1] != ids[2]
    assert [told["commit"] for told in once(receiver.requests)] == [2, 3]
    assert sink.quarantined == {}


def test_later_changes_wait_behind_what_was_not_taken(sinks: Hooks, receiver: HookReceiver) -> None:
    some = sales()
    sink = begun(sinks.opened(), some)
    receiver.usual = 500
    caught(sink, some, 2, ((1, "a"), 1))
    caught(sink, some, 3, ((2, "b"), 1))
    with pytest.raises(HeadraceError):
        sinks.opened()
    assert {told["commit"] for told in receiver.told()} == {2}
    receiver.usual = 200
    again = sinks()
    assert again.open() == 3
    assert [told["commit"] for told in once(receiver.requests)] == [2, 3]
    with pytest.raises(HeadraceError) as found:
        sink.ready()
        changed(sink, some, 4, ((3, "c"), 1))
    assert found.value.code == "sink.fenced"


def test_attempts_become_rarer_and_wait_as_the_receiver_wants(sinks: Hooks, receiver: HookReceiver) -> None:
    some = sales()
    sink = begun(sinks.opened(), some)
    receiver.answers += [(503, {"Retry-After": "1"}, "later"), 500, 500]
    error = caught(sink, some, 2, ((1, "a"), 1))
    assert sink.attempts == 1
    until_taken(sink, 60)
    assert sink.attempts == 0
    gaps = [b.at - a.at for a, b in zip(receiver.requests, receiver.requests[1:], strict=False)]
    assert len(gaps) == 3 and gaps[0] >= 1.0 and gaps[1] >= 0.5 and gaps[2] >= 1.0
    assert "HTTP 503: later" in error.why


@pytest.mark.parametrize("status", [400, 401, 422])
def test_what_is_refused_for_good_becomes_a_dead_letter(sinks: Hooks, receiver: HookReceiver, status: int) -> None:
    some = sales()
    sink = begun(sinks.opened(), some)
    receiver.answers += [(status, {}, "no\nway")]
    changed(sink, some, 2, ((1, "a"), 1), ((2, "b"), 1))
    changed(sink, some, 3, ((3, "c"), 1))
    assert [told["commit"] for told in receiver.told()] == [2, 3]
    assert sink.quarantined == {"sales": 2}


def test_a_receiver_that_is_gone_ends_it_with_the_reason(sinks: Hooks, receiver: HookReceiver) -> None:
    some = sales()
    sink = begun(sinks.opened(), some)
    receiver.answers.append(410)
    error = caught(sink, some, 2, ((1, "a"), 1))
    assert (error.code, error.why) == ("sink.gone", "it answered HTTP 410 Gone")
    assert sinks().open() == 2  # another `url`, in a new start: what waited goes there
    assert [told["commit"] for told in once(receiver.requests)] == [2]


def test_what_is_tried_for_too_long_becomes_a_dead_letter(sinks: Hooks, receiver: HookReceiver) -> None:
    some = sales()
    sink = begun(sinks.opened(retry_for="1s"), some)
    receiver.usual = 503
    caught(sink, some, 2, ((1, "a"), 1))
    time.sleep(1.1)
    until_taken(sink)
    assert sink.quarantined == {"sales": 1}


def test_a_row_that_json_cannot_carry_becomes_a_dead_letter(
    sinks: Hooks, receiver: HookReceiver, tmp_path: Path
) -> None:
    import pyarrow as pa

    some = sales()
    sink = begun(sinks.opened(), some)
    broken = pa.Array.from_buffers(
        pa.string(), 2, [None, pa.py_buffer(b"\0\0\0\0\2\0\0\0\3\0\0\0"), pa.py_buffer(b"a\xffb")]
    )
    table = pa.table([pa.array([1, 2]), broken, pa.array([1, 1])], names=["id", "note", "_w"])
    sink.write(delivery(2, [some], deltas={"sales": table}))
    assert receiver.told() == [
        {"view": "sales", "commit": 2, "entered": [{"id": 2, "note": "b"}], "left": [], "changed": []}
    ]
    assert sink.quarantined == {"sales": 1}
    (tmp_path / "headrace.yaml").write_text("name: shop\n")
    command = [str(Path(sys.executable).with_name("headrace")), "alerts", "show", "alerts", "2"]
    for more in ([], ["--json"]):
        done = subprocess.run([*command, *more], cwd=tmp_path, check=True, capture_output=True, text=True)
        assert "note: the text is not valid UTF-8" in done.stdout and r"a\\xff" in done.stdout


def test_more_than_may_be_sent_waits_for_its_turn(sinks: Hooks, receiver: HookReceiver) -> None:
    some = sales()
    sink = begun(sinks.opened(at_most="2/second", per="row"), some)
    changed(sink, some, 2, *(((number, "x"), 1) for number in range(5)))
    assert len(receiver.requests) == 2
    assert sink.ready()
    end = time.monotonic() + 5
    while len(receiver.requests) < 5 and time.monotonic() < end:
        sink.ready()
        time.sleep(0.05)
    at = [request.at for request in receiver.requests]
    assert [told["entered"][0]["id"] for told in receiver.told()] == [0, 1, 2, 3, 4]
    assert at[2] - at[0] >= 0.99 and at[4] - at[2] >= 0.99


def test_a_store_that_keeps_nothing_cannot_be_compared(sinks: Hooks) -> None:
    for ask in (sinks.opened().compare, sinks.opened().repair):
        with pytest.raises(HeadraceError) as found:
            ask(lambda commit, held: iter(()))
        assert found.value.code == "sink.unsupported"


def test_drop_removes_the_outbox(sinks: Hooks, tmp_path: Path) -> None:
    sink = begun(sinks.opened(), sales())
    assert (tmp_path / ".headrace" / "outbox" / "alerts.db").stat().st_mode & 0o077 == 0
    sink.drop()
    assert list((tmp_path / ".headrace" / "outbox").iterdir()) == []
    assert sinks().open() is None


# ---- killed


def test_a_sender_killed_at_any_moment_loses_nothing_and_repeats_by_id(receiver: HookReceiver, tmp_path: Path) -> None:
    seed, count, kills = 20, 40, 4
    rng = random.Random(seed)
    script = Path(__file__).with_name("alert_writer.py")
    environment = {**os.environ, "HOOK_SECRET": SECRET}
    for _ in range(kills):
        receiver.answers += [rng.choice([204, 204, 500, HANG_UP]) for _ in range(3)]
        before = len(receiver.requests)
        command = [sys.executable, str(script), receiver.url, str(tmp_path), str(seed), str(count)]
        with subprocess.Popen(command, env=environment) as writer:
            end, wanted = time.monotonic() + 20, before + rng.randrange(3, 20)
            while len(receiver.requests) < wanted and writer.poll() is None:
                assert time.monotonic() < end
                time.sleep(0.001)
            writer.kill()
    receiver.answers.clear()
    subprocess.run(command, env=environment, check=True, timeout=60)
    told = once(receiver.requests)
    assert len(receiver.requests) > len(told)  # some were repeated
    views = {"left": Counter[str](), "right": Counter[str]()}
    commits = [message["commit"] for message in told]
    assert commits == sorted(commits) and commits[-1] == count
    for made, left, right in transfers(seed, count):
        of_commit = contents(m for m in told if m["commit"] <= made.commit)
        views = {"left": _model(left, ["id", "amount"]), "right": _model(right, ["amount"])}
        assert {name: of_commit.get(name, Counter()) for name in views} == views, made.commit
    assert b"whsec_" not in b"".join(
        file.read_bytes() for file in (tmp_path / ".headrace").rglob("*") if file.is_file()
    )


def _model(rows: Counter[Row], names: list[str]) -> Counter[str]:
    return Counter({json.dumps(dict(zip(names, row, strict=True)), sort_keys=True): n for row, n in rows.items()})
