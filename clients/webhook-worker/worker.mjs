// A worker in another language: it claims events through SQL, does its work and marks the result in one transaction.
// It needs Node 18 or newer and a PostgreSQL URL, nothing else:
//
//   DATABASE_URL=postgresql://worker@host/db node worker.mjs
//
//   WORKER_POLL_INTERVAL_MS  pause after an empty poll (default 1000)
//   MAX_ATTEMPTS             attempts until an event becomes a dead letter (default 5, which is also the server's limit)
//   WEBHOOK_ID               work only on this source; several workers with one source each divide the work
//   SIDE_EFFECT_PROVIDER     the name under which this worker records side effects (default "node")
//   HANDLER                  module with `export async function handle(event, database)` to replace the default handler
//
// It reconnects when the connection breaks, after pauses of 0.1 to 5 seconds. A wrong password or URL ends it.
// SIGTERM, SIGINT or the line "stop" on stdin let it finish the current event and end.
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";
import { connect, ConnectionLost, DatabaseError } from "./postgres.mjs";

const environment = (name, fallback) => process.env[name] || fallback;
const count = (name, fallback) => {
  const value = Number(environment(name, fallback));
  if (!Number.isInteger(value) || value < 1) throw new Error(`${name} must be a whole number above 0, not ${process.env[name]}`);
  return value;
};

const pollIntervalMs = count("WORKER_POLL_INTERVAL_MS", environment("POLL_INTERVAL_MS", "1000"));
const maxAttempts = count("MAX_ATTEMPTS", "5");
const webhookId = environment("WEBHOOK_ID", null);
const provider = environment("SIDE_EFFECT_PROVIDER", "node");
const { handle = recordSideEffect } = process.env.HANDLER ? await import(pathToFileURL(process.env.HANDLER)) : {};

const FIRST_PAUSE_MS = 100;
const LONGEST_PAUSE_MS = 5000;
// SQLSTATE classes that end by themselves: connections, read-only during a failover, conflicts, resources, locks, shutdown, disks.
const TEMPORARY = new Set(["08", "25", "40", "53", "55", "57", "58"]);
const isTemporary = (error) => error instanceof ConnectionLost || (error instanceof DatabaseError && TEMPORARY.has(error.code?.slice(0, 2)));

const totals = { success: 0, error: 0, dead_letter: 0 };
let stopping = false;
let wake = () => {};
const stop = () => {
  stopping = true;
  wake();
};
createInterface({ input: process.stdin }).on("line", (line) => line.trim() === "stop" && stop());
process.on("SIGTERM", stop).on("SIGINT", stop);

const log = (event, fields = {}) => console.log(JSON.stringify({ event, ...fields }));

async function claim(database) {
  const [row] = await database.query("select * from webhook.claim_next_event($1::uuid)", [webhookId]);
  return row === undefined || row.id === null ? null : { ...row, payload: JSON.parse(row.payload) };
}

async function mark(database, event, status, error) {
  const statement = "select webhook.mark_event_result($1::uuid, $2::webhook_event_status, $3::text, $4::bigint)";
  await database.query(statement, [event.id, status, error, event.lease]);
}

// The unique key (provider, event_id) makes the effect happen once, even if the event is claimed again. The database adds the
// source to the provider: two senders may use the same event id.
async function recordSideEffect(event, database) {
  await database.query(
    `insert into webhook_side_effects (provider, webhook_id, event_id, payload) values ($1, $2::uuid, $3, $4::jsonb)
     on conflict (provider, event_id) do nothing`,
    [provider, event.webhook_id, event.event_id, JSON.stringify(event.payload)],
  );
}

// Effect and mark are one commit. If the claim was lost meanwhile, the mark fails and takes the effect with it.
async function work(database, event) {
  const started = performance.now();
  await database.query("begin");
  try {
    await handle(event, database);
    await mark(database, event, "success", null);
    await database.query("commit");
    totals.success += 1;
    log("event.handled", { ...named(event), duration_ms: Math.round(performance.now() - started) });
  } catch (error) {
    // The transaction ended with the connection, and whether its commit succeeded is unknown. The next connection tries again
    // under the same lease, with which nothing can be marked twice.
    if (database.closed !== null) throw database.closed;
    await database.query("rollback");
    await fail(database, event, error);
  }
}

async function fail(database, event, error) {
  const [row] = await database.query("select attempts from webhook_events where id = $1::uuid", [event.id]);
  const attempts = Number(row?.attempts ?? 0);
  // `permanent` errors end at once. The server counts attempts too: it makes a dead letter of the fifth "pending".
  const ended = error.permanent === true || attempts >= maxAttempts;
  totals.error += 1;
  totals.dead_letter += ended ? 1 : 0;
  try {
    await mark(database, event, ended ? "dead_letter" : "pending", error.message);
  } catch (lost) {
    if (!(lost instanceof DatabaseError)) throw lost;
    log("claim.lost", { ...named(event), error: lost.message });
    return;
  }
  log("event.failed", { ...named(event), attempts, status: ended ? "dead_letter" : "pending", error: error.message });
}

const named = (event) => ({ event_id: event.event_id, webhook_id: event.webhook_id });

function pause(durationMs) {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, durationMs);
    wake = () => {
      clearTimeout(timer);
      resolve();
    };
  });
}

if (!process.env.DATABASE_URL) throw new Error("DATABASE_URL is not set: set it to the URL of the database");
log("worker.started", { poll_interval_ms: pollIntervalMs, max_attempts: maxAttempts, webhook_id: webhookId });
let pauseMs = FIRST_PAUSE_MS;
let held = null; // the event whose outcome is not known to be stored
while (!stopping) {
  let database;
  try {
    database = await connect(process.env.DATABASE_URL);
    log("database.connected");
    while (!stopping) {
      held ??= await claim(database);
      pauseMs = FIRST_PAUSE_MS;
      if (held !== null) await work(database, held);
      else if (!stopping) await pause(pollIntervalMs);
      held = null;
    }
    await database.end();
  } catch (error) {
    if (!isTemporary(error)) throw error;
    log("database.lost", { error: error.message, retry_in_ms: pauseMs });
    database?.destroy();
    if (!stopping) await pause(pauseMs);
    pauseMs = Math.min(pauseMs * 2, LONGEST_PAUSE_MS);
  }
}
log("worker.stopped", { totals });
process.exit(0);
