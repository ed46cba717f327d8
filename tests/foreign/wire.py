# SPDX-License-Identifier: Apache-2.0
"""The two connections of a worker, and how it gets a certificate. Written from docs/protocol.md, docs/trust.md and
docs/formats/frames.md, enrolment.md, join-token.md and data-order.md; the messages are those of proto/atoll/v1."""
import base64
import hashlib
import http.client
import os
import pathlib
import queue
import re
import socket
import ssl
import subprocess
import sys
import tempfile

import crc32c
import grpc

from plan import digest_of

PROTO = pathlib.Path(__file__).resolve().parents[2] / "proto"
FRAME_BYTES = 1 << 18  # of payload: a quarter of what is allowed
STALL_SECONDS = 60
CERTIFICATE = re.compile(rb"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----\n", re.DOTALL)


def load_messages():
    """The modules job, record, transfer and worker of atoll.v1, made by protoc."""
    names = [f"atoll/v1/{name}.proto" for name in ("job", "worker", "transfer", "record")]
    with tempfile.TemporaryDirectory() as out:
        subprocess.run(["protoc", f"-I{PROTO}", f"--python_out={out}", *names], check=True)
        sys.path.insert(0, out)
        from atoll.v1 import job_pb2, record_pb2, transfer_pb2, worker_pb2
        sys.path.remove(out)
    return job_pb2, record_pb2, transfer_pb2, worker_pb2


job, record, transfer, worker = load_messages()


def to_digest(number):
    return worker.Digest(high=number >> 64, low=number & (1 << 64) - 1)


def from_digest(message):
    return message.high << 64 | message.low


# ---- docs/trust.md: identities; docs/formats/join-token.md

class JoinToken:
    def __init__(self, text):
        data = base64.urlsafe_b64decode(text.strip().removeprefix("atoll1-"))
        if len(data) != 60 or hashlib.sha256(data[:56]).digest()[:4] != data[56:]:
            raise ValueError("not a join token")
        self.authority, self.id, self.secret = data[:32], data[32:40].hex(), data[40:56]


def openssl(*arguments, given=b""):
    return subprocess.run(["openssl", *map(str, arguments)], input=given, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True).stdout


def shown_authority(endpoint, wanted):
    """The certificate of the authority, among those that the enrolment port shows, by its hash. Nothing was sent to that port so far."""
    shown = subprocess.run(["openssl", "s_client", "-connect", endpoint, "-servername", "server.atoll", "-showcerts"], stdin=subprocess.DEVNULL,
                           capture_output=True, check=False)
    for pem in CERTIFICATE.findall(shown.stdout):
        if hashlib.sha256(ssl.PEM_cert_to_DER_cert(pem.decode())).digest() == wanted:
            return pem
    raise ConnectionError(f"{endpoint} does not show the authority of the token")


def ask_for_certificate(endpoint, authority, request):
    """One POST over HTTPS/1.1 on the enrolment port."""
    host, port = endpoint.rsplit(":", 1)
    context = ssl.create_default_context(cadata=authority.decode())
    with context.wrap_socket(socket.create_connection((host, int(port)), timeout=30), server_hostname="server.atoll") as secured:
        connection = http.client.HTTPConnection(host)
        connection.sock = secured
        connection.request("POST", "/v1/enroll", request.SerializeToString(), {"Content-Type": "application/x-protobuf"})
        answer = connection.getresponse()
        body = answer.read()
    if answer.status != 200:
        told = worker.EnrollFailure.FromString(body).message if answer.getheader("Content-Type") == "application/x-protobuf" else body.decode()
        raise ConnectionError(f"enrolment was refused with {answer.status}: {told}")
    return worker.EnrollResponse.FromString(body)


class Identity:
    """Key, certificate and authorities, PEM; in an identity file in this order."""

    def __init__(self, key, certificate, authorities):
        self.key, self.certificate, self.authorities = key, certificate, authorities

    @classmethod
    def enrol(cls, endpoint, token_text, name):
        token = JoinToken(token_text)
        authority = shown_authority(endpoint, token.authority)
        key = openssl("genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256")
        request = worker.EnrollRequest(signing_request=cls.signing_request(key), token_id=token.id, token_secret=token.secret, name=name)
        answer = ask_for_certificate(endpoint, authority, request)
        return cls(key, answer.certificate.encode(), answer.authorities.encode() or authority)

    @staticmethod
    def signing_request(key):
        with tempfile.NamedTemporaryFile() as file:  # mode 0600
            file.write(key)
            file.flush()
            return openssl("req", "-new", "-key", file.name, "-subj", "/CN=ignored").decode()

    def renew(self, endpoint):
        request = worker.EnrollRequest(signing_request=self.signing_request(self.key), certificate=self.certificate.decode())
        answer = ask_for_certificate(endpoint, self.authorities, request)
        self.certificate, self.authorities = answer.certificate.encode(), answer.authorities.encode() or self.authorities

    def write(self, path):
        with open(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600), "wb") as file:
            file.write(self.key + self.certificate + self.authorities)


def dial(endpoint, identity=None):
    """A connection of its own: two of one process must not share a socket."""
    options = [("grpc.use_local_subchannel_pool", 1), ("grpc.max_receive_message_length", (1 << 20) + (64 << 10)),
               ("grpc.ssl_target_name_override", "server.atoll"), ("grpc.initial_reconnect_backoff_ms", 100), ("grpc.max_reconnect_backoff_ms", 1000)]
    if identity is None:
        return grpc.insecure_channel(endpoint, options[:2] + options[3:])
    credentials = grpc.ssl_channel_credentials(identity.authorities, identity.key, identity.certificate)
    return grpc.secure_channel(endpoint, credentials, options)


# ---- docs/protocol.md, Control

class Outbox:
    """What is still to be sent on a stream; gRPC takes from it."""

    def __init__(self):
        self.queue = queue.SimpleQueue()

    def put(self, message):
        self.queue.put(message)

    def close(self):
        self.queue.put(None)

    def __iter__(self):
        return iter(self.queue.get, None)


def control_stream(channel, outbox):
    call = channel.stream_stream("/atoll.v1.WorkerService/Control", worker.WorkerMessage.SerializeToString, worker.CoordinatorMessage.FromString)
    return call(iter(outbox))


# ---- docs/formats/frames.md

class BrokenTransfer(Exception):
    """A frame or the whole is not what was announced: worth another try."""


class Bulk:
    def __init__(self, channel, name):
        self.name, self.sent, self.received = name, 0, 0
        frame = transfer.Frame
        self.uploads = channel.stream_stream("/atoll.v1.TransferService/Upload", frame.SerializeToString, frame.FromString)
        self.downloads = channel.unary_stream("/atoll.v1.TransferService/Download", transfer.DownloadRequest.SerializeToString, frame.FromString)

    def upload(self, header, data):
        """Section Upload. Returns once all is durable; grpc.RpcError says why not."""
        outbox = Outbox()
        outbox.put(transfer.Frame(header=transfer.UploadHeader(contribution=header).SerializeToString()))
        call = self.uploads(iter(outbox))
        try:
            for answer in call:
                status = transfer.UploadStatus.FromString(answer.header)
                if status.accepted:
                    return
                self.send_from(status.resume_offset_bytes, data, outbox)
            raise BrokenTransfer("the upload ended without an acceptance")
        finally:
            outbox.close()
            call.cancel()

    def send_from(self, at, data, outbox):
        while True:
            payload = data[at:at + FRAME_BYTES]
            last = at + len(payload) == len(data)
            outbox.put(transfer.Frame(offset_bytes=at, crc32c=crc32c.crc32c(payload), last=last, payload=payload))
            self.sent, at = self.sent + len(payload), at + len(payload)
            if last:
                return

    def download(self, **key):
        """Section Download: the header and the bytes, whose CRC, order, size and digest are right."""
        call = self.downloads(transfer.DownloadRequest(worker=self.name, **key), timeout=STALL_SECONDS)
        header, parts, at = None, [], 0
        for frame in call:
            if header is None:
                header = transfer.DownloadHeader.FromString(frame.header)
                continue
            if frame.offset_bytes != at or crc32c.crc32c(frame.payload) != frame.crc32c:
                raise BrokenTransfer(f"a frame at {at} is damaged")
            parts.append(frame.payload)
            at += len(frame.payload)
            if frame.last != (at == header.total_bytes):
                raise BrokenTransfer("the last frame is not where the header says")
        data = b"".join(parts)
        announced = from_digest(header.digest)
        if len(data) != header.total_bytes or (announced and digest_of(data) != announced):
            raise BrokenTransfer("the whole is not what its header says")
        self.received += len(data)
        return header, data

    def checked(self, sha256, **key):
        """Content that is named by its SHA-256."""
        _, data = self.download(**key)
        if hashlib.sha256(data).hexdigest() != sha256:
            raise BrokenTransfer(f"what came is not {sha256}")
        return data
