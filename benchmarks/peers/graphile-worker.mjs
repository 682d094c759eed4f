// Graphile Worker with the settings its documentation gives for speed, 24 jobs at once and completions gathered into
// batches; only the local queue is larger than its 500, as it advises for very short jobs: here that was faster.
import { createRequire } from "node:module";
import { ARGUMENT, WRITES, main, write } from "./measuring/harness.mjs";

// The packages are in the directory of the peer, where this file is started.
const require = createRequire(`${process.cwd()}/package.json`);
const { Logger, makeWorkerUtils, run } = require("graphile-worker");
const pg = require("pg");

const logger = new Logger(() => (level, message) => {
  if (level === "error" || level === "warning") process.stderr.write(`${message}\n`);
});

class Peer {
  schema = "bench_graphile_worker";
  unfinished = "select exists (select from bench_graphile_worker._private_jobs)";
  pg = pg;

  constructor(url) {
    this.url = url;
  }

  async install() {
    const utils = await makeWorkerUtils({ connectionString: this.url, schema: this.schema, logger });
    await utils.migrate();
    await utils.release();
  }

  async open(connections) {
    const pgPool = new pg.Pool({ connectionString: this.url, max: connections });
    const failed = (error) => process.stderr.write(`${error}\n`);
    pgPool.on("error", failed).on("connect", (client) => client.on("error", failed));
    this.utils = await makeWorkerUtils({ pgPool, schema: this.schema, logger });
  }

  async enqueue() {
    await this.utils.addJob("noop", ARGUMENT);
  }

  async enqueueMany(count) {
    await this.utils.addJobs(Array.from({ length: count }, (_, n) => ({
      identifier: "noop",
      payload: ARGUMENT,
      ...(WRITES === "ordered" ? { queueName: `lane-${n % 1000}` } : {}),
    })));
  }

  async work(handled) {
    await run({
      taskList: {
        noop: WRITES
          ? async (_, { job, withPgClient }) => {
              await withPgClient((client) => write(client, Number(job.id)));
              handled();
            }
          : async () => handled(),
      },
      logger,
      preset: {
        worker: {
          connectionString: this.url,
          schema: this.schema,
          concurrentJobs: 24,
          maxPoolSize: 25,
          localQueue: { size: 1000 },
          completeJobBatchDelay: 0,
          failJobBatchDelay: 0,
        },
      },
    });
  }
}

await main(Peer);
