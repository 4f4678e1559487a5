/** The changes of tasks that are to take effect together, each in its form. */

import { problemOf } from "../../../config-form.js";
import { element, field, replace } from "../../../dom.js";
import { taskChange } from "./task-change.js";

const ALSO = "Their ids. They are changed in the same way, and what they share with this one is changed in place.";

/**
 * The list of changes.
 * @param {object} types those of `taskTypes`
 * @param {boolean} isOperator whether other dataflows can be changed in the same way
 * @param {object} on `edited()` after each edit, `preview(event)` if that is asked for, `takenBack(id)`, `failed(error)`
 */
export function taskChanges(types, isOperator, on) {
  const changes = new Map();
  const list = element("div", {});
  const also = element("input", { autocomplete: "off", spellcheck: "false", on: { input: on.edited } });
  const previewing = element("button", { class: "button", type: "submit" }, "Preview");
  const node = element("form", { hidden: true, novalidate: true, "aria-label": "Changes", on: { submit: on.preview } },
    element("h3", {}, "Changes"),
    element("p", { class: "faint" }, "They take effect together. Other dataflows do not notice."),
    list, isOperator ? field("Also change these dataflows", also, ALSO) : null,
    element("div", { class: "toolbar" }, previewing));

  /** Begin the change of a task of a document, unless it has begun. */
  async function begin(id, { tasks }) {
    await types.load();
    const task = tasks.find((each) => each.id === id);
    const type = await types.find(task.type);
    if (type === null) {
      throw new Error(`The task type ${task.type} is not installed any more. Replace the document instead.`);
    }
    if (!changes.has(id)) {
      const change = taskChange(task, type, types, { edited: on.edited, failed: on.failed, takenBack: () => takeBack(id) });
      changes.set(id, change);
      list.append(change.node);
      node.hidden = false;
      on.edited();
    }
  }

  function takeBack(id) {
    changes.get(id).node.remove();
    changes.delete(id);
    node.hidden = changes.size === 0;
    on.edited();
    on.takenBack(id);
    if (!node.hidden) {
      previewing.focus();
    }
  }

  function clear() {
    changes.clear();
    replace(list);
    also.value = "";
    node.hidden = true;
  }

  /** What is to change, as REST takes it, and problems with what was typed. */
  async function wanted() {
    await Promise.all([...changes.values()].map((change) => change.settled()));
    const all = [...changes].map(([task, change]) => ({ task, ...change.edited() }));
    return {
      tasks: Object.fromEntries(all.filter(({ patch }) => Object.keys(patch).length > 0).map(({ task, patch }) => [task, patch])),
      dataflows: also.value.split(/[\s,]+/).filter((id) => id !== ""),
      fresh: all.filter(({ isFresh }) => isFresh).map(({ task }) => task),
      problems: all.flatMap(({ task, problems }) => problems.map((each) => ({ ...each, task, part: "config" }))),
    };
  }

  /** Show problems at their fields, and focus the first of them; returns nodes for those of no field. */
  function show(problems) {
    const controls = [...changes].map(([id, change]) => change.show(problems.filter((each) => each.task === id)));
    controls.find((each) => each !== undefined)?.focus();
    return problems.filter((each) => !changes.has(each.task)).map(problemOf);
  }

  return {
    node, begin, clear, wanted, show,
    has: (id) => changes.has(id),
    isEmpty: () => changes.size === 0,
    focus: (id) => changes.get(id).focus(),
  };
}
