// The bytes of an answer, with progress, up to a limit; an answer that broke off is an error, never a shorter answer.

import { GatewayError } from "./errors.js";
import { bytes as size } from "./format.js";

export const MOST_BYTES = 512 * 1024 * 1024;
const END = [0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0];

/** All bytes of an Arrow stream; `onProgress(bytes)` as they come. */
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
      throw new GatewayError(`The answer has more than ${size(most)}, which is more than this page holds: show fewer rows or columns, or download it.`);
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

// A stream of Arrow ends with a marker. Without it the connection, or the query behind it, ended early.
function endsWhole(bytes) {
  return bytes.length >= END.length && END.every((byte, place) => bytes[bytes.length - END.length + place] === byte);
}

const brokeOff = () =>
  new GatewayError("The answer broke off before its end: a limit of the gateway may have been reached, or the connection was lost. Ask for fewer rows, or run it as a job.");
