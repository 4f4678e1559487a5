/** The problems of a refused reconfiguration, by the task and the part of its form that they are about. */

import { unescaped } from "../../../json-positions.js";

const OF_STATE = "undeclared-state";

/**
 * The problems as `{task, part, field, at, message, remedy}`; without a task if they are about no task of the document.
 *
 * Most point into the edited document, by the place of a task. Those of the states and of the hosts name the task.
 */
export function placed(errors, document) {
  return errors.map(function place({ pointer, code, message, remedy }) {
    const [, list, which, part, field, ...inner] = pointer.split("/").map(unescaped);
    const task = list === "tasks" ? taskOf(which, code, document.tasks) : undefined;
    if (code === OF_STATE) {
      return { task, part: "state", message, remedy: "start with fresh state" };
    }
    return { task, part: part === "config" ? "config" : "type", field, at: inner.join("/"), message, remedy };
  });
}

function taskOf(which, code, tasks) {
  const isNamed = code === OF_STATE || code === "no-host" || tasks[which] === undefined;
  return isNamed ? tasks.find((each) => each.id === which)?.id : tasks[which].id;
}
