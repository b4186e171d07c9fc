import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  base64ToBytes,
  bytesToBase64,
  guessMime,
  MEDIA_CHUNK_BYTES,
  makeId,
  PROTOCOL_VERSION,
} from 'hermes-mobile-client';
import { noise } from './support/noise.ts';

test('bytesToBase64 and base64ToBytes agree with Buffer for every length, also where the steps meet', () => {
  for (const length of [...Array(70).keys(), 12286, 12287, 12288, 12289, 12290, 36865, 1_000_003]) {
    const bytes = noise(length);
    const text = Buffer.from(bytes).toString('base64');
    assert.equal(bytesToBase64(bytes), text);
    assert.deepEqual(base64ToBytes(text), bytes);
  }
});

test('bytesToBase64 takes the view, not the buffer under it', () => {
  assert.equal(bytesToBase64(Uint8Array.of(9, 0, 1, 2, 9).subarray(1, 4)), 'AAEC');
});

test('base64ToBytes passes over what is not base64', () => {
  for (const text of ['AAEC', ' A\nA\tE C ', 'AAEC====', 'A-A_E.Cя💡', '=AAEC']) {
    assert.deepEqual(base64ToBytes(text), Uint8Array.of(0, 1, 2), text);
  }
  assert.deepEqual(base64ToBytes('AAECAw'), Uint8Array.of(0, 1, 2, 3));
  for (const text of ['', '=', 'A', '\u0080\uffff']) assert.equal(base64ToBytes(text).length, 0);
});

test('makeId: the time in base 36 and a random suffix, never twice', (t) => {
  const ids = new Set(Array.from({ length: 10_000 }, makeId));
  assert.equal(ids.size, 10_000);
  t.mock.timers.enable({ apis: ['Date'], now: 1_700_000_000_000 });
  assert.match(makeId(), new RegExp(`^${(1_700_000_000_000).toString(36)}-[0-9a-z]{10}$`));
});

test('guessMime: by the extension', () => {
  const types = [
    'a.png',
    'отчёт.PDF',
    '/tmp/x.tar/clip.mp4',
    'C:\\voice.Ogg',
    'a.constructor',
    'png',
    'a.',
    '',
    'a.b/c',
  ];
  assert.deepEqual(types.map(guessMime), [
    ...['image/png', 'application/pdf', 'video/mp4', 'audio/ogg'],
    ...Array(5).fill('application/octet-stream'),
  ]);
});

test('the constants', () => {
  assert.equal(PROTOCOL_VERSION, 1);
  assert.equal(MEDIA_CHUNK_BYTES, 3 * 1024 * 1024);
});
