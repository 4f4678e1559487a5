/** The outputs of a dataflow: topics, latencies, and live events. */

import { element, named, problem, replace, table } from "../../dom.js";
import { count, seconds, time } from "../../format.js";
import { refresh } from "../../refresh.js";
import { stream } from "../../live-updates.js";

const MOST_SHOWN = 100;

/** The section on outputs. */
export function outputs({ path, signal, say }) {
  const list = element("div", {});
  const missing = element("div", {});
  const watched = element("div", {});
  let shown = "";
  let watching = null;

  function stop() {
    watching?.abort();
    watching = null;
    replace(watched);
  }

  function watch(sink) {
    stop();
    const mine = new AbortController();
    watching = mine;
    const panel = panelOf(sink, function close() {
      stop();
      list.querySelector(`button[data-sink="${CSS.escape(sink)}"]`)?.focus();
      say("Stopped watching.");
    });
    replace(watched, panel.node);
    panel.node.querySelector("button").focus();
    say(`Watching ${sink}.`);
    const ends = AbortSignal.any([signal, mine.signal]);
    stream(`${path}/outputs/${encodeURIComponent(sink)}/events`, { on: panel.on, signal: ends }).catch(panel.failed);
  }

  function row({ sink }) {
    return element("button", {
      class: "button small", type: "button", dataset: { sink }, "aria-label": `Watch ${sink}`, on: { click: () => watch(sink) },
    }, "Watch");
  }

  function update({ outputs: found, state }) {
    const isOver = state === "removed";
    const now = JSON.stringify([found, isOver]);
    if (now === shown) {
      return;
    }
    shown = now;
    if (isOver) {
      stop();
    }
    refresh(list, table([
      { title: "Output", cell: ({ sink }) => named(sink) },
      { title: "Topic", cell: topicsOf },
      { title: "Format", cell: formatOf },
      { title: "Latency, median", number: true, cell: (each) => seconds(each.latency_seconds_p50) },
      { title: "Latency, 99th percentile", number: true, cell: (each) => seconds(each.latency_seconds_p99) },
      ...(isOver ? [] : [{ title: "Live", cell: row }]),
    ], found, { caption: "The age of events at the output, over the last minute", empty: "No outputs." }));
    refresh(missing, leftOutOf(found));
  }

  return { update, node: element("section", {}, element("h2", {}, "Outputs"), list, missing, watched) };
}

/** The topics of an output: that of its envelopes, and the one of its own. */
function topicsOf({ topic, also_on: own }) {
  return [topic, own].filter(Boolean).map((each) => element("div", {}, element("code", {}, each)));
}

/** The format that the document asks for, and how its messages are sent. */
function formatOf({ format, retain, qos }) {
  return [format.kind, retain ? "retained" : "", qos === 0 ? "sent once" : ""].filter(Boolean).join(", ");
}

/** What the formats and topics of outputs cannot say, if there is any. */
function leftOutOf(found) {
  const some = found.filter((each) => each.left_out);
  return some.length === 0 ? null : [
    element("h3", {}, "Events that were left out"),
    element("p", {}, "The format or topic of the output cannot say them. The envelopes have them."),
    table([
      { title: "Output", cell: ({ sink }) => named(sink) },
      { title: "Left out", number: true, cell: (each) => count(each.left_out.count) },
      { title: "Newest", cell: (each) => time(each.left_out.at) },
      { title: "Reason", cell: (each) => element("div", { class: "wide" }, named(each.left_out.reason)) },
      { title: "Event", cell: (each) => element("code", {}, named(each.left_out.event)) },
    ], some, { caption: "Since the job of each output started" }),
  ];
}

/** The live panel of one output: newest events first, with counts. */
function panelOf(sink, close) {
  const counted = element("p", { class: "faint" }, "Connecting.");
  const events = element("ul", { class: "sample", tabindex: "0", "aria-label": `Events of ${sink}` });
  let [shown, others] = [0, 0];

  function update(words) {
    counted.textContent = `${words} ${count(shown)} events shown, ${count(others)} not shown.`;
  }
  function sample(part) {
    others += part.others;
    shown += part.events.length;
    events.prepend(...part.events.map((event, place) => element("li", {},
      element("span", { class: "faint" }, `${part.first + place} `), element("code", {}, JSON.stringify(event)))).reverse());
    while (events.children.length > MOST_SHOWN) {
      events.lastElementChild.remove();
    }
    update("Watching.");
  }
  return {
    node: element("div", { class: "card" },
      element("h3", {}, "Live: ", named(sink)),
      element("button", { class: "button small", type: "button", on: { click: close } }, "Stop watching"),
      counted, events),
    on: { open: () => update("Watching from now on."), closed: () => update("The connection broke; reconnecting."), sample },
    failed: (error) => replace(counted, problem(error)),
  };
}
