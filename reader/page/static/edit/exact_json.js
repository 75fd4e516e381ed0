// JSON in which no digit is lost: long whole numbers are read as texts, and values are written as the texts that they are.

// A text of JSON, or a number; the numbers inside of texts are skipped with them.
const TOKEN = /"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;

/** Parse JSON; whole numbers that a double cannot hold become texts. */
export function parseExact(text) {
  return JSON.parse(text.replace(TOKEN, (token) => (/^-?\d+$/.test(token) && !Number.isSafeInteger(Number(token)) ? `"${token}"` : token)));
}

/** An object of values that are JSON already: {name: fragment}. */
export const objectOf = (fragments) => `{${Object.entries(fragments).map(([name, fragment]) => `${JSON.stringify(name)}:${fragment}`).join(",")}}`;

/** A list of values that are JSON already. */
export const listOf = (fragments) => `[${fragments.join(",")}]`;
