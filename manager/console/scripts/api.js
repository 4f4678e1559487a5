/** The REST API as the pages ask it. */

const WORDS = { "Content-Type": "application/json" };
// Requests that change something carry this header, which no page from elsewhere can send.
const CHANGING = { "X-Braid-Console": "1" };
const MOST_OF_A_PAGE = 500;

/**
 * What is dispatched on `window` when somebody is signed out, and when something is out of reach and back: the detail of
 * these has its `path`, which is empty where all of the service is meant, and a trouble's `text`.
 */
export const SIGNED_OUT = "braid:signed-out";
export const TROUBLE = "braid:trouble";
export const RECOVERED = "braid:recovered";

/** The service refused: problem+json as an error. */
export class Problem extends Error {
  constructor(status, told = {}) {
    super(told.detail || told.title || `The service answered ${status}.`);
    this.name = "Problem";
    this.status = status;
    this.code = String(told.type ?? "").split("/").pop();
    this.title = told.title ?? "The service refused";
    this.detail = told.detail ?? this.message;
    this.errors = told.errors ?? [];
    this.remedy = this.errors[0]?.remedy ?? "";
  }

  /** Whether asking again later may go well. */
  get passing() {
    return [429, 502, 503, 504].includes(this.status);
  }
}

/** The service cannot be reached. */
export class Unreachable extends Error {
  constructor() {
    super("The service cannot be reached.");
    this.name = "Unreachable";
    this.title = "The service cannot be reached";
  }
}

/** The methods of the API. Paths are as REST has them, such as `/v1/dataflows`; ids in them are encoded by the caller. */
export const api = { get, post, put, remove, pages, open };

function get(path, { query, headers, signal } = {}) {
  return asked("GET", path, undefined, { query, headers, signal });
}

function post(path, body, { query, headers, signal } = {}) {
  return asked("POST", path, body, { query, headers, signal });
}

function put(path, body, { query, headers, signal } = {}) {
  return asked("PUT", path, body, { query, headers, signal });
}

function remove(path, { query, headers, signal } = {}) {
  return asked("DELETE", path, undefined, { query, headers, signal });
}

/** All items of a list, part after part, `most` of them at most. */
async function pages(path, { query = {}, signal, most = Infinity } = {}) {
  const items = [];
  let after;
  do {
    const limit = Math.min(MOST_OF_A_PAGE, most - items.length);
    const page = await get(path, { query: { ...query, limit, after }, signal });
    items.push(...page.items);
    after = page.next;
  } while (after && items.length < most);
  return items;
}

/** Ask, and give the response as it is once it is a success; for streams. */
async function open(method, path, body, { query, headers = {}, signal } = {}) {
  const sent = { ...(body === undefined ? {} : WORDS), ...(method === "GET" ? {} : CHANGING), ...headers };
  let response;
  try {
    response = await fetch(path + queried(query), {
      method, headers: sent, body: encoded(body), signal, credentials: "same-origin", redirect: "error", cache: "no-store",
    });
  } catch (error) {
    throw failed(error);
  }
  if (response.status !== 503) {
    announce(RECOVERED, { path });
  }
  if (response.ok) {
    return response;
  }
  const problem = new Problem(response.status, await saidOf(response));
  if (problem.status === 401 && !(path === "/v1/session" && method === "POST")) {
    announce(SIGNED_OUT);
  } else if (problem.status === 503) {
    announce(TROUBLE, { path, text: `${problem.title}: ${problem.detail}.` });
  }
  throw problem;
}

async function asked(method, path, body, options) {
  const response = await open(method, path, body, options);
  let text;
  try {
    text = await response.text();
  } catch (error) {
    throw failed(error);
  }
  if (text === "") {
    return null;
  }
  return /[/+]json\b/.test(response.headers.get("Content-Type") ?? "") ? JSON.parse(text) : text;
}

function failed(error) {
  if (error.name === "AbortError") {
    return error;
  }
  const text = "The service cannot be reached. What is shown may be old; it goes on by itself once it is back.";
  announce(TROUBLE, { path: "", text });
  return new Unreachable();
}

async function saidOf(response) {
  try {
    return await response.json();
  } catch {
    // Whatever stands before the service may answer in its own words; the status is all that is sure.
    return {};
  }
}

function encoded(body) {
  // Text is sent as it is: a document is refused or taken exactly as somebody wrote it.
  return body === undefined || typeof body === "string" ? body : JSON.stringify(body);
}

function queried(query = {}) {
  const given = Object.entries(query).filter(function isGiven([, value]) {
    return value !== null && value !== undefined && value !== "" && value !== Infinity;
  });
  return given.length === 0 ? "" : `?${new URLSearchParams(given)}`;
}

function announce(kind, detail) {
  window.dispatchEvent(new CustomEvent(kind, { detail }));
}
