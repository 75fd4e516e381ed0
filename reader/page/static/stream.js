// The bytes of a response, with progress, up to a limit; a response that breaks off is an error, never a shorter result.

import { GatewayError } from "./errors.js";
import { bytes as size } from "./format.js";

export const MOST_BYTES = 512 * 1024 * 1024;
const END = [0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0];

/** A result that is larger than the page takes. */
export class TooLarge extends GatewayError {}

/** All bytes of an Arrow stream; `onProgress(bytes)` as they arrive. Throws TooLarge beyond `most` bytes. */
export async function arrowBytes(response, onProgress, most = MOST_BYTES) {
  const reader = response.body.getReader();
  const parts = [];
  let length = 0;
  for (;;) {
    const { done, value } = await pulled(reader);
    if (done) break;
    parts.push(value);
    length += value.length;
    if (length > most) {
      await reader.cancel();
      throw new TooLarge(`The result is larger than this page can show (${size(most)}): show fewer rows or columns, or download it.`);
    }
    onProgress(length);
  }
  const whole = new Uint8Array(length);
  let at = 0;
  for (const part of parts) { whole.set(part, at); at += part.length; }
  if (!endsWhole(whole)) throw brokeOff();
  return whole;
}

async function pulled(reader) {
  try {
    return await reader.read();
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw brokeOff();
  }
}

// A stream of Arrow ends with a marker. Without it the connection or the query ended early.
function endsWhole(bytes) {
  return bytes.length >= END.length && END.every((byte, place) => bytes[bytes.length - END.length + place] === byte);
}

const brokeOff = () =>
  new GatewayError("The response broke off: it was cancelled, a limit of the gateway was reached, or the connection was lost. Select fewer rows, or run the query as a job.");
