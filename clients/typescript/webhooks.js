// Verify webhooks that an Onceward server (or any sender of Standard Webhooks) has signed.
const encoder = new TextEncoder();

export class VerificationFailed extends Error {
  constructor(reason) {
    super(reason);
    this.name = "VerificationFailed";
  }
}

/** Return the parsed body, or throw `VerificationFailed`. `body` is the text or the bytes exactly as they arrived. */
export async function verifyWebhook(body, headers, secrets, { toleranceS = 300, now = Date.now() / 1000 } = {}) {
  const read = (name) => (typeof headers.get === "function" ? headers.get(name) : first(headers[name] ?? headers[title(name)]));
  const [id, timestamp, signatures] = ["webhook-id", "webhook-timestamp", "webhook-signature"].map(read);
  if (!id || !timestamp || !signatures) throw new VerificationFailed("a header of webhook-id, webhook-timestamp, webhook-signature is missing");
  if (!/^\d{1,12}$/.test(timestamp)) throw new VerificationFailed("webhook-timestamp is not a number of seconds");
  if (Math.abs(now - Number(timestamp)) > toleranceS) throw new VerificationFailed("webhook-timestamp is too old or in the future");
  const bytes = typeof body === "string" ? encoder.encode(body) : new Uint8Array(body);
  const head = encoder.encode(`${id}.${timestamp}.`);
  const content = new Uint8Array(head.length + bytes.length);
  content.set(head);
  content.set(bytes, head.length);
  const given = signatures.split(" ").filter((each) => each.startsWith("v1,")).slice(0, 20);
  for (const secret of [secrets].flat()) {
    const key = await crypto.subtle.importKey("raw", keyOf(secret), { name: "HMAC", hash: "SHA-256" }, false, ["verify"]);
    for (const each of given) {
      const signature = decode(each.slice(3));
      // `verify` compares in constant time.
      if (signature !== null && (await crypto.subtle.verify("HMAC", key, signature, content))) {
        return JSON.parse(new TextDecoder().decode(bytes));
      }
    }
  }
  throw new VerificationFailed("no signature fits a secret: is it the secret of this endpoint, and the body as it arrived?");
}

const first = (value) => (Array.isArray(value) ? value[0] : value);
const title = (name) => name.replace(/(^|-)([a-z])/g, (_, dash, letter) => dash + letter.toUpperCase());

function keyOf(secret) {
  if (typeof secret !== "string" || secret === "") throw new TypeError("secret must be the signing secret of the endpoint");
  if (!secret.startsWith("whsec_")) return encoder.encode(secret);
  const key = decode(secret.slice("whsec_".length));
  if (key === null) throw new TypeError("the text after whsec_ in the secret is not base64");
  return key;
}

function decode(text) {
  try {
    return Uint8Array.from(atob(text), (each) => each.charCodeAt(0));
  } catch {
    return null;
  }
}
