/** What buttons and forms have in common: work that is done once at a time, and texts to copy. */

import { element, problem, replace } from "./dom.js";

/**
 * A function that does the work of buttons and forms, one at a time; it returns whether it was done.
 *
 * A refusal is shown in a place. `placed(errors)` may show some of its errors at their fields, and returns the others.
 */
export function worker(place, signal) {
  let busy = false;
  return async function run(work, placed = (errors) => errors) {
    // A disabled button would lose the focus.
    if (busy) {
      return false;
    }
    busy = true;
    replace(place);
    placed([]);
    try {
      await work();
      return true;
    } catch (error) {
      if (!signal.aborted && error.status !== 401) {
        const errors = error.errors ?? [];
        const others = placed(errors);
        const isShown = errors.length > 0 && others.length === 0;
        replace(place, isShown ? null : problem({ title: error.title, detail: error.detail, message: error.message, errors: others }));
      }
      return false;
    } finally {
      busy = false;
    }
  };
}

/** A text with a button that copies it. */
export function copyable(label, text) {
  const block = element("pre", { tabindex: 0, role: "region", "aria-label": label }, text);
  const button = element("button", { class: "button small", type: "button", on: { click: copy } }, "Copy");

  async function copy() {
    getSelection().selectAllChildren(block);
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = "Copied";
    } catch {
      // Browsers write to the clipboard over TLS, or on their own machine.
      button.textContent = "Selected: press Ctrl+C";
    }
  }

  return element("div", { class: "copyable" }, block, button);
}

/** What is shown this once, with a sentence that says so. */
export function shownOnce(words, texts) {
  return element("div", { class: "card once", role: "status" },
    element("p", {}, element("strong", {}, words)),
    Object.entries(texts).map(([label, text]) => [element("p", { class: "once-label" }, label), copyable(label, text)]));
}

/** A button. */
export function button(words, click, { style = "", label = null } = {}) {
  return element("button", { class: `button ${style}`, type: "button", "aria-label": label, on: { click } }, words);
}
