/** The list of dataflows, with search and filters. */

import { api } from "../api.js";
import { badge, element, field, named, problem, replace, table } from "../dom.js";
import { count, time } from "../format.js";
import { smallButton } from "../forms.js";
import { refresh } from "../refresh.js";
import { every } from "../live-updates.js";

const PACE = 5;
const STATES = ["deploying", "running", "degraded", "draining", "removed"];
const FILTERS = ["search", "state", "source", "tenant"];
const PART = 50;

export const title = "Dataflows";

/** Show the page. The filters are in its address, so that they are kept on the way back from a dataflow. */
export async function show(main, { parameters, session, signal, say }) {
  const isOperator = session.kind === "operator";
  const asked = Object.fromEntries(FILTERS.map((name) => [name, parameters[name] ?? ""]));
  const list = element("div", {});
  const parts = element("div", { class: "toolbar" });
  // The cursors of this page and of earlier ones.
  let cursors = [undefined];
  let shown = "";
  let asking = new AbortController();

  async function look() {
    const mine = asking;
    const query = { ...asked, limit: PART, after: cursors.at(-1) };
    const page = await api.get("/v1/dataflows", { query, signal: AbortSignal.any([signal, mine.signal]) });
    const answer = JSON.stringify(page);
    if (mine === asking && answer !== shown) {
      shown = answer;
      refresh(list, listed(page.items, isOperator, Object.values(asked).some(Boolean)));
      refresh(parts, turns(page.next));
    }
  }

  function turns(next) {
    function turn(to) {
      cursors = to;
      again();
    }
    return [
      cursors.length > 1 ? smallButton("Previous", () => turn(cursors.slice(0, -1))) : null,
      next ? smallButton("Next", () => turn([...cursors, next])) : null,
    ];
  }

  /** Ask at once; an earlier request is aborted. */
  async function again() {
    asking.abort();
    asking = new AbortController();
    shown = "";
    try {
      await look();
      say(`${list.querySelectorAll("tbody tr").length} dataflows are shown.`);
    } catch (error) {
      if (error.name !== "AbortError") {
        replace(list, problem(error));
      }
    }
  }

  function filter(event) {
    event.preventDefault();
    Object.assign(asked, Object.fromEntries(new FormData(event.currentTarget)));
    const given = Object.entries(asked).filter(([, value]) => value !== "");
    history.replaceState(null, "", given.length === 0 ? "#/dataflows" : `#/dataflows?${new URLSearchParams(given)}`);
    cursors = [undefined];
    return again();
  }

  replace(main, element("h1", {}, title), filters(asked, isOperator, filter), list, parts);
  await every(PACE, async function lookOn() {
    try {
      await look();
    } catch (error) {
      // A newer request shows its own answer.
      if (error.name !== "AbortError") {
        throw error;
      }
    }
  }, signal);
}

function filters(asked, isOperator, filter) {
  function input(name, most) {
    return element("input", { name, type: "search", value: asked[name], maxlength: most, autocomplete: "off" });
  }
  const states = element("select", { name: "state", value: asked.state },
    element("option", { value: "" }, "all but removed"),
    STATES.map((state) => element("option", { value: state }, state)));
  return element("form", { class: "toolbar", role: "search", on: { submit: filter } },
    field("Name or id", input("search", 300)),
    field("State", states),
    field("Source", input("source", 300)),
    isOperator ? field("Tenant", input("tenant", 63)) : null,
    element("button", { class: "button first", type: "submit" }, "Search"));
}

function listed(dataflows, isOperator, isFiltered) {
  return table([
    { title: "Name", cell: (each) => element("a", { href: `#/dataflows/${encodeURIComponent(each.id)}` }, named(each.name)) },
    { title: "Id", cell: (each) => element("code", { class: "whole" }, each.id) },
    ...(isOperator ? [{ title: "Tenant", cell: (each) => named(each.tenant) }] : []),
    { title: "State", cell: stateOf },
    { title: "Revision", number: true, cell: (each) => count(each.revision) },
    { title: "Outputs", number: true, cell: (each) => count(each.outputs.length) },
    { title: "Submitted", cell: (each) => time(each.submitted) },
  ], dataflows, {
    caption: "Dataflows, oldest first",
    empty: isFiltered ? "No matching dataflows." : "No dataflows yet. Submit one.",
  });
}

function stateOf({ state, reason }) {
  return element("div", { class: reason ? "wide" : null }, badge(state), reason ? element("div", { class: "faint" }, reason) : null);
}
