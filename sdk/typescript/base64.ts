const ALPHABET = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/';
const PAD = 0x3d;

const codes = Uint8Array.from(ALPHABET, (c) => c.charCodeAt(0));
const values = new Int8Array(128).fill(-1);
codes.forEach((code, value) => {
  values[code] = value;
});

/** Bytes that are encoded at a time: their characters are the arguments of one call, of which engines take so many. */
const STEP = 3 * 4096;

/** Encodes bytes as base64, with padding. */
export function bytesToBase64(bytes: Uint8Array): string {
  let out = '';
  for (let start = 0; start < bytes.length; start += STEP) {
    out += String.fromCharCode.apply(null, encode(bytes.subarray(start, start + STEP)) as unknown as number[]);
  }
  return out;
}

function encode(bytes: Uint8Array): Uint8Array {
  const out = new Uint8Array(Math.ceil(bytes.length / 3) * 4);
  let at = 0;
  for (let i = 0; i < bytes.length; i += 3) {
    const bits = ((bytes[i] ?? 0) << 16) | ((bytes[i + 1] ?? 0) << 8) | (bytes[i + 2] ?? 0);
    out[at++] = codes[bits >> 18] as number;
    out[at++] = codes[(bits >> 12) & 63] as number;
    out[at++] = i + 1 < bytes.length ? (codes[(bits >> 6) & 63] as number) : PAD;
    out[at++] = i + 2 < bytes.length ? (codes[bits & 63] as number) : PAD;
  }
  return out;
}

/** Decodes base64. Characters outside of its alphabet, padding too, are passed over. */
export function base64ToBytes(input: string): Uint8Array {
  const out = new Uint8Array(Math.ceil((input.length * 3) / 4));
  let length = 0;
  let bits = 0;
  let count = 0;
  for (let i = 0; i < input.length; i++) {
    const value = values[input.charCodeAt(i)] ?? -1;
    if (value < 0) continue;
    bits = (bits << 6) | value;
    count += 6;
    if (count >= 8) {
      count -= 8;
      out[length++] = (bits >> count) & 255;
    }
  }
  return out.slice(0, length);
}
