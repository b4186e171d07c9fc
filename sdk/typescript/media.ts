// Files on their way out and in.

import { base64ToBytes, bytesToBase64 } from './base64.js';
import type { MediaPayload, MediaProgress, MediaSource } from './protocol.js';

/** Reads what the application wants to send. An empty file is an error. */
export function readSource(source: MediaSource): Uint8Array {
  let bytes: Uint8Array;
  if (typeof source === 'string') bytes = base64ToBytes(source);
  else if (ArrayBuffer.isView(source)) {
    // Not instanceof: the bytes may be of another realm, an iframe or a test runner.
    bytes = new Uint8Array(source.buffer, source.byteOffset, source.byteLength);
  } else bytes = readFile(source.path);
  if (bytes.length === 0) throw new Error('the file is empty');
  return bytes;
}

interface FileSystem {
  readFileSync(path: string): Uint8Array;
}

/** Asks the process for the file system, so that no bundler finds an import that a browser does not have. */
function readFile(path: string): Uint8Array {
  const { process } = globalThis as { process?: { getBuiltinModule?: (id: string) => FileSystem | undefined } };
  const fs = process?.getBuiltinModule?.('node:fs');
  if (!fs) throw new Error('{ path } can be read on Node only; give the bytes or their base64');
  return fs.readFileSync(path);
}

const MAX_PARTS = 2048;
const MAX_OPEN = 8;

interface OpenFile {
  first: MediaPayload;
  parts: string[];
  missing: number;
  received: number;
}

/** Joins the parts of files from the gateway, in whichever order they come. It keeps only files that are not complete. */
export class Downloads {
  private readonly open = new Map<string, OpenFile>();

  /** Of one file. The gateway may say that it is something else. */
  maxBytes = 8 * 1024 * 1024;

  /** Takes a part. The result is the file, or how far it is, or nothing when the part does not fit. */
  add(part: MediaPayload): { file: MediaPayload } | { progress: MediaProgress } | undefined {
    const { id, parts, size, data } = part;
    if (parts === 1 || data === undefined) return { file: { ...part, final: true } };
    if (!isIndex(part.part, parts) || !isIndex(parts, MAX_PARTS + 1)) return undefined;

    let file = this.open.get(id);
    if (file?.first.parts !== parts) {
      if (!file && this.open.size >= MAX_OPEN) return undefined;
      file = { first: part, parts: new Array<string>(parts), missing: parts, received: 0 };
      this.open.set(id, file);
    }
    const before = file.parts[part.part];
    if (before === undefined) file.missing--;
    file.parts[part.part] = data;
    file.received += decodedLength(data) - decodedLength(before ?? '');
    if (file.received > this.maxBytes) {
      this.open.delete(id);
      return undefined;
    }
    const progress = { progress: { id, received: file.received, size } };
    if (file.missing > 0) return progress;
    this.open.delete(id);
    if (file.received !== size) return undefined;
    return { file: { ...file.first, part: parts - 1, final: true, data: join(file.parts) } };
  }

  clear(): void {
    this.open.clear();
  }
}

function isIndex(number: number, length: number): boolean {
  return Number.isInteger(number) && number >= 0 && number < length;
}

function decodedLength(base64: string): number {
  const end = base64.endsWith('==') ? 2 : base64.endsWith('=') ? 1 : 0;
  return Math.floor(((base64.length - end) * 3) / 4);
}

/** Base64 that ends on whole bytes of three can be put together as it is. */
function join(parts: string[]): string {
  if (parts.slice(0, -1).every((part) => part.length % 4 === 0 && !part.endsWith('='))) return parts.join('');
  const bytes = parts.map(base64ToBytes);
  const whole = new Uint8Array(bytes.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of bytes) {
    whole.set(part, at);
    at += part.length;
  }
  return bytesToBase64(whole);
}
