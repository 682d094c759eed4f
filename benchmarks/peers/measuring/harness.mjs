// Measure every Node peer in the same way, with the same cases, protocol and clock as harness.py.
//
// Times come from the monotonic clock, which the processes of a machine share. An adapter is an object of
// {schema, unfinished, install(), open(connections), enqueue(), enqueueMany(count), work(handled), pg}: `schema` is
// emptied by dropping it, `unfinished` is SQL that says whether work is left, `pg` the peer's own copy of that driver.
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { parseArgs } from "node:util";

export const ARGUMENT = { a: "x".repeat(142) }; // 150 bytes as JSON
export const WRITES = process.env.BENCH_WRITES ?? ""; // what a handler writes, as in harness.py
const PER_CALL = 10_000;
const DEADLINE_MS = 300_000;
const REPORT_MS = 20;
const POLL_MS = 5;
const WARM_UP = 10;
const PAUSE_MS = 10;
const MOST_PAUSE_MS = 20;

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const now = () => process.hrtime.bigint();
const secondsSince = (began) => Number(now() - began) / 1e9;

export async function main(Peer) {
  const { values: given } = parseArgs({
    options: {
      url: { type: "string" },
      case: { type: "string" },
      count: { type: "string", default: "1000" },
      processes: { type: "string", default: "1" },
      callers: { type: "string", default: "32" },
      "per-call": { type: "string", default: String(PER_CALL) },
    },
  });
  const cases = { enqueue, bulk, drain, latency, "latency-across": latencyAcross, worker, announcer };
  const run = cases[given.case];
  if (!given.url || !run) {
    process.stderr.write(`--url and --case ${Object.keys(cases).slice(0, -2).join("|")} are needed\n`);
    process.exit(2);
  }
  setTimeout(() => {
    process.stderr.write(`not finished within ${DEADLINE_MS / 1000} s\n`);
    process.exit(1);
  }, DEADLINE_MS).unref();
  const peer = new Peer(given.url);
  if (run !== worker && run !== announcer) {
    await asking(peer, given.url, (ask) => ask(`drop schema if exists ${peer.schema} cascade`));
    await peer.install();
  }
  const line = await run(peer, {
    url: given.url,
    count: Number(given.count),
    processes: Number(given.processes),
    callers: Number(given.callers),
    perCall: Number(given["per-call"]),
  });
  // At once: the shutdown of a worker is not measured.
  process.stdout.write(JSON.stringify(line) + "\n", () => process.exit(0));
}

async function enqueue(peer, { count, callers }) {
  await peer.open(callers);
  await inTurns(() => peer.enqueue(), callers * 2, callers);
  const { seconds, took } = await inTurns(() => peer.enqueue(), count, callers);
  return { value: count / seconds, unit: "jobs/s", p99: percentile(took, 99) };
}

async function inTurns(call, count, callers) {
  let left = count;
  const took = [];
  const caller = async () => {
    while (left > 0) {
      left -= 1;
      const began = now();
      await call();
      took.push(secondsSince(began) * 1000);
    }
  };
  const began = now();
  await Promise.all(Array.from({ length: callers }, caller));
  return { seconds: secondsSince(began), took };
}

async function bulk(peer, { count, perCall }) {
  await peer.open(2);
  await peer.enqueueMany(10);
  const began = now();
  await fill(peer, count, perCall);
  return { value: count / secondsSince(began), unit: "jobs/s", p99: null };
}

async function fill(peer, count, perCall = PER_CALL) {
  for (let left = count; left > 0; left -= perCall) await peer.enqueueMany(Math.min(left, perCall));
}

async function drain(peer, { url, count, processes }) {
  await peer.open(2);
  await fill(peer, count);
  await vacuum(peer, url);
  const workers = await Promise.all(Array.from({ length: processes }, () => startWorker(url)));
  try {
    for (const worker of workers) worker.child.stdin.write("go\n");
    const first = await allHandled(workers, count);
    await asking(peer, url, async (ask) => {
      while (Object.values((await ask(peer.unfinished)).rows[0])[0]) await pause(POLL_MS);
    });
    return { value: count / secondsSince(first), unit: "jobs/s", p99: null };
  } finally {
    for (const worker of workers) worker.child.kill("SIGKILL");
  }
}

// Start a worker process that connects and waits for the start signal, so that its start is not measured.
async function startWorker(url, role = "worker") {
  const child = spawn(process.execPath, [process.argv[1], "--case", role, "--url", url], {
    stdio: ["pipe", "pipe", "inherit"],
  });
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  if ((await lines.next()).value !== "ready") throw new Error("a worker process did not start; what it said is above");
  return { child, lines };
}

// Resolves when the workers together have run every job, with the time the first of them began.
async function allHandled(workers, count) {
  const done = workers.map(() => 0);
  const began = [];
  await new Promise((resolve, reject) => {
    workers.forEach(async ({ lines }, number) => {
      for (let next = await lines.next(); !next.done; next = await lines.next()) {
        const [first, handled] = next.value.split(" ");
        if (!done[number]) began.push(BigInt(first));
        done[number] = Number(handled);
        if (done.reduce((a, b) => a + b) >= count) resolve();
      }
      reject(new Error("a worker process ended before the work did; what it said is above"));
    });
  });
  return began.reduce((a, b) => (a < b ? a : b));
}

// The process that startWorker starts: it reports its progress and ends with its parent.
async function worker(peer) {
  let first = 0n;
  let done = 0;
  let told = 0;
  const handled = (jobs = 1) => {
    if (!done) first = now();
    done += jobs;
  };
  await peer.open(2);
  const lines = createInterface({ input: process.stdin });
  lines.on("close", () => process.exit(0));
  const go = new Promise((resolve) => lines.once("line", resolve));
  process.stdout.write("ready\n");
  await go;
  setInterval(() => {
    if (done !== told) process.stdout.write(`${first} ${(told = done)}\n`);
  }, REPORT_MS);
  await peer.work(handled);
  await new Promise(() => {});
}

// Measure one job at a time with an idle worker in the same process, after a few warm-up jobs.
async function latency(peer, { count }) {
  let started;
  await peer.open(4);
  await peer.work(() => started(now()));
  const took = [];
  for (let number = 0; number < count + WARM_UP; number += 1) {
    const arrived = new Promise((resolve) => (started = resolve));
    const began = now();
    await peer.enqueue();
    took.push(Number((await arrived) - began) / 1e6);
    await pause(PAUSE_MS);
  }
  took.splice(0, WARM_UP);
  return { value: percentile(took, 50), unit: "ms", p99: percentile(took, 99) };
}

// Measure one job at a time at random small intervals, with an idle worker in another process.
async function latencyAcross(peer, { url, count }) {
  await peer.open(4);
  const { child, lines } = await startWorker(url, "announcer");
  try {
    child.stdin.write("go\n");
    const took = [];
    for (let number = 0; number < count + WARM_UP; number += 1) {
      const began = now();
      await peer.enqueue();
      took.push(Number(BigInt((await lines.next()).value) - began) / 1e6);
      await pause(1 + Math.random() * MOST_PAUSE_MS);
    }
    took.splice(0, WARM_UP);
    return { value: percentile(took, 50), unit: "ms", p99: percentile(took, 99) };
  } finally {
    child.kill("SIGKILL");
  }
}

// The worker of latencyAcross: it prints when each handler starts.
async function announcer(peer) {
  await peer.open(2);
  const lines = createInterface({ input: process.stdin });
  lines.on("close", () => process.exit(0));
  const go = new Promise((resolve) => lines.once("line", resolve));
  process.stdout.write("ready\n");
  await go;
  await peer.work(() => process.stdout.write(`${now()}\n`));
  await new Promise(() => {});
}

function percentile(values, percent) {
  const ranked = [...values].sort((a, b) => a - b);
  return ranked[Math.min(ranked.length - 1, Math.floor((ranked.length * percent) / 100))];
}

async function asking(peer, url, use) {
  const client = new peer.pg.Client({ connectionString: url });
  await client.connect();
  try {
    return await use((statement, values) => client.query(statement, values));
  } finally {
    await client.end();
  }
}

// Vacuum and analyze, so that visibility map and statistics exist as in a table of some age.
async function vacuum(peer, url) {
  await asking(peer, url, async (ask) => {
    const tables = await ask("select relname from pg_stat_user_tables where schemaname = $1", [peer.schema]);
    for (const { relname } of tables.rows) await ask(`vacuum analyze "${peer.schema}"."${relname}"`);
  });
}


// Write what a handler of this case writes, in a commit of its own: `client` is a pg.Client or pg.Pool.
export async function write(client, number) {
  if (WRITES === "insert" || WRITES === "ordered") {
    await client.query({ name: "row", text: "insert into onceward_bench.sink (body) values ($1)", values: [ARGUMENT.a] });
    return;
  }
  await client.query("begin");
  await client.query({ name: "lock", text: "select n from onceward_bench.hot where id = $1 for update", values: [number % 100] });
  await client.query({ name: "update", text: "update onceward_bench.hot set n = n + 1 where id = $1", values: [number % 100] });
  await client.query("commit");
}
