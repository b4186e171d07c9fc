// The public API in one text: the declarations of the package, without comments and without what is private.
import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const test = dirname(dirname(fileURLToPath(import.meta.url)));
const types = join(test, 'node_modules', 'hermes-mobile-client', 'dist', 'esm');

export const REPORT = join(dirname(test), 'api.txt');

const INTRO = `What an application can use of hermes-mobile-client. A change here is a change for everybody who uses it: when it is
meant, \`npm run api\` writes this file anew.
`;

export function apiReport() {
  const parts = ['hermesClient', 'protocol', 'base64', 'mime'].map((name) => {
    const text = readFileSync(join(types, `${name}.d.ts`), 'utf8')
      .replace(/\/\*[\s\S]*?\*\//g, '')
      .replace(/^import .*\n/gm, '')
      .replace(/^ +private .*\n/gm, '')
      .replace(/^\s*\n/gm, '');
    return `\n--- ${name}\n${text}`;
  });
  return INTRO + parts.join('');
}
