// A worker in another language: claims events through SQL, does its work and marks the result in one transaction.
// It speaks to PostgreSQL through psql, so that it needs nothing but Node. Stops when the line "stop" arrives on stdin.
import { execFileSync } from "node:child_process";
import { createInterface } from "node:readline";

const psql = process.env.PSQL ?? "psql";
let stopping = false;
createInterface({ input: process.stdin }).on("line", (line) => {
  stopping ||= line.trim() === "stop";
});

function sql(script, variables = {}) {
  const settings = Object.entries(variables).flatMap(([name, value]) => ["-v", `${name}=${value}`]);
  const options = ["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", ...settings];
  return execFileSync(psql, options, { input: script, encoding: "utf8" }).trim();
}

function claim() {
  const row = sql("select row_to_json(e) from webhook.claim_next_event() e;");
  // The lease has more digits than a JavaScript number: it stays text.
  return row === "" ? null : { ...JSON.parse(row), lease: /"lease":(\d+)/.exec(row)[1] };
}

function handle(event) {
  const broken = sql("select broken from contract_switch;") === "t";
  if (event.payload.fail && broken) throw new Error("simulated failure");
  sql(
    `begin;
     insert into webhook_side_effects (provider, event_id, payload) values ('node', :'event_id', :'payload'::jsonb);
     select webhook.mark_event_result(:'id'::uuid, 'success'::webhook_event_status, null, :'lease'::bigint);
     commit;`,
    { id: event.id, event_id: event.event_id, lease: event.lease, payload: JSON.stringify(event.payload) },
  );
}

console.log("worker started");
while (!stopping) {
  const event = claim();
  if (event === null) {
    await new Promise((resolve) => setTimeout(resolve, 50));
    continue;
  }
  try {
    handle(event);
    console.log(`success ${event.event_id}`);
  } catch (error) {
    sql("select webhook.mark_event_result(:'id'::uuid, 'pending'::webhook_event_status, :'error', :'lease'::bigint);", {
      id: event.id,
      lease: event.lease,
      error: error.message,
    });
    console.log(`error ${event.event_id}: ${error.message}`);
  }
  await new Promise((resolve) => setTimeout(resolve, 0));
}
console.log("worker stopped");
