/** Remedies that a button can do: edits of the text for problems whose remedy is mechanical. */

import { read } from "../json-positions.js";
import { remove, rename, set } from "./json-edits.js";

/** By the code of a problem what its remedy removes, in words. */
const REMOVED = {
  "repeated-stream": "Remove the stream", "self-loop": "Remove the stream", "unknown-task": "Remove the stream",
  "sink-with-outputs": "Remove the stream", "source-with-inputs": "Remove the stream",
  "unknown-field": "Remove the field",
};
/** The words with which the service proposes a similar name. */
const SIMILAR = /^did you mean '(.+)'\?$/s;

/** The remedy of a problem as `{words, edit(text)}`, or null if it takes a person. */
export function fixOf(problem, text) {
  const { pointer, code, remedy } = problem;
  const [, list, at] = pointer.split("/");
  const name = SIMILAR.exec(remedy)?.[1];
  if (name !== undefined && !name.endsWith("…")) {
    const isField = code === "unknown-field";
    return read(text).places.has(pointer)
      ? { words: `Use ${name}`, edit: (made) => (isField ? rename(made, pointer, name) : set(made, pointer, name)) } : null;
  }
  if (code === "unknown-version") {
    return { words: "Use version 1", edit: (made) => set(made, pointer, 1) };
  }
  if (Object.hasOwn(REMOVED, code)) {
    const place = list === "streams" ? `/streams/${at}` : pointer;
    return { words: REMOVED[code], edit: (made) => remove(made, place) };
  }
  return null;
}
