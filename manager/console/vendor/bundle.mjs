// Bundles what the console has from npm, in the versions of the lock, with their licences; run it by `make console`.
import { createHash } from "node:crypto";
import { copyFileSync, readFileSync, writeFileSync } from "node:fs";
import { build } from "esbuild";

await bundle("codemirror", "CodeMirror and what it needs");
await bundle("uplot", "uPlot");
copyFileSync("node_modules/uplot/dist/uPlot.min.css", "uplot.css");
takeSwagger();

/** Bundle an entry as the file of its name, and write which packages are in it. */
async function bundle(name, what) {
  const made = await build({
    entryPoints: [`${name}-entry.mjs`], bundle: true, format: "esm", target: "es2022", minify: true, legalComments: "none",
    metafile: true, outfile: `${name}.js`,
    banner: { js: `// ${what}, under the MIT licence: see ${name}-licences.txt. Made by \`make console\`.` },
  });
  const packages = [...new Set(Object.keys(made.metafile.inputs)
    .map((path) => /^node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(path)?.[1]).filter(Boolean))].sort();
  const versions = Object.fromEntries(packages.map((one) => [one, JSON.parse(read(one, "package.json")).version]));
  record(name, versions);
  writeFileSync(`${name}-licences.txt`, packages.map((one) => `${one} ${versions[one]}\n\n${read(one, "LICENSE")}`).join("\n\n"));
}

/** Take Swagger UI as it was built, in one file with all that it needs. */
function takeSwagger() {
  const from = "swagger-ui-dist";
  writeFileSync("swagger-ui.js", `${read(from, "swagger-ui-bundle.js").replace(/\n\/\/# sourceMappingURL=.*/, "")}\n`);
  writeFileSync("swagger-ui.css", `${read(from, "swagger-ui.css").replace(/\n\/\*# sourceMappingURL=.*/, "").trimEnd()}\n`);
  const { version } = JSON.parse(read(from, "package.json"));
  const licences = ["NOTICE", "LICENSE", "swagger-ui-bundle.js.LICENSE.txt"].map((file) => read(from, file));
  writeFileSync("swagger-ui-licences.txt", `${[`${from} ${version}`, ...licences].join("\n\n")}\n`);
  record("swagger-ui", { [from]: version });
}

function record(name, versions) {
  const digest = createHash("sha256").update(readFileSync(`${name}.js`)).digest("hex");
  writeFileSync(`${name}.json`, `${JSON.stringify({ sha256: digest, versions }, null, 2)}\n`);
}

function read(name, file) {
  return readFileSync(`node_modules/${name}/${file}`, "utf8").trimEnd();
}
