/** The preview of a reconfiguration: what changes where, drawn and as a table. */

import { newKey } from "../../../api.js";
import { element, named, replace, table } from "../../../dom.js";
import { seconds } from "../../../format.js";
import { graph } from "../graph.js";

const STATES = {
  none: "has none", kept: "kept as it is", transformed: "transformed to the new config", fresh: "fresh: it begins without state",
  dropped: "dropped with the task",
};
const IN_SHORT = { none: "no state", kept: "state kept", transformed: "state transformed", fresh: "fresh state", dropped: "state dropped" };

/**
 * Show a preview below its title, with a button that applies it. `apply(key)` gets one key for each preview: applied again
 * after a lost answer, it is the same reconfiguration.
 */
export function showPreview(place, title, scope, words, apply) {
  const key = newKey();
  replace(place, element("section", { class: "card", "aria-labelledby": title.id }, title, scope,
    element("button", { class: "button first", type: "button", on: { click: () => apply(key) } }, words)));
  title.focus();
}

/** What a reconfiguration does, in words, as a drawing of the dataflow and as a table. */
export function scopeOf({ scope, dataflows }, dataflow, types) {
  function stateOf({ task, state }) {
    const type = dataflow.tasks.find((each) => each.id === task)?.type;
    return state === "kept" && types.known.get(type)?.state === "none" ? "none" : state;
  }
  return [
    element("p", {}, delayOf(scope)),
    graph(dataflow, marksOf(scope, dataflow, stateOf)),
    element("ul", { class: "plain", "aria-label": "Components" }, scope.components.map((each, place) => element("li", {},
      `Component ${place + 1}, whose tasks switch in step: `, listed(each.tasks, dataflow), ". ",
      each.heads.length === 1 ? "Head: " : "Heads: ", listed(each.heads, dataflow), "."))),
    scope.components.length === 0 ? null : element("p", { class: "faint" },
      "The drawing has the number of the component at each task, and full circles at heads, which switch first."),
    table([
      { title: "Task", cell: (each) => named(each.task) },
      ...(dataflows.length > 1 ? [{ title: "Dataflow", cell: (each) => element("code", {}, each.dataflow) }] : []),
      { title: "How", cell: (each) => element("div", { class: "wide" }, howOf(each)) },
      { title: "State", cell: (each) => STATES[stateOf(each)] },
      { title: "Job", cell: (each) => each.job },
    ], scope.tasks, { caption: "Tasks that change", empty: "No task changes." }),
  ];
}

/** The marks of a dataflow's tasks in the drawing, by task. */
function marksOf({ components, tasks }, { id }, stateOf) {
  const marks = new Map();
  components.forEach(function mark(component, place) {
    for (const task of component.tasks) {
      marks.set(task, { component: place + 1, isHead: component.heads.includes(task) });
    }
  });
  for (const each of tasks.filter((one) => one.dataflow === id)) {
    marks.set(each.task, { ...marks.get(each.task), words: `${each.presence !== "stays" ? each.presence : each.in_place ? "in place" : "copied"}, ${IN_SHORT[stateOf(each)]}` });
  }
  return marks;
}

function delayOf({ jobs, waiting, delay_seconds: delay }) {
  const whole = jobs.length === 0
    ? "It takes effect at once."
    : `It takes effect within about ${seconds(delay)}, in ${numbered(jobs)}.`;
  const [first, ...others] = numbered(waiting);
  return waiting.length === 0 ? whole
    : `${whole} ${first.toUpperCase()}${others.join("")} ${waiting.length === 1 ? "waits" : "wait"} for a marker from another job.`;
}

function numbered(jobs) {
  return `${jobs.length === 1 ? "job" : "jobs"} ${jobs.join(", ")}`;
}

/** Whether a task is inserted, taken out, changed in place or copied, and why. */
function howOf({ in_place: isInPlace, presence, shared, changed }) {
  if (presence !== "stays") {
    return presence === "inserted" ? "inserted between others" : "taken out between others";
  }
  if (isInPlace) {
    return changed ? "changed in place" : "in place; other events reach it";
  }
  const how = changed ? "copied and changed" : "copied";
  return `${how}, because ${shared ? "other dataflows use it as it is" : "a task above it is copied"}`;
}

function listed(names, { tasks }) {
  return names.flatMap(function comma(name, index) {
    const words = tasks.some((task) => task.id === name) ? named(name) : `instance ${name}`;
    return index === 0 ? [words] : [", ", words];
  });
}
