/** The reconfigurations of a dataflow as they are: the one under way is watched closely. */

import { api } from "../../../api.js";
import { element } from "../../../dom.js";
import { every } from "../../../live-updates.js";
import { refresh } from "../../../refresh.js";
import { history, isUnderWay, progress } from "./history.js";

const PACE = 1;
const MOST = 20;

/**
 * The progress of the newest reconfiguration, and the list of all.
 * @param {string} route the path of the list
 * @param {object} on `undo(one)`, `cancel(one)`, `ended()` and `failed(error)`
 */
export function watch(route, { signal, say }, on) {
  const [now, list] = [element("div", {}), element("div", {})];
  const state = { dataflow: "", newest: null, shown: "", items: [], isFollowed: false };

  function show(newest) {
    if (newest.id !== state.newest?.id || newest.state !== state.newest.state) {
      say(`Reconfiguration ${newest.id} is ${newest.state}.`);
    }
    state.newest = newest;
    refresh(now, progress(newest, () => on.cancel(newest)));
    if (!state.isFollowed && isUnderWay(newest)) {
      follow();
    }
  }

  async function look() {
    const page = await api.get(route, { query: { limit: MOST }, signal });
    const read = JSON.stringify(page);
    if (read === state.shown) {
      return;
    }
    state.shown = read;
    state.items = page.items;
    refresh(list, history(page, state.dataflow, on.undo));
    const [newest] = page.items;
    // An old one is only listed.
    if (newest && (isUnderWay(newest) || newest.id === state.newest?.id)) {
      show(newest);
    }
  }

  /** Look more often until it has ended. */
  async function follow() {
    state.isFollowed = true;
    const over = new AbortController();
    async function again() {
      await look();
      if (!isUnderWay(state.newest)) {
        over.abort();
      }
    }
    try {
      await every(PACE, again, AbortSignal.any([signal, over.signal]));
      await on.ended();
    } catch (error) {
      on.failed(error);
    } finally {
      state.isFollowed = false;
    }
  }

  function update({ id }) {
    state.dataflow = id;
  }

  // One that is followed is looked at often enough.
  return { now, list, show, look: async () => state.isFollowed || look(), update, items: () => state.items };
}
