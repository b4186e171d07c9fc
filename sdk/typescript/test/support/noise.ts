/** Bytes that look random and are the same on every run. */
export function noise(length: number): Uint8Array {
  let x = length + 1;
  return Uint8Array.from({ length }, () => {
    x = (Math.imul(x, 1664525) + 1013904223) >>> 0;
    return x >>> 24;
  });
}
