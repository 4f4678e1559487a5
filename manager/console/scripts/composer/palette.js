/** The palette: all task types by family, to be searched, chosen, and dragged onto the canvas. */

import { element, prose, replace } from "../dom.js";

/** The most pixels that a pointer moves during a click. */
const STILL = 6;

/**
 * A palette.
 * @param {Array} types those of `GET /v1/task-types`
 * @param {object} on `add(type)` for a chosen type, `drop(type, event)` for one that was dragged, and `leave()` on Escape
 */
export function palette(types, on) {
  const search = element("input", { type: "search", placeholder: "Search", "aria-label": "Search the task types", autocomplete: "off" });
  const list = element("div", { class: "palette-list" });
  const summary = element("p", { class: "sr-only", role: "status" });

  function show() {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const fitting = types.filter((type) => words.every((word) => textOf(type).includes(word))).sort(byNearness(words));
    const families = byFamily(fitting, words.length > 0);
    replace(list, families.map(([family, members]) => [
      element("h3", {}, family), element("ul", { class: "plain" }, members.map((type) => element("li", {}, itemOf(type, on)))),
    ]), fitting.length === 0 ? element("p", { class: "faint" }, "No task type has these words.") : null);
    summary.textContent = words.length > 0 ? `${fitting.length} task types` : "";
  }

  search.addEventListener("input", show);
  search.addEventListener("keydown", function choose(event) {
    if (event.key === "Escape") {
      on.leave();
    } else if (event.key === "Enter") {
      list.querySelector("button")?.click();
    } else if (event.key === "ArrowDown") {
      event.preventDefault();
      list.querySelector("button")?.focus();
    }
  });
  list.addEventListener("keydown", function step(event) {
    const buttons = [...list.querySelectorAll("button")];
    const at = buttons.indexOf(document.activeElement) + ({ ArrowDown: 1, ArrowUp: -1 }[event.key] ?? NaN);
    if (!Number.isNaN(at)) {
      event.preventDefault();
      (buttons[at] ?? search).focus();
    }
  });
  show();
  const node = element("section", { class: "palette", "aria-labelledby": "palette-title" },
    element("h2", { id: "palette-title" }, "Task types"), search, summary, list);
  return { node, focus: () => search.select() || search.focus() };
}

function itemOf(type, on) {
  const item = element("button", { class: "palette-item", type: "button" },
    element("code", {}, type.name), element("span", { class: "faint" }, prose(type.summary)));
  let from = null;
  let ghost = null;
  let wasDragged = false;

  function stop() {
    ghost?.remove();
    [from, ghost] = [null, null];
  }

  item.addEventListener("click", function choose() {
    if (!wasDragged) {
      on.add(type);
    }
  });
  item.addEventListener("pointerdown", function down(event) {
    // A finger scrolls the list; a tap adds the type.
    if (event.button === 0 && event.pointerType !== "touch") {
      from = { x: event.clientX, y: event.clientY };
      item.setPointerCapture(event.pointerId);
    }
  });
  item.addEventListener("pointermove", function move(event) {
    if (from === null || (ghost === null && Math.hypot(event.clientX - from.x, event.clientY - from.y) < STILL)) {
      return;
    }
    if (ghost === null) {
      ghost = element("div", { class: "palette-ghost", "aria-hidden": "true" }, type.name);
      document.body.append(ghost);
    }
    Object.assign(ghost.style, { left: `${event.clientX}px`, top: `${event.clientY}px` });
  });
  item.addEventListener("pointerup", function up(event) {
    wasDragged = ghost !== null;
    stop();
    if (wasDragged) {
      // The click that follows a drag comes before that, and adds nothing.
      window.setTimeout(function dropped() {
        wasDragged = false;
        on.drop(type, event);
      });
    }
  });
  item.addEventListener("pointercancel", stop);
  return item;
}

function textOf({ name, family, summary }) {
  return `${name} ${family} ${summary}`.toLowerCase();
}

/** First the one that has the searched name, and those whose name has the words. */
function byNearness(words) {
  const misses = ({ name }) => words.filter((word) => !name.includes(word)).length - (name === words.join("_"));
  return (one, other) => misses(one) - misses(other) || one.name.localeCompare(other.name, "en");
}

/** The families with their types; in their order where they were searched, else first the one in which dataflows begin. */
function byFamily(types, isSearched) {
  const families = new Map();
  for (const type of types) {
    families.set(type.family, [...(families.get(type.family) ?? []), type]);
  }
  const begins = (members) => members.some((type) => type.inputs?.length === 0);
  return isSearched ? [...families] : [...families].sort(([, one], [, other]) => begins(other) - begins(one));
}
