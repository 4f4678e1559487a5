/** Words with numbers. */

import { count } from "../format.js";

/** So many of something, such as "1 task" and "1,200 tasks". */
export function counted(number, what) {
  return `${count(number)} ${what}${number === 1 ? "" : "s"}`;
}
