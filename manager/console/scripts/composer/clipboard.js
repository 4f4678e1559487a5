/** The clipboard: tasks are copied as JSON, and so can be pasted into any document. */

import { copied, copiedIn } from "./document.js";
import { printed } from "./json-edits.js";

/**
 * Copy, cut and paste tasks while the canvas has the focus.
 * @param {Node} canvas the canvas
 * @param {object} composing the composition
 * @param {object} hands `remove()` takes away what is selected, and `paste(copy)` adds what was copied
 */
export function listenToClipboard(canvas, composing, hands, signal) {
  function isHere() {
    return canvas.contains(document.activeElement);
  }

  function copy(event) {
    if (isHere() && composing.selection.size > 0) {
      event.preventDefault();
      event.clipboardData.setData("text/plain", printed(copied(composing.document, composing.selection)));
      if (event.type === "cut") {
        hands.remove();
      }
    }
  }

  document.addEventListener("copy", copy, { signal });
  document.addEventListener("cut", copy, { signal });
  document.addEventListener("paste", function paste(event) {
    const copy = isHere() ? copiedIn(event.clipboardData.getData("text/plain")) : null;
    if (copy !== null) {
      event.preventDefault();
      hands.paste(copy);
    }
  }, { signal });
}
