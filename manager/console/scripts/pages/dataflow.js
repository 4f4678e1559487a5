/** The page of one dataflow: whether it is well, its graph as it runs, the chosen task, and all else in tabs. */

import { api } from "../api.js";
import { badge, element, named, replace } from "../dom.js";
import { count, time } from "../format.js";
import { refresh, refresher } from "../refresh.js";
import { remember } from "../reports.js";
import { every } from "../live-updates.js";
import { adaptation } from "./dataflow/adaptation.js";
import { costs } from "./dataflow/costs.js";
import { deadLetters } from "./dataflow/dead-letters.js";
import { health } from "./dataflow/health.js";
import { liveGraph } from "./dataflow/live-graph.js";
import { history } from "./dataflow/history.js";
import { operations } from "./dataflow/operations.js";
import { outputs } from "./dataflow/outputs.js";
import { pipeline } from "./dataflow/pipeline.js";
import { portEvents } from "./dataflow/port-events.js";
import { isChangeable, reconfiguration } from "./dataflow/reconfiguration.js";
import { isUnderWay } from "./dataflow/reconfiguration/history.js";
import { taskTypes } from "./dataflow/reconfiguration/task-types.js";
import { removal } from "./dataflow/removal.js";
import { tabs } from "./dataflow/tabs.js";
import { taskPanel } from "./dataflow/task-panel.js";
import { taskTable } from "./dataflow/task-table.js";

const PACE = 3;

export function title({ id }) {
  return id;
}

/** Show the page, and keep it up to date. */
export async function show(main, { parameters, session, signal, say }) {
  const path = `/v1/dataflows/${encodeURIComponent(parameters.id)}`;
  const [first, measured] = await Promise.all([api.get(path, { signal }), api.get(`${path}/tasks`, { signal })]);
  const about = { path, id: first.id, tenant: first.tenant, isOperator: session.kind === "operator", signal, say };
  const places = {
    head: element("div", {}),
    health: element("div", {}),
    facts: element("div", {}),
    tasks: element("div", {}),
    document: element("pre", { tabindex: "0", "aria-label": "The document" }),
  };
  const state = { dataflow: first, figures: figuresBy(measured) };
  const types = taskTypes(signal);
  const change = reconfiguration({ ...about, types, changed: look, begun: () => parts.open("changes"), takenBack });
  const graph = liveGraph(choose, signal);
  const charts = history(about);
  const panel = taskPanel(types, { action: change.action, events: (task) => portEvents({ path, task, signal }), left });
  const planned = pipeline({ ...about, changed: look });
  const sections = {
    outputs: outputs(about), costs: costs(about), "dead-letters": deadLetters(about, first),
    adaptation: adaptation({ ...about, changed: look }), operations: operations(about),
  };
  const actions = [removal({ ...about, changed: look }), replacement(first.id)];
  const parts = tabs("More about the dataflow", [
    { id: "tasks", title: "Tasks", node: places.tasks },
    { id: "outputs", title: "Outputs", node: sections.outputs.node },
    { id: "dead-letters", title: "Dead letters", node: sections["dead-letters"].node },
    { id: "costs", title: "Costs", node: sections.costs.node },
    { id: "changes", title: "Changes", node: [change.node, change.past] },
    { id: "adaptation", title: "Adaptation", node: sections.adaptation.node, isThere: ({ dynamic }) => Boolean(dynamic) },
    { id: "places", title: "Places", node: planned.node, isThere: (dataflow) => Boolean(dataflow.pipeline) },
    { id: "operations", title: "Operations", node: sections.operations.node },
    { id: "document", title: "Document", node: places.document },
  ], parameters.tab, opened);
  const update = refresher();

  function updateAll() {
    const { dataflow, figures } = state;
    document.title = `${dataflow.name} · Braid`;
    update(places.head, [dataflow.name, dataflow.state], headOf);
    update(places.health, [dataflow, [...figures.values()], change.items().some(isUnderWay)],
      ([known, tasks, isChanging]) => health(known, tasks, isChanging, parts.open));
    const known = { ...dataflow, tasks: [], document: {}, outputs: [] };
    update(places.facts, known, () => facts(known, about.isOperator));
    update(places.tasks, [inOrder(dataflow), [...figures]], ([tasks]) => taskTable(tasks, figures, chooseHere));
    update(places.document, dataflow.document, (text) => JSON.stringify(text, null, 2));
    graph.show(dataflow.document, figures);
    parts.update(dataflow);
    for (const section of [change, charts, planned, ...Object.values(sections), ...actions]) {
      section.update(dataflow);
    }
    updatePanel();
  }

  function updatePanel() {
    panel.update(state.dataflow, state.figures, change.items(), isChangeable(state.dataflow));
  }

  async function look() {
    const [dataflow, tasks] = await Promise.all([api.get(path, { signal }), api.get(`${path}/tasks`, { signal })]);
    Object.assign(state, { dataflow, figures: figuresBy(tasks) });
    updateAll();
    await Promise.all([change.look(), charts.look(), sections[parts.current()]?.look?.()]);
    updatePanel();
  }

  /** Show a task in the panel, which gets the focus if it was chosen by key. */
  function choose(id, byKey) {
    panel.show(id);
    updatePanel();
    graph.mark(id);
    if (byKey) {
      panel.focus();
    }
  }

  function chooseHere(id) {
    choose(id, true);
    panel.node.scrollIntoView({ block: "nearest" });
  }

  function left() {
    const id = graph.chosen();
    choose(null, false);
    graph.focus(id);
  }

  function takenBack(id) {
    choose(id, false);
    panel.node.querySelector("button[data-changes]")?.focus();
  }

  function opened(tab) {
    remember(`#/dataflows/${encodeURIComponent(first.id)}`, { tab: tab === "tasks" ? "" : tab });
    sections[tab]?.look?.()?.catch(() => {
      // The next look says what is wrong.
    });
  }

  replace(main,
    places.head, places.health, places.facts,
    element("div", { class: "toolbar" }, actions.map((action) => action.buttons)),
    actions.map((action) => action.node),
    element("div", { class: "flow-beside" }, element("div", { class: "flow-graph" }, graph.node, charts.node), panel.node),
    parts.node);
  updateAll();
  await every(PACE, look, signal);
}

function figuresBy({ tasks }) {
  return new Map(tasks.map((task) => [task.id, task]));
}

/** The tasks in the order of the document. */
function inOrder({ tasks, document: { tasks: written } }) {
  const places = new Map(written.map(({ id }, place) => [id, place]));
  return [...tasks].sort((one, other) => places.get(one.id) - places.get(other.id));
}

function headOf([name, state]) {
  return element("div", { class: "flow-head" }, element("h1", {}, named(name)), badge(state));
}

function facts(dataflow, isOperator) {
  const rows = [
    ["Id", element("code", {}, dataflow.id)],
    isOperator ? ["Tenant", named(dataflow.tenant)] : null,
    ["Revision", count(dataflow.revision)],
    ["Submitted", time(dataflow.submitted)],
    ["Start", dataflow.start === "earliest" ? "from the earliest events that were kept; it shares nothing" : "from its submission on"],
  ];
  return element("dl", { class: "flow-facts" }, rows.filter(Boolean).map(([term, text]) => element("div", {},
    element("dt", {}, term), element("dd", {}, text))));
}

/** The way to the composer, where its document is replaced. */
function replacement(id) {
  const buttons = element("div", {});
  const link = element("a", { class: "button", href: `#/compose/${encodeURIComponent(id)}` }, "Edit…");

  function update(dataflow) {
    refresh(buttons, isChangeable(dataflow) ? link : null);
  }

  return { update, buttons, node: null };
}
