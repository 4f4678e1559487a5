/** The details of a selected task or job, beside the graph. */

import { badge, element } from "../dom.js";
import { ago, count, seconds } from "../format.js";
import { counted } from "../plurals.js";

const MOST_LINKS = 20;

/**
 * The details of a task.
 * @param {object} on `choose(chosen)` and `toggle(job)`
 */
export function taskDetails(task, children, tasks, on) {
  return [
    element("h2", {}, `${task.type} #${task.instance}`),
    facts([
      ["State", badge(task.state)],
      ...(task.failed ? [["Failure", task.failed]] : []),
      ["Job", element("a", { href: `#/jobs/${encodeURIComponent(task.job)}` }, `job ${task.job}`)],
      ["Used by", counted(task.dataflows, "dataflow")],
      ["Running since", ago(task.since)],
      ["CPU since its job started", seconds(task.cpu_seconds)],
      ["Events in", count(task.events_in)],
      ["Events out", count(task.events_out)],
      ["Events not processed", count(task.events_dead)],
      ["Bytes of state", count(task.state_bytes)],
    ]),
    neighbours("Fed by", task.inputs, tasks, on),
    neighbours("Feeds", children, tasks, on),
  ];
}

/** The details of a job; `answer` is that of `GET /v1/jobs`, if there is one. */
export function jobDetails(job, answer, members, open, on) {
  const failed = members.filter((task) => task.state === "failed").length;
  return [
    element("h2", {}, `Job ${job}`),
    facts([
      ["State", badge(answer?.state ?? "unknown")],
      ...(answer?.trouble ? [["Problem", answer.trouble]] : []),
      ["Host", answer?.host ?? "–"],
      ["Tasks", count(members.length)],
      ["Failed", count(failed)],
      ["CPU since it started", seconds(cpuOf(members))],
    ]),
    element("p", { class: "toolbar" },
      button(open ? "Collapse" : "Expand", () => on.toggle(job)),
      element("a", { class: "button small", href: `#/jobs/${encodeURIComponent(job)}` }, "Open job page")),
  ];
}

/** A list of names with their values. */
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
