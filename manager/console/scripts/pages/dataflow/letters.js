/** A dataflow's dead letters: looked at, replayed, and deleted. */

import { api } from "../../api.js";
import { element, named, problem, replace, table } from "../../dom.js";
import { count, time } from "../../format.js";
import { refresh } from "../../refreshing.js";
import { confirmed } from "./confirming.js";

const MOST = 20;

/** The part of the page that is about dead letters. */
export function letters({ id, signal, say }, dataflow) {
  const [place, wrong, all] = [element("div", {}), element("div", {}), element("div", { class: "toolbar" })];
  let shown = "";
  let tasks = dataflow.tasks;

  async function look() {
    const page = await api.get("/v1/dead-letters", { query: { dataflow: id, limit: MOST }, signal });
    const now = JSON.stringify([page, tasks]);
    if (now !== shown) {
      shown = now;
      refresh(place, listed(page));
      refresh(all, page.items.length === 0 ? null : [
        button("Replay all", "Replay all dead letters", () => replay("/v1/dead-letters/replay", { dataflow: id })),
        button("Delete all…", "Delete all dead letters", () => discard("/v1/dead-letters", { dataflow: id }, "all dead letters")),
      ]);
    }
  }

  async function acted(act) {
    replace(wrong);
    try {
      say(await act());
      await look();
    } catch (error) {
      if (!signal.aborted) {
        replace(wrong, problem(error));
      }
    }
  }

  function replay(path, query) {
    return acted(async function ask() {
      const answer = await api.post(path, undefined, { query, signal });
      const left = answer.left > 0 ? ` ${count(answer.left)} stay as they are: ${answer.why_left}.` : "";
      return `${count(answer.dead_letters)} dead letters with ${count(answer.events)} events were handed to their tasks again.${left}`;
    });
  }

  async function discard(path, query, what) {
    const said = element("p", {}, `The events in ${what} are gone after that; nobody can replay them.`);
    if (await confirmed({ title: `Delete ${what}?`, body: said, action: "Delete", signal })) {
      await acted(async function ask() {
        const answer = await api.remove(path, { query, signal });
        return `${count(answer.dead_letters)} dead letters were deleted.`;
      });
    }
  }

  function taskOf(instance) {
    const names = tasks.filter((task) => task.instance === instance).map((task) => task.id);
    return names.length > 0 ? named(names.join(", ")) : `instance ${instance}, of an earlier revision`;
  }

  function listed({ items, next }) {
    return table([
      { title: "When", cell: (letter) => time(letter.at) },
      { title: "Task", cell: (letter) => taskOf(letter.instance) },
      { title: "Port", cell: (letter) => letter.port },
      { title: "Why", cell: (letter) => element("div", { class: "told" }, letter.reason) },
      { title: "Events", cell: eventsOf },
      { title: "Actions", cell: actionsOf },
    ], items, {
      caption: next ? `The newest ${MOST}; there are more` : "The newest first",
      empty: "Its tasks could take all events.",
    });
  }

  function actionsOf(letter) {
    const path = `/v1/dead-letters/${letter.id}`;
    return element("div", { class: "toolbar" },
      button("Replay", `Replay dead letter ${letter.id}`, () => replay(`${path}/replay`)),
      button("Delete…", `Delete dead letter ${letter.id}`, () => discard(path, undefined, `dead letter ${letter.id}`)));
  }

  return {
    tell(now) {
      tasks = now.tasks;
    },
    look,
    node: element("section", {}, element("h2", {}, "Dead letters"), wrong, all, place),
  };
}

function eventsOf(letter) {
  const dropped = `${count(letter.dropped)} older ones of this task had to go`;
  return element("div", {},
    element("details", {},
      element("summary", {}, `${count(letter.events.length)} events`),
      element("pre", {}, letter.events.map((event) => JSON.stringify(event)).join("\n"))),
    letter.dropped > 0 ? element("div", { class: "faint" }, dropped) : null);
}

function button(words, label, act) {
  return element("button", { class: "button small", type: "button", "aria-label": label, on: { click: act } }, words);
}
