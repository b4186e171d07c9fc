// The package as its users load it, in both module formats.
import { createRequire } from 'node:module';
import * as esm from 'hermes-mobile-client';

const require = createRequire(import.meta.url);

export const formats: [string, typeof esm][] = [
  ['esm', esm],
  ['cjs', require('hermes-mobile-client')],
];
