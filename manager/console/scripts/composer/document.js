/**
 * The document that is composed, as the canvas sees it, and the edits of its text that the canvas makes.
 *
 * The text is the truth. Each edit is a function from a text to a text; it changes tasks and streams only, and leaves all
 * else (points, gaps, alternates, guards, and whatever comes later) as it is written.
 */

import { escaped } from "../json-positions.js";
import { isSame } from "../merge-patch.js";
import { append, remove, set } from "./json-edits.js";

/** The text that a new document begins with. */
export const EMPTY = '{\n  "version": 1,\n  "name": "",\n  "tasks": [],\n  "streams": []\n}\n';

/** The text to begin with, with a task of a type or one that reads a source, where a link asks for it. */
export function begun({ type, source }) {
  const asked = source ? { id: "source", type: "source", config: { source } } : { id: freshId({ tasks: [] }, type ?? ""), type };
  return type || source ? `${JSON.stringify({ version: 1, name: "", tasks: [asked], streams: [] }, null, 2)}\n` : EMPTY;
}

const UNFIT = /[/+#\u0000-\u001f\u007f-\u009f]/g;

/**
 * What the canvas draws of a text: `{value, name, tasks, streams}`, or null if the text is no JSON object. Tasks and
 * streams have their place in the document as `at`; those that cannot be drawn are left out.
 */
export function drawn(text) {
  let value;
  try {
    value = JSON.parse(text);
  } catch {
    return null;
  }
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    return null;
  }
  const known = new Set();
  const tasks = listed(value.tasks).filter(function isDrawn({ id }) {
    const isNew = typeof id === "string" && id !== "" && !known.has(id);
    known.add(id);
    return isNew;
  });
  const streams = listed(value.streams).filter(({ from, to }) => known.has(from) && known.has(to));
  return { value, name: typeof value.name === "string" ? value.name : "", tasks, streams };
}

/** The task of an id, or undefined. */
export function taskOf(document, id) {
  return document.tasks.find((task) => task.id === id);
}

/** What a task does, in a few words: its type, or what is chosen for it while it runs or when it is planned. */
export function workOf({ type, alternates, point, gap }) {
  if (typeof type === "string") {
    return type;
  }
  if (Array.isArray(alternates)) {
    return alternates.map((alternate) => alternate?.name ?? "?").join(" or ");
  }
  return point ? "a module by plan" : gap ? "modules by plan" : "no type";
}

/** An id like the wanted one that no task has. */
export function freshId(document, wanted) {
  const base = wanted.replaceAll(UNFIT, "-").slice(0, 120) || "task";
  const taken = new Set(document.tasks.map((task) => task.id));
  let id = base;
  for (let number = 2; taken.has(id); number += 1) {
    id = `${base}-${number}`;
  }
  return id;
}

/** Whether an id can be given to a task; empty if it can, else the reason. */
export function idRefusal(document, id, before) {
  if (id === "") {
    return "an id is needed";
  }
  if (id.length > 128 || id.search(UNFIT) >= 0) {
    return "an id has at most 128 characters, without /, + and #";
  }
  return id !== before && taskOf(document, id) ? `there is a task ${id} already` : "";
}

/** With one more task. */
export function withTask(text, task) {
  return append(withList(text, "tasks"), "/tasks", task);
}

/** Without some tasks, nor the streams from and to them. */
export function withoutTasks(text, ids) {
  const { tasks, value } = drawn(text);
  const ending = listed(value.streams).filter((stream) => ids.has(stream.from) || ids.has(stream.to));
  const shorter = backwards(ending).reduce((made, { at }) => remove(made, `/streams/${at}`), text);
  return backwards(tasks.filter((task) => ids.has(task.id))).reduce((made, { at }) => remove(made, `/tasks/${at}`), shorter);
}

/** With another id for a task, at the ends of its streams too. */
export function withId(text, id, other) {
  const { tasks, value } = drawn(text);
  const renamed = set(text, `/tasks/${tasks.find((task) => task.id === id).at}/id`, other);
  // Those from and to what the canvas does not draw, too.
  return listed(value.streams).reduce(function ends(made, { at, from, to }) {
    const left = from === id ? set(made, `/streams/${at}/from`, other) : made;
    return to === id ? set(left, `/streams/${at}/to`, other) : left;
  }, renamed);
}

/** With another config of a task. Fields that stay the same stay as they are written, and an empty config is left out. */
export function withConfig(text, id, config) {
  const task = taskOf(drawn(text), id);
  const place = `/tasks/${task.at}/config`;
  const before = task.config;
  if (Object.keys(config).length === 0) {
    return remove(text, place);
  }
  if (typeof before !== "object" || before === null || Array.isArray(before)) {
    return set(text, place, config);
  }
  return [...new Set([...Object.keys(before), ...Object.keys(config)])].reduce(function field(made, name) {
    const member = `${place}/${escaped(name)}`;
    if (!Object.hasOwn(config, name)) {
      return remove(made, member);
    }
    return Object.hasOwn(before, name) && isSame(before[name], config[name]) ? made : set(made, member, config[name]);
  }, text);
}

/** With another value in a field of a task besides its config; without the field if it is undefined. */
export function withField(text, id, name, value) {
  const place = `/tasks/${taskOf(drawn(text), id).at}/${name}`;
  return value === undefined ? remove(text, place) : set(text, place, value);
}

/** With one more stream, `{from, from_port, to, to_port}`; ports that are undefined are left out. */
export function withStream(text, stream) {
  return append(withList(text, "streams"), "/streams", plain(stream));
}

/** Without the stream at a place. */
export function withoutStream(text, at) {
  return remove(text, `/streams/${at}`);
}

/** Some tasks with the streams between them, to be pasted. */
export function copied(document, ids) {
  const tasks = document.tasks.filter((task) => ids.has(task.id));
  const streams = document.streams.filter((stream) => ids.has(stream.from) && ids.has(stream.to));
  return { tasks: tasks.map(plain), streams: streams.map(plain) };
}

/** With copied tasks under ids that are free, and their streams; returns `{text, ids}`, new ids by old ones. */
export function withCopies(text, { tasks, streams }) {
  const ids = new Map();
  let made = text;
  for (const task of tasks) {
    const id = freshId(drawn(made), task.id);
    ids.set(task.id, id);
    made = withTask(made, { ...task, id });
  }
  for (const stream of streams) {
    made = withStream(made, { ...stream, from: ids.get(stream.from), to: ids.get(stream.to) });
  }
  return { text: made, ids };
}

/** What was copied, from the text of a clipboard; null if it is something else. */
export function copiedIn(text) {
  const found = drawn(text);
  const isCopy = found !== null && found.tasks.length > 0 && found.tasks.length === found.value.tasks.length;
  return isCopy ? copied(found, new Set(found.tasks.map((task) => task.id))) : null;
}

function listed(list) {
  return Array.isArray(list)
    ? list.map((each, at) => ({ ...each, at })).filter((_, at) => typeof list[at] === "object" && list[at] !== null)
    : [];
}

function withList(text, name) {
  return Array.isArray(JSON.parse(text)[name]) ? text : set(text, `/${name}`, []);
}

function plain({ at: _, ...fields }) {
  return JSON.parse(JSON.stringify(fields));
}

/** The last first, so that the places of those before it stay true. */
function backwards(items) {
  return [...items].sort((one, other) => other.at - one.at);
}
