/** The dead letters of a dataflow: shown, replayed, deleted. */

import { api } from "../../api.js";
import { element, named, problem, replace, table } from "../../dom.js";
import { count, counted, time } from "../../format.js";
import { confirmed, smallButton } from "../../forms.js";
import { refresh } from "../../refresh.js";

const MOST = 20;

/** The section on dead letters. */
export function deadLetters({ id, signal, say }, dataflow) {
  const [place, groups, wrong] = [element("div", {}), element("div", {}), element("div", {})];
  const all = element("div", { class: "toolbar changing" });
  let shown = "";
  let tasks = dataflow.tasks;

  async function look() {
    const query = { dataflow: id, limit: MOST };
    const [page, grouped] = await Promise.all([
      api.get("/v1/dead-letters", { query, signal }), api.get("/v1/dead-letters/groups", { query, signal }),
    ]);
    const now = JSON.stringify([page, grouped, tasks]);
    if (now !== shown) {
      shown = now;
      refresh(groups, page.items.length > grouped.items.length ? listedGroups(grouped) : null);
      refresh(place, listed(page));
      refresh(all, page.items.length === 0 ? null : [
        smallButton("Replay all", () => replay("/v1/dead-letters/replay", { dataflow: id }), "Replay all dead letters"),
        smallButton("Delete all…", () => discard("/v1/dead-letters", { dataflow: id }, "all dead letters"), "Delete all dead letters"),
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

  /** By task and reason, because one cause may make thousands. */
  function listedGroups({ items, next }) {
    return table([
      { title: "Task", cell: (group) => taskOf(group.instance) },
      { title: "Reason", cell: (group) => element("div", { class: "wide" }, group.reason) },
      { title: "Dead letters", number: true, cell: (group) => count(group.dead_letters) },
      { title: "First", cell: (group) => time(group.first) },
      { title: "Last", cell: (group) => time(group.last) },
      { title: "Actions", cell: groupActionsOf, changing: true },
    ], items, { caption: next ? `The newest ${MOST} groups; there are more` : "By task and reason" });
  }

  function groupActionsOf(group) {
    const [path, query] = [`/v1/dead-letters/${group.newest}`, { alike: true }];
    const what = `${counted(group.dead_letters, "dead letter")} like ${group.newest}`;
    return element("div", { class: "toolbar" },
      smallButton("Replay", () => replay(`${path}/replay`, query), `Replay ${what}`),
      smallButton("Delete…", () => discard(path, query, what), `Delete ${what}`));
  }

  function listed({ items, next }) {
    return table([
      { title: "When", cell: (letter) => time(letter.at) },
      { title: "Task", cell: (letter) => taskOf(letter.instance) },
      { title: "Port", cell: (letter) => letter.port },
      { title: "Reason", cell: reasonOf },
      { title: "Events", cell: eventsOf },
      { title: "Actions", cell: actionsOf, changing: true },
    ], items, {
      caption: next ? `The newest ${MOST}; there are more` : "Newest first",
      empty: "No dead letters.",
    });
  }

  function actionsOf(letter) {
    const path = `/v1/dead-letters/${letter.id}`;
    return element("div", { class: "toolbar" },
      smallButton("Replay", () => replay(`${path}/replay`), `Replay dead letter ${letter.id}`),
      smallButton("Delete…", () => discard(path, undefined, `dead letter ${letter.id}`), `Delete dead letter ${letter.id}`));
  }

  return {
    update(now) {
      tasks = now.tasks;
    },
    look,
    node: element("section", {}, element("h2", {}, "Dead letters"), wrong, all, groups, place),
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
