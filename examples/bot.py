"""A bot in the place of a person: it asks what it reads from standard input, line by line, and prints the answers.

    MOBILE_TOKEN=... python3 examples/bot.py ws://127.0.0.1:8787/ws < questions.txt

Cards that want to run a command are approved when the command is on the list below, and denied otherwise. Files are saved
in the current folder.
"""

import asyncio
import os
import secrets
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "sdk" / "python"))  # not needed once hermes_client.py lies beside your bot
from hermes_client import Device, Handlers, HermesClient, HermesError, Media, Message, Prompt, ProtocolError

MAY_RUN = {"ls", "date", "uptime"}


async def main(url: str, token: str) -> None:
    client = HermesClient(url, token, Device(id="bot-1", name="Bot", platform="python"))
    answered = asyncio.Event()

    def message(m: Message) -> None:
        if m.final:  # all pieces of a long or streamed reply are there
            print(m.whole, flush=True)

    async def card(p: Prompt) -> None:
        if p.kind == "exec_approval":
            await client.answer_prompt(p.id, "once" if p.command in MAY_RUN else "deny")
        elif p.kind == "slash_confirm":
            await client.answer_prompt(p.id, "cancel")
        else:
            await client.answer_prompt(p.id, "other", "whatever you think is best")

    def file(m: Media) -> None:
        if m.data is not None:
            # A name of the agent's choosing is not to be trusted: only its ending is kept.
            name = secrets.token_hex(4) + "".join(c for c in Path(m.filename).suffix if c == "." or c.isalnum())
            Path(name).write_bytes(m.data)
            print(f"saved {name}, {len(m.data)} bytes", flush=True)

    def state(now: str, detail: str) -> None:
        if now in ("reconnecting", "failed"):
            answered.set()  # the answer may be lost with the connection

    def failed(e: ProtocolError) -> None:
        print(f"{e.code}: {e.message}", file=sys.stderr)
        if e.id and e.code != "internal_error":  # a question that was refused; one that failed ends as others do
            answered.set()

    client.set_handlers(
        Handlers(
            on_state=state,
            on_message=message,
            on_message_edit=message,
            on_prompt=card,
            on_media=file,
            on_typing_stop=answered.set,  # the agent has finished with the question
            on_error=failed,
        )
    )
    async with client:
        while line := await asyncio.to_thread(sys.stdin.readline):
            answered.clear()
            await client.connect()  # waits where the connection broke
            await client.send_text(line.strip())
            await answered.wait()
            if client.state == "failed":
                await client.wait_closed()  # raises why


if __name__ == "__main__":
    if len(sys.argv) != 2 or "MOBILE_TOKEN" not in os.environ:
        sys.exit(__doc__)
    try:
        asyncio.run(main(sys.argv[1], os.environ["MOBILE_TOKEN"]))
    except HermesError as e:
        sys.exit(str(e))
    except KeyboardInterrupt:
        pass
