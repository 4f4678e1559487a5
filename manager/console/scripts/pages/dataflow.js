/** The page of one dataflow: state, tasks, outputs, costs, and actions. */

import { api } from "../api.js";
import { badge, element, named, replace } from "../dom.js";
import { count, time } from "../format.js";
import { refresh } from "../refresh.js";
import { every } from "../live-updates.js";
import { adaptation } from "./dataflow/adaptation.js";
import { costs } from "./dataflow/costs.js";
import { graph, taskTable } from "./dataflow/graph.js";
import { deadLetters } from "./dataflow/dead-letters.js";
import { operations } from "./dataflow/operations.js";
import { outputs } from "./dataflow/outputs.js";
import { pipeline } from "./dataflow/pipeline.js";
import { portEvents } from "./dataflow/port-events.js";
import { isChangeable, reconfiguration } from "./dataflow/reconfiguration.js";
import { removal } from "./dataflow/removal.js";

const PACE = 3;

export function title({ id }) {
  return id;
}

/** Show the page, and keep it up to date. */
export async function show(main, { parameters, session, signal, say }) {
  const path = `/v1/dataflows/${encodeURIComponent(parameters.id)}`;
  const first = await api.get(path, { signal });
  const about = { path, id: first.id, tenant: first.tenant, isOperator: session.kind === "operator", signal, say };
  const places = {
    head: element("div", {}),
    facts: element("div", {}),
    shares: element("p", {}),
    graph: element("div", {}),
    tasks: element("div", {}),
    events: element("div", {}),
    document: element("pre", { tabindex: "0", "aria-label": "The document" }),
  };
  const change = reconfiguration({ ...about, changed: look });
  const planned = pipeline({ ...about, changed: look });
  const sections = [adaptation({ ...about, changed: look }), outputs(about), costs(about), deadLetters(about, first), operations(about)];
  const actions = [removal({ ...about, changed: look }), replacement(first.id)];
  const written = new Map();
  let events = null;

  /** Show the events of a task instead of those of another. */
  function lookAt(task) {
    events?.close();
    events = portEvents({ path, task: task.id, signal });
    replace(places.events, events.node);
    say(`Looking at events of ${task.id}.`);
  }

  /** Make a part of the page anew if its data has changed. */
  function update(place, from, made) {
    const data = JSON.stringify(from);
    if (written.get(place) !== data) {
      written.set(place, data);
      refresh(place, made(from));
    }
  }

  function updateAll(dataflow) {
    document.title = `${dataflow.name} · Braid`;
    update(places.head, dataflow.name, (name) => element("h1", {}, named(name)));
    const known = { ...dataflow, tasks: [], document: {}, outputs: [] };
    update(places.facts, known, () => facts(known, about.isOperator));
    update(places.shares, dataflow.tasks, shares);
    update(places.graph, [dataflow.tasks, dataflow.document], () => graph(dataflow));
    const isOver = dataflow.state === "removed";
    update(places.tasks, [dataflow.tasks, isChangeable(dataflow), isOver],
      ([tasks, isOn]) => taskTable(tasks, isOn ? change.action : null, isOver ? null : lookAt));
    update(places.document, dataflow.document, (text) => JSON.stringify(text, null, 2));
    for (const each of [change, planned, ...sections, ...actions]) {
      each.update(dataflow);
    }
  }

  async function look() {
    updateAll(await api.get(path, { signal }));
    await Promise.all([change, ...sections].map((each) => each.look?.()));
  }

  replace(main,
    places.head, places.facts,
    element("div", { class: "toolbar" }, actions.map((each) => each.buttons)),
    actions.map((each) => each.node),
    element("h2", {}, "Tasks"), places.shares, places.graph, places.tasks, places.events, change.node,
    change.past, planned.node, sections.map((each) => each.node),
    element("details", {}, element("summary", {}, element("h2", {}, "Document")), places.document));
  updateAll(first);
  await every(PACE, look, signal);
}

function facts(dataflow, isOperator) {
  const rows = [
    ["State", [badge(dataflow.state), dataflow.reason ? ` ${dataflow.reason}` : null]],
    ["Id", element("code", {}, dataflow.id)],
    isOperator ? ["Tenant", named(dataflow.tenant)] : null,
    ["Revision", count(dataflow.revision)],
    ["Submitted", time(dataflow.submitted)],
    ["Start", dataflow.start === "earliest" ? "from the earliest events that were kept; it shares nothing" : "from its submission on"],
  ];
  return element("dl", { class: "facts" }, rows.filter(Boolean).map(([term, text]) => [
    element("dt", {}, term), element("dd", {}, text),
  ]));
}

/** The way to the composer, where its document is replaced. */
function replacement(id) {
  const buttons = element("div", {});
  const link = element("a", { class: "button", href: `#/compose/${encodeURIComponent(id)}` }, "Replace…");

  function update({ state }) {
    refresh(buttons, ["removed", "draining"].includes(state) ? null : link);
  }

  return { update, buttons, node: null };
}

/** How much of it is shared, in a sentence. */
function shares(tasks) {
  const reused = tasks.filter((task) => task.reused).length;
  const instances = new Set(tasks.map((task) => task.instance)).size;
  const as = instances < tasks.length ? ` as ${count(instances)}, because some are equivalent` : "";
  const whole = tasks.length === 1 ? "Its task runs" : `Its ${count(tasks.length)} tasks run${as}`;
  if (reused === 0) {
    return `${whole}. All were started for it; later dataflows can share them.`;
  }
  if (reused === tasks.length) {
    return `${whole}. All are shared: they were already running.`;
  }
  const [are, were] = reused === 1 ? ["is", "it was"] : ["are", "they were"];
  return `${whole}. ${count(reused)} ${are} shared: ${were} already running.`;
}
