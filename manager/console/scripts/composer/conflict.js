/** What others have changed of a dataflow since it was opened, and the ways on from there. */

import { element } from "../dom.js";

/** The status of a change that was made for another document than the one that is there. */
export const CHANGED = 412;

/** The header by which a change is made only for the document with a tag. */
export function matching({ tag }) {
  return { "If-Match": `"${tag}"` };
}

/** A refused change, with what differs now: `take()` gets their document, `overwrite()` sends one's own all the same. */
export function conflictOf({ detail, errors }, { take, overwrite }) {
  const button = (words, act) => element("button", { class: "button", type: "button", on: { click: act } }, words);
  return element("section", { class: "problem", role: "alert" },
    element("h2", {}, "Changed meanwhile"),
    element("p", {}, "The dataflow has another document than the one that you opened:"),
    element("ul", {}, errors.length === 0 ? element("li", {}, detail)
      : errors.map(({ message }) => element("li", {}, element("bdi", {}, message)))),
    element("div", { class: "toolbar" }, button("Take theirs", take), button("Overwrite theirs", overwrite)),
    element("p", { class: "faint" }, "If you take theirs, undo brings yours back."));
}
