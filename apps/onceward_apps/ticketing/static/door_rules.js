// What a device decides without a network. The server has the same rules (`scans.judge`), and the last word.

const ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";
const READ_AS = { I: "1", L: "1", O: "0", U: "V" };
const ALGORITHM = { name: "ECDSA", namedCurve: "P-256" };
const SIGNATURE_CHARACTERS = 103;
export const LETS_IN = ["admitted", "readmitted"];

/** Return the code and signature of what a camera read or somebody typed, or null if it is not a ticket. */
export function readPresented(text) {
  const [head, plain, signature] = text.trim().split(".");
  const isSigned = head.toUpperCase() === "OW2" && plain !== undefined;
  const code = readCode(isSigned ? plain : text);
  return code === null ? null : { code, signature: isSigned ? (signature ?? "").toUpperCase() : null };
}

function readCode(text) {
  const plain = text.replace(/[\s\-\u2010-\u2015_.]/g, "").toUpperCase().replace(/[ILOU]/g, (each) => READ_AS[each]);
  return plain.length === 12 && [...plain].every((each) => ALPHABET.includes(each)) ? plain : null;
}

/** Return whether one of the public keys confirms that the code was sold for this event. */
export async function isGenuine(keys, eventId, { code, signature }) {
  const bytes = signatureBytes(signature);
  if (bytes === null) return false;
  const message = new TextEncoder().encode(`ticket:${eventId}:${code}`);
  for (const key of keys) {
    const point = Uint8Array.from(key.match(/../g), (each) => Number.parseInt(each, 16));
    const imported = await crypto.subtle.importKey("raw", point, ALGORITHM, false, ["verify"]);
    if (await crypto.subtle.verify({ name: "ECDSA", hash: "SHA-256" }, imported, bytes, message)) return true;
  }
  return false;
}

function signatureBytes(text) {
  if (text.length !== SIGNATURE_CHARACTERS) return null;
  let value = 0n;
  for (const each of text) {
    const digit = ALPHABET.indexOf(each);
    if (digit < 0) return null;
    value = (value << 5n) | BigInt(digit);
  }
  if (value >> 512n) return null;
  return Uint8Array.from(value.toString(16).padStart(128, "0").match(/../g), (each) => Number.parseInt(each, 16));
}

/** Return how a device names a code that it may know: the list has no codes. */
export async function digestOf(eventId, code) {
  const hash = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(`${eventId}:${code}`));
  return Array.from(new Uint8Array(hash).slice(0, 16), (each) => each.toString(16).padStart(2, "0")).join("");
}

/** Return what the door does with a ticket. `ticket` may be a genuine one that was sold after the list came. */
export function judge(event, ticket, direction, at) {
  if (ticket.is_addon) return "addon";
  const isInside = ticket.status === "scanned" && !ticket.outside_at;
  if (direction === "out") return isInside ? "left" : "not_inside";
  if (ticket.status === "void" || event.is_cancelled) return "void";
  if (ticket.is_frozen) return "frozen";
  if (isInside || (ticket.status === "scanned" && !event.has_reentry)) return "already_used";
  if (event.doors_open_at && at < new Date(event.doors_open_at)) return "too_early";
  if (event.doors_close_at && at > new Date(event.doors_close_at)) return "too_late";
  return ticket.status === "scanned" ? "readmitted" : "admitted";
}

/** Return the ticket as it is after this outcome. */
export function after(ticket, outcome, at, gate) {
  switch (outcome) {
    case "admitted": return { ...ticket, status: "scanned", scanned_at: at.toISOString(), scanned_gate: gate, outside_at: null };
    case "readmitted": return { ...ticket, outside_at: null };
    case "left": return { ...ticket, outside_at: at.toISOString() };
    default: return ticket;
  }
}
