/** The problems of the document: each with its line, its remedy, and a button where that is mechanical. */

import { element } from "../dom.js";
import { around, placeOf, read } from "../json-positions.js";
import { fixOf } from "./fixes.js";

/** The problems of a text with their places in it, `{from, to, message, remedy, pointer, code}`, those of syntax too. */
export function problemsIn(text, answer) {
  const { places, error } = read(text);
  if (error !== null) {
    return [{ from: error.at, to: Math.min(error.at + 1, text.length), message: `This is not JSON: ${error.message}.`, remedy: "", pointer: "", code: "not-json" }];
  }
  return (answer?.problems ?? []).map(function place(problem) {
    const [from, to] = placeOf(places, problem.pointer);
    return { ...problem, from, to };
  });
}

/**
 * The list of some problems.
 * @param {object} on `go(problem)` shows one at its place, and `fix(edit)` edits the text
 */
export function problemList(problems, text, on) {
  if (problems.length === 0) {
    return null;
  }
  return element("section", { class: "problem", "aria-labelledby": "problems-title" },
    element("h2", { id: "problems-title" }, problems.length === 1 ? "1 problem" : `${problems.length} problems`),
    element("ul", { class: "plain" }, problems.map(function item(problem) {
      const { line, column } = around(text, [problem.from, problem.to]);
      return element("li", {},
        element("button", { class: "button small", type: "button", on: { click: () => on.go(problem) } }, `Line ${line}, column ${column}`),
        ` ${problem.message}`, problem.pointer ? [" (", element("code", {}, problem.pointer), ")"] : null, " ",
        fixButton(problem, text, on.fix),
        problem.remedy ? element("div", { class: "faint" }, problem.remedy) : null);
    })));
}

/** The button that does the remedy of a problem, or null if it takes a person. */
export function fixButton(problem, text, fix) {
  const found = fixOf(problem, text);
  return found && element("button", { class: "button small", type: "button", on: { click: () => fix(found.edit) } }, found.words);
}
