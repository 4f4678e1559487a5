/** The dead letters of a dataflow: shown, replayed, deleted. */

import { api } from "../../api.js";
import { element, named, problem, replace, table } from "../../dom.js";
import { count, time } from "../../format.js";
import { counted } from "../../plurals.js";
import { refresh } from "../../refresh.js";
import { confirmed } from "./confirmation.js";

const MOST = 20;

/** The section on dead letters. */
export function deadLetters({ id, signal, say }, dataflow) {
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
      const left = answer.left > 0 ? ` ${count(answer.left)} left: ${answer.why_left}.` : "";
      return `Replayed ${counted(answer.dead_letters, "dead letter")} with ${counted(answer.events, "event")}.${left}`;
    });
  }

  async function discard(path, query, what) {
    const body = element("p", {}, `The events in ${what} are lost; they cannot be replayed afterwards.`);
    if (await confirmed({ title: `Delete ${what}?`, body, action: "Delete", signal })) {
      await acted(async function ask() {
        const answer = await api.remove(path, { query, signal });
        return `Deleted ${counted(answer.dead_letters, "dead letter")}.`;
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
      { title: "Reason", cell: reasonOf },
      { title: "Events", cell: eventsOf },
      { title: "Actions", cell: actionsOf },
    ], items, {
      caption: next ? `The newest ${MOST}; there are more` : "Newest first",
      empty: "No dead letters.",
    });
  }

  function actionsOf(letter) {
    const path = `/v1/dead-letters/${letter.id}`;
    return element("div", { class: "toolbar" },
      button("Replay", `Replay dead letter ${letter.id}`, () => replay(`${path}/replay`)),
      button("Delete…", `Delete dead letter ${letter.id}`, () => discard(path, undefined, `dead letter ${letter.id}`)));
  }

  return {
    update(now) {
      tasks = now.tasks;
    },
    look,
    node: element("section", {}, element("h2", {}, "Dead letters"), wrong, all, place),
  };
}

function reasonOf(letter) {
  return element("div", { class: "wide" }, letter.reason,
    letter.traceback ? element("details", {},
      element("summary", {}, "Traceback"),
      element("pre", {}, letter.traceback)) : null);
}

function eventsOf(letter) {
  const dropped = `${count(letter.dropped)} older ones of this task were dropped`;
  return element("div", {},
    element("details", {},
      element("summary", {}, counted(letter.events.length, "event")),
      element("pre", {}, letter.events.map((event) => JSON.stringify(event)).join("\n"))),
    letter.dropped > 0 ? element("div", { class: "faint" }, dropped) : null);
}

function button(words, label, act) {
  return element("button", { class: "button small", type: "button", "aria-label": label, on: { click: act } }, words);
}
