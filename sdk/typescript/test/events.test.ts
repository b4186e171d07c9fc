// events(): everything that the callbacks hear, for `for await`.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { HermesEvent } from 'hermes-mobile-client';
import { FakeSocket, fakeClient, READY, readyClient } from './support/socket.ts';

async function all(events: AsyncIterable<HermesEvent>): Promise<HermesEvent[]> {
  const list: HermesEvent[] = [];
  for await (const event of events) list.push(event);
  return list;
}

const { t: _, ...READY_PAYLOAD } = READY;
const frame = { t: 'message', id: 'a-1', text: 'hi', chunk: { index: 0, total: 1 }, final: true };
const message = { type: 'message', data: { id: 'a-1', text: 'hi', index: 0, total: 1, final: true } };

test('events: from the call on, in order, until disconnect', async () => {
  const { client } = fakeClient();
  const events = client.events();
  client.connect();
  FakeSocket.last.open();
  FakeSocket.last.receive(READY, { t: 'typing' }, frame);
  client.disconnect();
  assert.deepEqual(await all(events), [
    { type: 'state', data: { state: 'connecting' } },
    { type: 'state', data: { state: 'connected' } },
    { type: 'ready', data: READY_PAYLOAD },
    { type: 'typing', data: undefined },
    message,
    { type: 'state', data: { state: 'idle' } },
  ]);
});

test('events: a refusal is the end, and its error the last event', async () => {
  const { client } = readyClient();
  const events = client.events();
  FakeSocket.last.end(1008);
  const [failed, error, ...more] = await all(events);
  assert.deepEqual(failed, { type: 'state', data: { state: 'failed' } });
  assert.equal(error?.type === 'error' && error.data.code, 'auth_failed');
  assert.deepEqual(more, []);
});

test('events: a reconnect is no end', async () => {
  const { client } = readyClient();
  const events = client.events();
  FakeSocket.last.end(1006);
  client.connect();
  client.disconnect();
  const states = (await all(events)).map((event) => event.type === 'state' && event.data);
  assert.deepEqual(states, [
    { state: 'reconnecting', detail: 'попытка 1' },
    { state: 'connecting' },
    { state: 'idle' },
  ]);
});

test('events: a reader that waits is woken, and one that was called twice gets both', async () => {
  readyClient();
  const { client } = readyClient();
  const events = client.events();
  const two = Promise.all([events.next(), events.next()]);
  FakeSocket.last.receive(frame);
  await Promise.resolve();
  FakeSocket.last.receive({ t: 'typing' });
  const [first, second] = await two;
  assert.deepEqual(first, { done: false, value: message });
  assert.deepEqual(second, { done: false, value: { type: 'typing', data: undefined } });
});

test('events: every reader gets all, beside the callbacks; who leaves gets no more', async () => {
  const { client, told } = readyClient();
  const [one, two] = [client.events(), client.events()];
  FakeSocket.last.receive(frame);
  for await (const event of one) {
    assert.deepEqual(event, message);
    break;
  }
  FakeSocket.last.receive(frame);
  client.disconnect();
  assert.deepEqual(await all(one), []);
  assert.equal((await all(two)).length, 3);
  assert.equal(told.of('message').length, 2);
});

test('events: what a callback throws does not keep them from a reader', async () => {
  const { client } = readyClient();
  const events = client.events();
  client.setHandlers({
    onError: () => {
      throw new Error('from a callback');
    },
  });
  assert.throws(() => FakeSocket.last.end(4001), /from a callback/);
  assert.equal((await all(events)).length, 2);
});

test('events: they end with disconnect, also where a callback throws or there was no connection', async () => {
  const { client } = readyClient({ handlers: {} });
  const events = client.events();
  client.setHandlers({
    onState: () => {
      throw new Error('from a callback');
    },
  });
  assert.throws(() => client.disconnect(), /from a callback/);
  assert.equal((await all(events)).length, 1);
  const none = client.events();
  client.disconnect();
  assert.deepEqual(await all(none), []);
});

test('events: a reader that a callback opens when it takes the device back outlives the refusal', async () => {
  const { client } = readyClient();
  let events = client.events();
  client.setHandlers({
    onError: () => {
      client.connect();
      events = client.events();
    },
  });
  FakeSocket.last.end(4001);
  FakeSocket.last.open();
  FakeSocket.last.receive(frame);
  assert.deepEqual(await events.next(), { done: false, value: message });
});

test('events: bounds: a reader may be 4096 events behind, or 64 Mi characters of files', async () => {
  const { client } = readyClient();
  const few = client.events();
  for (let n = 0; n < 4096; n++) FakeSocket.last.receive({ t: 'typing' });
  assert.equal((await few.next()).done, false);
  FakeSocket.last.receive({ t: 'typing' });
  assert.equal((await few.next()).done, false);
  FakeSocket.last.receive({ t: 'typing' }, { t: 'typing' });
  await assert.rejects(few.next(), /too slow/);
  assert.deepEqual(await few.next(), { done: true, value: undefined });

  const large = client.events();
  const data = 'A'.repeat(16 * 1024 * 1024);
  const file = JSON.stringify({ t: 'media', id: 'f', kind: 'image', mime: '', filename: '', size: 0, data });
  for (let n = 0; n < 4; n++) FakeSocket.last.receive(file);
  for (let n = 0; n < 4; n++) {
    assert.equal((await large.next()).done, false);
    FakeSocket.last.receive(file);
  }
  assert.equal((await large.next()).done, false);
  FakeSocket.last.receive(file, file);
  await assert.rejects(all(large), /too slow/);
});
