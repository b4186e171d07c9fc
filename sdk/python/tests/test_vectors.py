"""The wire vectors that all clients share: sdk/vectors/README.md says what they mean."""

import asyncio
import base64
import dataclasses
import json
from pathlib import Path
from typing import Any

from hermes_client import Device, HermesClient, User

from .stage import LATE, Peer, Phone, Test, stand_in

VECTORS = Path(__file__).parents[2] / "vectors"
END = {"t": "pong", "ts": "the end of a case"}

# Fields that an event always has, by its name.
ALWAYS = {
    "ready": {"v", "session", "device", "avatar_url", "capabilities"},
    "message": {"id", "text", "index", "total", "final"},
    "edit": {"id", "text", "index", "total", "final"},
    "avatar": {"state"},
    "prompt": {"id", "kind", "text", "options", "session", "timeout_seconds"},
    "prompt_done": {"id"},
    "media": {"id", "kind", "mime", "filename", "caption", "size"},
    "delivered": {"id", "device"},
    "error": {"code", "message", "fatal"},
}
NAMES = {"message_edit": "edit"}


def cases(name: str) -> list[dict[str, Any]]:
    return json.loads((VECTORS / name).read_text("utf-8"))


async def call(client: HermesClient, verb: str, args: dict[str, Any]) -> None:
    args = dict(args)
    if "data" in args:
        args["source"] = base64.b64decode(args.pop("data"))
    if "id" in args:
        args["message_id"] = args.pop("id")
    match verb:
        case "text":
            await client.send_text(**args)
        case "audio":
            await client.send_audio(args.pop("source"), args.pop("format"), args.pop("text", ""), **args)
        case "media":
            await client.send_media(**args)
        case "answer":
            await client.answer_prompt(**{"prompt_id": "", **args})
        case "typing":
            await client.send_typing()
        case "ping":
            await client.ping()
        case "ack":
            await client.acknowledge(**args)
        case "deliver":
            media = args.pop("media", {})
            if media:
                media["source"] = base64.b64decode(media.pop("data"))
            await client.deliver(**args, **media)
        case _:
            raise AssertionError(f"unknown verb {verb}")


def matches(want: Any, got: Any) -> bool:
    """A type stands for any value of it."""
    if isinstance(want, dict) and want.keys() == {"$type"}:
        return {"number": int, "string": str}[want["$type"]] is type(got)
    if isinstance(want, dict) and isinstance(got, dict):
        return want.keys() == got.keys() and all(matches(want[name], got[name]) for name in want)
    return want == got


def told(name: str, what: Any) -> dict[str, Any]:
    """An event in the form of the vectors."""
    event: dict[str, Any] = {"event": NAMES.get(name, name)}
    if name in ("avatar", "pong"):
        fields = {"state" if name == "avatar" else "ts": what}
    elif name == "typing" or name == "typing_stop":
        fields = {}
    else:
        fields = dataclasses.asdict(what) if dataclasses.is_dataclass(what) else {}
    if name == "ready":
        fields["device"] = {"id": what.device.id, "name": what.device.name}
        optional = fields["capabilities"]
        fields["capabilities"] = {k: v for k, v in optional.items() if v or k in ("text", "voice", "typing")}
    if name == "prompt":
        fields["options"] = [{k: v for k, v in o.items() if v or k != "style"} for o in fields["options"]]
    if name.startswith("message"):
        del fields["edit"], fields["whole"]
    if fields.get("data"):
        fields["data"] = base64.b64encode(fields["data"]).decode()
    always = ALWAYS.get(event["event"], set())
    event |= {k: v for k, v in fields.items() if v or k in always}
    return json.loads(json.dumps(event))


class Vectors(Test):
    maxDiff = None

    async def test_calls(self) -> None:
        heard: asyncio.Queue[dict[str, Any]] = asyncio.Queue()

        async def listen(peer: Peer) -> None:
            await heard.put(await peer.welcome())
            while True:
                await heard.put(await peer.hear())

        async with stand_in(listen) as url, Phone(url) as phone:
            await heard.get()
            for case in cases("calls.json"):
                with self.subTest(case["name"]):
                    verb, args = case["call"]["verb"], case["call"]["args"]
                    if verb == "hello":
                        who = HermesClient(url, args["token"], Device(**args["device"]), user=User(**args.get("user", {})))
                        async with who:
                            self.assertEqual(case["frames"], [await heard.get()])
                        continue
                    if case.get("refused"):
                        with self.assertRaises(ValueError):
                            await call(phone, verb, args)
                        await phone.acknowledge("marker")
                        self.assertEqual("marker", (await heard.get())["id"])
                        continue
                    calling = asyncio.create_task(call(phone, verb, args))
                    async with asyncio.timeout(LATE):
                        got = [await heard.get() for _ in case["frames"]]
                    calling.cancel()  # ping and deliver wait for an answer
                    await asyncio.wait([calling])
                    self.assertTrue(len(got) == len(case["frames"]) and all(map(matches, case["frames"], got)), got)
            self.assertTrue(heard.empty())

    async def test_events(self) -> None:
        vectors = cases("events.json")

        async def play(peer: Peer) -> None:
            await peer.hear()
            for frame in vectors[peer.number - 1]["frames"]:
                await peer.say(frame)
            await peer.say(END)
            await peer.socket.wait_closed()

        async with stand_in(play) as url:
            for case in vectors:
                with self.subTest(case["name"]):
                    phone = Phone(url)
                    connecting = asyncio.create_task(phone.connect())
                    got = []
                    while (event := told(*await asyncio.wait_for(phone.heard.get(), LATE)))["event"] != "pong" or event.get("ts") != END["ts"]:
                        got.append(event)
                    connecting.cancel()
                    await asyncio.wait([connecting])
                    self.assertEqual(case["events"], [e for e in got if e["event"] not in ("state", "media_progress")])
