/** The details of a selected task or job, beside the graph. */

import { badge, element, named } from "../dom.js";
import { ago, cores, count, counted, seconds } from "../format.js";
import { smallButton } from "../forms.js";
import { loadOf } from "./colours.js";
import { perSecond } from "./figures.js";
import { labelOf } from "./names.js";

const MOST_LINKS = 20;

/**
 * The details of a task.
 * @param {object} on `choose(chosen)`, and whether the reader is an operator
 */
export function taskDetails(task, children, tasks, on) {
  return [
    element("h2", {}, labelOf(task)),
    facts([
      ["Type", element("code", {}, task.type)],
      ["State", badge(task.state)],
      ...(task.failed ? [["Failure", task.failed]] : []),
      ["Job", jobLink(task.job, on.isOperator)],
      ["Used by", `${counted(task.dataflows, "dataflow")}${task.tenants > 1 ? ` of ${counted(task.tenants, "tenant")}` : ""}`],
      ...(on.isOperator && task.tenant ? [["Tenant", named(task.tenant)]] : []),
      ["Running since", ago(task.since)],
      ["Cores, last minute", cores(task.cores)],
      ["Events in, last minute", perSecond(task.events_in_per_second)],
      ["Events out, last minute", perSecond(task.events_out_per_second)],
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

/**
 * The details of a job; `answer` is that of `GET /v1/jobs`, if there is one.
 * @param {object} on `enter()`, and whether the reader is an operator
 */
export function jobDetails(job, answer, members, on) {
  const failed = members.filter((task) => task.state === "failed").length;
  return [
    element("h2", {}, `Job ${job}`),
    facts([
      ...(answer ? [["State", badge(answer.state)], ["Host", answer.host]] : []),
      ...(answer?.trouble ? [["Problem", answer.trouble]] : []),
      ["Tasks", count(members.length)],
      ["Shared", count(members.filter((task) => task.dataflows > 1).length)],
      ["Failed", count(failed)],
      ["Cores, last minute", cores(loadOf(members))],
    ]),
    element("p", { class: "toolbar" },
      smallButton("Zoom in on it", on.enter),
      on.isOperator
        ? element("a", { class: "button small", href: `#/jobs/${encodeURIComponent(job)}` }, "Open job page") : null),
  ];
}

function jobLink(job, isOperator) {
  return isOperator ? element("a", { href: `#/jobs/${encodeURIComponent(job)}` }, `job ${job}`) : `job ${job}`;
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
        smallButton(labelOf(task), () => on.choose({ instance: task.instance })))),
      rest > 0 ? element("li", { class: "faint" }, `and ${count(rest)} more`) : null),
  ];
}
