// A worker of Graphile Worker that prints a line when it runs its first job. `install` creates the schema.
import { createRequire } from "node:module";

const require = createRequire(`${process.cwd()}/package.json`);
const { Logger, makeWorkerUtils, run } = require("graphile-worker");

const [what, connectionString] = process.argv.slice(2);
const options = { connectionString, schema: "bench_graphile_start", logger: new Logger(() => () => {}) };

if (what === "work") {
  await run({ ...options, noHandleSignals: true, taskList: { first: async () => process.stdout.write("handled\n") } });
} else {
  const utils = await makeWorkerUtils(options);
  if (what === "install") await utils.migrate();
  else await utils.addJob("first", {});
  await utils.release();
}
