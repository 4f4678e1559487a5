/** Sign-in with an API key, which is sent once and not stored. */

import { api } from "../api.js";
import { element, field, problem, replace } from "../dom.js";

export const title = "Sign in";

export async function show(main, { parameters, signal, signedIn }) {
  const key = element("input", {
    type: "password", name: "key", autocomplete: "off", autocapitalize: "off", spellcheck: "false", required: true,
  });
  const wrong = element("div", {});
  const button = element("button", { class: "button first", type: "submit" }, "Sign in");

  async function signIn(event) {
    event.preventDefault();
    button.disabled = true;
    replace(wrong);
    try {
      const session = await api.post("/v1/session", { key: key.value.trim() }, { signal });
      key.value = "";
      await signedIn(session);
    } catch (error) {
      if (!signal.aborted) {
        replace(wrong, problem(error));
        button.disabled = false;
        key.focus();
      }
    }
  }

  replace(main,
    element("form", { class: "narrow card", on: { submit: signIn } },
      element("h1", {}, "Sign in"),
      field("API key", key, "It begins with braid_. Operators make keys; a tenant can make more for itself."),
      wrong,
      button,
      element("p", { class: "faint" }, "The key is exchanged for a session of eight hours; the browser does not store it.")));
  if (parameters.refused) {
    replace(wrong, problem(parameters.refused));
  }
  key.focus();
}
