/** The text of the document beside the canvas: a plain text area first, and CodeMirror once it is loaded. */

import { api } from "../api.js";
import { element, field } from "../dom.js";
import { historyOf } from "./keyboard.js";

/**
 * An editor.
 * @param {object} on `typed(text)` after each edit by hand, `undo()` and `redo()`
 */
export function editor(on) {
  const area = element("textarea", { name: "document", rows: 24, spellcheck: "false", class: "composer-text" });
  const node = field("Document", area);
  let rich = null;

  area.addEventListener("input", () => on.typed(area.value));
  area.addEventListener("keydown", function undo(event) {
    const step = historyOf(event);
    if (step !== null) {
      event.preventDefault();
      event.stopPropagation();
      on[step]();
    }
  });

  function use(made) {
    const hadFocus = document.activeElement === area;
    made.set(area.value);
    rich = made;
    area.replaceWith(made.node);
    // A label reaches no further than to its own tree; the richer editor has its own.
    node.querySelector("label").replaceWith(element("span", { class: "label" }, "Document"));
    if (hadFocus) {
      made.go(area.selectionStart, area.selectionStart);
    }
  }

  return {
    node,
    get text() { return rich === null ? area.value : rich.text(); },

    /** Show a text that the canvas or the history made. */
    set(text) {
      if (rich !== null) {
        rich.set(text);
      } else if (area.value !== text) {
        const { selectionStart: at, scrollTop } = area;
        area.value = text;
        area.setSelectionRange(at, at);
        area.scrollTop = scrollTop;
      }
    },

    /** Show problems in the margin, `{from, to, message}`. */
    mark(problems) {
      area.setAttribute("aria-invalid", String(problems.length > 0));
      rich?.mark(problems);
    },

    /** Go to a place in the text. */
    go([from, to]) {
      if (rich !== null) {
        rich.go(from, to);
      } else {
        area.focus();
        area.setSelectionRange(from, to);
      }
    },

    /** Load the richer editor with the schema and what else is `known`, and use it; the text area does without it. */
    async enrich(known, signal) {
      try {
        const [{ richEditor }, schema] = await Promise.all([
          import("./rich-editor.js"), api.get("/console/dataflow.schema.json", { signal }),
        ]);
        if (!signal.aborted) {
          use(richEditor(on, { ...known, schema }));
        }
      } catch {
        // The text area stays.
      }
    },
  };
}
