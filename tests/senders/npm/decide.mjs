// Asks the senders' own libraries: reads cases from standard input, and prints for each what its library decides.

import { signRequest, verifyRequest } from "@contentful/node-apps-toolkit";
import hygraph from "@hygraph/utils";
import { signWebhookPayload, verifyWebhookSignature } from "@notionhq/client/build/src/webhooks.js";
import * as octokit from "@octokit/webhooks-methods";
import { encodeSignatureHeader, isValidSignature } from "@sanity/webhook";
import { verifyTurnkeyWebhookSignature } from "@turnkey/crypto";
import { verifyKey } from "discord-interactions";
import * as standard from "standardwebhooks";
import * as svix from "svix";

const MESSAGE = "msg_2b1f9c7d5e3a";

function standardWebhooks(Webhook, prefix) {
  return {
    accepts: (request, secret) => new Webhook(secret).verify(request.body, request.headers) !== undefined,
    sign: (body, secret, now) => ({
      [`${prefix}-id`]: MESSAGE,
      [`${prefix}-timestamp`]: String(Math.floor(now / 1000)),
      [`${prefix}-signature`]: new Webhook(secret).sign(MESSAGE, new Date(now), body),
    }),
  };
}

const CONTENTFUL = { "x-contentful-topic": "ContentManagement.Entry.publish", "content-type": "application/json" };

const LIBRARIES = {
  clerk: standardWebhooks(svix.Webhook, "svix"),
  contentful: {
    accepts: (r, secret) => verifyRequest(secret, { method: "POST", path: r.path, headers: r.headers, body: r.body }),
    sign: (body, secret, now, path) => ({
      ...CONTENTFUL,
      ...signRequest(secret, { method: "POST", path, headers: CONTENTFUL, body }, now),
    }),
  },
  discord: {
    accepts: (r, key) =>
      verifyKey(r.body, r.headers["x-signature-ed25519"], r.headers["x-signature-timestamp"], key),
  },
  github: {
    accepts: (r, secret) => octokit.verify(secret, r.body, r.headers["x-hub-signature-256"]),
    sign: async (body, secret) => ({ "x-hub-signature-256": await octokit.sign(secret, body) }),
  },
  hygraph: {
    accepts: (r, secret) =>
      hygraph.verifyWebhookSignature({ rawPayload: r.body, signature: r.headers["gcms-signature"], secret }),
    sign: (body, secret) => ({
      "gcms-signature": hygraph.generateWebhookSignature({ rawPayload: body, environmentName: "staging", secret }),
    }),
  },
  notion: {
    accepts: (r, verificationToken) =>
      verifyWebhookSignature({ body: r.body, signature: r.headers["x-notion-signature"], verificationToken }),
    sign: async (body, verificationToken) => ({
      "x-notion-signature": await signWebhookPayload({ body, verificationToken }),
    }),
  },
  render: standardWebhooks(standard.Webhook, "webhook"),
  sanity: {
    accepts: (r, secret) => isValidSignature(r.body, r.headers["sanity-webhook-signature"], secret),
    sign: async (body, secret, now) => ({ "sanity-webhook-signature": await encodeSignatureHeader(body, now, secret) }),
  },
  turnkey: {
    accepts: (r, publicKey) =>
      verifyTurnkeyWebhookSignature({
        headers: r.headers,
        body: r.body,
        verificationKeys: [{ keyId: r.headers["x-turnkey-signature-key-id"], publicKey }],
        maxTimestampAgeMs: 300_000,
      }).ok,
  },
};

async function decide(library, request, secret) {
  try {
    return Boolean(await library.accepts(request, secret));
  } catch {
    return false;
  }
}

let text = "";
for await (const chunk of process.stdin) text += chunk;
const answers = {};
for (const [name, { request, changed, secret, now }] of Object.entries(JSON.parse(text))) {
  const library = LIBRARIES[name];
  answers[name] = {
    accepts: await decide(library, request, secret),
    acceptsChanged: await decide(library, changed, secret),
    signed: library.sign ? await library.sign(request.body, secret, now, request.path) : null,
  };
}
console.log(JSON.stringify(answers));
