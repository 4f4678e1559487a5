/** What buttons and forms have in common: work that is done once at a time, confirmations, and texts to copy. */

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

/**
 * Ask before an action that cannot be undone, in a dialog with a `title`, a `body` of nodes and a button for the `action`;
 * resolves to whether it was pressed.
 *
 * The focus starts on Cancel, and returns to where it was.
 */
export function confirmed({ title, body, action, signal }) {
  return new Promise(function ask(resolve) {
    const before = document.activeElement;
    // Not in the close event, which comes after the focus is back: a key pressed in between would be lost.
    function close(value) {
      dialog.close(value);
      closed();
    }
    const heading = element("h2", { id: "confirming" }, title);
    const dialog = element("dialog", { "aria-labelledby": heading.id, on: { cancel: leave, close: closed } },
      heading, body,
      element("div", { class: "toolbar" },
        element("button", { class: "button", type: "button", autofocus: true, on: { click: () => close("") } }, "Cancel"),
        element("button", { class: "button danger first", type: "button", on: { click: () => close("do") } }, action)));

    function leave() {
      close("");
    }
    function closed() {
      signal.removeEventListener("abort", leave);
      dialog.removeEventListener("close", closed);
      dialog.remove();
      before?.focus?.();
      resolve(dialog.returnValue === "do");
    }

    signal.addEventListener("abort", leave);
    document.body.append(dialog);
    dialog.showModal();
  });
}

/** A text with a button that copies it. */
export function copyable(label, text) {
  const block = element("pre", { tabindex: 0, role: "region", "aria-label": label }, text);
  const copying = smallButton("Copy", copy);

  async function copy() {
    getSelection().selectAllChildren(block);
    try {
      await navigator.clipboard.writeText(text);
      copying.textContent = "Copied";
    } catch {
      // Browsers write to the clipboard over TLS, or on their own machine.
      copying.textContent = "Selected: press Ctrl+C";
    }
  }

  return element("div", { class: "copyable" }, block, copying);
}

/** What is shown this once, with a sentence that says so. */
export function shownOnce(words, texts) {
  return element("div", { class: "card once", role: "status" },
    element("p", {}, element("strong", {}, words)),
    Object.entries(texts).map(([label, text]) => [element("p", { class: "once-label" }, label), copyable(label, text)]));
}

/** Whether the caller may only look. Fields that show something cannot be edited then; other parts have the class `changing`. */
export function onlyLooks() {
  return document.documentElement.hasAttribute("data-read-only");
}

/** A button. */
export function button(words, click, { style = "", label = null } = {}) {
  return element("button", { class: `button ${style}`, type: "button", "aria-label": label, on: { click } }, words);
}

/** A small button; its words may be nodes. */
export function smallButton(words, click, label = null) {
  return button(words, click, { style: "small", label });
}
