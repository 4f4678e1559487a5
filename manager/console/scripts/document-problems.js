/** The problems of a JSON text, each shown at its place in the text, with its remedy. */

import { element } from "./dom.js";
import { around, placeOf, read } from "./json-positions.js";

/** A syntax error of a text. */
export function notJson(text, error) {
  return element("div", { class: "problem", role: "alert" },
    element("h2", {}, "The document is not JSON"),
    found(text, [error.at, error.at + 1], error.message, ""));
}

/** A refusal whose problems point into a text. */
export function refused(text, error) {
  const { places } = read(text);
  return element("div", { class: "problem", role: "alert" },
    element("h2", {}, error.title),
    element("ul", {}, error.errors.map(function one(each) {
      const outside = /^\/(query|path|header)(\/|$)/.test(each.pointer) && !places.has(each.pointer);
      return element("li", {}, outside
        ? [element("code", {}, each.pointer), `: ${each.message} `, element("div", { class: "faint" }, each.remedy)]
        : found(text, placeOf(places, each.pointer), each.message, each.remedy, each.pointer));
    })));
}

function found(text, place, message, remedy, pointer = "") {
  const { line, column, before, within, after } = around(text, place);
  return [
    element("p", {}, `Line ${line}, column ${column}`, pointer ? [" (", element("code", {}, pointer), ")"] : null, `: ${message}`),
    remedy ? element("p", { class: "faint" }, remedy) : null,
    element("pre", { tabindex: 0, role: "region", "aria-label": `The document at line ${line}` },
      before, element("mark", {}, within), after),
  ];
}
