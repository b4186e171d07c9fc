"""The client against a gateway that is played by hand: how connections end, and what is kept in memory."""

import asyncio
import base64
import hashlib
import re
import tempfile
from http import HTTPStatus
from pathlib import Path
from unittest import TestCase
from unittest.mock import patch

from websockets.legacy.server import serve

import hermes_client
from hermes_client import MAX_MEDIA_BYTES, Device, Handlers, HermesClient, HermesError, Media, MediaProgress, Message, ProtocolError

from .stage import LATE, TOKEN, Peer, Phone, Test, stand_in

FORBIDDEN = {"t": "error", "code": "forbidden", "message": "Not yours.", "fatal": True}


class Ends(Test):
    async def test_final_and_not(self) -> None:
        auth = {"t": "error", "code": "auth_failed", "message": "No.", "fatal": True}
        for code, reason, frames, final, told in (
            (1008, "forbidden", [FORBIDDEN], "forbidden", ["forbidden"]),
            (1008, "auth_failed", [auth], "auth_failed", ["auth_failed"]),
            (1008, "too_big", [], "too_big", ["too_big"]),
            (1008, "", [], "auth_failed", ["auth_failed"]),
            (4001, "replaced", [], "replaced", ["replaced"]),
            (0, "", [FORBIDDEN], "forbidden", ["forbidden"]),  # the close frame was lost
            (0, "", [], None, ["transport"]),
            (1001, "going away", [], None, []),
            (1013, "overloaded", [], None, []),
            (1007, "invalid UTF-8", [FORBIDDEN], None, ["forbidden"]),
        ):
            with self.subTest(code=code, reason=reason, frames=frames):

                async def play(peer: Peer) -> None:
                    await peer.welcome()
                    if peer.number == 1:
                        await peer.say(*frames)
                        await peer.socket.drain()
                        await (peer.socket.close(code, reason) if code else abort(peer))
                    await peer.socket.wait_closed()

                async def abort(peer: Peer) -> None:
                    peer.socket.transport.close()

                async with stand_in(play) as url:
                    phone = Phone(url)
                    await phone.connect()
                    story = []
                    async with asyncio.timeout(LATE):
                        while not story or story[-1] not in ("failed", "reconnecting"):
                            name, what = await phone.heard.get()
                            if name in ("state", "error"):
                                story.append(what[0] if name == "state" else what.code)
                    if final:
                        with self.assertRaises(HermesError) as caught:
                            await phone.wait_closed()
                        self.assertEqual(final, caught.exception.code)
                        while not phone.heard.empty():
                            story.append(phone.heard.get_nowait()[1].code)
                    else:
                        await phone.next("ready")  # of the second connection
                        await phone.disconnect()
                    end = "failed" if final else "reconnecting"
                    self.assertEqual(["connecting", "connected", end, *told], sorted(story, key=lambda s: s in told))

    async def test_silent_gateway(self) -> None:
        async def play(peer: Peer) -> None:
            await peer.hear()
            if peer.number > 1:
                await peer.say({"t": "ready"})
            await peer.socket.wait_closed()

        async with stand_in(play) as url, Phone(url, open_timeout=0.2) as phone:
            error = await phone.next("error")
            self.assertEqual(("transport", "the gateway did not answer in time", False), (error.code, error.message, error.fatal))

    async def test_disconnect_while_a_connection_ends(self) -> None:
        async def deaf(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            key = re.search(rb"Sec-WebSocket-Key: (\S+)", await reader.readuntil(b"\r\n\r\n")).group(1)
            accept = base64.b64encode(hashlib.sha1(key + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest())
            head = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: "
            writer.write(head + accept + b"\r\n\r\n")
            while await reader.read(4096):
                pass
            writer.close()

        ending = asyncio.Event()
        leave = hermes_client._leave_unread

        async def leaving(socket: hermes_client._Socket) -> None:
            ending.set()
            await leave(socket)

        async with await asyncio.start_server(deaf, "127.0.0.1", 0) as server:
            phone = Phone(f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}/ws", open_timeout=0.05)
            with patch("hermes_client._leave_unread", leaving):
                connecting = asyncio.create_task(phone.connect())
                await asyncio.wait_for(ending.wait(), LATE)
                await phone.disconnect()
            self.assertEqual(set(), {t for t in asyncio.all_tasks() if "WebSocketCommonProtocol" in repr(t)})
            with self.assertRaises(HermesError):
                await connecting

    async def test_no_gateway(self) -> None:
        server = await asyncio.start_server(lambda r, w: w.close(), "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        server.close()
        await server.wait_closed()
        phone = Phone(f"ws://127.0.0.1:{port}/ws")
        connecting = asyncio.create_task(phone.connect())
        self.assertEqual(("connecting", ""), await phone.next("state"))
        for attempt in range(1, 4):
            self.assertEqual("transport", (await phone.next("error")).code)
            self.assertEqual(("reconnecting", f"attempt {attempt}"), await phone.next("state"))
        connecting.cancel()
        await asyncio.wait([connecting])
        self.assertEqual("idle", phone.state)

    async def test_a_fault_of_the_client_is_told(self) -> None:
        phone = Phone("ws://127.0.0.1:1/ws")
        with patch("hermes_client._connect", side_effect=RuntimeError("a fault")):
            with self.assertRaises(HermesError):
                await phone.connect()
            with self.assertRaisesRegex(RuntimeError, "a fault"):
                await phone.wait_closed()
        self.assertEqual("idle", phone.state)

    async def test_connect_waits_for_the_next_connection(self) -> None:
        again = asyncio.Event()

        async def play(peer: Peer) -> None:
            if peer.number > 1:
                await again.wait()
            await peer.welcome()
            if peer.number > 1:
                await peer.socket.wait_closed()

        async with stand_in(play) as url, Phone(url) as phone:
            self.assertEqual("mobile:tel-1", (await phone.connect()).session)
            while (await phone.next("state"))[0] != "reconnecting":
                pass
            impatient, patient = (asyncio.create_task(phone.connect()) for _ in range(2))
            await asyncio.sleep(0)
            impatient.cancel()
            await asyncio.wait([impatient])
            self.assertFalse(patient.done())
            again.set()
            self.assertEqual("mobile:tel-1", (await asyncio.wait_for(patient, LATE)).session)
            self.assertTrue(phone.ready)

    async def test_hello_goes_nowhere_else(self) -> None:
        async def elsewhere(peer: Peer) -> None:
            self.fail("the redirect was followed")

        async with stand_in(elsewhere) as other:

            async def redirect(path: str, headers: object) -> tuple:
                return HTTPStatus.TEMPORARY_REDIRECT, {"Location": other}, b""

            async with serve(lambda socket: None, "127.0.0.1", 0, process_request=redirect) as server:
                phone = Phone(f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}/ws")
                connecting = asyncio.create_task(phone.connect())
                self.assertIn("no gateway at this address", (await phone.next("error")).message)
                connecting.cancel()
                await asyncio.wait([connecting])

    async def test_pauses(self) -> None:
        pauses = []

        async def play(peer: Peer) -> None:
            await peer.welcome()
            await peer.socket.close(1001)

        enough = asyncio.Event()

        def pause(low: float, high: float) -> float:
            pauses.append((low, high))
            if len(pauses) == 5:
                enough.set()
            return 0

        with patch("hermes_client.random.uniform", pause):
            async with stand_in(play) as url:
                phone = HermesClient(url, TOKEN, Device("tel-1"), max_backoff=3)
                await phone.connect()
                await asyncio.wait_for(enough.wait(), LATE)
                await phone.disconnect()
        self.assertEqual([(0, 0.5), (0, 1), (0, 2), (0, 3), (0, 3)], pauses[:5], "full jitter under a ceiling that grows")


class Callbacks(Test):
    async def test_they_may_do_everything(self) -> None:
        async def play(peer: Peer) -> None:
            await peer.welcome()
            await peer.say({"t": "typing"}, {"t": "avatar", "state": "thinking"})
            ping = await peer.hear()
            await peer.say({"t": "pong", "ts": ping["ts"]}, {"t": "typing", "stop": True})
            await peer.socket.wait_closed()

        story: list[str] = []
        complaints: list[str] = []
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: complaints.append(context["message"]))
        async with stand_in(play) as url:
            client = HermesClient(url, TOKEN, Device("tel-1"))

            def broken() -> None:
                raise RuntimeError("broken")

            async def cancelled(ready: object) -> None:
                raise asyncio.CancelledError

            async def asks(state: str) -> None:
                story.append(state)
                await client.ping()  # the answer comes while this callback runs
                story.append("pong")

            async def leaves() -> None:
                story.append("stop")
                with self.assertRaises(RuntimeError):
                    await client.wait_closed()
                await client.disconnect()
                story.append("left")

            client.set_handlers(Handlers(on_typing=broken, on_avatar=asks, on_ready=cancelled))
            client.set_handlers(Handlers(on_typing_stop=leaves))
            await client.connect()
            await asyncio.wait_for(client.wait_closed(), LATE)
        self.assertEqual(["thinking", "pong", "stop", "left"], story)
        self.assertEqual(["on_ready of a HermesClient failed", "on_typing of a HermesClient failed"], complaints)

    async def test_a_client_that_is_left_behind_ends_with_its_loop(self) -> None:
        codes: asyncio.Queue[int | None] = asyncio.Queue()

        async def play(peer: Peer) -> None:
            await peer.welcome()
            await peer.socket.wait_closed()
            codes.put_nowait(peer.socket.close_code)

        def program(url: str) -> None:
            asyncio.run(asyncio.wait_for(HermesClient(url, TOKEN, Device("tel-1")).connect(), LATE))

        async with stand_in(play) as url:
            await asyncio.to_thread(program, url)
            self.assertEqual(1000, await asyncio.wait_for(codes.get(), LATE))

    async def test_a_slow_one_makes_reading_wait(self) -> None:
        events = hermes_client._Events()
        size = 1024 * 1024

        async def read() -> None:
            for i in range(100):
                await events.put("on_message", i, size=size)
            events.end()

        reading = asyncio.create_task(read())
        await asyncio.sleep(0)
        self.assertEqual(events.MOST_BYTES // (size + events.EVENT_BYTES), len(events._waiting))
        self.assertEqual([("on_message", (i,)) for i in range(100)], [await events.take() for _ in range(100)])
        self.assertEqual(("", ()), await events.take())
        await reading
        await asyncio.wait_for(events.put("on_media", "alone", size=2 * events.MOST_BYTES), LATE)


class Verbs(Test):
    async def test_offline(self) -> None:
        phone = Phone("ws://127.0.0.1:1/ws")
        for verb in phone.send_text("x"), phone.send_typing(), phone.ping(), phone.send_image(b"x"), phone.deliver("tel-2", "x"):
            with self.assertRaises(HermesError) as caught:
                await verb
            self.assertEqual("offline", caught.exception.code)
        self.assertEqual({}, phone._answers)

    async def test_what_is_wrong_from_the_start(self) -> None:
        phone = Phone("ws://127.0.0.1:1/ws")
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "big").write_bytes(bytes(MAX_MEDIA_BYTES + 1))
            for verb in (
                phone.send_media("voice", b"x"), phone.send_image(b""), phone.send_media("image", b"x", chunk_bytes=0),
                phone.send_image(f"{folder}/big"), phone.send_image(bytes(MAX_MEDIA_BYTES + 1)),
                phone.answer_prompt("", "once"), phone.answer_prompt("p"), phone.deliver("tel-2"),
            ):  # fmt: skip
                with self.assertRaises(ValueError):
                    await verb
            with self.assertRaises(FileNotFoundError):
                await phone.send_image(f"{folder}/none")
        for url, token in ("http://h/ws", TOKEN), ("h:1/ws", TOKEN), (f"ws://[h/ws?{TOKEN}", TOKEN), (f"ws://h:{TOKEN}/ws", TOKEN), ("ws:///ws", TOKEN), (f"ws://..{TOKEN}/ws", TOKEN), ("ws://h/ws", ""):
            with self.assertRaises(ValueError) as caught:
                HermesClient(url, token, Device())
            self.assertNotIn(TOKEN, str(caught.exception))

    async def test_an_upload_stays_on_its_connection(self) -> None:
        async def play(peer: Peer) -> None:
            await peer.welcome()
            await peer.socket.wait_closed()

        async with stand_in(play) as url, Phone(url) as phone:
            with self.assertRaises(HermesError):
                await phone._send({"t": "media"}, over=object())

    async def test_answers(self) -> None:
        async def play(peer: Peer) -> None:
            await peer.welcome()
            await peer.say({"t": "delivered", "id": "late", "device": "x"}, {"t": "pong", "ts": 0})
            for _ in range(2):
                frame = await peer.hear()
                await peer.say({"t": "error", "code": "rate_limited", "message": "Wait.", "id": frame["id"], "retry_after_ms": 250})
            await peer.hear()
            await peer.hear()
            await peer.socket.close(1001)

        async with stand_in(play) as url, Phone(url) as phone:
            self.assertEqual("late", (await phone.next("delivered")).id)
            self.assertEqual(0, await phone.next("pong"))
            await phone.send_text("x", "m-1")
            self.assertEqual(ProtocolError("rate_limited", "Wait.", False, "m-1", 250), await phone.next("error"))
            delivery = asyncio.create_task(phone.deliver("tel-2", "x", message_id="d"))
            with self.assertRaises(HermesError) as caught:
                await delivery
            self.assertEqual(250, caught.exception.error.retry_after_ms)
            with patch("hermes_client._ANSWER_WITHIN", 0.01), self.assertRaises(HermesError) as caught:
                await phone.deliver("tel-2", "x")
            self.assertEqual("no_answer", caught.exception.code)
            pinging = asyncio.create_task(phone.ping())
            with self.assertRaises(HermesError) as caught:
                await pinging
            self.assertEqual("offline", caught.exception.code)


class Bounds(TestCase):
    def test_texts(self) -> None:
        texts = hermes_client._Texts()
        for i in range(texts.MOST + 1):
            texts.add(Message(str(i), "a", 0, 2))
        self.assertEqual("b", texts.add(Message("0", "b", 1, 2, True)).whole, "the oldest was forgotten")
        self.assertEqual("ab", texts.add(Message("1", "b", 1, 2, True)).whole)
        texts.add(Message("x", "x" * texts.MOST_CHARS, 0, 2))
        self.assertEqual(["x"], list(texts._open), "a long text pushes short ones out")
        texts.add(Message("x", "x", 1, 3))
        self.assertEqual({}, texts._open)
        texts.add(Message("y", "a", 0, 3))
        texts.add(Message("y", "b", 1, 3))
        self.assertEqual("ab", texts.add(Message("y", "b", 1, 3)).whole, "a piece that comes twice counts once")
        self.assertEqual("abc", texts.add(Message("y", "c", 2, 3, True)).whole)
        self.assertEqual("all", texts.add(Message("z", "all", edit=True)).whole)
        self.assertEqual({}, texts._open)

    def test_files(self) -> None:
        files, part = hermes_client._Files(), hermes_client._Part
        for i in range(files.MOST):
            self.assertEqual(MediaProgress(str(i), 1, 2), files.add(Media(str(i), size=2, data=b"a"), part(0, 2)))
        self.assertIsNone(files.add(Media("one too many", size=2, data=b"a"), part(0, 2)))
        self.assertEqual(MediaProgress("0", 1, 2), files.add(Media("0", size=2, data=b"b"), part(0, 2)), "begun again")
        self.assertEqual(b"bc", files.add(Media("0", size=2, data=b"c"), part(1, 2)).data)
        self.assertIsNone(files.add(Media("1", size=2, data=b"bc"), part(1, 2)), "longer than it said")
        self.assertNotIn("1", files._open)
        most = Media("2", size=MAX_MEDIA_BYTES + 1, data=bytes(MAX_MEDIA_BYTES + 1))
        self.assertIsNone(files.add(most, part(0, 3)), "begun again, and too big")
        for at in part(-1, 2), part(2, 2), part(0, files.MOST_PARTS + 1):
            self.assertIsNone(files.add(Media("9", size=2, data=b"a"), at))
        self.assertEqual(files.MOST - 3, len(files._open))

    def test_frames(self) -> None:
        for raw in '{"t":"avatar","state":1}', "[" * 100_000, '{"t":"ready","device":""}', '{"t":"ready","v":true}', b"\xff", '{"t":"media","data":"*"}':
            self.assertIsNone(hermes_client._read(raw))
        self.assertEqual(("typing", True), hermes_client._read('{"t":"TYPING","stop":true}'))
