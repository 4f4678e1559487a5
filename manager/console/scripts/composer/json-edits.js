/**
 * Edits of a JSON text at JSON pointers. Everything else in the text stays as it was written, down to the last space, so
 * that what the canvas does not know is never lost.
 */

import { read, unescaped } from "../json-positions.js";

const WIDEST = 110;

/** The text with another value at a pointer, which is there already, or is a new member of an object that is. */
export function set(text, pointer, value) {
  const { places } = read(text);
  const place = places.get(pointer);
  if (place !== undefined) {
    return spliced(text, place, written(value, indentAt(text, place[0])));
  }
  const cut = pointer.lastIndexOf("/");
  const name = unescaped(pointer.slice(cut + 1));
  return added(text, pointer.slice(0, cut), value, `${JSON.stringify(name)}: `);
}

/** The text with one more item at the end of the array at a pointer. */
export function append(text, pointer, value) {
  return added(text, pointer, value, "");
}

/** The text without the item or member at a pointer; one that is not there is no matter. */
export function remove(text, pointer) {
  const { places, keys } = read(text);
  if (!places.has(pointer)) {
    return text;
  }
  const parent = pointer.slice(0, pointer.lastIndexOf("/"));
  const siblings = within(places, parent);
  const at = siblings.indexOf(pointer);
  const begin = (each) => (keys.get(each) ?? places.get(each))[0];
  if (siblings.length === 1) {
    const [from, to] = places.get(parent);
    return spliced(text, [from + 1, to - 1], "");
  }
  return at === 0
    ? spliced(text, [begin(pointer), begin(siblings[1])], "")
    : spliced(text, [places.get(siblings[at - 1])[1], places.get(pointer)[1]], "");
}

/** The text with another name for the member at a pointer. */
export function rename(text, pointer, name) {
  const place = read(text).keys.get(pointer);
  return place === undefined ? text : spliced(text, place, JSON.stringify(name));
}

/** A document as people write them: its tasks and its streams one a line, where they fit. */
export function printed(value) {
  return `${block(value, "", 2)}\n`;
}

function added(text, pointer, value, name) {
  const { places } = read(text);
  const [from, to] = places.get(pointer);
  const last = within(places, pointer).at(-1);
  if (last === undefined) {
    const indent = indentAt(text, from);
    return spliced(text, [from + 1, to - 1], `\n${indent}  ${name}${written(value, `${indent}  `)}\n${indent}`);
  }
  const end = places.get(last)[1];
  const onLines = text.slice(from, end).includes("\n") && /^\s*\n/.test(text.slice(from + 1));
  const indent = onLines ? indentAt(text, places.get(last)[0]) : indentAt(text, from);
  const between = onLines ? `,\n${indent}` : ", ";
  return spliced(text, [end, end], `${between}${name}${written(value, indent)}`);
}

/** The pointers of the items or members of a value, in their order. */
function within(places, pointer) {
  const depth = pointer.split("/").length + 1;
  return [...places.keys()]
    .filter((each) => each.startsWith(`${pointer}/`) && each.split("/").length === depth)
    .sort((one, other) => places.get(one)[0] - places.get(other)[0]);
}

function spliced(text, [from, to], by) {
  return text.slice(0, from) + by + text.slice(to);
}

function indentAt(text, at) {
  const line = text.slice(text.lastIndexOf("\n", at - 1) + 1, at);
  return /^[ \t]*/.exec(line)[0];
}

/** A value on one line, or on several where it is too long. */
function written(value, indent) {
  const line = onOneLine(value);
  return line.length + indent.length <= WIDEST ? line : block(value, indent, 1);
}

/** A value whose parts are on lines of their own, down to some depth. */
function block(value, indent, depth) {
  const isList = Array.isArray(value);
  if (typeof value !== "object" || value === null || Object.keys(value).length === 0) {
    return JSON.stringify(value);
  }
  const inner = `${indent}  `;
  const parts = Object.entries(value).map(function part([name, each]) {
    const isOpen = depth > 1 && typeof each === "object" && each !== null && (depth > 2 || Array.isArray(each));
    return `${inner}${isList ? "" : `${JSON.stringify(name)}: `}${isOpen ? block(each, inner, depth - 1) : written(each, inner)}`;
  });
  return `${isList ? "[" : "{"}\n${parts.join(",\n")}\n${indent}${isList ? "]" : "}"}`;
}

function onOneLine(value) {
  if (Array.isArray(value)) {
    return `[${value.map(onOneLine).join(", ")}]`;
  }
  if (typeof value === "object" && value !== null) {
    return `{${Object.entries(value).map(([name, each]) => `${JSON.stringify(name)}: ${onOneLine(each)}`).join(", ")}}`;
  }
  return JSON.stringify(value);
}
