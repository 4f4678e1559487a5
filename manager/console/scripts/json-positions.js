/** The positions of values in the text of a JSON document, to show problems at their place. */

const SPACE = /[ \t\n\r]*/y;
const STRING = /"(?:[^"\\\u0000-\u001f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"/y;
const OTHER = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null/y;
const MOST_AROUND = 100;
const DEEPEST = 500;

/**
 * Read a text: `places` has the start and end of each value by its JSON pointer, `keys` those of the name before it, and
 * `error` the message and place of a syntax error. After an error there are the values before it.
 */
export function read(text) {
  const reading = { text, at: 0, places: new Map(), keys: new Map() };
  try {
    value(reading, "", 0);
    skip(reading, SPACE);
    if (reading.at < text.length) {
      throw new NotJson(reading.at, "unexpected text after the document");
    }
    return { places: reading.places, keys: reading.keys, error: null };
  } catch (error) {
    if (!(error instanceof NotJson)) {
      throw error;
    }
    return { places: reading.places, keys: reading.keys, error: { at: error.at, message: error.message } };
  }
}

/** A name as a part of a JSON pointer. */
export function escaped(name) {
  return name.replaceAll("~", "~0").replaceAll("/", "~1");
}

/** The name that a part of a JSON pointer stands for. */
export function unescaped(part) {
  return part.replaceAll("~1", "/").replaceAll("~0", "~");
}

/** The place of a pointer's value, or of its closest parent if it is missing: `[from, to]`. */
export function placeOf(places, pointer) {
  let known = pointer;
  while (!places.has(known) && known !== "") {
    known = known.slice(0, known.lastIndexOf("/"));
  }
  return places.get(known) ?? [0, 0];
}

/** The line and column of a place, counted from 1, and the text before, within and after it on nearby lines. */
export function around(text, [from, to]) {
  const begin = text.lastIndexOf("\n", from - 1) + 1;
  const line = text.slice(0, begin).split("\n").length;
  const ends = text.indexOf("\n", from);
  const end = ends === -1 ? text.length : ends;
  const before = text.lastIndexOf("\n", begin - 2) + 1;
  const after = text.indexOf("\n", end + 1);
  const stop = Math.min(Math.max(to, from + 1), end);
  return {
    line,
    column: from - begin + 1,
    before: last(text.slice(before, from)),
    within: first(text.slice(from, stop)),
    after: first(text.slice(stop, after === -1 ? text.length : after)),
  };
}

class NotJson extends Error {
  constructor(at, message) {
    super(message);
    this.at = at;
  }
}

function value(reading, pointer, depth) {
  skip(reading, SPACE);
  if (depth > DEEPEST) {
    throw new NotJson(reading.at, "the document is nested too deeply");
  }
  const from = reading.at;
  const mark = reading.text[from];
  if (mark === "{") {
    members(reading, pointer, depth);
  } else if (mark === "[") {
    items(reading, pointer, depth);
  } else if (mark === '"') {
    string(reading);
  } else if (!skip(reading, OTHER)) {
    throw new NotJson(from, from < reading.text.length ? "a JSON value is expected here" : "unexpected end of the document");
  }
  reading.places.set(pointer, [from, reading.at]);
}

function members(reading, pointer, depth) {
  reading.at += 1;
  if (taken(reading, "}")) {
    return;
  }
  do {
    skip(reading, SPACE);
    const from = reading.at;
    const name = string(reading);
    const member = `${pointer}/${escaped(name)}`;
    reading.keys.set(member, [from, reading.at]);
    expect(reading, ":");
    value(reading, member, depth + 1);
  } while (taken(reading, ","));
  expect(reading, "}");
}

function items(reading, pointer, depth) {
  reading.at += 1;
  if (taken(reading, "]")) {
    return;
  }
  let index = 0;
  do {
    value(reading, `${pointer}/${index}`, depth + 1);
    index += 1;
  } while (taken(reading, ","));
  expect(reading, "]");
}

function string(reading) {
  const from = reading.at;
  if (!skip(reading, STRING)) {
    throw new NotJson(from, "a string in double quotes is expected here, with special characters escaped");
  }
  return JSON.parse(reading.text.slice(from, reading.at));
}

function expect(reading, mark) {
  if (!taken(reading, mark)) {
    throw new NotJson(reading.at, `${mark} is expected here`);
  }
}

function taken(reading, mark) {
  skip(reading, SPACE);
  if (reading.text[reading.at] !== mark) {
    return false;
  }
  reading.at += 1;
  return true;
}

function skip(reading, pattern) {
  pattern.lastIndex = reading.at;
  const found = pattern.exec(reading.text);
  if (found === null) {
    return false;
  }
  reading.at = pattern.lastIndex;
  return true;
}

function last(text) {
  return text.length > MOST_AROUND ? `…${text.slice(-MOST_AROUND)}` : text;
}

function first(text) {
  return text.length > MOST_AROUND ? `${text.slice(0, MOST_AROUND)}…` : text;
}
