/** Sign-in with the provider, if there is one, or with an API key, which is sent once and not stored. */

import { api } from "../api.js";
import { element, field, named, problem, replace } from "../dom.js";

/** Where the page keeps what was to be shown while the browser is at the provider. */
const PLACE = "braid:sign-in:place";

export const title = "Sign in";

export async function show(main, { parameters, signal, signedIn }) {
  const came = cameBack();
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

  async function begin() {
    try {
      const { url } = await api.post("/sign-in", undefined, { signal });
      sessionStorage.setItem(PLACE, location.hash);
      location.assign(url);
    } catch (error) {
      failed(error);
    }
  }

  async function end({ code, state }) {
    try {
      await signedIn(await api.post("/sign-in/code", { code, state }, { signal }));
    } catch (error) {
      failed(error);
    }
  }

  function failed(error) {
    if (!signal.aborted) {
      replace(wrong, problem(error));
    }
  }

  const others = element("div", {});
  replace(main,
    element("form", { class: "narrow card", on: { submit: signIn } },
      element("h1", {}, "Sign in"),
      others,
      field("API key", key, "It begins with braid_. Operators make keys; a tenant can make more for itself."),
      wrong,
      button,
      element("p", { class: "faint" }, "The key is exchanged for a session of eight hours; the browser does not store it.")));
  if (parameters.refused) {
    replace(wrong, problem(parameters.refused));
  }
  key.focus();
  if (came?.code) {
    await end(came);
  } else if (came !== null) {
    failed({ title: "The provider refused", detail: `It answered ${came.error}.` });
  }
  const { provider } = await api.get("/sign-in", { signal });
  if (provider !== null) {
    replace(others,
      element("button", { class: "button first", type: "button", on: { click: begin } }, "Sign in at ", named(provider)),
      element("p", {}, "Or with an API key:"));
  }
}

/** What the provider sent the browser back with, which then leaves the address; null if it did not. */
function cameBack() {
  const query = new URLSearchParams(location.search);
  const [state, code, error] = ["state", "code", "error"].map((name) => query.get(name));
  if (error === null && (code === null || state === null)) {
    return null;
  }
  history.replaceState(null, "", location.pathname + (sessionStorage.getItem(PLACE) || location.hash));
  // Anybody can make an address with an error: only a word of the protocol is shown.
  return { code, state, error: /^[a-z_]{1,60}$/.test(error ?? "") ? error : "an error" };
}
