/** The page of the running graph, live: of all tenants for operators, of its own for a tenant. */

import { api } from "../api.js";
import { badge, element, field, named, problem, replace, table } from "../dom.js";
import { cores, count, counted } from "../format.js";
import { smallButton } from "../forms.js";
import { every } from "../live-updates.js";
import { graphCanvas } from "../graph/canvas.js";
import { loadOf, WAYS } from "../graph/colours.js";
import { jobDetails, taskDetails } from "../graph/details.js";
import { labelOf } from "../graph/names.js";
import { matching } from "../graph/search.js";
import { refresh } from "../refresh.js";
import { byJob } from "../graph/layout.js";

const PACE = 5;
const MOST_ROWS = 50;
const MOST_OFFERED = 200;

export const title = "Running graph";

/** Show the page. */
export async function show(main, { parameters, session, signal, say }) {
  const isOperator = session.kind === "operator";
  const state = { tasks: [], jobs: [], way: "job", words: "", chosen: null, marked: null, dataflow: null, looked: false };
  const asked = parameters.dataflow ?? "";
  const parts = made({ signal, asked, colour, search, highlight, isOperator });
  replace(main, element("h1", {}, title), parts.all);

  function choose(chosen) {
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
    // Search results are highlighted in the graph too, unless a dataflow is.
    const found = state.words.trim() ? new Set(matching(state.tasks, state.words).map((task) => task.instance)) : null;
    const legend = parts.canvas.show({ ...state, marked: state.marked ?? found });
    replace(parts.legend, legend.map(swatch), element("li", {}, "×3: shared by 3 dataflows"),
      state.dataflow ? marking(state) : null);
    replace(parts.summary, summary(state, jobs, isOperator));
    refresh(parts.details, details(state, jobs, { choose, enter: parts.canvas.enter, isOperator }));
    refresh(parts.list, listed(state, jobs, choose, isOperator));
  }

  async function look() {
    const [tasks, jobs] = await Promise.all([
      api.pages("/v1/running/tasks", { signal }), isOperator ? api.pages("/v1/jobs", { signal }) : [],
    ]);
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
function made({ signal, asked, colour, search, highlight, isOperator }) {
  let chose = null;
  const drawing = graphCanvas({ label: "Running graph", signal, onChoose: (chosen) => chose?.(chosen) });
  const words = element("input", {
    type: "search", placeholder: "name, type, #12, job 3, failed", autocomplete: "off",
    on: { input: (event) => search(event.target.value) },
  });
  const offers = Object.entries(WAYS).filter(([way]) => isOperator || way !== "tenant");
  const ways = element("select", { on: { change: (event) => colour(event.target.value) } },
    offers.map(([way, said]) => element("option", { value: way }, said)));
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
      smallButton("Show all", drawing.fit), smallButton("Zoom in", () => drawing.zoom(1.25)), smallButton("Zoom out", () => drawing.zoom(0.8))),
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

function swatch({ colour, words }) {
  const sample = element("span", { class: "swatch", "aria-hidden": "true" });
  sample.style.background = colour || "transparent";
  return element("li", {}, sample, named(words));
}

function marking({ dataflow, marked }) {
  return element("li", {}, element("span", { class: "swatch marked", "aria-hidden": "true" }),
    `outlined: ${counted(marked.size, "task")} of `,
    element("a", { href: `#/dataflows/${encodeURIComponent(dataflow.id)}` }, named(dataflow.name)));
}

function summary({ tasks }, jobs, isOperator) {
  const failed = tasks.filter((task) => task.state === "failed").length;
  const shared = tasks.filter((task) => task.dataflows > 1).length;
  return `${isOperator ? "Running" : "Your running tasks"}: ${counted(tasks.length, "task")} in ${counted(jobs.size, "job")};` +
    ` ${count(shared)} shared by several dataflows, ${count(failed)} failed.`;
}

function details(state, jobs, on) {
  const { chosen } = state;
  const task = state.tasks.find((each) => each.instance === chosen?.instance);
  if (task) {
    const children = state.tasks.filter((each) => each.inputs.includes(task.instance)).map((each) => each.instance);
    return taskDetails(task, children, new Map(state.tasks.map((each) => [each.instance, each])), on);
  }
  if (chosen?.job !== undefined && jobs.has(chosen.job)) {
    return jobDetails(chosen.job, state.jobs.find((each) => each.job === chosen.job), jobs.get(chosen.job), on);
  }
  const how = "Select a task or a job in the graph or in the list.";
  return [element("h2", {}, "Nothing selected"), element("p", {}, how)];
}

function listed(state, jobs, choose, isOperator) {
  if (state.words.trim() === "") {
    const rows = [...jobs].slice(0, MOST_ROWS);
    const stateOf = (job) => badge(state.jobs.find((each) => each.job === job)?.state ?? "unknown");
    return table([
      { title: "Job", cell: ([job]) => smallButton(`job ${job}`, () => choose({ job })) },
      { title: "Tasks", number: true, cell: ([, members]) => count(members.length) },
      { title: "Cores", number: true, cell: ([, members]) => cores(loadOf(members)) },
      ...(isOperator ? [{ title: "State", cell: ([job]) => stateOf(job) }] : []),
    ], rows, { caption: said(rows.length, jobs.size, "job"), empty: "Nothing runs. Compose a dataflow first." });
  }
  const found = matching(state.tasks, state.words);
  return table([
    { title: "Task", cell: (task) => smallButton(labelOf(task), () => choose({ instance: task.instance })) },
    { title: "Type", cell: (task) => element("code", {}, task.type) },
    { title: "Job", cell: (task) => `job ${task.job}` },
    { title: "State", cell: (task) => badge(task.state) },
    { title: "Dataflows", number: true, cell: (task) => count(task.dataflows) },
    { title: "Cores", number: true, cell: (task) => cores(task.cores) },
  ], found.slice(0, MOST_ROWS), {
    caption: said(Math.min(found.length, MOST_ROWS), found.length, "task"),
    empty: "No matching task. Search by name, type, #instance, job 3, or a state such as failed.",
  });
}

function said(shown, all, what) {
  return shown === all ? counted(all, what) : `The first ${count(shown)} of ${counted(all, what)}`;
}
