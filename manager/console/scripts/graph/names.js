/** What tasks are called: by the name that a dataflow gives them, or that of their source. */

import { named } from "../dom.js";

/** The name of a task, or its type if it has none. */
export function nameOf(task) {
  return task.name || task.type;
}

/** The name with the instance, which tells tasks of one name apart. */
export function labelOf(task) {
  return [named(nameOf(task)), ` #${task.instance}`];
}
