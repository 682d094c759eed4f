// Calls a server with the TypeScript package, for tests/clients/test_typescript_client.py, and prints what it saw.
import { OncewardClient, OncewardError } from "../../clients/typescript/client.js";
import { VerificationFailed, verifyWebhook } from "../../clients/typescript/webhooks.js";

const { URL: url, KEY: key, SECRET, BODY, HEADERS } = process.env;
const client = new OncewardClient({ url, key });
for (const image of ["a", "b", "c"]) await client.jobs.create({ body: { task: "resize", args: { image } } });
const ids = [];
for await (const job of client.paginate("jobs.list", { limit: 2 })) ids.push(job.id);
const refused = await client.jobs.create({ body: { task: "resize", args: {} } }).catch((error) => error);
const unknown = await client.call("jobs.list", { nope: 1 }).catch((error) => error);

// The first answer is lost, a proxy answers the second attempt: one key, one job.
const keys = [];
const flaky = new OncewardClient({
  url, key,
  async fetch(address, options) {
    keys.push(options.headers["idempotency-key"]);
    const response = await fetch(address, options);
    if (keys.length === 1) throw new TypeError("cut");
    return keys.length === 2 ? new Response("busy", { status: 503, headers: { "retry-after": "0" } }) : response;
  },
});
await flaky.jobs.create({ body: { task: "resize", args: { image: "d" } } });

const headers = JSON.parse(HEADERS);
const wrong = await verifyWebhook(`${BODY} `, headers, SECRET).catch((error) => error);
console.log(JSON.stringify({
  ids: ids.length,
  refused: [refused instanceof OncewardError, refused.status, refused.errors[0].field],
  unknown: unknown.message,
  keys: [keys.length, new Set(keys).size],
  verified: await verifyWebhook(BODY, headers, ["whsec_b2xk", SECRET]),
  wrong: wrong instanceof VerificationFailed,
}));
