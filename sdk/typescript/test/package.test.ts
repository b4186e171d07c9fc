// What is packed: the files, the formats, the size, and the API as a whole.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { apiReport, REPORT } from './support/api.mjs';
import { formats } from './support/formats.ts';

const installed = join(import.meta.dirname, 'node_modules', 'hermes-mobile-client');
const home = join(import.meta.dirname, '..');
const BUDGET = 8 * 1024;

function manifest(): Record<string, unknown> {
  return JSON.parse(readFileSync(join(installed, 'package.json'), 'utf8'));
}

test('the package holds what is built, README and licence, and nothing else', () => {
  assert.deepEqual(readdirSync(installed).sort(), ['LICENSE', 'README.md', 'dist', 'package.json']);
  for (const format of ['esm', 'cjs']) {
    const files = readdirSync(join(installed, 'dist', format));
    assert.ok(files.includes('hermesClient.js') && files.includes('hermesClient.d.ts'));
  }
});

test('no dependency, no script on the machine of a user, Node 22', () => {
  const { dependencies, peerDependencies, optionalDependencies, engines, license, scripts } = manifest();
  assert.deepEqual([dependencies, peerDependencies, optionalDependencies], [undefined, undefined, undefined]);
  assert.deepEqual(engines, { node: '>=22' });
  assert.equal(license, 'MIT');
  for (const name of ['preinstall', 'install', 'postinstall']) assert.equal(name in (scripts as object), false);
});

test('both formats have the same members', () => {
  const [[, esm], [, cjs]] = formats as [(typeof formats)[0], (typeof formats)[0]];
  const names = Object.keys(esm).sort();
  const functions = ['HermesClient', 'base64ToBytes', 'bytesToBase64', 'guessMime', 'makeId'];
  assert.deepEqual(names, [...functions, 'MEDIA_CHUNK_BYTES', 'PROTOCOL_VERSION'].sort());
  assert.deepEqual(Object.keys(cjs).sort(), names);
  for (const name of functions) assert.equal(typeof esm[name as keyof typeof esm], 'function');
});

test('loading it does nothing: a bundler may leave it out, and no global is needed', () => {
  for (const code of ["require('hermes-mobile-client')", "import('hermes-mobile-client')"]) {
    const script = `delete globalThis.WebSocket; delete globalThis.crypto; ${code}`;
    const { status, stdout, stderr } = spawnSync(process.execPath, ['-e', script], {
      cwd: import.meta.dirname,
      encoding: 'utf8',
    });
    assert.deepEqual([status, stdout, stderr], [0, '', '']);
  }
});

test('the bundle for browsers stays under 8 KiB', (t) => {
  const out = mkdtempSync(join(tmpdir(), 'hermes-bundle-'));
  t.after(() => rmSync(out, { recursive: true }));
  const { buildSync } = createRequire(join(home, 'build.mjs'))('esbuild');
  const outfile = join(out, 'hermes.js');
  const entryPoints = [join(installed, 'dist', 'esm', 'hermesClient.js')];
  const { warnings } = buildSync({
    entryPoints,
    outfile,
    bundle: true,
    minify: true,
    platform: 'browser',
    format: 'esm',
  });
  assert.deepEqual(warnings, []);
  const size = gzipSync(readFileSync(outfile), { level: 9 }).length;
  t.diagnostic(`${size} bytes`);
  assert.ok(size <= BUDGET, `${size} bytes`);
});

test('the API is the intended one', () => {
  assert.equal(apiReport(), readFileSync(REPORT, 'utf8'), 'npm run api, when the change is meant');
});
