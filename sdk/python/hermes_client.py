"""A client of the Hermes Mobile protocol v1: one device, one WebSocket, JSON frames both ways.

    async def main() -> None:
        client = HermesClient("ws://127.0.0.1:8787/ws", token, Device("tel-1", "Phone"))
        client.set_handlers(Handlers(on_message=lambda message: print(message.text)))
        async with client:  # connected from here on, and again whenever the connection breaks
            await client.send_text("hi")
            await client.wait_closed()

It needs Python 3.11 and the library websockets, 10.4 or newer. A client belongs to one event loop.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import importlib
import inspect
import itertools
import json
import logging
import os
import random
import secrets
import urllib.parse
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Protocol, TypeVar

from websockets.exceptions import ConnectionClosed, InvalidHandshake, WebSocketException

PROTOCOL_VERSION = 1
MAX_FRAME_BYTES = 16 * 1024 * 1024  # one WebSocket message in either direction
MAX_MEDIA_BYTES = 8 * 1024 * 1024  # one file in either direction
MEDIA_CHUNK_BYTES = 3 * 1024 * 1024  # of a file's content in one frame

ConnectionState = Literal["idle", "connecting", "connected", "reconnecting", "failed"]
MediaSource = str | os.PathLike[str] | bytes | bytearray | memoryview  # a string is a path

_FIRST_BACKOFF = 0.5
_PING_EVERY, _PONG_WITHIN = 45, 15  # find a link that died without a word
_ANSWER_WITHIN = 30  # to ping and deliver; some gateways confirm no delivery
_REFUSED, _REPLACED, _BROKEN = 1008, 4001, 1006  # close codes
_KINDS = ("image", "video", "document", "audio")  # of files for the agent


# What the application gives and hears.


@dataclass(frozen=True)
class Device:
    """The application as the gateway sees it. The id stays the same over all runs."""

    id: str = ""
    name: str = ""
    platform: str = ""
    app_version: str = ""


@dataclass(frozen=True)
class User:
    """The person at the device."""

    id: str = ""
    name: str = ""


@dataclass(frozen=True)
class Capabilities:
    """What the gateway can do. An older one leaves out what stands after typing."""

    text: bool = True
    voice: bool = True
    typing: bool = True
    avatar_states: tuple[str, ...] = ()
    media_in: tuple[str, ...] = ()
    media_out: tuple[str, ...] = ()
    prompts: tuple[str, ...] = ()
    edit: bool = False
    max_media_bytes: int = 0
    max_text_chars: int = 0


@dataclass(frozen=True)
class Ready:
    v: int = 0
    session: str = ""
    avatar_url: str = ""
    device: Device = Device()
    capabilities: Capabilities = Capabilities()


@dataclass(frozen=True)
class Message:
    """A piece of what the agent says. The pieces of one reply have one id, and the last one is final."""

    id: str = ""
    text: str = ""
    index: int = 0
    total: int = 1
    final: bool = False
    edit: bool = False  # text is the whole text so far, in place of what was shown under this id
    whole: str = ""  # all pieces so far, joined


@dataclass(frozen=True)
class Media:
    """A whole file from the agent. The file name is not to be trusted as a path."""

    id: str = ""
    kind: str = ""  # image, video, document, audio, voice or animation
    mime: str = ""
    filename: str = ""
    caption: str = ""
    size: int = 0
    data: bytes | None = None  # None beside a url
    url: str = ""  # where the application fetches the file itself
    reply_to: str = ""  # id of the message that the file answers


@dataclass(frozen=True)
class MediaProgress:
    """How much of a file in several parts has arrived."""

    id: str
    received: int
    size: int


@dataclass(frozen=True)
class PromptOption:
    id: str = ""
    label: str = ""
    style: str = ""  # primary, danger or nothing


@dataclass(frozen=True)
class Prompt:
    """A card: a question that answer_prompt answers. One still open comes again after a reconnect."""

    id: str = ""
    kind: str = ""  # exec_approval, slash_confirm or clarify
    text: str = ""
    options: tuple[PromptOption, ...] = ()
    session: str = ""
    timeout_seconds: int = 0
    command: str = ""  # exec_approval: exactly what will run
    description: str = ""


@dataclass(frozen=True)
class PromptDone:
    """The card is closed. The option is the choice that took effect, which need not be the one that was sent."""

    id: str = ""
    option_id: str = ""
    expired: bool = False


@dataclass(frozen=True)
class Delivered:
    """A delivery was handed to its device."""

    id: str = ""
    device: str = ""


@dataclass(frozen=True)
class ProtocolError:
    """What went wrong. From the client itself come offline, no_answer, transport and replaced."""

    code: str = ""
    message: str = ""  # for a person
    fatal: bool = False  # trying again is pointless
    id: str = ""  # of the message or the card that it is about, where there is one
    retry_after_ms: int = 0  # rate_limited: when to send again


class HermesError(Exception):
    """A verb did not do what it should, or the gateway refused this device for good."""

    def __init__(self, error: ProtocolError) -> None:
        super().__init__(f"{error.code}: {error.message}")
        self.error = error
        self.code = error.code


@dataclass
class Handlers:
    """Callbacks, plain functions or coroutine functions, one after the other in the order in which things happened.

    They may use all verbs of the client. What one raises goes to the exception handler of the event loop.
    """

    on_state: Callable[[ConnectionState, str], Awaitable[None] | None] | None = None
    on_ready: Callable[[Ready], Awaitable[None] | None] | None = None
    on_message: Callable[[Message], Awaitable[None] | None] | None = None
    on_message_edit: Callable[[Message], Awaitable[None] | None] | None = None
    on_typing: Callable[[], Awaitable[None] | None] | None = None
    on_typing_stop: Callable[[], Awaitable[None] | None] | None = None
    on_avatar: Callable[[str], Awaitable[None] | None] | None = None
    on_prompt: Callable[[Prompt], Awaitable[None] | None] | None = None
    on_prompt_done: Callable[[PromptDone], Awaitable[None] | None] | None = None
    on_media: Callable[[Media], Awaitable[None] | None] | None = None
    on_media_progress: Callable[[MediaProgress], Awaitable[None] | None] | None = None
    on_pong: Callable[[Any], Awaitable[None] | None] | None = None  # one that no ping waits for
    on_delivered: Callable[[Delivered], Awaitable[None] | None] | None = None  # one that no deliver waits for
    on_error: Callable[[ProtocolError], Awaitable[None] | None] | None = None


def make_id() -> str:
    """Makes an id for a message. Sending again with the same id is safe: the gateway takes an id once."""
    return secrets.token_hex(12)


# Frames.


class _Void(Exception):
    """A frame that is not what it says it is; it is ignored, as one of an unknown type is."""


_T = TypeVar("_T")


def _take(kind: type[_T], frame: Any, *names: str) -> _T:
    """Reads the named fields, whose defaults say which type they have; null counts as absent."""
    if not isinstance(frame, dict):
        raise _Void
    default = kind()
    values: dict[str, Any] = {}
    for name in names or [f.name for f in fields(default)]:
        value, sample = frame.get(name), getattr(default, name)
        if value is None:
            continue
        if isinstance(sample, tuple):
            if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
                raise _Void
            value = tuple(value)
        elif type(value) is not type(sample):
            raise _Void
        values[name] = value
    return kind(**values)


@dataclass(frozen=True)
class _Chunk:
    index: int = 0
    total: int = 1


@dataclass(frozen=True)
class _Part:
    part: int = 0
    parts: int = 1


@dataclass(frozen=True)
class _Stop:
    stop: bool = False


@dataclass(frozen=True)
class _Avatar:
    state: str = ""


def _object(f: dict[str, Any], name: str) -> Any:
    value = f.get(name)
    return {} if value is None else value


def _ready(f: dict[str, Any]) -> Ready:
    ready = _take(Ready, f, "v", "session", "avatar_url")
    device = _take(Device, _object(f, "device"), "id", "name")
    return replace(ready, device=device, capabilities=_take(Capabilities, _object(f, "capabilities")))


def _message(f: dict[str, Any]) -> Message:
    chunk = _take(_Chunk, _object(f, "chunk"))
    return replace(_take(Message, f, "id", "text", "final", "edit"), index=chunk.index, total=chunk.total)


def _prompt(f: dict[str, Any]) -> Prompt:
    options = f.get("options")
    if options is None:
        options = []
    if not isinstance(options, list):
        raise _Void
    names = "id", "kind", "text", "session", "timeout_seconds", "command", "description"
    return replace(_take(Prompt, f, *names), options=tuple(_take(PromptOption, o) for o in options))


def _media(f: dict[str, Any]) -> tuple[Media, _Part]:
    media = _take(Media, f, "id", "kind", "mime", "filename", "caption", "size", "url", "reply_to")
    data = f.get("data")
    if data is not None:
        try:
            media = replace(media, data=base64.b64decode(data, validate=True))
        except (TypeError, ValueError, binascii.Error):
            raise _Void from None
    return media, _take(_Part, f)


def _avatar(f: dict[str, Any]) -> str:
    state = _take(_Avatar, f).state
    return state if state in ("thinking", "speaking") else "idle"


_READERS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "ready": _ready,
    "message": _message,
    "media": _media,
    "prompt": _prompt,
    "prompt_done": lambda f: _take(PromptDone, f),
    "avatar": _avatar,
    "typing": lambda f: _take(_Stop, f).stop,
    "pong": lambda f: f.get("ts"),
    "delivered": lambda f: _take(Delivered, f),
    "error": lambda f: _take(ProtocolError, f),
}


def _read(raw: str | bytes) -> tuple[str, Any] | None:
    """One frame: its type and what it says; None when it is to be ignored."""
    try:
        frame = json.loads(raw)
        kind = frame["t"].lower()
        return kind, _READERS[kind](frame)
    except (_Void, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def _encode(frame: dict[str, Any]) -> str:
    """One frame as JSON; what is None is left out."""

    def given(fields: dict[str, Any]) -> dict[str, Any]:
        known = {name: value for name, value in fields.items() if value is not None}
        return {name: given(value) if isinstance(value, dict) else value for name, value in known.items()}

    return json.dumps(given(frame), separators=(",", ":"))


class _Texts:
    """Joins the pieces of long messages. It keeps only those that are not complete, and the newest of them."""

    MOST, MOST_CHARS = 32, 4 * 1024 * 1024

    def __init__(self) -> None:
        self._open: dict[str, tuple[int, str]] = {}  # the last index and the text so far, oldest first

    def add(self, m: Message) -> Message:
        last, whole = self._open.pop(m.id, (-1, ""))
        if m.edit or m.index == 0 or last < 0:
            last, whole = m.index, m.text
        elif m.index > last:  # else it comes twice
            last, whole = m.index, whole + m.text
        if not m.final and last + 1 < m.total:
            self._open[m.id] = last, whole
            while len(self._open) > self.MOST or sum(len(text) for _, text in self._open.values()) > self.MOST_CHARS:
                del self._open[next(iter(self._open))]
        return replace(m, whole=whole)


class _Files:
    """Joins the parts of files, in whichever order they come. It keeps only files that are not complete."""

    MOST, MOST_PARTS = 8, 2048

    def __init__(self) -> None:
        self._open: dict[str, tuple[Media, int, dict[int, bytes]]] = {}

    def add(self, media: Media, at: _Part) -> Media | MediaProgress | None:
        if at.parts == 1 or media.data is None:
            return media
        if not 0 <= at.part < at.parts <= self.MOST_PARTS:
            return None
        if media.id in self._open and self._open[media.id][1] != at.parts:
            del self._open[media.id]  # begun again as another file
        if media.id not in self._open:
            if len(self._open) == self.MOST:
                return None
            self._open[media.id] = replace(media, data=None), at.parts, {}
        first, _, parts = self._open[media.id]
        parts[at.part] = media.data
        received = sum(map(len, parts.values()))
        if received > min(first.size, MAX_MEDIA_BYTES):
            del self._open[media.id]
            return None
        if len(parts) < at.parts:
            return MediaProgress(media.id, received, first.size)
        del self._open[media.id]
        return replace(first, data=b"".join(parts[i] for i in range(at.parts))) if received == first.size else None


# The connection.


class _Socket(Protocol):
    async def recv(self) -> str | bytes: ...
    async def send(self, message: str) -> None: ...
    async def close(self) -> None: ...


async def _leave_unread(socket: _Socket) -> None:
    """Reads to the end, behind which the answer to a goodbye stands."""
    try:
        while True:
            await socket.recv()
    except ConnectionClosed:
        pass


async def _part(socket: _Socket) -> None:
    """Says goodbye and sees it through, for a few seconds at most, also where the task is cancelled meanwhile."""
    parting = asyncio.gather(socket.close(), _leave_unread(socket))
    try:
        await asyncio.shield(parting)
    except asyncio.CancelledError:
        await asyncio.wait([parting])
        raise


# At level DEBUG the library logs every frame, and the token is in the first.
_wire = logging.getLogger("hermes_client.wire")
_wire.setLevel(logging.INFO)


def _connector() -> Callable[..., Awaitable[_Socket]]:
    """The library's way to connect, under its new name or its old one."""
    try:
        module = importlib.import_module("websockets.asyncio.client")
    except ModuleNotFoundError:
        module = importlib.import_module("websockets.legacy.client")
    # The hello carries the token, so it goes to the host that was asked for and to no other: no redirects.
    rules = {"MAX_REDIRECTS_ALLOWED": 1, "process_redirect": lambda self, exc: exc}
    connect: Callable[..., Awaitable[_Socket]] = type("connect", (module.connect,), rules)
    return connect


_connect = _connector()


class _Events:
    """What was read and not told yet. When it is too much, reading waits."""

    MOST_BYTES = 16 * 1024 * 1024
    EVENT_BYTES = 1024

    def __init__(self) -> None:
        self._waiting: deque[tuple[str, tuple[Any, ...], int]] = deque()
        self._held = 0
        self._changed = asyncio.Event()
        self._taken = asyncio.Event()

    async def put(self, name: str, *args: Any, size: int = 0) -> None:
        size += self.EVENT_BYTES
        while self._held and self._held + size > self.MOST_BYTES:
            self._taken.clear()
            await self._taken.wait()
        self.put_now(name, *args, size=size)

    def put_now(self, name: str, *args: Any, size: int = 0) -> None:
        self._waiting.append((name, args, size))
        self._held += size
        self._changed.set()

    def end(self) -> None:
        self.put_now("")

    async def take(self) -> tuple[str, tuple[Any, ...]]:
        while not self._waiting:
            self._changed.clear()
            await self._changed.wait()
        name, args, size = self._waiting.popleft()
        self._held -= size
        self._taken.set()
        return name, args


@dataclass
class _Gone:
    """How a connection ended."""

    code: int
    error: ProtocolError
    told: bool = False  # the application knows the error, or need not
    up: float = 0  # seconds for which it was ready


def _why(e: Exception) -> str:
    """A sentence for a person, without what the other side sent."""
    if isinstance(e, TimeoutError):
        return "the gateway did not answer in time"
    status = getattr(getattr(e, "response", None), "status_code", None) or getattr(e, "status_code", None)
    if isinstance(status, int):
        return f"no gateway at this address: HTTP {status}"
    if isinstance(e, InvalidHandshake):
        return "no gateway at this address"
    if isinstance(e, OSError) and e.strerror:
        return e.strerror
    return "the gateway cannot be reached"


class HermesClient:
    """Keeps one device connected from connect to disconnect and tells what happens by callbacks.

    Every verb that sends raises HermesError with the code ``offline`` while there is no ready connection. What the
    gateway refuses comes later, to on_error, with the id that the verb returned; ping and deliver wait for their answer.
    """

    def __init__(
        self,
        url: str,
        token: str,
        device: Device,
        *,
        user: User = User(),
        handlers: Handlers | None = None,
        max_backoff: float = 15.0,  # the longest pause between two attempts, in seconds
        open_timeout: float = 10.0,  # how long an attempt may take until the gateway is ready, in seconds
        reconnect_when_replaced: bool = False,  # also when another instance took over as this device
    ) -> None:
        if not _is_address(url):
            raise ValueError("the address must look like ws://host:8787/ws or wss://host/ws")
        if not token:
            raise ValueError("a token is needed")
        self._url, self._token, self._device, self._user = url, token, device, user
        self._handlers = replace(handlers) if handlers else Handlers()
        self._max_backoff, self._open_timeout = max_backoff, open_timeout
        self._reconnect_when_replaced = reconnect_when_replaced
        self._state: ConnectionState = "idle"
        self._socket: _Socket | None = None  # a ready one
        self._answers: dict[tuple[str, str | int], asyncio.Future[Any]] = {}
        self._pings = itertools.count(1)
        self._failure: ProtocolError | None = None
        self._running: asyncio.Task[None] | None = None
        self._telling: asyncio.Task[None] | None = None

    @property
    def state(self) -> ConnectionState:
        return self._state

    @property
    def ready(self) -> bool:
        return self._socket is not None

    def set_handlers(self, handlers: Handlers) -> None:
        """Puts further callbacks in place of those of the same name."""
        for f in fields(handlers):
            callback = getattr(handlers, f.name)
            if callback is not None:
                setattr(self._handlers, f.name, callback)

    async def connect(self) -> Ready:
        """Connects, and stays connected. Returns when the gateway is ready; raises when it refuses for good.

        While the client connects again, a further call waits for that.
        """
        begins = self._running is None or self._running.done()
        if begins:
            events = _Events()
            self._failure = None
            self._welcome: asyncio.Future[Ready] = asyncio.get_running_loop().create_future()
            self._telling = asyncio.create_task(self._tell(events))
            self._running = asyncio.create_task(self._run(events))
        try:
            return await asyncio.shield(self._welcome)
        except asyncio.CancelledError:
            if begins:
                await self.disconnect()
            raise

    async def disconnect(self) -> None:
        """Says goodbye. Once it returns, nothing of the client is left, unless a callback calls it."""
        if self._running is not None:
            if not self._running.cancelling():
                self._running.cancel()
            await asyncio.wait([self._running])
        if self._telling is not None and self._telling is not asyncio.current_task():
            await asyncio.wait([self._telling])

    async def wait_closed(self) -> None:
        """Waits for disconnect and the last callback; raises when the gateway refuses this device for good."""
        if self._telling is not None:
            if self._telling is asyncio.current_task():
                raise RuntimeError("a callback cannot wait for the end of all callbacks")
            await asyncio.wait([self._telling])
        if self._failure is not None:
            raise HermesError(self._failure)
        if self._running is not None and self._running.done() and not self._running.cancelled():
            self._running.result()  # what is a fault of the client is not a goodbye

    async def __aenter__(self) -> HermesClient:
        await self.connect()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, e: BaseException | None, tb: TracebackType | None) -> None:
        await self.disconnect()

    # Verbs.

    async def send_text(self, text: str, message_id: str = "") -> str:
        """Sends one message to the agent. Returns its id."""
        return await self._send({"t": "text", "id": message_id or make_id(), "text": text})

    async def send_audio(
        self, source: MediaSource, format: Literal["wav", "ogg"], transcript: str = "", message_id: str = ""
    ) -> str:
        """Sends a voice message; the transcript is what is said in it. Returns its id."""
        frame = {"t": "audio", "id": message_id or make_id(), "format": format, "text": transcript or None}
        return await self._send({**frame, "data": base64.b64encode(await _content(source)).decode()})

    async def send_typing(self) -> None:
        """The user is typing."""
        await self._send({"t": "typing"})

    async def acknowledge(self, message_id: str) -> None:
        """The message was shown, or played."""
        await self._send({"t": "ack", "id": message_id})

    async def ping(self) -> float:
        """Asks the gateway for a sign of life. Returns how long the way there and back took, in seconds."""
        loop = asyncio.get_running_loop()
        ts, sent = next(self._pings), loop.time()
        came: float = await self._ask("pong", ts, {"t": "ping", "ts": ts})
        return came - sent

    async def answer_prompt(self, prompt_id: str, option_id: str = "", text: str = "") -> None:
        """Answers a card: with one of its options, with a text (clarify), or with both."""
        if not prompt_id:
            raise ValueError("the id of the card is missing")
        if not option_id and not text:
            raise ValueError("an option or a text is needed to answer a card")
        await self._send({"t": "prompt", "prompt_id": prompt_id, "option_id": option_id.lower() or None, "text": text or None})

    async def send_media(
        self,
        kind: str,
        source: MediaSource,
        *,
        mime: str = "",
        filename: str = "",
        caption: str = "",
        message_id: str = "",
        chunk_bytes: int = MEDIA_CHUNK_BYTES,
    ) -> str:
        """Sends a file, in several frames when it is large. Returns its id.

        All frames go over one connection. When that breaks in between, send the file again with the same message_id.
        """
        kind = kind.lower()
        if kind not in _KINDS:
            raise ValueError(f"the kind of a file is one of {', '.join(_KINDS)}")
        if chunk_bytes < 1:
            raise ValueError("chunk_bytes is a number of bytes")
        socket = self._socket
        content = await _content(source)
        filename = _name(source, filename)
        head = {
            "t": "media", "id": message_id or make_id(), "kind": kind, "mime": mime or _guess_mime(filename),
            "filename": filename or None, "caption": caption or None,
        }  # fmt: skip
        parts = range(0, len(content), chunk_bytes)
        for part, start in enumerate(parts):
            data = base64.b64encode(content[start : start + chunk_bytes]).decode()
            await self._send({**head, "data": data, "part": part, "parts": len(parts)}, over=socket)
        return str(head["id"])

    async def send_image(
        self, source: MediaSource, *, mime: str = "", filename: str = "", caption: str = "", message_id: str = ""
    ) -> str:
        """Sends a picture. Returns its id."""
        return await self.send_media("image", source, mime=mime, filename=filename, caption=caption, message_id=message_id)

    async def send_document(
        self, source: MediaSource, *, mime: str = "", filename: str = "", caption: str = "", message_id: str = ""
    ) -> str:
        """Sends a file of any type. Returns its id."""
        return await self.send_media("document", source, mime=mime, filename=filename, caption=caption, message_id=message_id)

    async def send_voice(
        self, source: MediaSource, *, mime: str = "", filename: str = "", caption: str = "", message_id: str = ""
    ) -> str:
        """Sends a recording as a file; the caption is what is said in it. Returns its id."""
        return await self.send_media("audio", source, mime=mime, filename=filename, caption=caption, message_id=message_id)

    async def deliver(
        self,
        target: str = "",
        text: str = "",
        *,
        kind: str = "",
        source: MediaSource | None = None,
        mime: str = "",
        filename: str = "",
        message_id: str = "",
    ) -> str:
        """Brings a text, a file of some kind, or both before another device. Returns which one, once that is done.

        The gateway lets tokens for deliveries do so, and programs of its own host and user. What it refuses is raised as
        HermesError: ``device_offline`` or ``forbidden``, say. After ``offline`` it may have been delivered: with the same
        message_id it is not delivered twice.
        """
        if not text and source is None:
            raise ValueError("a text or a file is needed for a delivery")
        frame: dict[str, Any] = {"t": "deliver", "id": message_id or make_id(), "target": target or None, "text": text or None}
        if source is not None:
            data = base64.b64encode(await _content(source)).decode()
            label = {"kind": kind.lower(), "mime": mime or None, "filename": _name(source, filename) or None}
            frame["media"] = {**label, "data": data}
        device: str = await self._ask("delivered", frame["id"], frame)
        return device

    async def _send(self, frame: dict[str, Any], over: _Socket | None = None) -> str:
        """Sends a frame over the ready connection, which must be a certain one if that is given."""
        socket = self._socket
        if socket is None or over is not None and socket is not over:
            raise HermesError(_OFFLINE)
        try:
            await socket.send(_encode(frame))
        except ConnectionClosed:
            raise HermesError(_OFFLINE) from None
        return str(frame.get("id", ""))

    async def _ask(self, answer: str, name: str | int, frame: dict[str, Any]) -> Any:
        """Sends a frame and waits for its answer."""
        if (answer, name) in self._answers:
            raise ValueError("a delivery with this id is under way")
        waiting = self._answers[answer, name] = asyncio.get_running_loop().create_future()
        try:
            await self._send(frame)
            async with asyncio.timeout(_ANSWER_WITHIN):
                return await waiting
        except TimeoutError:
            raise HermesError(ProtocolError("no_answer", "the gateway did not answer in time")) from None
        finally:
            del self._answers[answer, name]
            if not waiting.cancel() and not waiting.cancelled():
                waiting.exception()  # which may have come while the frame was being sent

    # The two tasks: one reads, the other one calls back.

    async def _tell(self, events: _Events) -> None:
        me = asyncio.current_task()
        while True:
            name, args = await events.take()
            if not name:
                return
            callback = getattr(self._handlers, name)
            if callback is None:
                continue
            try:
                result = callback(*args)
                if inspect.isawaitable(result):
                    await result
            except (Exception, asyncio.CancelledError) as e:
                if me is not None and me.cancelling():
                    raise  # this task was cancelled, and not what the callback waited for
                context = {"message": f"{name} of a HermesClient failed", "exception": e}
                asyncio.get_running_loop().call_exception_handler(context)

    async def _run(self, events: _Events) -> None:
        """Connects again and again, until it is cancelled or the gateway refuses for good."""
        attempts = 0
        try:
            await self._become(events, "connecting")
            while True:
                gone = await self._live(events)
                if self._is_final(gone):
                    self._failure = gone.error
                    await self._become(events, "failed", gone.error.code)
                if not gone.told:
                    await events.put("on_error", gone.error)
                if self._failure is not None:
                    return
                # Only a connection that outlived the longest pause counts as a success: a gateway may take devices and
                # drop them at once.
                attempts = 1 if gone.up > self._max_backoff else attempts + 1
                await self._become(events, "reconnecting", f"attempt {attempts}")
                await asyncio.sleep(random.uniform(0, min(self._max_backoff, _FIRST_BACKOFF * 2 ** min(attempts - 1, 16))))
        finally:
            if self._failure is None:
                self._state = "idle"
                events.put_now("on_state", "idle", "")
            if not self._welcome.done():
                self._welcome.set_exception(HermesError(self._failure or _OFFLINE))
                self._welcome.exception()  # nobody may be waiting
            events.end()

    async def _become(self, events: _Events, state: ConnectionState, detail: str = "") -> None:
        self._state = state
        await events.put("on_state", state, detail)

    def _is_final(self, gone: _Gone) -> bool:
        """A fatal error whose close frame was lost is final as well."""
        if gone.code == _REPLACED:
            return not self._reconnect_when_replaced
        return gone.code == _REFUSED or gone.code == _BROKEN and gone.error.fatal

    async def _live(self, events: _Events) -> _Gone:
        """One connection, from the attempt to its end."""
        loop = asyncio.get_running_loop()
        socket: _Socket | None = None
        fatal: ProtocolError | None = None
        since = 0.0
        try:
            async with asyncio.timeout(self._open_timeout) as limit:
                socket = await _connect(
                    self._url, open_timeout=None, close_timeout=1, ping_interval=_PING_EVERY, ping_timeout=_PONG_WITHIN,
                    max_size=MAX_FRAME_BYTES, max_queue=1, compression=None, logger=_wire,
                )  # fmt: skip
                await socket.send(self._hello())
                texts, files = _Texts(), _Files()
                while True:
                    raw = await socket.recv()
                    frame = _read(raw)
                    if frame is None:
                        continue
                    kind, said = frame
                    if kind == "ready" and not since:
                        limit.reschedule(None)
                        since = loop.time()
                        self._socket = socket
                        if not self._welcome.done():
                            self._welcome.set_result(said)
                        await self._become(events, "connected")
                    if kind == "error" and said.fatal:
                        fatal = said
                    await self._hear(events, kind, said, len(raw), texts, files)
        except ConnectionClosed as e:
            return self._gone(e, fatal, loop.time() - since if since else 0)
        except (OSError, TimeoutError, WebSocketException) as e:
            return _Gone(_BROKEN, ProtocolError("transport", _why(e)))
        finally:
            self._socket = None
            if self._welcome.done():
                self._welcome = loop.create_future()
            for waiting in self._answers.values():
                if not waiting.done():
                    waiting.set_exception(HermesError(_OFFLINE))
            if socket is not None:
                await _part(socket)

    def _gone(self, e: ConnectionClosed, fatal: ProtocolError | None, up: float) -> _Gone:
        code, reason = (e.rcvd.code, e.rcvd.reason) if e.rcvd else (_BROKEN, "")
        if fatal is not None:
            return _Gone(code, fatal, True, up)
        if code in (_REFUSED, _REPLACED):
            name = "replaced" if code == _REPLACED else reason if reason.replace("_", "").isalpha() else "auth_failed"
            return _Gone(code, ProtocolError(name, _REFUSALS[code], True), False, up)
        return _Gone(code, ProtocolError("transport", "the connection broke"), code != _BROKEN, up)

    def _hello(self) -> str:
        device, user = ({name: value or None for name, value in asdict(who).items()} for who in (self._device, self._user))
        return _encode({"t": "hello", "v": PROTOCOL_VERSION, "token": self._token, "device": device, "user": user})

    async def _hear(self, events: _Events, kind: str, said: Any, size: int, texts: _Texts, files: _Files) -> None:
        """One frame: to whoever waits for it, else to the callbacks."""
        if kind == "message":
            said = texts.add(said)
            kind, size = "message_edit" if said.edit else "message", max(size, len(said.whole))
        elif kind == "media":
            said = files.add(*said)
            if said is None:
                return
            if isinstance(said, MediaProgress):
                kind, size = "media_progress", 0
        elif kind == "typing":
            await events.put("on_typing_stop" if said else "on_typing")
            return
        elif kind == "pong" and isinstance(said, int) and self._answer(kind, said, asyncio.get_running_loop().time()):
            return
        elif kind == "delivered" and self._answer(kind, said.id, said.device):
            return
        elif kind == "error" and not said.fatal and self._answer("delivered", said.id, HermesError(said)):
            return
        await events.put(f"on_{kind}", said, size=size)

    def _answer(self, kind: str, name: str | int, what: Any) -> bool:
        waiting = self._answers.get((kind, name))
        if waiting is None or waiting.done():
            return False
        if isinstance(what, HermesError):
            waiting.set_exception(what)
        else:
            waiting.set_result(what)
        return True


def _is_address(url: str) -> bool:
    try:
        address = urllib.parse.urlsplit(url)
        host = (address.hostname or "").encode("idna")
        return address.scheme in ("ws", "wss") and bool(host) and address.port != 0
    except ValueError:  # it repeats the address
        return False


_OFFLINE = ProtocolError("offline", "there is no connection to the gateway")
_REFUSALS = {
    _REFUSED: "the gateway refused this device",
    _REPLACED: "another instance has connected as this device",
}


_MIME_TYPES = {
    "png": "image/png", "jpg": "image/jpeg", "jpeg": "image/jpeg", "gif": "image/gif", "webp": "image/webp",
    "heic": "image/heic", "bmp": "image/bmp", "svg": "image/svg+xml", "mp4": "video/mp4", "mov": "video/quicktime",
    "webm": "video/webm", "mkv": "video/x-matroska", "mp3": "audio/mpeg", "ogg": "audio/ogg", "oga": "audio/ogg",
    "opus": "audio/ogg", "wav": "audio/wav", "m4a": "audio/mp4", "aac": "audio/aac", "flac": "audio/flac",
    "pdf": "application/pdf", "zip": "application/zip", "json": "application/json", "txt": "text/plain",
    "md": "text/markdown", "csv": "text/csv", "html": "text/html", "doc": "application/msword",
    "docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    "xls": "application/vnd.ms-excel", "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    "ppt": "application/vnd.ms-powerpoint",
    "pptx": "application/vnd.openxmlformats-officedocument.presentationml.presentation",
}  # fmt: skip


def _guess_mime(filename: str) -> str:
    _, dot, extension = filename.rpartition(".")
    return dot and _MIME_TYPES.get(extension.lower()) or "application/octet-stream"


def _name(source: MediaSource, filename: str) -> str:
    """What a file is called; a path brings its own name."""
    return filename or (Path(source).name if isinstance(source, (str, os.PathLike)) else "")


async def _content(source: MediaSource) -> bytes:
    """All of a file, at most what the protocol lets through."""
    content = await asyncio.to_thread(_read_file, source) if isinstance(source, (str, os.PathLike)) else bytes(source)
    if not content:
        raise ValueError("the file is empty")
    if len(content) > MAX_MEDIA_BYTES:
        raise ValueError(f"the file is too big: at most {MAX_MEDIA_BYTES} bytes can be sent")
    return content


def _read_file(path: str | os.PathLike[str]) -> bytes:
    with open(path, "rb") as file:
        return file.read(MAX_MEDIA_BYTES + 1)
