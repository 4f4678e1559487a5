/** The keys of the canvas: a table from keys to actions, and their list for people. */

import { element } from "../dom.js";

const LEFT = [-1, 0];
const RIGHT = [1, 0];
const UP = [0, -1];
const DOWN = [0, 1];
const ARROWS = { ArrowLeft: LEFT, ArrowRight: RIGHT, ArrowUp: UP, ArrowDown: DOWN };
const PLAIN = {
  Enter: "accept", " ": "toggle", Delete: "remove", Backspace: "remove", Escape: "cancel",
  a: "add", c: "connect", l: "arrange", "+": "closer", "=": "closer", "-": "farther", 0: "fit",
};
const WITH_CONTROL = { a: "selectAll", d: "duplicate" };

/** The keys in words. */
const KEYS = [
  ["Arrow keys", "go to the next task in a direction"],
  ["Enter", "configure the task"],
  ["A", "add a task: search the types"],
  ["C", "begin a stream at the task; again for its next port; then arrow keys, Enter, or Escape"],
  ["Shift and arrow keys", "move the selected tasks"],
  ["Delete", "remove what is selected"],
  ["Space", "select the task too, or no longer; Ctrl and arrow keys go on without selecting"],
  ["Ctrl+A, Ctrl+C, Ctrl+X, Ctrl+V, Ctrl+D", "select all, copy, cut, paste, duplicate"],
  ["Ctrl+Z, Ctrl+Shift+Z", "undo, redo, everywhere"],
  ["L, 0, +, −", "lay out, show everything, closer, farther"],
];

/** The keys as a list that can be opened. */
export function keyList() {
  return element("details", {}, element("summary", {}, "Keys"), element("dl", { class: "facts" },
    KEYS.map(([keys, does]) => [element("dt", {}, element("kbd", {}, keys)), element("dd", {}, does)])));
}

/** What a key does on the canvas, `{name, direction}`, or null. */
export function actionOf(event) {
  const control = event.ctrlKey || event.metaKey;
  if (event.altKey) {
    return null;
  }
  if (Object.hasOwn(ARROWS, event.key)) {
    return { name: event.shiftKey ? "move" : control ? "look" : "go", direction: ARROWS[event.key] };
  }
  const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  const table = control ? WITH_CONTROL : PLAIN;
  return Object.hasOwn(table, key) ? { name: table[key] } : null;
}

/** Whether a key undoes or redoes; null if it does neither. */
export function historyOf(event) {
  const key = event.key.toLowerCase();
  if (!(event.ctrlKey || event.metaKey) || event.altKey || !["z", "y"].includes(key)) {
    return null;
  }
  return key === "y" || event.shiftKey ? "redo" : "undo";
}

/** Let keys undo and redo wherever on the page no text is written. */
export function listenToHistory(composing, signal) {
  document.addEventListener("keydown", function undo(event) {
    const step = historyOf(event);
    if (step !== null && !event.defaultPrevented && !event.target.closest("input, textarea, .composer-rich")) {
      event.preventDefault();
      composing[step]();
    }
  }, { signal });
}
