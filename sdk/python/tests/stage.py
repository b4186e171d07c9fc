"""What the tests play with: a real gateway, a stand-in for one, a proxy that cuts, and a client that remembers."""

import asyncio
import json
import os
import re
import unittest
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import fields
from pathlib import Path
from typing import Any

from websockets.exceptions import ConnectionClosed
from websockets.legacy.server import WebSocketServerProtocol, serve

from hermes_client import Device, Handlers, HermesClient

BINARY = Path(os.environ.get("MOBILEGATE") or Path(__file__).parents[3] / "bin" / "mobilegate")
TOKEN = "a-token-for-tests"
LATE = 20  # seconds; only a failing test takes so long
READY = {"t": "ready", "v": 1, "session": "mobile:tel-1", "device": {"id": "tel-1", "name": "Phone"}}


@asynccontextmanager
async def gateway(polite: bool = False, **env: str):
    """A gateway with the echo agent on a free port; gives its address. A polite one says goodbye at the end."""
    settings = {"MOBILE_PORT": "0", "MOBILE_TOKEN": TOKEN, "MOBILE_LOG_FORMAT": "json", **env}
    process = await asyncio.create_subprocess_exec(BINARY, "serve", env=settings, stderr=asyncio.subprocess.PIPE)
    try:
        async with asyncio.timeout(LATE):
            while line := await process.stderr.readline():
                if url := json.loads(line).get("url"):
                    break
            else:
                raise AssertionError("the gateway has ended")
        draining = asyncio.create_task(process.stderr.read())
        yield url
    finally:
        process.terminate() if polite else process.kill()
        await process.wait()
        await draining


class Peer:
    """The gateway's side of one connection."""

    def __init__(self, socket: WebSocketServerProtocol, number: int) -> None:
        self.socket, self.number = socket, number

    async def hear(self) -> dict[str, Any]:
        return json.loads(await self.socket.recv())

    async def say(self, *frames: Any) -> None:
        for frame in frames:
            await self.socket.send(frame if isinstance(frame, str) else json.dumps(frame))

    async def welcome(self) -> dict[str, Any]:
        hello = await self.hear()
        await self.say(READY)
        return hello


@asynccontextmanager
async def stand_in(play: Callable[[Peer], Awaitable[None]]):
    """A gateway whose side of each connection is played by play; gives its address."""
    number = 0

    async def connection(socket: WebSocketServerProtocol, path: str = "") -> None:
        nonlocal number
        number += 1
        with suppress(ConnectionClosed):
            await play(Peer(socket, number))

    async with serve(connection, "127.0.0.1", 0, ping_interval=None, max_size=None, close_timeout=1) as server:
        yield f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}/ws"


class Cutter:
    """A TCP proxy in front of a gateway, whose cable can be cut, or go dead without a word."""

    def __init__(self) -> None:
        self.writers: set[asyncio.StreamWriter] = set()
        self.alive = asyncio.Event()
        self.alive.set()

    @asynccontextmanager
    async def before(self, url: str):
        port = int(re.search(r":(\d+)/", url).group(1))

        async def connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            reader_up, writer_up = await asyncio.open_connection("127.0.0.1", port)
            self.writers |= {writer, writer_up}
            await asyncio.gather(pump(reader, writer_up), pump(reader_up, writer))
            self.writers -= {writer, writer_up}

        async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                while data := await reader.read(65536):
                    await self.alive.wait()
                    writer.write(data)
                    await writer.drain()
            except OSError:
                pass
            writer.close()

        async with await asyncio.start_server(connection, "127.0.0.1", 0) as server:
            yield f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}/ws"
            self.alive.set()
            self.cut()

    def cut(self) -> None:
        for writer in self.writers:
            writer.transport.abort()


class Phone(HermesClient):
    """A client that keeps what its callbacks hear."""

    def __init__(self, url: str, id: str = "tel-1", token: str = TOKEN, **options: Any) -> None:
        super().__init__(url, token, Device(id, "Phone", "test", "1.0"), max_backoff=0.01, **options)
        self.heard: asyncio.Queue[tuple[str, Any]] = asyncio.Queue()
        for field in fields(Handlers):
            self.set_handlers(Handlers(**{field.name: self.keep(field.name)}))

    def keep(self, name: str) -> Callable[..., None]:
        return lambda *args: self.heard.put_nowait((name.removeprefix("on_"), args[0] if len(args) == 1 else args))

    async def next(self, *names: str) -> Any:
        """What comes next under one of these names; everything before it is left out."""
        async with asyncio.timeout(LATE):
            while True:
                name, what = await self.heard.get()
                if name in names:
                    return what

    async def reply(self) -> str:
        """The whole of the next message."""
        while not (message := await self.next("message", "message_edit")).final:
            pass
        return message.whole


class Test(unittest.IsolatedAsyncioTestCase):
    """Every test ends with no task left over."""

    async def asyncTearDown(self) -> None:
        left = asyncio.all_tasks() - {asyncio.current_task()}
        self.assertEqual(set(), {t for t in left if "hermes_client" in str(t.get_coro())})
