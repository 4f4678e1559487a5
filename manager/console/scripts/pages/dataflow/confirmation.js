/** The dialog that confirms an action that cannot be undone. */

import { element } from "../../dom.js";

/**
 * Ask in a dialog with a `title`, a `body` of nodes and a button for the `action`; resolves to whether it was pressed.
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
