/** The tables of a dataflow that adapts: the alternates of each task, and its guarded streams. */

import { badge, named, table } from "../../../dom.js";
import { amount, time } from "../../../format.js";

/** For each task a table of its alternates. */
export function taskTables(tasks) {
  return tasks.map(({ task, active, since, rule, alternates }) => table([
    { title: "Alternate", cell: (each) => named(each.name) },
    { title: "Active", cell: (each) => (each.name === active ? badge("active", since ? `since ${time(since)}` : "yes") : "–") },
    { title: "Value", number: true, cell: (each) => amount(each.value) },
    { title: "Cost", number: true, cell: (each) => `${amount(each.cost)} µs, ${each.measured ? "measured" : "declared"}` },
    { title: "Selectivity", number: true, cell: (each) => amount(each.selectivity) },
    { title: "Permitted", cell: (each) => (each.permitted ? "yes" : "no") },
    { title: "Rule", cell: (each) => (rule && each.permitted ? named(rule) : "–") },
  ], alternates, { caption: `Alternates of ${task}; cost is CPU for each event` }));
}

/** The guarded streams, if there are any. */
export function streamTable(streams) {
  return streams.length === 0 ? null : table([
    { title: "Stream", cell: (each) => named(each.stream) },
    { title: "State", cell: (each) => badge(each.open ? "active" : "paused", each.open ? "open" : "closed") },
    { title: "Rule", cell: (each) => (each.rule ? named(each.rule) : "–") },
  ], streams, { caption: "Guarded streams" });
}
