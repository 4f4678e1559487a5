/** The table of a dataflow's tasks: what the graph shows, in text. */

import { badge, element, named, table } from "../../dom.js";
import { count, counted, time } from "../../format.js";
import { smallButton } from "../../forms.js";
import { perSecond } from "../../graph/figures.js";
import { cpuOf, sizeOf } from "./task-words.js";

/** The tasks with what is known of each, by id; `choose(id)` chooses one in the graph. */
export function taskTable(tasks, figures, choose) {
  function of(task) {
    return figures.get(task.id) ?? {};
  }
  const instances = new Set(tasks.map((task) => task.instance)).size;
  return [
    instances < tasks.length
      ? element("p", {}, `${counted(tasks.length, "task")} run as ${count(instances)}, because some are equivalent.`) : null,
    table([
      { title: "Task", cell: ({ id }) => smallButton(named(id), () => choose(id), `Choose ${id}`) },
      { title: "Type", cell: (task) => element("code", {}, task.type) },
      { title: "Status", cell: statusOf },
      { title: "In", number: true, cell: (task) => perSecond(of(task).events_in_per_second) },
      { title: "Out", number: true, cell: (task) => perSecond(of(task).events_out_per_second) },
      { title: "Cores", number: true, cell: (task) => cpuOf(of(task).cores) },
      { title: "Waiting", number: true, cell: (task) => count(of(task).lag_events) },
      { title: "Errors", number: true, cell: (task) => count(of(task).events_dead) },
      { title: "State", number: true, cell: (task) => sizeOf(of(task).state_bytes) },
      { title: "Shared with", number: true, cell: (task) => count(of(task).others) },
    ], tasks, { caption: "Its tasks, with means over the last minute" }),
  ];
}

/** The status of a task in a word, and more of it. */
function statusOf(task) {
  const word = task.failed ? "failed" : task.reused ? "reused" : "started";
  const more = task.failed || (task.since ? `running since ${time(task.since)} or earlier, with its state` : "");
  return element("div", { class: more ? "wide" : null },
    badge(word), more ? element("div", { class: "faint" }, more) : null);
}
