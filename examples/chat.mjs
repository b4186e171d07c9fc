// A chat in the terminal, on Node 22 or newer. In a folder of your own, with this file in it:
//
//   npm ci --prefix CLONE/sdk/typescript     (once: builds the client)
//   npm install CLONE/sdk/typescript
//   MOBILE_TOKEN=... node chat.mjs ws://127.0.0.1:8787/ws
//
// A line is a message. While a card is open, a line answers it. `/photo FILE` sends a picture; Ctrl-D leaves.
import { writeFileSync } from 'node:fs';
import { createInterface } from 'node:readline/promises';
import { HermesClient } from 'hermes-mobile-client';

const [, , url] = process.argv;
const token = process.env.MOBILE_TOKEN;
if (!url || !token) {
  console.error('usage: MOBILE_TOKEN=... node chat.mjs ws://127.0.0.1:8787/ws');
  process.exit(2);
}

let card; // the open one
let reply = { id: '', shown: '' }; // what the terminal has of the one that is being streamed

const client = new HermesClient({
  url,
  token,
  device: { id: 'node-chat', name: 'Node', platform: 'node', appVersion: '1.0.0' },
  queue: true, // what is typed while there is no connection is sent once there is one
  handlers: {
    onReady: (ready) => console.log(`connected as ${ready.device.id}`),
    onMessage: (message) => print(message, message.index > 0), // a piece of the reply; the first may come again
    onMessageEdit: (message) => print(message, false), // the whole reply so far
    onPrompt: (prompt) => {
      card = prompt;
      console.log(`${prompt.text} ${prompt.command ?? ''}\n${prompt.options.map((o) => `  ${o.id}: ${o.label}`).join('\n')}`);
    },
    onPromptDone: (done) => {
      card = undefined;
      console.log(`(card: ${done.expired ? 'expired' : done.option_id})`);
    },
    onMedia: (file) => {
      if (!file.data) return console.log(`file: ${file.url}`);
      const name = `received-${Date.now()}`; // never the name that came: it is not to be trusted
      writeFileSync(name, Buffer.from(file.data, 'base64'));
      console.log(`file: ${name}, ${file.mime}, ${file.size} bytes`);
    },
    onError: (error) => {
      console.error(`${error.code}: ${error.message}`);
      if (error.fatal) process.exit(1); // refused: the client does not try again
    },
    onState: (state, detail) => {
      if (state !== 'reconnecting') return;
      endReply(); // what is being streamed comes again from its beginning, or not at all
      console.error(`connecting again, ${detail}`);
    },
  },
});

function print(message, further) {
  if (message.id !== reply.id) endReply(); // another one comes in between
  const text = further ? message.text : message.text.slice(reply.shown.length);
  process.stdout.write(text.replace(/[^\P{Cc}\n\t]/gu, '')); // no control characters: they could steer the terminal
  reply = { id: message.id, shown: reply.shown + text };
  if (message.final) endReply();
}

function endReply() {
  if (reply.shown) console.log();
  reply = { id: '', shown: '' };
}

function sendPhoto(path) {
  try {
    client.sendImage({ path });
  } catch (error) {
    console.error(error.message); // no such file, or an empty one
  }
}

client.connect();
for await (const line of createInterface({ input: process.stdin })) {
  if (card?.options.some((option) => option.id === line)) client.answerPrompt(card.id, line);
  else if (card && line) client.answerPrompt(card.id, undefined, line);
  else if (line.startsWith('/photo ')) sendPhoto(line.slice(7));
  else if (line) client.sendText(line);
}
client.disconnect();
