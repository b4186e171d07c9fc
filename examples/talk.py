"""A streamed answer, a card and a photo: MOBILE_TOKEN=... python3 talk.py ws://127.0.0.1:8787/ws"""

import asyncio
import os
import sys

from hermes_client import Device, Handlers, HermesClient, Media, Message, Prompt

PHOTO = bytes.fromhex("47494638396101000100000000002c00000000010001000002003b")  # one pixel


async def main(url: str) -> None:
    client = HermesClient(url, os.environ["MOBILE_TOKEN"], Device(id="tel-1", name="Phone"))
    done = asyncio.Event()

    def message(m: Message) -> None:
        print("agent:", m.whole if m.final else "...")

    async def card(p: Prompt) -> None:
        print("card: may this run?", p.command)
        await client.answer_prompt(p.id, "once")

    def photo(m: Media) -> None:
        print("photo:", m.filename, m.mime, m.size, "bytes")
        done.set()

    client.set_handlers(Handlers(on_message=message, on_message_edit=message, on_prompt=card, on_media=photo))
    async with client:  # connected here, and again whenever the connection breaks
        await client.send_text("/stream one two three")
        await client.send_text("/approve ls -l")
        await client.send_image(PHOTO, filename="pixel.gif")
        await done.wait()


asyncio.run(main(sys.argv[1]))
