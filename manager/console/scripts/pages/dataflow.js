/** One dataflow: how it stands, its tasks and outputs, what it costs, and what can be done with it. */

import { api } from "../api.js";
import { badge, element, named, replace } from "../dom.js";
import { count, time } from "../format.js";
import { refresh } from "../refreshing.js";
import { every } from "../live.js";
import { costs } from "./dataflow/costs.js";
import { graph, taskTable } from "./dataflow/graph.js";
import { letters } from "./dataflow/letters.js";
import { operations } from "./dataflow/operations.js";
import { outputs } from "./dataflow/outputs.js";
import { removing } from "./dataflow/removing.js";
import { replacing } from "./dataflow/replacing.js";

const PACE = 3;

export function title({ id }) {
  return id;
}

/** Show the page; it follows the dataflow until it is left. */
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
    document: element("pre", { tabindex: "0", "aria-label": "The document" }),
  };
  const sections = [outputs(about), costs(about), letters(about, first), operations(about)];
  const actions = [removing({ ...about, changed: look }), replacing({ ...about, changed: look })];
  const written = new Map();

  /** Show a part of the page anew where it is not what is there. */
  function tell(place, from, made) {
    const told = JSON.stringify(from);
    if (written.get(place) !== told) {
      written.set(place, told);
      refresh(place, made(from));
    }
  }

  function tellAll(dataflow) {
    document.title = `${dataflow.name} · Braid`;
    tell(places.head, dataflow.name, (name) => element("h1", {}, named(name)));
    const known = { ...dataflow, tasks: [], document: {}, outputs: [] };
    tell(places.facts, known, () => facts(known, about.isOperator));
    tell(places.shares, dataflow.tasks, shares);
    tell(places.graph, [dataflow.tasks, dataflow.document], () => graph(dataflow));
    tell(places.tasks, dataflow.tasks, taskTable);
    tell(places.document, dataflow.document, (text) => JSON.stringify(text, null, 2));
    for (const each of [...sections, ...actions]) {
      each.tell(dataflow);
    }
  }

  async function look() {
    tellAll(await api.get(path, { signal }));
    await Promise.all(sections.map((each) => each.look?.()));
  }

  replace(main,
    places.head, places.facts,
    element("div", { class: "toolbar" }, actions.map((each) => each.buttons)),
    actions.map((each) => each.node),
    element("h2", {}, "Tasks"), places.shares, places.graph, places.tasks,
    sections.map((each) => each.node),
    element("details", {}, element("summary", {}, element("h2", {}, "Document")), places.document));
  tellAll(first);
  await every(PACE, look, signal);
}

function facts(dataflow, isOperator) {
  const told = [
    ["State", [badge(dataflow.state), dataflow.reason ? ` ${dataflow.reason}` : null]],
    ["Id", element("code", {}, dataflow.id)],
    isOperator ? ["Tenant", named(dataflow.tenant)] : null,
    ["Revision", count(dataflow.revision)],
    ["Submitted", time(dataflow.submitted)],
    ["Began", dataflow.start === "earliest" ? "at the earliest that its sources kept; it shares nothing" : "at what came from then on"],
  ];
  return element("dl", { class: "facts" }, told.filter(Boolean).map(([term, said]) => [
    element("dt", {}, term), element("dd", {}, said),
  ]));
}

/** What of it ran for somebody already, in a sentence. */
function shares(tasks) {
  const reused = tasks.filter((task) => task.reused).length;
  const instances = new Set(tasks.map((task) => task.instance)).size;
  const as = instances < tasks.length ? `, as ${count(instances)}, because some do the same` : "";
  const whole = tasks.length === 1 ? "Its task runs" : `Its ${count(tasks.length)} tasks run${as}`;
  if (reused === 0) {
    return `${whole}. All were started for it; whoever needs the same from now on shares them.`;
  }
  if (reused === tasks.length) {
    return `${whole}. Somebody had all of that running already, and it is shared.`;
  }
  const [ran, are] = reused === 1 ? ["was", "is"] : ["were", "are"];
  return `${whole}. Of them ${count(reused)} ${ran} running for somebody already, and ${are} shared.`;
}
