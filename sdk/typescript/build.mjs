// Builds dist: the package in one file for each module format, and the types beside them.
import { execFileSync } from 'node:child_process';
import { cpSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

const home = dirname(fileURLToPath(import.meta.url));
process.chdir(home);
rmSync('dist', { recursive: true, force: true });

for (const format of ['esm', 'cjs']) {
  await build({
    entryPoints: ['hermesClient.ts'],
    outdir: `dist/${format}`,
    bundle: true,
    format,
    target: 'es2022',
    logLevel: 'warning',
  });
}

const tsc = join(dirname(createRequire(import.meta.url).resolve('typescript/package.json')), 'bin', 'tsc');
execFileSync(process.execPath, [tsc, '-p', 'tsconfig.json'], { stdio: 'inherit' });
for (const file of readdirSync('dist/esm').filter((name) => name.endsWith('.d.ts'))) {
  cpSync(`dist/esm/${file}`, `dist/cjs/${file}`);
}
writeFileSync('dist/cjs/package.json', '{ "type": "commonjs" }\n');
