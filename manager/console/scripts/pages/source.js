/** One source: what comes, what is rejected and why, its fields, how to send to it, its webhook and its readers. */

import { api } from "../api.js";
import { element, named, replace, table } from "../dom.js";
import { amount, count, counted, time } from "../format.js";
import { button, confirmed, worker } from "../forms.js";
import { every } from "../live-updates.js";
import { rates } from "../rates.js";
import { refresh } from "../refresh.js";
import { schemaForm } from "./source/schema.js";
import { sending } from "./source/sending.js";
import { visibilityForm } from "./source/visibility.js";
import { webhookSection } from "./source/webhook.js";
import { originOf, stateOf } from "./sources.js";

const PACE = 5;
const MOST_NEWEST = 20;

export function title({ name }) {
  return name;
}

/** Show the page. Who does not own the source sees its fields, and its events as far as they are kept. */
export async function show(main, { parameters, session, signal, say, navigate }) {
  const path = `/v1/sources/${encodeURIComponent(parameters.name)}`;
  const [next, facts, rejected] = [element("div", {}), element("div", {}), element("section", {})];
  const rate = rates();
  const first = await api.get(path, { signal });
  const isMine = session.kind === "operator" || session.tenant === first.owner;
  const isTopic = isMine && first.connection.kind === "topic";
  const on = { path, session, signal, say, navigate, changed: look };
  const sender = isTopic ? sending(first, { by: parameters.by, signal, say }) : null;
  let [latest, shown] = [first, ""];

  async function look() {
    show(await api.get(path, { signal }));
  }

  function show(source) {
    latest = source;
    sender?.update(source);
    refresh(facts, factsOf(source, rate.of(source)));
    const now = JSON.stringify([source.dataflows === 0, source.received?.newest]);
    if (now !== shown) {
      shown = now;
      refresh(next, source.dataflows > 0 ? null : nextStep(source));
      refresh(rejected, rejectedOf(source));
    }
  }

  show(first);
  replace(main,
    element("h1", {}, named(first.name)),
    next, facts, rejected,
    sender?.node,
    newestEvents(first, on),
    schemaForm(first, isMine, on),
    isTopic ? webhookSection(first, on) : null,
    isMine ? section("Who may read it", visibilityForm(first, on)) : null,
    isMine ? section("Remove", sourceRemoval(() => latest, on)) : null);
  await every(PACE, look, signal);
}

function section(words, body) {
  return element("section", { class: "changing" }, element("h2", {}, words), element("div", { class: "card" }, body));
}

function nextStep({ name, connection }) {
  return element("div", { class: "card next" },
    element("p", {}, element("strong", {}, connection === null ? "No dataflow of yours reads it." : "No dataflow reads it yet, so nothing that comes is kept.")),
    element("a", { class: "button first", href: `#/compose?${new URLSearchParams({ source: name })}` }, "Compose a dataflow that reads it"));
}

function factsOf(source, rate) {
  const { connection, received } = source;
  const format = connection?.format;
  return element("dl", { class: "facts" },
    fact("Owner", named(source.owner)),
    connection === null ? null : [
      fact("State", stateOf(source)),
      fact("Events a second", amount(rate)),
      fact("Accepted", count(received?.accepted)),
      fact("Rejected", count(received?.rejected)),
      received ? fact("Counted since", time(received.since)) : null,
      fact("From", [originOf(source), connection.url ? [" at ", element("code", {}, connection.url)] : null]),
      format ? fact("Format", format.kind) : null,
    ],
    fact("Read by", `${counted(source.dataflows, "dataflow")}${connection === null ? " of yours" : ""}`),
    fact("Visibility", source.readers?.length > 0 ? [`${source.visibility}: `, named(source.readers.join(", "))] : source.visibility));
}

function fact(word, value) {
  return [element("dt", {}, word), element("dd", {}, value)];
}

function rejectedOf({ received }) {
  return !received?.newest.length ? null : [
    element("h2", {}, "Rejected events"),
    element("p", {}, "They reached no dataflow. Correct what sends them, or the fields below."),
    table([
      { title: "When", cell: (each) => time(each.at) },
      { title: "Reason", cell: (each) => element("div", { class: "wide" }, named(each.reason)) },
      { title: "Event", cell: (each) => element("code", {}, named(each.event)) },
    ], received.newest, { caption: "The newest rejected events" }),
  ];
}

/**
 * The section on the newest events that are kept, shown on request by a trial of a document that only reads the source.
 * Operators ask for the owner.
 */
function newestEvents({ name, owner }, { session, signal, say }) {
  const [wrong, list] = [element("div", {}), element("div", {})];
  const run = worker(wrong, signal);
  const document = {
    version: 1, name: "newest events",
    tasks: [{ id: "source", type: "source", config: { source: name } }, { id: "output", type: "output" }],
    streams: [{ from: "source", to: "output" }],
  };

  function look() {
    return run(async function ask() {
      const tenant = session.kind === "operator" ? owner : null;
      const answer = await api.post("/v1/try", { document, newest: MOST_NEWEST }, { query: { tenant }, signal });
      const task = answer.tasks.find(({ id }) => id === "source");
      const events = task?.outputs.out?.newest ?? [];
      replace(list, events.length > 0 ? eventList(events)
        : element("p", { class: "empty" }, "No event is kept. Events are kept once a dataflow reads the source and something is sent."));
      say(counted(events.length, "event"));
    });
  }

  return element("section", { class: "changing", "aria-labelledby": "newest" },
    element("h2", { id: "newest" }, "Newest events"),
    element("div", { class: "toolbar" }, button("Show the newest events", look)), wrong, list);
}

function eventList(events) {
  return element("ol", { class: "sample card", tabindex: "0", "aria-label": "Events, newest first" },
    events.toReversed().map((event) => element("li", {}, element("code", {}, event))));
}

/** The part that removes a source, which is asked for. */
function sourceRemoval(known, { path, signal, say, navigate }) {
  const wrong = element("div", {});
  const run = worker(wrong, signal);

  function remove() {
    return run(async function ask() {
      const source = known();
      const body = element("div", {},
        element("p", {}, named(source.name), " goes, and its webhook with it."),
        element("p", {}, source.dataflows === 0 ? "No dataflow reads it."
          : `${counted(source.dataflows, "dataflow")} that ${source.dataflows === 1 ? "reads it is" : "read it are"} removed, also those of other tenants.`));
      if (await confirmed({ title: "Remove this source?", body, action: "Remove", signal })) {
        const { dataflows } = await api.remove(path, { signal });
        say(`The source is removed, and ${counted(dataflows, "dataflow")} with it.`);
        navigate("#/sources");
      }
    });
  }

  return element("div", {}, wrong, button("Remove the source…", remove, { style: "danger" }));
}
