"""Takes commands from standard input, one JSON object a line, and prints what happens on its connections: see
clients_test.go. The client under test is Python's websockets, as Debian has it and newer."""

import asyncio
import json
import sys

import websockets

conns, readers = {}, set()


def tell(conn, what, text="", code=0):
    print(json.dumps({"conn": conn, "what": what, "text": text, "code": code}), flush=True)


async def dial(c):
    try:
        ws = conns[c["conn"]] = await websockets.connect(c["url"])
    except websockets.InvalidHandshake as e:
        tell(c["conn"], "refused", code=getattr(e, "status_code", 0) or e.response.status_code)
        return
    extensions = ws.extensions if hasattr(ws, "extensions") else ws.protocol.extensions
    tell(c["conn"], "open", ", ".join(e.name for e in extensions))
    reader = asyncio.create_task(read(c["conn"], ws))
    readers.add(reader)
    reader.add_done_callback(readers.discard)


async def read(conn, ws):
    try:
        while True:
            message = await ws.recv()
            if isinstance(message, str):
                tell(conn, "text", message)
            else:
                tell(conn, "binary", message.decode())
    except websockets.ConnectionClosed as e:
        if e.rcvd:
            tell(conn, "close", e.rcvd.reason, e.rcvd.code)
        else:
            tell(conn, "close", code=1006)


async def send(c):
    parts = [part.encode() for part in c["parts"]] if c.get("binary") else c["parts"]
    await conns[c["conn"]].send(parts if len(parts) > 1 else parts[0])


async def ping(c):
    await (await conns[c["conn"]].ping(c["text"]))
    tell(c["conn"], "pong", c["text"])  # the library has compared it


async def close(c):
    await conns[c["conn"]].close(c["code"], c.get("text", ""))


async def main():
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        command = json.loads(line)
        await {"dial": dial, "send": send, "ping": ping, "close": close}[command["do"]](command)


asyncio.run(main())
