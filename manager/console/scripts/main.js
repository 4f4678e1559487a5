/** The frame of the console: the session, the navigation, the current page, and the banner for troubles. */

import { api, RECOVERED, SIGNED_OUT, TROUBLE, Unreachable } from "./api.js";
import { element, problem, replace } from "./dom.js";
import { pause } from "./live-updates.js";
import { showNavigation } from "./navigation.js";

/**
 * The pages by path: the module in `pages/`, the word and the group in the navigation, if it is there, and whether it is
 * for operators only. Words after a colon are parameters of the page, as are those after a question mark.
 */
const ROUTES = [
  { path: "/", page: "overview", word: "Overview", group: "Run" },
  { path: "/dataflows", page: "dataflows", word: "Dataflows", group: "Run" },
  { path: "/dataflows/:id", page: "dataflow", within: "/dataflows" },
  { path: "/compose", page: "compose", word: "Compose", group: "Run" },
  { path: "/compose/:id", page: "compose", within: "/compose" },
  { path: "/sources", page: "sources", word: "Sources", group: "Run" },
  { path: "/sources/new", page: "new-source", within: "/sources" },
  { path: "/sources/:name", page: "source", within: "/sources" },
  { path: "/modules", page: "modules", word: "Modules", group: "Library" },
  { path: "/modules/:name/:version", page: "module", within: "/modules" },
  { path: "/task-types", page: "task-types", word: "Task types", group: "Library" },
  { path: "/graph", page: "graph", word: "Graph", group: "Operate" },
  { path: "/jobs", page: "jobs", word: "Jobs", group: "Operate", operators: true },
  { path: "/jobs/:job", page: "job", within: "/jobs", operators: true },
  { path: "/operations", page: "operations", word: "Operations", group: "Operate" },
  { path: "/audit", page: "audit", word: "Audit", group: "Operate" },
  { path: "/savings", page: "savings", word: "Savings", group: "Money" },
  { path: "/bills", page: "bills", word: "Bills", group: "Money" },
  { path: "/access", page: "access", word: "Access" },
  { path: "/tenants", page: "tenants", word: "Tenants", group: "Operate", operators: true },
  { path: "/tenants/:name", page: "tenant", within: "/tenants", operators: true },
];
const SIGN_IN = { path: "/sign-in", page: "sign-in" };
const RETRY_SECONDS = 3;

const main = document.getElementById("main");
const trouble = document.getElementById("trouble");
const said = document.getElementById("said");

let session = null;
let current = null;
let troubles = new Map();
let leaving = new AbortController();

window.addEventListener("hashchange", shown);
window.addEventListener(SIGNED_OUT, signedOut);
window.addEventListener(TROUBLE, troubled);
window.addEventListener(RECOVERED, recovered);
document.querySelector(".skip").addEventListener("click", skipped);
begin();

async function begin() {
  const [, link] = /^#link=(.+)$/.exec(location.hash) ?? [];
  if (link) {
    // Out of the history, although it signs in only once.
    history.replaceState(null, "", "#/");
    try {
      await api.post("/v1/session", { link });
    } catch (error) {
      await show(SIGN_IN, { refused: error });
      return;
    }
  }
  for (;;) {
    try {
      session = await api.get("/v1/session");
      break;
    } catch (error) {
      if (error.status === 401) {
        // The listener of `SIGNED_OUT` shows the sign-in page.
        return;
      }
      await pause(RETRY_SECONDS, new AbortController().signal);
    }
  }
  await shown();
}

function signedIn(opened) {
  session = opened;
  return shown();
}

function signedOut() {
  if (current === SIGN_IN) {
    // The first of several refused requests shows it; later ones must not clear what was typed.
    return;
  }
  const was = session;
  session = null;
  say(was ? "You were signed out." : "");
  show(SIGN_IN, {});
}

async function leave() {
  try {
    await api.remove("/v1/session");
  } catch (error) {
    if (error.status !== 401) {
      replace(main, problem(error));
      return;
    }
  }
  location.hash = "#/";
  signedOut();
}

function shown() {
  if (session === null) {
    return show(SIGN_IN, {});
  }
  const [path, query] = (location.hash.slice(1) || "/").split("?", 2);
  for (const route of ROUTES) {
    const parameters = matched(route.path, path);
    if (parameters) {
      return show(route, { ...Object.fromEntries(new URLSearchParams(query)), ...parameters });
    }
  }
  return show(null, {});
}

/** Show a page instead of the one before, which is aborted; its late answers change nothing. */
async function show(route, parameters) {
  current = route;
  leaving.abort();
  leaving = new AbortController();
  const { signal } = leaving;
  const place = element("div", { class: "page" });
  replace(main, place);
  showNavigation(ROUTES, route, session, leave);
  // Troubles with the requests of the page before are over.
  troubles = new Map([...troubles].filter(isOfAll));
  showTrouble();
  main.focus({ preventScroll: true });
  window.scrollTo(0, 0);
  try {
    if (route === null) {
      missing(place, "Page not found", "Choose a page above.");
    } else if (route.operators && session.kind !== "operator") {
      missing(place, "This page is for operators", "It shows the tasks of all tenants.");
    } else {
      const page = await import(`./pages/${route.page}.js`).catch(notLoaded);
      if (signal.aborted) {
        return;
      }
      document.title = `${typeof page.title === "function" ? page.title(parameters) : page.title} · Braid`;
      await page.show(place, { parameters, session, signal, navigate, say, signedIn });
    }
  } catch (error) {
    if (!signal.aborted && error.status !== 401) {
      place.prepend(problem(error, place.querySelector("h1") === null ? "h1" : "h2"));
    }
  }
}

function notLoaded(error) {
  throw error instanceof TypeError ? new Unreachable() : error;
}

function isOfAll([path]) {
  return path === "";
}

function missing(place, title, remedy) {
  document.title = `${title} · Braid`;
  replace(place, element("h1", {}, title), element("p", {}, remedy));
}

function matched(pattern, path) {
  const wanted = pattern.split("/");
  const given = path.split("/");
  const parameters = {};
  const fits = wanted.length === given.length && wanted.every(function fitsAt(word, at) {
    if (word.startsWith(":") && given[at] !== "") {
      parameters[word.slice(1)] = decoded(given[at]);
      return true;
    }
    return word === given[at];
  });
  return fits ? parameters : null;
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    // The address has a percent sign that encodes nothing.
    return text;
  }
}

function navigate(to) {
  if (location.hash === to) {
    return shown();
  }
  location.hash = to;
  return undefined;
}

function say(text) {
  said.textContent = text;
}

function troubled(event) {
  troubles.set(event.detail.path, event.detail.text);
  showTrouble();
}

function recovered(event) {
  // Any answer shows that the service is reachable, but some of its parts may still be down.
  troubles.delete("");
  troubles.delete(event.detail.path);
  showTrouble();
}

function showTrouble() {
  const [text = ""] = troubles.values();
  if (trouble.textContent === text) {
    return;
  }
  trouble.textContent = text;
  trouble.hidden = text === "";
  if (text === "") {
    say("The service is back.");
  }
}

function skipped(event) {
  // The hash of this link is not a page.
  event.preventDefault();
  main.focus();
}
