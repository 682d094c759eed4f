// A worker that is killed at a gate, for tests/clients/test_workers.py. Each job names its gate; OBEY=0 ignores it.
import { OncewardClient } from "../../clients/typescript/client.js";
import { overHttp, overSql, Worker } from "../../clients/typescript/worker.js";
import { connect } from "../../clients/webhook-worker/postgres.mjs";

const { MODE, URL: url, KEY: key, DATABASE_URL, EFFECTS, OBEY } = process.env;
const die = () => process.kill(process.pid, "SIGKILL");
let gate = null;
const at = (name) => OBEY === "1" && gate === name && die();

async function gated() {
  const database = await connect(DATABASE_URL);
  return {
    release: () => database.end(),
    async query(text, values) {
      const ends = text.includes("finish_job") ? "finish" : text === "commit" ? "commit" : null;
      if (ends) at(`before ${ends}`);
      const rows = await database.query(text, values?.map((each) => (Array.isArray(each) ? `{${each.join(",")}}` : each)));
      if (ends) at(`after ${ends}`);
      return rows;
    },
  };
}

const source = MODE === "sql" ? overSql(gated) : overHttp(new OncewardClient({ url, key }), { worker: "node" });
let handled = 0;
const worker = new Worker(source, {
  async resize(job, { database, checkpoint }) {
    handled += 1;
    gate = job.args.gate;
    at("claimed");
    await checkpoint({ seen: true });
    if (database) await database.query("insert into effects (job) values ($1)", [job.id]);
    else await fetch(`${EFFECTS}/${job.id}`, { method: "POST" });
    at("after effect");
    return { done: job.args.gate };
  },
}, { waitS: 0.2, leaseS: 20, log: (event, fields) => console.error(event, JSON.stringify(fields)) });

const running = worker.run();
const most = Number(process.env.MOST);
while (handled < most) await new Promise((resolve) => setTimeout(resolve, 20));
worker.stop();
await running;
