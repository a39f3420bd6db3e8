"""Two ends of a UDP connection over loopback, both in this process."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager

PATIENCE = 5.0  # s


@contextmanager
def socket_pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Connect two sockets; what one sends the other receives."""
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as near,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as far,
    ):
        for end in (near, far):
            end.bind(("127.0.0.1", 0))
            end.settimeout(PATIENCE)
        near.connect(far.getsockname())
        far.connect(near.getsockname())
        yield near, far
