/** The installed task types, loaded when they are needed. */

import { api } from "../../../api.js";

/** The types by name; `load()` before anything else. */
export function taskTypes(signal) {
  const known = new Map();
  let loading = null;

  async function load() {
    loading ??= api.pages("/v1/task-types", { signal });
    try {
      for (const each of await loading) {
        known.set(each.name, each);
      }
    } catch (error) {
      loading = null;
      throw error;
    }
  }

  /** The type of a name, which may be in a namespace; null if there is none. */
  async function find(name) {
    if (!known.has(name) && name !== "") {
      const { items } = await api.get("/v1/task-types", { query: { name }, signal });
      items.forEach((each) => known.set(each.name, each));
    }
    return known.get(name) ?? null;
  }

  /** The names of the types that could stand where one stands: with as many or as few ends. */
  function like(type) {
    return [...known.values()].filter((each) => endsOf(each) === endsOf(type)).map((each) => each.name);
  }

  return { load, find, like, known };
}

/** Whether a type begins or ends dataflows. */
function endsOf({ inputs, outputs }) {
  return [inputs, outputs].map((ports) => ports?.length === 0).join();
}
