"""Goal: a webhook goes only where it may, to whom proves who it is, and what is wrong with its options is told by name.

Method: addresses in every spelling; a real receiver with and without TLS. No secret may show in an error.
"""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest
from hook_sinks import WHERE, Hooks, begun, caught, changed, sales, until_taken

from alert_receivers import HookReceiver, certified
from headrace.model.errors import HeadraceError
from headrace.model.finding import OK, WARNING

# ---- where it may go


PRIVATE = [
    "192.0.0.192", "168.63.129.16", "[64:ff9b:1::8.8.8.8]", "[64:ff9b:1::10.0.0.1]", "[::10.0.0.1]", "[::169.254.169.254]",
    "[::ffff:0:10.0.0.1]", "[::ffff:0:169.254.169.254]", "[fec0::1]", "10.0.0.1", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "0.0.0.0", "224.0.0.1", "255.255.255.255",
    "192.0.0.1", "198.18.0.1", "240.0.0.1", "2852039166", "0xA9FEA9FE", "0251.0376.0251.0376", "10.1", "0x0a000001", "167772161",
    "[::]", "[fe80::1]", "[fc00::1]", "[fd12:3456::1]", "[ff02::1]", "[::ffff:10.0.0.1]", "[::ffff:169.254.169.254]",
    "[::ffff:a00:1]", "[64:ff9b::10.0.0.1]", "[64:ff9b::a9fe:a9fe]", "[2002:a00:1::]", "[2002:a9fe:a9fe::1]", "[2001:db8::1]",
]  # fmt: skip


@pytest.mark.parametrize("host", PRIVATE)
def test_nothing_goes_to_an_address_of_a_private_network(sinks: Hooks, host: str) -> None:
    some = sales()
    sink = begun(sinks.opened(url=f"https://{host}/x"), some)
    error = caught(sink, some, 2, ((1, "a"), 1))
    assert error.code == "config.invalid", error
    assert "private network" in error.why and "allow:" in error.next


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "127.1", "2130706433", "0x7f000001", "[::ffff:127.0.0.1]"])
def test_this_machine_may_be_told(sinks: Hooks, receiver: HookReceiver, host: str) -> None:
    some = sales()
    sink = begun(sinks.opened(url=f"http://{host}:{receiver.port}/x"), some)
    changed(sink, some, 2, ((1, "a"), 1))
    assert len(receiver.requests) == 1


def test_a_public_host_without_tls_is_not_told(sinks: Hooks) -> None:
    some = sales()
    error = caught(begun(sinks.opened(url="http://8.8.8.8/x"), some), some, 2, ((1, "a"), 1))
    assert error.code == "config.invalid"
    assert "without TLS" in error.why


def test_a_host_that_is_named_may_be_private(sinks: Hooks) -> None:
    some = sales()
    url = "http://0.0.0.0:1/x"  # this machine, by an address that is no loopback
    error = caught(begun(sinks.opened(url=url, allow=["0.0.0.0"]), some), some, 2, ((1, "a"), 1))
    assert error.code == "sink.connect"
    assert "refused" in error.why


def test_a_redirect_is_not_followed(sinks: Hooks, receiver: HookReceiver) -> None:
    some = sales()
    sink = begun(sinks.opened(), some)
    with HookReceiver() as elsewhere:
        receiver.answers.append((307, {"Location": elsewhere.url}, ""))
        error = caught(sink, some, 2, ((1, "a"), 1))
        until_taken(sink)
        assert elsewhere.requests == []
    assert "redirects to" in error.next
    assert len(receiver.requests) == 2


def test_a_receiver_must_prove_who_it_is(sinks: Hooks, tmp_path: Path) -> None:
    some = sales()
    with HookReceiver(tls=certified(tmp_path, "127.0.0.1")) as secure:
        sink = begun(sinks.opened(url=secure.url), some)
        error = caught(sink, some, 2, ((1, "a"), 1))
        assert error.code == "sink.connect" and "certificate" in error.why and "`ca: FILE`" in error.next
        wrong = secure.url.replace("127.0.0.1", "localhost")
        with pytest.raises(HeadraceError) as found:
            sinks(url=wrong, ca="ca.crt").open()
        assert "certificate" in found.value.why
        assert secure.requests == []
        assert sinks(url=secure.url, ca="ca.crt").open() == 2
        assert [told["commit"] for told in secure.told()] == [2]


# ---- configuration


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        ({"url": "ftp://x/y"}, "config.invalid", "it does not begin with https://"),
        ({"url": "https://me:pw@example.com/"}, "config.invalid", "a user or a password in it"),
        ({"url": "https://example.com:99999/"}, "config.invalid", "no host and port"),
        ({"secret": []}, "config.invalid", "secret"),
        ({"on": "sometimes"}, "config.invalid", "'enter', 'leave' or 'change'"),
        ({"at_most": "often"}, "config.invalid", "10/hour"),
        ({"retry_for": "0s"}, "config.invalid", "30m, 12h or 3d"),
        ({"allow": [1]}, "config.invalid", "'allow[0]'"),
        ({"sekret": "x"}, "config.unknown_key", "did you mean 'secret'?"),
    ],
)  # fmt: skip
def test_a_wrong_option_is_told_by_name(sinks: Hooks, options: dict[str, Any], code: str, said: str) -> None:
    with pytest.raises(HeadraceError) as found:
        sinks(**options)
    assert found.value.code == code
    assert said in str(found.value)
    assert "pw" not in str(found.value)


@pytest.mark.parametrize("headers", [{"Host": "x"}, {"webhook-id": "x"}, {"a b": "x"}, {"X": "a\r\nY: b"}, {"X": "ü"}])
def test_a_header_that_cannot_be_set_is_refused(sinks: Hooks, receiver: HookReceiver, headers: dict[str, str]) -> None:
    some = sales()
    error = caught(begun(sinks.opened(headers=headers), some), some, 2, ((1, "a"), 1))
    assert error.code == "config.invalid"
    assert receiver.requests == []


@pytest.mark.parametrize("secret", ["plain text", "whsec_c2hvcnQ=", "whsec_%%%", "env:NOT_SET"])
def test_a_secret_that_is_none_is_told_and_not_shown(sinks: Hooks, secret: str) -> None:
    with pytest.raises(HeadraceError) as found:
        list(sinks(secret=secret).examine())
    assert found.value.code == "config.secret"
    assert secret.removeprefix("env:") not in str(found.value) or secret.startswith("env:")


def test_an_examination_connects_and_sends_nothing(sinks: Hooks, receiver: HookReceiver) -> None:
    findings = list(sinks().examine())
    assert [finding.state for finding in findings] == [OK, WARNING, OK]
    assert findings[-1].what == f"connects to http://127.0.0.1:{receiver.port}"
    assert receiver.requests == []
    for url, code in (("https://no.such.host.invalid/", "sink.connect"), ("https://127.0.0.1:1/", "sink.connect")):
        with pytest.raises(HeadraceError) as found:
            list(sinks(url=url).examine())
        assert found.value.code == code


def test_a_file_of_certificates_that_is_none_is_told(sinks: Hooks, tmp_path: Path) -> None:
    (tmp_path / "empty.pem").write_text("")
    for name in ("empty.pem", "missing.pem"):
        with pytest.raises(HeadraceError) as found:
            list(sinks(url="https://127.0.0.1:1/", ca=name).examine())
        assert (found.value.code, found.value.where) == ("config.invalid", WHERE)
        assert name in found.value.what


def test_a_host_is_looked_up_once_for_a_connection(
    sinks: Hooks, receiver: HookReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    look_up = socket.getaddrinfo

    def looking(host: str, *more: Any, **options: Any) -> Any:
        asked.append(host)
        return look_up(host, *more, **options)

    monkeypatch.setattr(socket, "getaddrinfo", looking)
    some = sales()
    sink = begun(sinks.opened(url=f"http://localhost:{receiver.port}/x"), some)
    changed(sink, some, 2, ((1, "a"), 1))
    changed(sink, some, 3, ((2, "b"), 1))
    assert len(receiver.requests) == 2
    assert asked.count("localhost") == 1  # then an address, which nobody can have changed meanwhile
    assert {*asked} <= {"localhost", "127.0.0.1", "::1"}
