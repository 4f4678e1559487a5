/** The preview of a submission in words and figures, as the canvas shows it in colours. */

import { badge, element, named, table } from "../dom.js";
import { cores, count, counted, time } from "../format.js";
import { predictedFigures } from "../saved.js";

/** What submitting a document would do, from the answer of `POST /v1/explain`; null while it has problems. */
export function previewOf(answer, document) {
  const { saving, problems } = answer;
  if (problems.length > 0) {
    return null;
  }
  const types = new Map(document.tasks.map((task) => [task.id, task.type]));
  return element("section", { "aria-labelledby": "explained" },
    element("h2", { id: "explained" }, "Preview"),
    element("div", { class: "cards" },
      figure("Tasks reused", `${count(saving.tasks)} of ${count(saving.of_tasks)}`),
      predictedFigures(saving).map(([words, number]) => figure(words, number))),
    saving.work_by_sharing === null ? null : element("p", { class: "faint" }, basisOf(saving.work_rests_on)),
    answer.collapsed.length > 0 ? [
      element("h3", {}, "Equivalent tasks, which run as one"),
      element("ul", {}, answer.collapsed.map((tasks) => element("li", {}, listed(tasks)))),
    ] : null,
    table([
      { title: "Task", cell: (task) => named(task.id) },
      { title: "Type", cell: (task) => element("code", {}, types.get(task.id) ?? "–") },
      { title: "Status", cell: (task) => badge(task.runs ? "reused" : "started") },
      { title: "History since", cell: (task) => (task.since ? time(task.since) : "–") },
      { title: "Cores (estimate)", number: true, cell: (task) => (task.runs ? "0" : cores(task.cores)) },
    ], answer.tasks, { caption: "Tasks that run already, and tasks that start" }));
}

/** That a document was submitted, with the way to its page. */
export function doneOf(dataflow) {
  return element("section", { class: "card", "aria-labelledby": "done" },
    element("h2", { id: "done" }, "Submitted"),
    element("p", {},
      element("a", { href: `#/dataflows/${encodeURIComponent(dataflow.id)}` }, named(dataflow.name)),
      `: ${counted(dataflow.reused.length, "task")} reused, ${count(dataflow.started.length)} started.`));
}

/** The basis of the estimate. */
function basisOf({ measured, type, assumed }) {
  return `Work is the number of events times their cost at each task. Costs of ${counted(measured + type + assumed, "task")}: `
    + `${count(measured)} measured, ${count(type)} by type, ${count(assumed)} assumed.`;
}

function figure(words, number) {
  return element("div", { class: "card" }, element("p", { class: "figure" }, number), element("p", {}, words));
}

function listed(names) {
  return names.flatMap((name, index) => (index === 0 ? [named(name)] : [", ", named(name)]));
}
