// The quick start of README, followed to the letter in a copy of the repository.
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { cpSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { Gateway } from './support/gateway.ts';

const root = join(import.meta.dirname, '..', '..', '..');

/** The fenced blocks of the quick start in their order. */
function blocks(): { language: string; text: string; before: string }[] {
  const readme = readFileSync(join(import.meta.dirname, '..', 'README.md'), 'utf8');
  const section = /^## Quick start$([\s\S]*?)^## /m.exec(readme)?.[1] ?? '';
  return [...section.matchAll(/([^\n]*)\n\n```(\w+)\n([\s\S]*?)```/g)].map(([, before, language, text]) => ({
    ...{ language: language!, text: text!, before: before! },
  }));
}

/** What a clone would have: all files that are not ignored, as they are now. */
function clone(to: string): void {
  const list = execFileSync('git', ['-C', root, 'ls-files', '-z', '--cached', '--others', '--exclude-standard']);
  for (const name of list.toString().split('\0')) {
    if (name && existsSync(join(root, name))) cpSync(join(root, name), join(to, name));
  }
}

test('the quick start ends in a streamed conversation, a card and a photo', async (t) => {
  const dir = mkdtempSync(join(tmpdir(), 'hermes-quickstart-'));
  t.after(() => rmSync(dir, { recursive: true, force: true }));
  const repository = join(dir, 'mobilegate');
  clone(repository);

  const [gateway, install, chat, start, output, ...more] = blocks();
  assert.deepEqual(
    [gateway, install, chat, start, output].map((block) => block?.language),
    ['sh', 'sh', 'js', 'sh', 'text'],
  );
  assert.deepEqual(more, []);

  const PATH = `${dirname(process.execPath)}:${process.env.PATH}`;
  const env = { ...process.env, PATH, MOBILE_PORT: '0', npm_config_prefer_offline: 'true', NODE_OPTIONS: '' };
  const started = await Gateway.run(gateway!.text, { cwd: repository, env });
  t.after(() => started.stop());
  const app = join(dir, 'hermes-app');
  const run = (command: string, cwd: string): string => {
    const { stdout, stderr, status } = spawnSync('bash', ['-ec', command], {
      ...{ cwd, env: { ...env, MOBILE_URL: started.url }, encoding: 'utf8' },
    });
    assert.equal(status, 0, stderr);
    return stdout;
  };
  run(install!.text, repository);
  writeFileSync(join(app, /`([\w.]+)`:$/.exec(chat!.before)![1]!), chat!.text);
  const growing = (line: string) => line.startsWith('   ...');
  const said = run(start!.text, app).split('\n');
  assert.ok(said.some(growing));
  assert.deepEqual(
    said.filter((line) => !growing(line)),
    output!.text.split('\n').filter((line) => !growing(line)),
  );
  const photo = /const photo = '([^']+)'/.exec(chat!.text)![1]!;
  assert.equal(readFileSync(join(app, 'photo-back.png')).toString('base64'), photo);
});
