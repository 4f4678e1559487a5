/** The refresh of a part of a page, which keeps focus and scroll position. */

import { replace } from "./dom.js";

/** Replace the children of a node; the focus moves to the new element that corresponds to the old one. */
export function refresh(node, ...children) {
  const focused = node.contains(document.activeElement) ? nameOf(document.activeElement) : null;
  const scrolled = [...node.querySelectorAll(".table")].map((each) => each.scrollLeft);
  replace(node, ...children);
  node.querySelectorAll(".table").forEach((each, place) => (each.scrollLeft = scrolled[place] ?? 0));
  if (focused !== null) {
    const like = [...node.querySelectorAll("a, button, [tabindex]")].find((each) => nameOf(each) === focused);
    like?.focus({ preventScroll: true });
  }
}

/** A function that refreshes a node with what is made of some data, if the data has changed. */
export function refresher() {
  const written = new Map();
  return function update(node, data, made) {
    const text = JSON.stringify(data);
    if (written.get(node) !== text) {
      written.set(node, text);
      refresh(node, made(data));
    }
  };
}

function nameOf(element) {
  const name = element.getAttribute("href") ?? element.getAttribute("aria-label") ?? element.textContent;
  return `${element.tagName} ${name}`;
}
