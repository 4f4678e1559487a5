/** The REST API. */

const JSON_HEADERS = { "Content-Type": "application/json" };
// Requests that change something carry this header, which a page of another site cannot send.
export const CHANGE_HEADERS = { "X-Braid-Console": "1" };
const MOST_OF_A_PAGE = 500;
/** Where a refusal does not end the session, because there is none yet. */
const SIGNING_IN = ["/v1/session", "/sign-in/code"];

/**
 * The events on `window` when the session ends, and when a resource becomes unreachable and reachable again. The detail
 * of the latter two has its `path`, which is empty for the whole service, and the trouble's `text`.
 */
export const SIGNED_OUT = "braid:signed-out";
export const TROUBLE = "braid:trouble";
export const RECOVERED = "braid:recovered";

/** A refusal of the service: problem+json as an error. */
export class Problem extends Error {
  constructor(status, body = {}, tag = null) {
    super(body.detail || body.title || `The service answered ${status}.`);
    this.name = "Problem";
    this.status = status;
    this.code = String(body.type ?? "").split("/").pop();
    this.title = body.title ?? "The service refused";
    this.detail = body.detail ?? this.message;
    this.errors = body.errors ?? [];
    this.remedy = this.errors[0]?.remedy ?? "";
    // Of the document that is there, where a change was made for another one.
    this.tag = tag?.replaceAll('"', "") ?? null;
  }

  /** A later attempt may succeed. */
  get isTransient() {
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

/** The methods of the API. Paths are those of REST, such as `/v1/dataflows`; the caller encodes ids in them. */
export const api = { get, post, put, remove, pages, open };

/** An idempotency key: what is sent again under it is done once. */
export function newKey() {
  // `randomUUID` does not exist without TLS.
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), function hexadecimal(byte) {
    return byte.toString(16).padStart(2, "0");
  }).join("");
}

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

/** The items of a list, page by page, at most `most`. */
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

/** Send a request and return the response, whose body may be a stream; throws if it is not a success. */
async function open(method, path, body, { query, headers = {}, signal } = {}) {
  const sent = { ...(body === undefined ? {} : JSON_HEADERS), ...(method === "GET" ? {} : CHANGE_HEADERS), ...headers };
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
  const problem = new Problem(response.status, await bodyOf(response), response.headers.get("ETag"));
  if (problem.status === 401 && !(method === "POST" && SIGNING_IN.includes(path))) {
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
  const text = "The service cannot be reached. The data shown may be old. The console reconnects by itself.";
  announce(TROUBLE, { path: "", text });
  return new Unreachable();
}

async function bodyOf(response) {
  try {
    return await response.json();
  } catch {
    // A proxy before the service answers in its own form; only the status is sure.
    return {};
  }
}

function encoded(body) {
  // Text is sent as it is: problems point into the document as it was written.
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
