"""Which addresses a request may go to: public ones and this machine; private ones for hosts that are named."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Collection

from headrace.model.errors import HeadraceError
from headrace.sinks.alerts.sink import Again
from headrace.sinks.connectors.webhook.config import Address

_IP = ipaddress.IPv4Address | ipaddress.IPv6Address
# IPv6 addresses whose last four bytes are an IPv4 one: of translators, mapped, and the old compatible ones.
_EMBEDDING = tuple(map(ipaddress.ip_network, ("64:ff9b::/96", "::ffff:0:0:0/96", "::/96")))
# Of no public network, though Python may say so: translators' own, site-local, protocols', and Azure's host.
_NEVER = tuple(
    map(ipaddress.ip_network, ("64:ff9b:1::/48", "fec0::/10", "192.0.0.0/24", "168.63.129.16/32", "100.64.0.0/10"))
)


def reachable(address: Address, allow: Collection[str], where: str = "") -> list[str]:
    """The addresses of the host, looked up once: who connects must use these. Raises ``Again``."""
    try:
        found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise Again(
            HeadraceError(
                "sink.connect",
                f"the host of {address.shown} has no address",
                where=where,
                why=error.strerror or str(error),
                next="check the `url` of the sink",
            )
        ) from error
    numbers = list(dict.fromkeys(str(sockaddr[0]) for *_, sockaddr in found))
    if address.host in {host.lower() for host in allow}:
        return numbers
    for number in numbers:
        ip = ipaddress.ip_address(number.partition("%")[0])
        if not _public(ip) and not _loopback(ip):
            raise _not_allowed(address, f"{address.host} is {number}, an address of a private network", where)
        if not address.secure and not _loopback(ip):
            raise _not_allowed(address, "without TLS everyone on the way could read the rows", where)
    return numbers


def _public(ip: _IP) -> bool:
    never = ip.is_multicast or any(ip in network for network in _NEVER)
    return ip.is_global and not never and all(map(_public, _inside(ip)))


def _loopback(ip: _IP) -> bool:
    inner = _inside(ip)
    return all(one.is_loopback for one in inner) if inner else ip.is_loopback


def _inside(ip: _IP) -> list[_IP]:
    """The IPv4 addresses that an IPv6 one stands for, by whichever way."""
    if isinstance(ip, ipaddress.IPv4Address):
        return []
    found: list[_IP] = [one for one in (ip.ipv4_mapped, ip.sixtofour, *(ip.teredo or ())) if one is not None]
    own = ip.is_loopback or ip.is_unspecified
    embeds = not own and any(ip in network for network in _EMBEDDING)
    return [*found, ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF)] if embeds else found


def _not_allowed(address: Address, why: str, where: str) -> Again:
    return Again(
        HeadraceError(
            "config.invalid",
            f"{address.shown} is not sent to",
            where=where,
            why=why,
            next=f"`allow: [{address.host}]` in the sink's file, if it is meant",
        )
    )
