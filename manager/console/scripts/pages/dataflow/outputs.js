/** A dataflow's outputs: where they are found, how late they are, and what leaves them while somebody looks. */

import { element, named, problem, replace, table } from "../../dom.js";
import { count, seconds } from "../../format.js";
import { refresh } from "../../refreshing.js";
import { stream } from "../../live.js";

const MOST_SHOWN = 100;

/** The part of the page that is about outputs. */
export function outputs({ path, signal, say }) {
  const list = element("div", {});
  const watched = element("div", {});
  let told = "";
  let looking = null;

  function stop() {
    looking?.abort();
    looking = null;
    replace(watched);
  }

  function watch(sink) {
    stop();
    const mine = new AbortController();
    looking = mine;
    const panel = panelOf(sink, function close() {
      stop();
      list.querySelector(`button[data-sink="${CSS.escape(sink)}"]`)?.focus();
      say("No longer watching.");
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

  function tell({ outputs: found, state }) {
    const isOver = state === "removed";
    const now = JSON.stringify([found, isOver]);
    if (now === told) {
      return;
    }
    told = now;
    if (isOver) {
      stop();
    }
    refresh(list, table([
      { title: "Output", cell: ({ sink }) => named(sink) },
      { title: "Topic", cell: ({ topic }) => element("code", {}, topic) },
      { title: "Latency, median", number: true, cell: (each) => seconds(each.latency_seconds_p50) },
      { title: "Latency, 99 of 100", number: true, cell: (each) => seconds(each.latency_seconds_p99) },
      ...(isOver ? [] : [{ title: "Live", cell: row }]),
    ], found, { caption: "How old events were when they left, over the last minute", empty: "It has no outputs." }));
  }

  return { tell, node: element("section", {}, element("h2", {}, "Outputs"), list, watched) };
}

/** What is seen of one output: the newest events first, and how many there were in all. */
function panelOf(sink, close) {
  const counted = element("p", { class: "faint" }, "Connecting.");
  const events = element("ul", { class: "sample", tabindex: "0", "aria-label": `Events of ${sink}` });
  let [shown, others] = [0, 0];

  function tell(words) {
    counted.textContent = `${words} ${count(shown)} events shown here, ${count(others)} more left meanwhile.`;
  }
  function sample(told) {
    others += told.others;
    shown += told.events.length;
    events.prepend(...told.events.map((event, place) => element("li", {},
      element("span", { class: "faint" }, `${told.first + place} `), element("code", {}, JSON.stringify(event)))).reverse());
    while (events.children.length > MOST_SHOWN) {
      events.lastElementChild.remove();
    }
    tell("Watching.");
  }
  return {
    node: element("div", { class: "card" },
      element("h3", {}, "Live: ", named(sink)),
      element("button", { class: "button small", type: "button", on: { click: close } }, "Stop watching"),
      counted, events),
    on: { open: () => tell("Watching, from now on."), closed: () => tell("The stream broke; it is taken up again."), sample },
    failed: (error) => replace(counted, problem(error)),
  };
}
