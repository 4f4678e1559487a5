/** The small table of a source's fields and their types. */

import { problemOf } from "../../config-form.js";
import { element, replace } from "../../dom.js";
import { smallButton } from "../../forms.js";
import { unescaped } from "../../json-positions.js";

/** The types of fields, as REST calls them, with what they hold. */
const TYPES = {
  string: "text", float: "number", integer: "whole number", boolean: "true or false", timestamp: "time", json: "anything else",
};

/**
 * The table; `set(schema, undecided)` fills it, `edited()` is the schema, and `show(errors)` shows errors of REST at their
 * fields, and returns the others.
 */
export function fieldTable() {
  const body = element("tbody", {});
  const empty = element("p", { class: "faint" }, "No fields yet. Propose them from events, or add them by hand.");
  const grid = element("div", { class: "table" }, element("table", { class: "fields" },
    element("caption", {}, "Fields that events have. Others may come along."),
    element("thead", {}, element("tr", {}, ["Field", "Type", "Note", ""].map((word) => element("th", { scope: "col" }, word)))),
    body));
  let rows = [];

  function add(name = "", type = "string", note = "") {
    const input = element("input", { value: name, "aria-label": "Field", autocomplete: "off", spellcheck: "false", maxlength: 200 });
    const select = element("select", { value: type, "aria-label": "Type" },
      Object.entries(TYPES).map(([kind, words]) => element("option", { value: kind }, `${kind}: ${words}`)));
    const wrong = element("div", { class: "wrong" });
    const remove = smallButton("Remove", drop);
    const node = element("tr", {}, element("td", {}, input), element("td", {}, select),
      element("td", { class: "note" }, note ? element("span", { class: "faint" }, note) : null, wrong), element("td", {}, remove));
    const row = { node, input, select, wrong };

    function drop() {
      const at = rows.indexOf(row);
      rows = rows.filter((each) => each !== row);
      node.remove();
      shown();
      (rows[at] ?? rows[at - 1])?.input.focus();
    }

    rows.push(row);
    body.append(node);
    shown();
    return row;
  }

  function shown() {
    grid.hidden = rows.length === 0;
    empty.hidden = rows.length > 0;
  }

  function set(schema, undecided = []) {
    const notes = new Map(undecided.map(({ field, why }) => [field, why]));
    rows = [];
    replace(body);
    Object.entries(schema).sort().forEach(([name, type]) => add(name, type, notes.get(name) ?? ""));
    shown();
  }

  /** The schema, or null if it cannot be sent, which is said at the fields. */
  function edited() {
    const names = new Set();
    let isGood = true;
    for (const { input, wrong } of rows) {
      const message = input.value === "" ? "a field needs a name" : names.has(input.value) ? "another field has this name" : "";
      names.add(input.value);
      isGood &&= message === "";
      replace(wrong, message ? problemOf({ message }) : null);
    }
    return isGood ? Object.fromEntries(rows.map(({ input, select }) => [input.value, select.value])) : null;
  }

  function show(errors) {
    rows.forEach(({ wrong }) => replace(wrong));
    return errors.filter(function isElsewhere({ pointer, message, remedy }) {
      const [, part, name] = pointer.split("/").map(unescaped);
      const row = part === "schema" ? rows.find(({ input }) => input.value === name) : undefined;
      row?.wrong.append(problemOf({ message, remedy }));
      return row === undefined;
    });
  }

  shown();
  const node = element("div", {}, empty, grid,
    smallButton("Add a field", () => add().input.focus()));
  return { node, set, edited, show };
}
