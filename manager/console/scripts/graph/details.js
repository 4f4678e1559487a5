/** What is told of a chosen task or job, beside the graph and as text. */

import { badge, element } from "../dom.js";
import { ago, count, seconds } from "../format.js";
import { counted } from "./words.js";

const MOST_LINKS = 20;

/**
 * A task's details.
 * @param {object} on `choose(chosen)` and `toggle(job)`
 */
export function taskDetails(task, children, tasks, on) {
  return [
    element("h2", {}, `${task.type} #${task.instance}`),
    facts([
      ["State", badge(task.state)],
      ...(task.failed ? [["Why it failed", task.failed]] : []),
      ["Job", element("a", { href: `#/jobs/${encodeURIComponent(task.job)}` }, `job ${task.job}`)],
      ["Serves", counted(task.dataflows, "dataflow")],
      ["Runs since", ago(task.since)],
      ["CPU since its job started", seconds(task.cpu_seconds)],
      ["Events in", count(task.events_in)],
      ["Events out", count(task.events_out)],
      ["Events that it could not take", count(task.events_dead)],
    ]),
    neighbours("Fed by", task.inputs, tasks, on),
    neighbours("Feeds", children, tasks, on),
  ];
}

/** A job's details. */
export function jobDetails(job, told, members, open, on) {
  const failed = members.filter((task) => task.state === "failed").length;
  return [
    element("h2", {}, `Job ${job}`),
    facts([
      ["State", badge(told?.state ?? "unknown")],
      ...(told?.trouble ? [["Trouble", told.trouble]] : []),
      ["Host", told?.host ?? "–"],
      ["Tasks", count(members.length)],
      ["Failed", count(failed)],
      ["CPU since it started", seconds(cpuOf(members))],
    ]),
    element("p", { class: "toolbar" },
      button(open ? "Collapse" : "Expand", () => on.toggle(job)),
      element("a", { class: "button small", href: `#/jobs/${encodeURIComponent(job)}` }, "Open its page")),
  ];
}

/** Pairs of a name and what it is. */
export function facts(pairs) {
  return element("dl", { class: "facts" },
    pairs.map(([name, value]) => [element("dt", {}, name), element("dd", {}, value)]));
}

function neighbours(title, instances, tasks, on) {
  const known = [...new Set(instances)].map((instance) => tasks.get(instance)).filter((task) => task !== undefined);
  if (known.length === 0) {
    return null;
  }
  const shown = known.slice(0, MOST_LINKS);
  const rest = known.length - shown.length;
  return [
    element("h3", {}, title),
    element("ul", { class: "plain" },
      shown.map((task) => element("li", {},
        button(`${task.type} #${task.instance}`, () => on.choose({ instance: task.instance })))),
      rest > 0 ? element("li", { class: "faint" }, `and ${count(rest)} more`) : null),
  ];
}

function cpuOf(members) {
  const known = members.map((task) => task.cpu_seconds).filter((each) => typeof each === "number");
  return known.length === 0 ? null : known.reduce((sum, each) => sum + each, 0);
}

function button(words, act) {
  return element("button", { class: "button small", type: "button", on: { click: act } }, words);
}
