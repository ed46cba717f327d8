# SPDX-License-Identifier: Apache-2.0
"""A worker of another protocol or arithmetic revision is refused with both numbers; so is a client that is not a
worker.

This test plays the worker: a hand-written gRPC call, so that its Hello can have values that no program of this tree
sends.

S15.
"""
import re

from atoll_harness import check, equal, main
from grpc_by_hand import DEADLINE_EXCEEDED, Connection, Fixed64, fields, message, one

SECONDS = 30


def hello(worker, protocol_revision, arithmetic_revision):
    """WorkerMessage{hello}, proto/atoll/v1/worker.proto."""
    return message((1, [(1, worker), (2, "0.0.0"), (3, protocol_revision), (4, arithmetic_revision), (5, Fixed64(12345)), (8, "cpu")]))


def call(port, content):
    """Sends one message on a control stream: returns the answer, if any, and the status at its end."""
    with Connection(port) as connection:
        stream = connection.call("/atoll.v1.WorkerService/Control")
        stream.send(content)
        answer = stream.answer(SECONDS)
        return answer, stream.end(SECONDS)


def refusal(port, content):
    """The message of Refused."""
    answer, _ = call(port, content)
    return one(fields(one(fields(answer), 13)), 1).decode()


def test(scene):
    coordinator = scene.coordinator()
    port = coordinator.ports["control"]
    said = refusal(port, hello("stranger", 999, 1))
    check(re.search(r"speaks protocol revision 1, the worker.* 999", said), f"protocol revision 999 was refused with {said!r}")
    said = refusal(port, hello("stranger", 1, 999))
    check(re.search(r"arithmetic revision 1.* 999", said), f"arithmetic revision 999 was refused with {said!r}")
    for nothing in (hello("Not A Name", 1, 1), b"\xff\xff\xff"):  # both end without an answer, and the coordinator continues
        answer, status = call(port, nothing)
        check(answer is None and status != DEADLINE_EXCEEDED, f"{nothing!r} was answered with {answer!r} and status {status}")
    equal(scene.atoll("-o", "name", "worker", "list", "--all").out, "", "the workers after all refusals")
    equal(coordinator.terminate(), 0, "the exit status of the coordinator")


main(test)
