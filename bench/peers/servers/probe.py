"""Asks a server by raw frames whether it is ready: all it takes to know, and no client to install."""

import socket
import struct

API_VERSIONS, METADATA, FIND_COORDINATOR = 18, 3, 10
# Of one answer; what is asked here is small.
FRAME_BYTES_MAX = 1 << 20
ANSWER_SECONDS_MAX = 30


class NotReady(Exception):
    """It answers, but does not serve yet; says what is missing."""


class Reader:
    """Reads the fields of a response one after the other."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def number(self, layout: str) -> int:
        (value,) = struct.unpack_from(f">{layout}", self.data, self.at)
        self.at += struct.calcsize(f">{layout}")
        return value

    def string(self) -> str | None:
        size = self.number("h")
        if size < 0:
            return None
        self.at += size
        return self.data[self.at - size:self.at].decode()


def check(bootstrap: str) -> int:
    """One round of ApiVersions, Metadata and FindCoordinator; the number of APIs that the server has. Raises OSError
    while nobody answers, and NotReady while it lacks a broker, a controller or a coordinator for groups."""
    host, port = bootstrap.rsplit(":", 1)
    with socket.create_connection((host, int(port)), timeout=ANSWER_SECONDS_MAX) as connection:
        answer = _call(connection, API_VERSIONS, 0, b"")
        if error := answer.number("h"):
            raise NotReady(f"ApiVersions is answered with error {error}")
        apis = answer.number("i")

        answer = _call(connection, METADATA, 1, struct.pack(">i", 0))
        brokers = answer.number("i")
        for _ in range(brokers):
            answer.number("i"), answer.string(), answer.number("i"), answer.string()
        if brokers == 0 or answer.number("i") < 0:
            raise NotReady("Metadata names no broker or no controller")

        # Also has Kafka make its topic of offsets, which would otherwise be made while something is measured.
        answer = _call(connection, FIND_COORDINATOR, 1, _string("peers-probe") + b"\0")
        answer.number("i")
        if error := answer.number("h"):
            raise NotReady(f"FindCoordinator is answered with error {error}")
        return apis


def _string(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()


def _call(connection: socket.socket, key: int, version: int, body: bytes) -> Reader:
    request = struct.pack(">hhi", key, version, 1) + _string("ringgate-peers") + body
    connection.sendall(struct.pack(">i", len(request)) + request)
    (size,) = struct.unpack(">i", _exactly(connection, 4))
    if not 4 <= size <= FRAME_BYTES_MAX:
        raise NotReady(f"an answer of {size} bytes")
    return Reader(_exactly(connection, size)[4:])


def _exactly(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        part = connection.recv(size - len(data))
        if not part:
            raise ConnectionResetError("it closed the connection")
        data += part
    return data
