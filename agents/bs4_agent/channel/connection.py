"""One console's connection to the agent: handshake, calls, replies in any order, and a limit on
everything that it can occupy.
"""

from __future__ import annotations

import re
import socket
import threading
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from bs4_agent.streams.registry import WAIT_LIMIT_S, Streams
from bs4_agent.workers import Workers
from bs4_common.clock import stamp
from bs4_common.errors import AgentError, BadRequest, ProtocolError, ProtocolVersion, Refused
from bs4_common.streams.cursor import Chunk
from bs4_common.wire import PAYLOAD_LIMIT, PROTOCOLS, Decoder, Frame, encode, encode_head

#: Reads of one connection that may wait at the same time, and queries that may run.
WAITING_READS = 16
RUNNING_QUERIES = 4
#: Seconds for the client's first frame. Even a console behind a slow link sends it together with
#: the attach.
HELLO_S = 20.0
#: Seconds for this client's workers to notice that it has gone. A regular expression takes the
#: longest.
CLOSE_S = 5.0
RECEIVE_BYTES = 64 * 1024
WHO_LIMIT = 200
#: The streams that a console which may only look can read and query.
_LOOKED_AT = re.compile(r"\*|telemetry|journal|checkpoints|setup|(steps|log|report)/[^/].*")

Submit = Callable[..., dict[str, Any]]
"""`submit(action, who)`, with the frame's payload as a third argument if it has one."""


if TYPE_CHECKING:
    from bs4_common.greeting import AgentGreeting  # only for the type checker


Hello = Callable[[], "AgentGreeting"]
Admit = Callable[["Connection"], None]
"""Called when a console greets that may only look: sets `looks_only` of its connection. Raises
TooManyConsoles if there is no place.
"""


class Cancelled(AgentError):
    """The error that answers a read or a query if the console has cancelled it before its end."""

    type = "cancelled"


class TooManyConsoles(AgentError):
    """The error that a console gets if it connects while 16 consoles are connected to the agent, or
    if its key may only look and 12 consoles of that kind are connected.
    """

    type = "too-many-consoles"


class TooManyCalls(AgentError):
    """The error with which a call is answered if the connection already has 16 reads that wait, or
    4 queries.
    """

    type = "too-many-calls"


@dataclass(frozen=True)
class Reply:
    """The answer to one call of a console: `header` is the JSON object of the message without the
    call's id, and `payload` are the bytes that follow it.
    """

    header: dict[str, Any]
    payload: bytes = b""


@dataclass
class _Running:
    """A call in a worker: the stream that it waits for, and the event that stops it."""

    stream: str
    stop: threading.Event = field(default_factory=threading.Event)


class Connection:
    """The agent's end of the connection to one console, on the open socket `peer`. It answers the
    console's calls: reads of `streams`, queries, submitted actions and pings. A console that does
    not read its replies blocks only the threads of its own connection.

    `submit(action, who)` accepts an action and returns the fields of the reply; if the action comes
    with a payload (bytes), that is the third argument. `hello()` returns the fields of the answer
    to the handshake, except the protocol's version. `admit(connection)` is called if the console's
    key may only look. It sets `looks_only` of the connection to True, or raises TooManyConsoles if
    12 consoles of that kind are connected already.
    """

    def __init__(
        self,
        peer: socket.socket,
        streams: Streams,
        submit: Submit,
        hello: Hello,
        admit: Admit,
    ) -> None:
        self._socket = peer
        self._streams, self._submit, self._hello, self._admit = streams, submit, hello, admit
        self._decoder = Decoder()
        self._sending = threading.Lock()
        self._calls: dict[int, _Running] = {}
        self._working = 0
        self._calls_changed = threading.Condition()
        self._readers = Workers(WAITING_READS, "read")
        self._queries = Workers(RUNNING_QUERIES, "query")
        self._who = ""
        self.looks_only = False
        """True once the console has greeted, if its key may only look."""

    def serve(self) -> None:
        """Answer calls until the console closes the connection or does not keep to the protocol,
        then close the connection. An unexpected error ends this connection only; the agent
        continues.
        """
        try:
            self._serve()
        except (ProtocolError, TooManyConsoles) as error:
            self._last_words(error)
        except OSError:
            pass  # the client is gone, or sent no hello in time
        finally:
            self.close()
            # Only once no worker uses it any more: the number of a closed descriptor may at once
            # belong to another console.
            with self._calls_changed:
                self._calls_changed.wait_for(lambda: self._working == 0, CLOSE_S)
            self._socket.close()

    def close(self) -> None:
        """End the connection. Calls of this console that still run or wait are stopped and get no
        answer. This may be called from any thread.
        """
        try:
            # This comes first, so that stopped calls cannot answer "cancelled" to a client that
            # cancelled nothing.
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # closed by the client already
        self._readers.close()
        self._queries.close()
        with self._calls_changed:
            calls = list(self._calls.values())
        for running in calls:
            running.stop.set()
            self._streams.notify(running.stream)

    def _serve(self) -> None:
        """Greet the client and answer its calls until it closes its side."""
        self._socket.settimeout(HELLO_S)
        early = self._receive()
        self._socket.settimeout(None)
        if early:
            self._greet(early[0])
            for frame in early[1:]:
                self._handle(frame)
            while frames := self._receive():
                for frame in frames:
                    self._handle(frame)

    def _receive(self) -> list[Frame]:
        """Return at least one frame, or an empty list once the client has closed its side."""
        while data := self._socket.recv(RECEIVE_BYTES):
            if frames := self._decoder.feed(data):
                return frames
        return []

    def _greet(self, frame: Frame) -> None:
        """Answer the client's hello with a protocol that both know. Raises ProtocolError,
        ProtocolVersion or TooManyConsoles.
        """
        hello = frame.header.get("hello")
        offered = hello.get("protocols") if isinstance(hello, dict) else None
        if not isinstance(offered, list) or not isinstance(hello, dict):
            raise ProtocolError(
                "The first frame is no hello; only a bs4-console can talk to this socket."
            )
        common = [version for version in PROTOCOLS if version in offered]
        if not common:
            raise ProtocolVersion(
                f"This agent speaks protocol {list(PROTOCOLS)} and the console "
                f"{str(offered)[:60]}; update the older of the two."
            )
        self._who = str(hello.get("who", ""))[:WHO_LIMIT]
        answer: AgentGreeting = {**self._hello(), "protocol": common[0]}
        if hello.get("look"):
            self._admit(self)
            answer["look"] = True
        greeting = encode({"hello": answer})
        with self._sending:
            self._socket.sendall(greeting)

    def _handle(self, frame: Frame) -> None:
        """Answer one request, here or in a worker. A bad request is answered with an error, and so
        is one that meets a defect of the agent; only a request without an id ends the connection.
        """
        identifier = frame.header.get("id")
        if type(identifier) is not int:
            raise ProtocolError(
                "A request has no integer id; the channel is out of step, connect again."
            )
        try:
            reply = self._call(identifier, frame)
        except AgentError as error:
            reply = Reply({"error": error.as_dict()})
        except (OSError, RuntimeError):
            # A pod without a free thread: what this connection has counted is no longer right.
            raise
        except Exception as error:  # noqa: BLE001
            # A defect of ours must not look like a lost link, and cost the client its other calls.
            traceback.print_exc()
            reply = Reply({"error": _defect(error).as_dict()})
        if reply is not None:
            self._send(identifier, reply)

    def _call(self, identifier: int, frame: Frame) -> Reply | None:
        """Return the reply to a request, or None if a worker will send it."""
        call = frame.header.get("call")
        if self.looks_only:
            _refuse_to_act(frame)
        if call == "read":
            return self._read(identifier, frame)
        if call == "query":
            return self._query(identifier, frame)
        if call == "submit":
            action = _field(frame, "action", dict)
            more = [frame.payload] if frame.payload else []
            return Reply({"ok": True, **self._submit(action, self._who, *more)})
        if call == "ping":
            now = stamp()
            return Reply({"ok": True, "t": now["t"], "m": now["m"]})
        if call == "cancel":
            return self._cancel(_field(frame, "target", int))
        raise BadRequest(f"{str(call)[:40]!r} is no call; use read, query, submit, ping or cancel.")

    def _read(self, identifier: int, frame: Frame) -> Reply | None:
        """Return a piece of a stream, or None if a worker will send it. A read that has data or
        must not wait is answered on this thread: handing every piece of a long log to another
        thread would halve the throughput.
        """
        stream, cursor = _field(frame, "stream", str), _field(frame, "cursor", str)
        limit = min(_field(frame, "limit", int, PAYLOAD_LIMIT), PAYLOAD_LIMIT)
        wait = min(_field(frame, "wait", (int, float), 0), WAIT_LIMIT_S)
        seen = _field(frame, "seen", int, 0)

        def read(wait: float, stop: threading.Event | None = None) -> Chunk:
            try:
                return self._streams.read(stream, cursor, limit, wait, seen=seen, stop=stop)
            except OSError as error:
                raise AgentError(
                    f"{stream} cannot be read: {error.strerror}; look at its file on the pod."
                ) from error

        chunk = read(0.0)
        if wait <= 0 or chunk.more or chunk.gap is not None:
            return _chunk_reply(chunk)
        self._start(self._readers, identifier, stream, lambda stop: _chunk_reply(read(wait, stop)))
        return None

    def _query(self, identifier: int, frame: Frame) -> Reply | None:
        """Start a query in a worker."""
        stream, op = _field(frame, "stream", str), _field(frame, "op", str)
        own = ("id", "call", "stream", "op")
        arguments = {}
        for key, value in frame.header.items():
            if key not in own:
                arguments[key] = value

        def work(stop: threading.Event) -> Reply:
            try:
                result = self._streams.query(stream, op, arguments, stop)
                return Reply({"ok": True, "result": result})
            except OSError as error:
                raise AgentError(
                    f"{stream} cannot be searched: {error.strerror}; look at its file on the pod."
                ) from error

        self._start(self._queries, identifier, stream, work)
        return None

    def _cancel(self, target: int) -> Reply:
        """Stop the call with the id `target`, if it still runs."""
        with self._calls_changed:
            running = self._calls.get(target)
        if running is not None:
            running.stop.set()
            self._streams.notify(running.stream)
        return Reply({"ok": True})

    def _start(
        self,
        workers: Workers,
        identifier: int,
        stream: str,
        work: Callable[[threading.Event], Reply],
    ) -> None:
        """Give a call to a worker. Raises BadRequest if its id is in use, or TooManyCalls if all
        workers are busy.
        """
        running = _Running(stream)
        with self._calls_changed:
            if identifier in self._calls:
                raise BadRequest(f"Call {identifier} is still running; give every call its own id.")
            self._calls[identifier] = running
            self._working += 1
        if not workers.put(lambda: self._work(identifier, running.stop, work)):
            self._finish(identifier)
            self._rest()
            raise TooManyCalls(
                f"This connection has {WAITING_READS} reads waiting or {RUNNING_QUERIES} "
                "queries running; end one first."
            )

    def _work(
        self, identifier: int, stop: threading.Event, work: Callable[[threading.Event], Reply]
    ) -> None:
        """Run one call in a worker. Whatever happens, the client gets one reply or a closed
        connection.
        """
        answered = False
        try:
            try:
                reply = work(stop)
            except AgentError as error:
                reply = Reply({"error": error.as_dict()})
            if stop.is_set():
                reply = Reply({"error": Cancelled("The call was cancelled.").as_dict()})
            self._finish(identifier)
            self._send(identifier, reply)
            answered = True
        except OSError:
            pass  # the client is gone; closing below makes the receiving thread see it too
        finally:
            if not answered:
                self._finish(identifier)
                self.close()
            self._rest()

    def _finish(self, identifier: int) -> None:
        """Forget a call, so that its id can be used again."""
        with self._calls_changed:
            self._calls.pop(identifier, None)

    def _rest(self) -> None:
        """Count a worker as idle."""
        with self._calls_changed:
            self._working -= 1
            self._calls_changed.notify_all()

    def _send(self, identifier: int, reply: Reply) -> None:
        """Send a reply. A reply that is too large is replaced by an error."""
        try:
            head = encode_head({"id": identifier, **reply.header}, len(reply.payload))
        except ProtocolError as error:
            head, reply = encode_head({"id": identifier, "error": error.as_dict()}, 0), Reply({})
        with self._sending:
            if len(reply.payload) < RECEIVE_BYTES:
                self._socket.sendall(head + reply.payload)
            else:
                self._socket.sendall(head)
                self._socket.sendall(reply.payload)

    def _last_words(self, error: AgentError) -> None:
        """Send the error that ends the connection, if the client still listens."""
        try:
            with self._sending:
                self._socket.sendall(encode({"error": error.as_dict()}))
        except OSError:
            pass  # nobody listens


def _refuse_to_act(frame: Frame) -> None:
    """Raise Refused if a console that may only look may not send this request. It may read and
    query the streams that the agent keeps of itself: telemetry, journal, steps and the logs of
    runs. Everything else is refused, also what a later version adds: any file of the pod, and the
    checks before a launch, which start programs of the pod with what the request says.
    """
    call = frame.header.get("call")
    if call in ("ping", "cancel"):
        return
    if call in ("read", "query") and _LOOKED_AT.fullmatch(str(frame.header.get("stream"))):
        return
    raise Refused(
        "Nothing was done: this key may only look at runs, their logs and telemetry; use a key "
        "that may act."
    )


def _defect(error: Exception) -> AgentError:
    """Return the error with which a request is answered that has met a defect of the agent."""
    return AgentError(
        f"The agent has a defect here ({type(error).__name__}: {str(error)[:200]}); its traceback "
        "is in ~/.bs4/agent.log. Look at the journal for what was done, and report it."
    )


def _chunk_reply(chunk: Chunk) -> Reply:
    """Return the reply for a piece of a stream."""
    header = {
        "ok": True,
        "start": chunk.start,
        "next": chunk.next,
        "gap": chunk.gap,
        "partial": chunk.partial,
        "more": chunk.more,
    }
    return Reply(header, chunk.data)


def _field(frame: Frame, name: str, kind: type | tuple[type, ...], default: Any = None) -> Any:
    """Return a field of a request if it has the right type, or `default` if it is absent. Raises
    BadRequest for a wrong type.
    """
    value = frame.header.get(name, default)
    if not isinstance(value, kind) or isinstance(value, bool):
        raise BadRequest(
            f"`{name}` is missing or has the wrong type in a {str(frame.header.get('call'))[:20]} "
            "request; see the protocol."
        )
    return value
