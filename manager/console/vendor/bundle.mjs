// Bundles what the console has from npm, in the versions of the lock, with their licences; run it by `make console`.
import { createHash } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { build } from "esbuild";

const made = await build({
  entryPoints: ["entry.mjs"], bundle: true, format: "esm", target: "es2022", minify: true, legalComments: "none",
  metafile: true, outfile: "codemirror.js",
  banner: { js: "// CodeMirror and what it needs, under the MIT licence: see codemirror-licences.txt. Made by `make console`." },
});
const packages = [...new Set(Object.keys(made.metafile.inputs)
  .map((path) => /^node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(path)?.[1]).filter(Boolean))].sort();
const versions = Object.fromEntries(packages.map((name) => [name, JSON.parse(read(name, "package.json")).version]));
const digest = createHash("sha256").update(readFileSync("codemirror.js")).digest("hex");
writeFileSync("codemirror.json", `${JSON.stringify({ sha256: digest, versions }, null, 2)}\n`);
writeFileSync("codemirror-licences.txt", packages.map((name) => `${name} ${versions[name]}\n\n${read(name, "LICENSE")}`).join("\n\n"));

function read(name, file) {
  return readFileSync(`node_modules/${name}/${file}`, "utf8").trimEnd();
}
