// pg-boss with batches that are fetched one after another while they come back full, and NOTIFY for the first job.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";
import { ARGUMENT, WRITES, main, write } from "./measuring/harness.mjs";

// The packages are in the directory of the peer, where this file is started.
const require = createRequire(`${process.cwd()}/package.json`);
const { PgBoss } = await import(pathToFileURL(require.resolve("pg-boss")));
const pg = require("pg");

const BATCH = 500;
const WORKERS = 4;
const ORDERED = WRITES === "ordered";

class Peer {
  schema = "bench_pg_boss";
  unfinished = "select exists (select from bench_pg_boss.job where state < 'completed')";
  pg = pg;

  constructor(url) {
    this.url = url;
  }

  async #boss(options) {
    const boss = new PgBoss({
      connectionString: this.url,
      schema: this.schema,
      supervise: false,
      schedule: false,
      useListenNotify: true,
      ...options,
    });
    boss.on("error", (error) => process.stderr.write(`${error}\n`));
    await boss.start();
    return boss;
  }

  async install() {
    const boss = await this.#boss({ max: 1 });
    await boss.createQueue("noop", { notify: true, ...(ORDERED ? { policy: "key_strict_fifo" } : {}) });
    await boss.stop({ graceful: false });
  }

  async open(connections) {
    this.boss = await this.#boss({ max: Math.max(connections, WORKERS + 2) });
  }

  async enqueue() {
    await this.boss.send("noop", ARGUMENT);
  }

  async enqueueMany(count) {
    await this.boss.insert("noop", Array.from({ length: count }, (_, n) => ({
      data: ARGUMENT,
      ...(ORDERED ? { singletonKey: `lane-${n % 1000}` } : {}),
    })));
  }

  async work(handled) {
    const options = { batchSize: BATCH, localConcurrency: WORKERS, burstWhenBatchFull: true, pollingIntervalSeconds: 0.5 };
    if (!WRITES) {
      await this.boss.work("noop", options, async (jobs) => handled(jobs.length));
      return;
    }
    const pool = new pg.Pool({ connectionString: this.url, max: 16 });
    let number = 0;
    const writeOne = async () => {
      const client = await pool.connect();
      try {
        await write(client, number++);
      } finally {
        client.release();
      }
    };
    await this.boss.work("noop", options, async (jobs) => {
      await Promise.all(jobs.map(writeOne));
      handled(jobs.length);
    });
  }
}

await main(Peer);
