/** Asks before something is done that cannot be undone. */

import { element } from "../../dom.js";

/**
 * Ask in a dialog, with `title`, a `body` of nodes and the word of the `action`; whether that was chosen.
 *
 * The focus begins where nothing is done, and goes back to where it was.
 */
export function confirmed({ title, body, action, signal }) {
  return new Promise(function ask(resolve) {
    const before = document.activeElement;
    // At once, and not when the event comes: the focus is back before that, and whoever presses a key then is heard.
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
