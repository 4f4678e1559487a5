/** What the pages of reports have in common. */

import { api, Problem, Unreachable } from "./api.js";
import { element, problem } from "./dom.js";

/** A choice of all tenants or one of them; for operators. */
export async function selectTenant(chosen, signal) {
  const tenants = await api.pages("/v1/tenants", { signal });
  return element("select", { value: chosen ?? "" },
    element("option", { value: "" }, "All tenants"),
    tenants.map((each) => element("option", { value: each.name }, each.name)));
}

/** The bounds of a period of one's own: its fields are seen where that is chosen, and it is whole once both are given. */
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

/** Have the address of the page say what was chosen on it, without going anywhere. */
export function remember(path, words) {
  const given = Object.entries(words).filter(([, word]) => word);
  history.replaceState(null, "", given.length > 0 ? `${path}?${new URLSearchParams(given)}` : path);
}

const turns = new WeakMap();

/**
 * Do some work, and show above everything why it was refused, until it goes well. Only what was begun last counts.
 *
 * Where the service is away for a while the banner says so, and whoever looks again and again goes on by itself.
 */
export async function guarded(work, main, signal) {
  const turn = (turns.get(main) ?? 0) + 1;
  turns.set(main, turn);
  function tell(...shown) {
    if (turns.get(main) === turn) {
      main.querySelector(":scope > .problem")?.remove();
      main.prepend(...shown);
    }
  }
  try {
    await work();
    tell();
  } catch (error) {
    const passes = error instanceof Unreachable || (error instanceof Problem && (error.passing || error.status === 401));
    if (!passes && !signal.aborted && error.name !== "AbortError") {
      tell(problem(error));
    }
  }
}
