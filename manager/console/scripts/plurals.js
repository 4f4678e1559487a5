/** Counts with their nouns. */

import { count } from "./format.js";

/** A count with its noun, in the plural unless it is one, such as "1 task" and "1,200 tasks". */
export function counted(number, noun) {
  return `${count(number)} ${noun}${number === 1 ? "" : "s"}`;
}
