/** Styles that one page alone needs, loaded when it opens. */

import { element } from "./dom.js";

/** Wait until a style sheet of `styles/` is there; it is loaded once. */
export function styled(name) {
  const href = `/console/styles/${name}.css`;
  if (document.querySelector(`link[href="${href}"]`) !== null) {
    return Promise.resolve();
  }
  return new Promise(function load(done) {
    // A page without its style is better than none.
    document.head.append(element("link", { rel: "stylesheet", href, on: { load: done, error: done } }));
  });
}
