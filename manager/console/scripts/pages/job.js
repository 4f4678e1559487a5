/** The page of one job: status, plan as a graph, live events. */

import { api } from "../api.js";
import { badge, element, replace, table } from "../dom.js";
import { ago, cores, count, counted, percent, seconds, time } from "../format.js";
import { smallButton } from "../forms.js";
import { every, stream } from "../live-updates.js";
import { graphCanvas } from "../graph/canvas.js";
import { facts, taskDetails } from "../graph/details.js";
import { FIGURES, figuresOf } from "../graph/figures.js";
import { labelOf } from "../graph/names.js";
import { refresh } from "../refresh.js";
import { History, sparkline } from "../graph/sparkline.js";

const PACE = 3;
const MOST_EVENTS = 50;
const MOST_ROWS = 100;

/** The page's title. */
export function title({ job }) {
  return `Job ${job}`;
}

/** Show the page. */
export async function show(main, { parameters, signal }) {
  const history = new History();
  const state = { tasks: [], chosen: null, events: [] };
  const drawing = graphCanvas({ label: `Tasks of job ${parameters.job}`, low: true, signal, onChoose: choose });
  const named = ["head", "figures", "details", "tasks", "streams", "journal", "events"];
  const parts = Object.fromEntries(named.map((name) => [name, element("div", {})]));
  parts.details.className = "card graph-details";
  replace(main,
    element("h1", {}, title(parameters)),
    parts.head,
    element("h2", {}, "Performance"), parts.figures,
    element("h2", {}, "Tasks"),
    element("div", { class: "toolbar" },
      smallButton("Show all", drawing.fit)),
    element("div", { class: "graph-beside" }, drawing.node, parts.details), parts.tasks,
    element("h2", {}, "Streams from and to other jobs"), parts.streams,
    element("h2", {}, "Operations"), parts.journal,
    element("h2", {}, "Live events"), parts.events);
  const path = `/v1/jobs/${encodeURIComponent(parameters.job)}`;

  function choose(chosen) {
    state.chosen = chosen;
    showDetails();
  }

  function bring(chosen) {
    drawing.choose(chosen, { reveal: true });
  }

  function showDetails() {
    const task = state.tasks.find((each) => each.instance === state.chosen?.instance);
    const byInstance = new Map(state.tasks.map((each) => [each.instance, each]));
    const children = state.tasks.filter((each) => each.inputs.includes(task?.instance)).map((each) => each.instance);
    refresh(parts.details, task
      ? taskDetails(task, children, byInstance, { choose: bring, isOperator: true })
      : [element("h2", {}, "No task selected"), element("p", {}, "Select one in the graph or in the list below.")]);
  }

  function happened(event) {
    const fields = event.told ?? event;
    if (fields.job === parameters.job) {
      state.events = [{ at: new Date(), ...fields }, ...state.events].slice(0, MOST_EVENTS);
      refresh(parts.events, eventTable(state.events));
    }
  }

  async function look() {
    const [job, tasks, streams, operations] = await Promise.all([
      api.get(path, { signal }),
      api.pages("/v1/running/tasks", { query: { job: parameters.job }, signal }),
      api.pages("/v1/streams", { signal }),
      api.get("/v1/operations", { query: { limit: 200 }, signal }),
    ]);
    history.note(figuresOf(job));
    state.tasks = tasks;
    refresh(parts.head, head(job));
    refresh(parts.figures, figures(job, history));
    drawing.show({ tasks, jobs: [job] });
    showDetails();
    refresh(parts.tasks, taskTable(tasks, bring));
    refresh(parts.streams, streamTable(streams, job.job));
    refresh(parts.journal, journalTable(operations.items.filter((each) => concerns(each, job.job))));
  }

  refresh(parts.events, eventTable([]));
  await Promise.all([every(PACE, look, signal), stream("/v1/events", { on: { job: happened }, signal })]);
}

function head(job) {
  const plan = job.version === job.in_effect
    ? `version ${job.version}, in effect`
    : `version ${job.version}; version ${job.in_effect} is in effect`;
  return [
    job.trouble
      ? element("div", { class: "problem" }, element("h2", {}, "Problems"), element("p", {}, job.trouble))
      : null,
    facts([
      ["State", badge(job.state)],
      ["Host", job.host],
      ["Plan", plan],
      ["Tasks", `${count(job.active)} active, ${count(job.paused)} paused`],
      ["Shards", shardsOf(job)],
      ["Pace", `a batch every ${seconds(job.pace)}`],
      ["Latest batch", job.batch < 0 ? "none yet" : count(job.batch)],
      ["Restarts", count(job.restarts)],
      ["Last seen", job.seen ? ago(job.seen) : "never"],
    ]),
  ];
}

/** The shards with the cores of each, and the key group that no assignment evens out. */
function shardsOf({ shards, shard_cores: each, hot_group: hot, hot_group_part: part }) {
  const load = each.length > 0 ? `: ${each.map((one) => cores(one)).join(", ")} cores` : "";
  const skew = hot === null ? "" : `; key group ${hot} has ${percent(part)} of the events`;
  return `${count(shards)}${load}${skew}`;
}

function figures(job, history) {
  return element("div", { class: "cards" }, FIGURES.map(function card({ field, name, words, hint }) {
    return element("div", { class: "card" },
      element("h3", {}, name),
      element("p", { class: "figure" }, words(job[field])),
      sparkline(history.of(field), words),
      element("p", { class: "faint" }, hint));
  }));
}

function taskTable(tasks, bring) {
  const sorted = [...tasks].sort((one, other) => (other.state === "failed") - (one.state === "failed"));
  const rows = sorted.slice(0, MOST_ROWS);
  const caption = rows.length === tasks.length
    ? counted(tasks.length, "task")
    : `${count(rows.length)} of ${counted(tasks.length, "task")}, failed ones first`;
  return table([
    { title: "Task", cell: (task) => smallButton(labelOf(task), () => bring({ instance: task.instance })) },
    { title: "Type", cell: (task) => element("code", {}, task.type) },
    { title: "State", cell: (task) => badge(task.state) },
    { title: "Failure", cell: (task) => task.failed || "–" },
    { title: "Dataflows", number: true, cell: (task) => count(task.dataflows) },
    { title: "CPU", number: true, cell: (task) => seconds(task.cpu_seconds) },
    { title: "In", number: true, cell: (task) => count(task.events_in) },
    { title: "Out", number: true, cell: (task) => count(task.events_out) },
    { title: "Not processed", number: true, cell: (task) => count(task.events_dead) },
    { title: "Bytes of state", number: true, cell: (task) => count(task.state_bytes) },
  ], rows, { caption, empty: "No active tasks." });
}

function streamTable(streams, job) {
  const own = streams.filter((each) => each.producer === job || each.consumers.includes(job));
  return table([
    { title: "Stream", cell: (each) => `#${each.instance} ${each.port}` },
    { title: "Direction", cell: (each) => (each.producer === job ? "out" : "in") },
    { title: "From", cell: (each) => jobLink(each.producer, job) },
    { title: "To", cell: (each) => element("span", {}, each.consumers.flatMap(linked)) },
  ], own, {
    caption: counted(own.length, "stream"),
    empty: "None. Its tasks exchange no events with other jobs.",
  });

  function linked(to, place) {
    return [place > 0 ? ", " : null, jobLink(to, job)];
  }
}

function jobLink(job, here) {
  return job === here ? "this job" : element("a", { href: `#/jobs/${encodeURIComponent(job)}` }, `job ${job}`);
}

function concerns(operation, job) {
  return [...operation.jobs_started, ...operation.jobs_stopped].includes(job);
}

function journalTable(operations) {
  return table([
    { title: "When", cell: (each) => time(each.at) },
    { title: "What", cell: (each) => each.kind },
    { title: "About", cell: (each) => element("bdi", {}, each.subject) },
    { title: "By", cell: (each) => element("bdi", {}, each.who) },
    { title: "Note", cell: (each) => each.note || "–" },
  ], operations, {
    caption: "Among the latest 200 operations",
    empty: "None of the latest 200 operations started or stopped it.",
  });
}

function failures(failed = {}) {
  return Object.entries(failed).map(([instance, reason]) => `#${instance} failed: ${reason}`).join("; ");
}

function eventTable(events) {
  return table([
    { title: "When", cell: (each) => time(each.at) },
    { title: "State", cell: (each) => badge(each.state ?? "unknown") },
    { title: "Message", cell: (each) => each.trouble || failures(each.failed) || "–" },
  ], events, { caption: "Newest first", empty: "No events yet. New states of this job appear here." });
}
