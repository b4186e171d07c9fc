// Takes commands from standard input, one JSON object a line, and prints what happens on its connections: see
// clients_test.go. The client under test is npm's ws.
'use strict';
const { createInterface } = require('node:readline');
const WebSocket = require('ws');

const conns = {};
const tell = (event) => process.stdout.write(JSON.stringify(event) + '\n');

const commands = {
  dial({ conn, url }) {
    const ws = (conns[conn] = new WebSocket(url));
    ws.on('open', () => tell({ conn, what: 'open', text: ws.extensions }));
    ws.on('unexpected-response', (_, response) => tell({ conn, what: 'refused', code: response.statusCode }));
    ws.on('message', (data, binary) => tell({ conn, what: binary ? 'binary' : 'text', text: data.toString() }));
    ws.on('pong', (data) => tell({ conn, what: 'pong', text: data.toString() }));
    ws.on('close', (code, reason) => tell({ conn, what: 'close', code, text: reason.toString() }));
    ws.on('error', (error) => tell({ conn, what: 'error', text: error.message }));
  },
  send({ conn, parts, binary }) {
    parts.forEach((part, i) => conns[conn].send(part, { binary, fin: i === parts.length - 1 }));
  },
  ping({ conn, text }) {
    conns[conn].ping(text);
  },
  close({ conn, code, text }) {
    conns[conn].close(code, text);
  },
};

createInterface({ input: process.stdin })
  .on('line', (line) => {
    const command = JSON.parse(line);
    commands[command.do](command);
  })
  .on('close', () => process.exit(0));
