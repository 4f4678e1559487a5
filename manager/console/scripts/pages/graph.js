/** The page of the running graph, live. */

import { api } from "../api.js";
import { badge, element, field, problem, replace, table } from "../dom.js";
import { count } from "../format.js";
import { every } from "../live-updates.js";
import { graphCanvas } from "../graph/canvas.js";
import { WAYS } from "../graph/colours.js";
import { jobDetails, taskDetails } from "../graph/details.js";
import { matching } from "../graph/search.js";
import { refresh } from "../refresh.js";
import { byJob } from "../graph/layout.js";
import { counted } from "../plurals.js";

const PACE = 5;
/** The number of tasks above which jobs are collapsed at first. */
const MANY = 400;
const MOST_ROWS = 50;
const MOST_OFFERED = 200;

export const title = "Running graph";

/** Show the page. */
export async function show(main, { parameters, signal, say }) {
  const state = {
    tasks: [], jobs: [], way: "job", words: "", chosen: null, marked: null, dataflow: null,
    /** The default for jobs, expanded or not, and the jobs that the user has expanded or collapsed. */
    opens: null, turned: new Map(),
    looked: false,
  };
  const asked = parameters.dataflow ?? "";
  const parts = made({ signal, asked, turn, turnAll, colour, search, highlight });
  replace(main, element("h1", {}, title), parts.all);

  function isOpen(job) {
    return state.turned.get(job) ?? state.opens ?? false;
  }

  function turn(job) {
    state.turned.set(job, !isOpen(job));
    say(`Job ${job} is ${isOpen(job) ? "expanded" : "collapsed"}.`);
    update();
  }

  function turnAll(open) {
    state.turned.clear();
    state.opens = open;
    update();
    parts.canvas.fit();
  }

  function choose(chosen) {
    const task = state.tasks.find((each) => each.instance === chosen.instance);
    if (task && !isOpen(task.job)) {
      state.turned.set(task.job, true);
      update();
    }
    parts.canvas.choose(chosen, { reveal: true });
  }

  function colour(way) {
    state.way = way;
    update();
  }

  function search(words) {
    state.words = words;
    update();
  }

  async function highlight(id) {
    state.marked = null;
    state.dataflow = null;
    replace(parts.trouble);
    history.replaceState(null, "", id ? `#/graph?dataflow=${encodeURIComponent(id)}` : "#/graph");
    try {
      if (id) {
        state.dataflow = await api.get(`/v1/dataflows/${encodeURIComponent(id)}`, { signal });
        state.marked = new Set(state.dataflow.tasks.map((task) => task.instance));
        const marked = state.tasks.filter((task) => state.marked.has(task.instance));
        marked.forEach((task) => state.turned.set(task.job, true));
        say(`Highlighted: ${counted(state.marked.size, "task")} of ${state.dataflow.name}.`);
      }
    } catch (error) {
      if (signal.aborted || error.status !== 404) {
        throw error;
      }
      replace(parts.trouble, problem(error));
    }
    update();
    parts.canvas.reveal(state.marked ?? []);
  }

  function update() {
    const jobs = byJob(state.tasks);
    const open = new Set([...jobs.keys()].filter(isOpen));
    // Search results are highlighted in the graph too, unless a dataflow is.
    const found = state.words.trim() ? new Set(matching(state.tasks, state.words).map((task) => task.instance)) : null;
    const legend = parts.canvas.show({ ...state, open, marked: state.marked ?? found });
    replace(parts.legend, legend.map(swatch), state.dataflow ? marking(state) : null);
    replace(parts.summary, summary(state, jobs));
    refresh(parts.details, details(state, jobs, open, { choose, toggle: turn }));
    refresh(parts.list, listed(state, jobs, choose));
  }

  async function look() {
    const [tasks, jobs] = await Promise.all([
      api.pages("/v1/running/tasks", { signal }), api.pages("/v1/jobs", { signal }),
    ]);
    state.opens ??= tasks.length === 0 ? null : tasks.length <= MANY;
    Object.assign(state, { tasks, jobs });
    update();
    if (!state.looked) {
      state.looked = true;
      await Promise.all([offer(parts.offered, signal), asked ? highlight(asked) : null]);
    }
  }

  parts.listen((chosen) => {
    state.chosen = chosen;
    update();
  });
  await every(PACE, look, signal);
}

/** The elements of the page, with their listeners. */
function made({ signal, asked, turn, turnAll, colour, search, highlight }) {
  let chose = null;
  const drawing = graphCanvas({
    label: "Running graph", signal, onToggle: turn, onChoose: (chosen) => chose?.(chosen),
  });
  const words = element("input", {
    type: "search", placeholder: "type, #12, job 3, failed", autocomplete: "off",
    on: { input: (event) => search(event.target.value) },
  });
  const ways = element("select", { on: { change: (event) => colour(event.target.value) } },
    Object.entries(WAYS).map(([way, said]) => element("option", { value: way }, said)));
  const offered = element("datalist", { id: "graph-dataflows" });
  const dataflow = element("input", {
    type: "text", list: offered.id, placeholder: "id", autocomplete: "off", value: asked,
    on: { change: (event) => highlight(event.target.value.trim()) },
  });
  const [legend, summary, details, list, trouble] = [
    element("ul", { class: "legend", "aria-label": "Colours" }),
    element("p", { class: "faint" }, "Loading…"),
    element("section", { class: "card graph-details", "aria-label": "Selection" }),
    element("section", { "aria-label": "Tasks and jobs as a list" }),
    element("div", {}),
  ];
  const all = [
    element("div", { class: "toolbar" },
      field("Search", words), field("Colour", ways), field("Highlight a dataflow", dataflow), offered,
      act("Expand all", () => turnAll(true)), act("Collapse all", () => turnAll(false)),
      act("Show all", drawing.fit), act("Zoom in", () => drawing.zoom(1.25)), act("Zoom out", () => drawing.zoom(0.8))),
    trouble, summary, element("div", { class: "graph-beside" }, drawing.node, details), legend, list,
  ];
  function listen(listener) {
    chose = listener;
  }
  return { all, canvas: drawing, legend, summary, details, list, trouble, offered, listen };
}

async function offer(offered, signal) {
  const dataflows = await api.pages("/v1/dataflows", { signal, most: MOST_OFFERED });
  replace(offered, dataflows.map(({ id, name, tenant }) => element("option", { value: id }, `${name} of ${tenant}`)));
}

function act(words, does) {
  return element("button", { class: "button small", type: "button", on: { click: does } }, words);
}

function swatch({ colour, words }) {
  const sample = element("span", { class: "swatch", "aria-hidden": "true" });
  sample.style.background = colour || "transparent";
  return element("li", {}, sample, words);
}

function marking({ dataflow, marked }) {
  return element("li", {}, element("span", { class: "swatch marked", "aria-hidden": "true" }),
    `outlined: ${counted(marked.size, "task")} of `,
    element("a", { href: `#/dataflows/${encodeURIComponent(dataflow.id)}` }, element("bdi", {}, dataflow.name)));
}

function summary({ tasks }, jobs) {
  const failed = tasks.filter((task) => task.state === "failed").length;
  const shared = tasks.filter((task) => task.dataflows > 1).length;
  return `Running: ${counted(tasks.length, "task")} in ${counted(jobs.size, "job")};` +
    ` ${count(shared)} shared by several dataflows, ${count(failed)} failed.`;
}

function details(state, jobs, open, on) {
  const { chosen } = state;
  const task = state.tasks.find((each) => each.instance === chosen?.instance);
  if (task) {
    const children = state.tasks.filter((each) => each.inputs.includes(task.instance)).map((each) => each.instance);
    return taskDetails(task, children, new Map(state.tasks.map((each) => [each.instance, each])), on);
  }
  if (chosen?.job !== undefined && jobs.has(chosen.job)) {
    const answer = state.jobs.find((each) => each.job === chosen.job);
    return jobDetails(chosen.job, answer, jobs.get(chosen.job), open.has(chosen.job), on);
  }
  const how = "Select a task or a job in the graph or in the list.";
  return [element("h2", {}, "Nothing selected"), element("p", {}, how)];
}

function listed(state, jobs, choose) {
  if (state.words.trim() === "") {
    const rows = [...jobs].slice(0, MOST_ROWS);
    return table([
      { title: "Job", cell: ([job]) => act(`job ${job}`, () => choose({ job })) },
      { title: "Tasks", number: true, cell: ([, members]) => count(members.length) },
      { title: "State", cell: ([job]) => badge(state.jobs.find((each) => each.job === job)?.state ?? "unknown") },
    ], rows, { caption: said(rows.length, jobs.size, "job"), empty: "Nothing runs. Submit a dataflow first." });
  }
  const found = matching(state.tasks, state.words);
  return table([
    { title: "Task", cell: ({ type, instance }) => act(`${type} #${instance}`, () => choose({ instance })) },
    { title: "Job", cell: (task) => `job ${task.job}` },
    { title: "State", cell: (task) => badge(task.state) },
    { title: "Dataflows", number: true, cell: (task) => count(task.dataflows) },
  ], found.slice(0, MOST_ROWS), {
    caption: said(Math.min(found.length, MOST_ROWS), found.length, "task"),
    empty: "No matching task. Search by type, #instance, job 3, or a state such as failed.",
  });
}

function said(shown, all, what) {
  return shown === all ? counted(all, what) : `The first ${count(shown)} of ${counted(all, what)}`;
}
