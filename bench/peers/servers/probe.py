"""Asks a server whether it is ready."""

import struct

from .frames import API_VERSIONS, FIND_COORDINATOR, METADATA, Connection, Refused, string


def check(bootstrap: str) -> int:
    """One round of ApiVersions, Metadata and FindCoordinator; the number of APIs that the server has. Raises OSError
    while nobody answers, and Refused while it lacks a broker, a controller or a coordinator for groups."""
    with Connection(bootstrap) as connection:
        answer = connection.call(API_VERSIONS, 0, b"")
        answer.check("ApiVersions")
        apis = answer.number("i")

        answer = connection.call(METADATA, 1, struct.pack(">i", 0))
        brokers = answer.number("i")
        for _ in range(brokers):
            answer.number("i"), answer.string(), answer.number("i"), answer.string()
        if brokers == 0 or answer.number("i") < 0:
            raise Refused("Metadata names no broker or no controller")

        # Also has Kafka make its topic of offsets, which would otherwise be made while something is measured.
        answer = connection.call(FIND_COORDINATOR, 1, string("peers-probe") + b"\0")
        answer.number("i")
        answer.check("FindCoordinator")
        return apis
