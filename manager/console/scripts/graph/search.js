/** The search for tasks. */

import { nameOf } from "./names.js";

/**
 * The tasks that match all words: a part of a name or type, `#12` or `12` for an instance, `job 3`, or a state.
 * @param {Array} tasks those of `GET /v1/running/tasks`
 */
export function matching(tasks, text) {
  const asked = text.trim().toLowerCase().replaceAll(/\bjob\s+(\S+)/g, "job:$1");
  const words = asked.split(/\s+/).filter((word) => word !== "");
  return tasks.filter((task) => words.every((word) => fits(task, word)));
}

function fits(task, word) {
  if (word.startsWith("job:")) {
    return task.job === word.slice(4);
  }
  if (/^#?\d+$/.test(word)) {
    return task.instance === Number(word.replace("#", ""));
  }
  return [nameOf(task), task.type].some((text) => text.toLowerCase().includes(word)) || task.state === word;
}
