/** Shared parts of the pages that list what was asked for: savings, bills, operations, audit, modules. */

import { api, Problem, Unreachable } from "./api.js";
import { element, problem } from "./dom.js";

/** A select of one tenant, or of none of them by other words, for operators. */
export async function selectTenant(chosen, signal, none = "All tenants") {
  const tenants = await api.pages("/v1/tenants", { signal });
  return element("select", { value: chosen ?? "" },
    element("option", { value: "" }, none),
    tenants.map((each) => element("option", { value: each.name }, each.name)));
}

/** The bounds of a custom period: the fields are shown if it is chosen, and it is complete once both are filled in. */
export function ownBounds(chosen, from, to, fields) {
  function isOwn() {
    return chosen.value === "own";
  }

  return {
    isWhole() {
      return !isOwn() || (from.value !== "" && to.value !== "");
    },
    showFields() {
      for (const each of fields) {
        each.hidden = !isOwn();
      }
    },
  };
}

/** Put the choices into the address of the page, without leaving the page. */
export function remember(path, words) {
  const given = Object.entries(words).filter(([, word]) => word);
  history.replaceState(null, "", given.length > 0 ? `${path}?${new URLSearchParams(given)}` : path);
}

const PART = 50;

/**
 * A list that is read in parts: `read()` begins anew, and the button `more`, which is called `word`, reads the next part.
 *
 * `query()` are the filters to begin with, and `show(rows, filters)` shows all rows so far. Of several reads only the
 * latest is shown.
 */
export function listInParts(path, { word, query, show, main, signal }) {
  const more = element("button", { class: "button", type: "button", hidden: true, on: { click: () => readFrom(after) } }, word);
  let rows = [];
  let after = null;
  let asked = {};
  let turn = 0;

  function readFrom(start) {
    return guarded(async function readPart() {
      turn += 1;
      const mine = turn;
      const filters = start ? asked : query();
      const page = await api.get(path, { query: { ...filters, limit: PART, after: start }, signal });
      if (mine === turn) {
        rows = start ? [...rows, ...page.items] : page.items;
        [asked, after] = [filters, page.next];
        more.hidden = after === null;
        show(rows, filters);
      }
    }, main, signal);
  }

  return { more, read: () => readFrom(null) };
}

const turns = new WeakMap();

/**
 * Do some work, and show a refusal at the top of the page until it succeeds. Only the latest call shows anything.
 *
 * If the service is unreachable for a while, the banner says so, and the page's next request succeeds by itself.
 */
export async function guarded(work, main, signal) {
  const turn = (turns.get(main) ?? 0) + 1;
  turns.set(main, turn);
  function display(...shown) {
    if (turns.get(main) === turn) {
      main.querySelector(":scope > .problem")?.remove();
      main.prepend(...shown);
    }
  }
  try {
    await work();
    display();
  } catch (error) {
    const passes = error instanceof Unreachable || (error instanceof Problem && (error.isTransient || error.status === 401));
    if (!passes && !signal.aborted && error.name !== "AbortError") {
      display(problem(error));
    }
  }
}
