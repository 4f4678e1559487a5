/** The page of the API: what the service says of itself in OpenAPI, shown by Swagger UI. */

import { CHANGE_HEADERS } from "./api.js";

document.documentElement.classList.toggle("dark-mode", matchMedia("(prefers-color-scheme: dark)").matches);
globalThis.SwaggerUIBundle({
  dom_id: "#api",
  url: "/openapi.json",
  deepLinking: true,
  docExpansion: "none",
  tagsSorter: "alpha",
  filter: true,
  tryItOutEnabled: true,
  // Each operation shows the schemas that it has; a list of all of them takes seconds.
  defaultModelsExpandDepth: -1,
  validatorUrl: null,
  requestInterceptor: asConsole,
});

/** Have a request count as one of the console, so that who is signed in there needs no key here. */
function asConsole(request) {
  Object.assign(request.headers, CHANGE_HEADERS);
  return request;
}
