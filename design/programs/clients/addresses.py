"""The two addresses that a streaming client is started with. Needs Python 3.10 alone.

--listen is the address of this computer at which it listens, no other network of the computer is reached. --controller
is the one controller whose packets are taken. Without both a client does not start.
"""

from __future__ import annotations

import argparse
import ipaddress
import socket

_OPTIONS = {"listen": "this computer's address on the controller's network", "controller": "the controller's address"}


def parse(parser: argparse.ArgumentParser) -> argparse.Namespace:
    """Read the command line with both addresses; where one is missing or not a single host's, exit with code 2."""
    for option, what in _OPTIONS.items():
        parser.add_argument(f"--{option}", metavar="ADDRESS", help=f"{what}, needed")
    given = parser.parse_args()
    example = f"for example: python {parser.prog} {given.run} --listen 192.168.1.100 --controller 192.168.1.1"
    for option, what in _OPTIONS.items():
        text = getattr(given, option)
        if text is None:
            parser.error(f"state {what} with --{option}; {example}")
        if not _one_host(text):
            parser.error(f"--{option} {text} is not {what}, which is four numbers of one host; {example}")
    return given


def bound(parser: argparse.ArgumentParser, address: str, port: int) -> socket.socket:
    """Open a UDP socket at one address of this computer; where that fails, exit with code 2."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        sock.bind((address, port))
    except (OSError, OverflowError) as error:
        sock.close()
        parser.error(f"cannot listen at {address}, port {port}: {error}; state one of this computer's own addresses")
    return sock


def _one_host(text: str) -> bool:
    """Tell whether a text is the IPv4 address of one host; 0.0.0.0 stands for all networks of a computer."""
    try:
        address = ipaddress.IPv4Address(text)
    except ValueError:
        return False
    return not (address.is_unspecified or address.is_multicast or address == ipaddress.IPv4Address("255.255.255.255"))
