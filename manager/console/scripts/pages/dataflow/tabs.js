/** Tabs: one part of a page at a time, by mouse, by arrow keys and by its address. */

import { element } from "../../dom.js";

const STEPS = { ArrowRight: 1, ArrowLeft: -1 };

/**
 * Tabs of some parts, `{id, title, node}`; a part whose `isThere(data)` is false for the data of `update` has none.
 * @param {function} opened called with the id of a tab that somebody opens
 * @returns {{node, open, update, current}} `open(id)` opens one as if somebody did; `current()` is the id of what is open
 */
export function tabs(label, parts, first, opened) {
  const panels = new Map(parts.map(({ id, title, node }) => [id, {
    tab: element("button", {
      class: "tab", type: "button", role: "tab", id: `tab-${id}`, "aria-controls": `part-${id}`, on: { click: () => open(id) },
    }, title),
    panel: element("div", { class: "tab-part", role: "tabpanel", id: `part-${id}`, "aria-labelledby": `tab-${id}` }, node),
  }]));
  const list = element("div", { class: "tabs", role: "tablist", "aria-label": label }, [...panels.values()].map(({ tab }) => tab));
  let current = panels.has(first) ? first : parts[0].id;

  function show() {
    for (const [id, { tab, panel }] of panels) {
      const isOpen = id === current;
      tab.setAttribute("aria-selected", String(isOpen));
      tab.setAttribute("tabindex", isOpen ? "0" : "-1");
      panel.hidden = !isOpen;
    }
  }

  function open(id) {
    if (id !== current) {
      current = id;
      show();
      opened(id);
    }
  }

  function update(data) {
    for (const { id, isThere } of parts) {
      panels.get(id).tab.hidden = isThere?.(data) === false;
    }
    if (panels.get(current).tab.hidden) {
      open(parts[0].id);
    }
  }

  list.addEventListener("keydown", function key(event) {
    const ids = [...panels.keys()].filter((id) => !panels.get(id).tab.hidden);
    const at = ids.indexOf(current);
    const next = event.key === "Home" ? 0 : event.key === "End" ? ids.length - 1
      : Object.hasOwn(STEPS, event.key) ? (at + STEPS[event.key] + ids.length) % ids.length : -1;
    if (next >= 0) {
      event.preventDefault();
      open(ids[next]);
      panels.get(ids[next]).tab.focus();
    }
  });
  show();
  return { node: [list, [...panels.values()].map(({ panel }) => panel)], open, update, current: () => current };
}
