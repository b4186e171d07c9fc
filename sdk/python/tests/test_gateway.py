"""The client against a real gateway with its echo agent."""

import asyncio
import logging
import tempfile
from pathlib import Path
from unittest.mock import patch

from hermes_client import MAX_MEDIA_BYTES, MEDIA_CHUNK_BYTES, HermesError, PromptDone

from .stage import TOKEN, Cutter, Phone, Test, gateway


class Conversation(Test):
    async def test_text(self) -> None:
        async with gateway() as url, Phone(url) as phone:
            self.assertEqual("mobile:tel-1", (await phone.next("ready")).session)
            await phone.send_typing()
            await phone.send_text("привет")
            self.assertEqual("привет", await phone.reply())
            self.assertEqual("speaking", await phone.next("avatar"))
            await phone.next("typing_stop")
            self.assertTrue(phone.ready)

            await phone.send_text("/stream one two three")
            self.assertEqual("one two three", await phone.reply())
            message_id = await phone.send_text("/long 9000")
            pieces = [await phone.next("message") for _ in range(3)]
            self.assertEqual([(0, 3, False), (1, 3, False), (2, 3, True)], [(p.index, p.total, p.final) for p in pieces])
            self.assertEqual("".join(p.text for p in pieces), pieces[2].whole)
            self.assertEqual(9000, len(pieces[2].whole))
            await phone.acknowledge(message_id)
            self.assertLess(await phone.ping(), 10)

    async def test_errors(self) -> None:
        async with gateway() as url, Phone(url) as phone:
            for text, code in ("  ", "bad_frame"), ("x" * 12001, "too_big"), ("/fail", "internal_error"):
                message_id = await phone.send_text(text)
                error = await phone.next("error")
                self.assertEqual((code, message_id, False), (error.code, error.id, error.fatal))

    async def test_cards(self) -> None:
        async with gateway() as url, Phone(url) as phone:
            await phone.send_text("/approve ls -l")
            card = await phone.next("prompt")
            self.assertEqual(("exec_approval", "ls -l"), (card.kind, card.command))
            self.assertIn("deny", [option.id for option in card.options])
            await phone.answer_prompt(card.id, "ONCE")
            self.assertEqual(PromptDone(card.id, "once"), await phone.next("prompt_done"))
            await phone.reply()

            await phone.send_text("/ask which? | left | right")
            card = await phone.next("prompt")
            await phone.answer_prompt(card.id, "other", "straight on")
            self.assertEqual("other", (await phone.next("prompt_done")).option_id)
            self.assertIn("straight on", await phone.reply())

            await phone.answer_prompt("long-gone", "once")
            self.assertTrue((await phone.next("prompt_done")).expired)

    async def test_files_up_and_down(self) -> None:
        whole = bytes(range(256)) * (MAX_MEDIA_BYTES // 256)
        with tempfile.TemporaryDirectory() as folder:
            photo = Path(folder, "photo.jpg")
            photo.write_bytes(whole[: MEDIA_CHUNK_BYTES + 1])
            async with gateway() as url, Phone(url) as phone:
                sent = await phone.send_document(whole, filename="отчёт.bin", mime="application/x-all")
                back = [await phone.next("media_progress", "media") for _ in range(3)]
                self.assertEqual([MEDIA_CHUNK_BYTES, 2 * MEDIA_CHUNK_BYTES], [progress.received for progress in back[:2]])
                file = back[2]
                self.assertTrue(file.data == whole)
                self.assertEqual(("document", "отчёт.bin", "application/x-all", sent), (file.kind, file.filename, file.mime, file.reply_to))

                await phone.send_image(str(photo), caption="look")  # a string is a path
                file = await phone.next("media")
                self.assertTrue(file.data == whole[: MEDIA_CHUNK_BYTES + 1])
                self.assertEqual(("photo.jpg", "image/jpeg"), (file.filename, file.mime))
                self.assertEqual("look", await phone.reply())

                await phone.send_audio(b"OggS", "ogg", "what was said")
                self.assertEqual(("voice", b"OggS"), ((file := await phone.next("media")).kind, file.data))
                await phone.send_voice(memoryview(b"OggS"), filename="a.ogg")
                self.assertEqual("audio/ogg", (await phone.next("media")).mime)

    async def test_deliveries(self) -> None:
        async with gateway() as url, Phone(url) as phone, Phone(url, "cron") as cron:
            for _ in range(2):  # the second time nothing is delivered
                device = await cron.deliver("mobile:tel-1", "good morning", kind="image", source=b"sun", message_id="today")
                self.assertEqual("tel-1", device)
            self.assertEqual("good morning", await phone.reply())
            self.assertEqual(b"sun", (await phone.next("media")).data)
            await phone.send_text("was that all?")
            self.assertEqual("was that all?", await phone.reply())
            with self.assertRaises(HermesError) as caught:
                await cron.deliver("nobody", "hi")
            self.assertEqual("device_offline", caught.exception.code)


class Connection(Test):
    async def test_refused(self) -> None:
        async with gateway() as url:
            phone = Phone(url, token="another")
            with self.assertRaises(HermesError) as caught:
                await phone.connect()
            self.assertEqual("auth_failed", caught.exception.code)
            self.assertTrue(caught.exception.error.fatal)
            with self.assertRaises(HermesError):
                await phone.wait_closed()
            self.assertEqual("failed", phone.state)
            self.assertEqual(("connecting", ""), await phone.next("state"))
            self.assertEqual("auth_failed", (await phone.next("error")).code)
            self.assertEqual(("failed", "auth_failed"), await phone.next("state"))
            self.assertTrue(phone.heard.empty(), "it is told once")

    async def test_replaced(self) -> None:
        async with gateway() as url:
            async with Phone(url) as first, Phone(url, reconnect_when_replaced=True) as second:
                with self.assertRaises(HermesError) as caught:
                    await first.wait_closed()
                self.assertEqual("replaced", caught.exception.code)
                await second.next("ready")
                async with Phone(url) as third:
                    await second.next("ready")
                    with self.assertRaises(HermesError):
                        await third.wait_closed()

    async def test_cut_cable(self) -> None:
        cutter = Cutter()
        async with gateway() as url, cutter.before(url) as through, Phone(through) as phone:
            await phone.next("ready")
            await phone.send_text("/sleep 3600 never", "m-1")
            await phone.next("typing")
            cutter.cut()
            with self.assertRaises(HermesError) as caught:
                await phone.ping()
            self.assertEqual("offline", caught.exception.code)
            self.assertEqual("transport", (await phone.next("error")).code)
            self.assertEqual(("reconnecting", "attempt 1"), await phone.next("state"))
            await phone.next("ready")
            self.assertEqual("thinking", await phone.next("avatar"), "the turn goes on")
            await phone.send_text("/sleep 3600 never", "m-1")  # the same message: it is not taken twice
            self.assertLess(await phone.ping(), 10)

    async def test_dead_cable(self) -> None:
        cutter = Cutter()
        with patch("hermes_client._PING_EVERY", 0.1), patch("hermes_client._PONG_WITHIN", 0.3):
            async with gateway() as url, cutter.before(url) as through, Phone(through) as phone:
                cutter.alive.clear()
                await phone.next("ready")
                self.assertEqual("transport", (await phone.next("error")).code)
                self.assertEqual(("reconnecting", "attempt 1"), await phone.next("state"))
                cutter.cut()
                cutter.alive.set()
                await phone.next("ready")

    async def test_cut_in_an_upload(self) -> None:
        whole = bytes(range(256)) * (MAX_MEDIA_BYTES // 256)
        cutter = Cutter()
        async with gateway() as url, cutter.before(url) as through, Phone(through) as phone:
            await phone.next("ready")
            cutter.alive.clear()
            sending = asyncio.create_task(phone.send_document(whole, message_id="f-1"))
            await asyncio.sleep(0)
            cutter.cut()
            cutter.alive.set()
            await asyncio.wait([sending])
            if not sending.exception():  # the system had taken all of it
                self.assertEqual("f-1", sending.result())
            await phone.next("ready")
            await phone.send_document(whole, message_id="f-1")
            self.assertTrue((await phone.next("media")).data == whole)
            await phone.send_text("that was all")
            self.assertEqual("that was all", await phone.reply())

    async def test_drain(self) -> None:
        async with gateway(polite=True) as url:
            phone = Phone(url)
            await phone.connect()
        states = [await phone.next("state") for _ in range(3)]
        self.assertEqual([("connecting", ""), ("connected", ""), ("reconnecting", "attempt 1")], states)
        await phone.disconnect()
        self.assertEqual("idle", phone.state)
        await phone.wait_closed()

    async def test_again_after_goodbye(self) -> None:
        async with gateway() as url:
            phone = Phone(url)
            for _ in range(2):
                async with phone:
                    await phone.send_text("hi")
                    self.assertEqual("hi", await phone.reply())
                while (await phone.next("state"))[0] != "idle":
                    pass
                with self.assertRaises(HermesError):
                    await phone.send_text("nobody is there")


class Secrets(Test):
    async def test_nothing_is_logged(self) -> None:
        lines: list[str] = []
        handler = logging.Handler()
        handler.emit = lambda record: lines.append(record.getMessage())
        root = logging.getLogger()
        root.addHandler(handler)
        level, _ = root.level, root.setLevel(logging.DEBUG)
        try:
            async with gateway() as url, Phone(url) as phone:
                await phone.send_text("what-was-said")
                await phone.reply()
        finally:
            root.removeHandler(handler)
            root.setLevel(level)
        self.assertNotIn(TOKEN, repr(phone) + "\n".join(lines))
        self.assertNotIn("what-was-said", "\n".join(lines))
