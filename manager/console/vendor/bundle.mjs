// Bundles what the console has from npm, in the versions of the lock, with their licences; run it by `make console`.
import { createHash } from "node:crypto";
import { copyFileSync, readFileSync, writeFileSync } from "node:fs";
import { build } from "esbuild";

await bundle("codemirror", "CodeMirror and what it needs");
await bundle("uplot", "uPlot");
copyFileSync("node_modules/uplot/dist/uPlot.min.css", "uplot.css");

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
  const digest = createHash("sha256").update(readFileSync(`${name}.js`)).digest("hex");
  writeFileSync(`${name}.json`, `${JSON.stringify({ sha256: digest, versions }, null, 2)}\n`);
  writeFileSync(`${name}-licences.txt`, packages.map((one) => `${one} ${versions[one]}\n\n${read(one, "LICENSE")}`).join("\n\n"));
}

function read(name, file) {
  return readFileSync(`node_modules/${name}/${file}`, "utf8").trimEnd();
}
