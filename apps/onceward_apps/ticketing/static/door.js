// The page of a door: camera, keyboard or the list of guests. Without a network the device decides and sends later.

import { LiveClient } from "/live/client.js";
import { hasCamera, watchCamera } from "./door_camera.js";
import { after, digestOf, isGenuine, judge, LETS_IN, readPresented } from "./door_rules.js";
import { DoorStore } from "./door_store.js";
import { call, element, Refused } from "./shared.js";

const by = (id) => document.getElementById(id);
const { door } = document.querySelector("main").dataset;
const API = `/api/v1/ticketing/door/${door}`;
const ANSWER_MS = 4000;
const REFRESH_MS = 20_000;
const SAME_CODE_MS = 3000;
const SENT_AT_ONCE = 50;
const SHOWN_GUESTS = 30;
const FIRST = { since: "2000-01-01T00:00:00Z", after: "00000000-0000-0000-0000-000000000000" };
const WORDS = {
  admitted: "Welcome", readmitted: "Welcome back", left: "Goodbye", not_inside: "Not inside", already_used: "Already used",
  void: "No longer valid", unknown: "Not a ticket", wrong_event: "Ticket for another event", forged: "Not a ticket of this event",
  frozen: "Payment disputed: send the guest to the box office", too_early: "The doors are not open yet", too_late: "The doors are closed", addon: "An add-on: it admits nobody",
};

// The token is behind #: a bookmark of the page, also one on the home screen, opens the door again.
const KEPT = `ticketing.door.${door}`;
const token = location.hash.slice(1) || localStorage.getItem(KEPT) || "";
localStorage.setItem(KEPT, token);
const headers = { authorization: `Bearer ${token}` };

const store = await DoorStore.open(door);
let event = await store.fact("event") ?? null;
let counts = event?.counts ?? { entered: 0, inside: 0, sold: 0 };
let lastScan = null;

// -- what the page shows --------------------------------------------------------------------------------------------------

function time(at) {
  return new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short", timeZone: event?.timezone }).format(new Date(at));
}

function showEvent() {
  if (!event) return;
  document.title = `${event.name}: ${event.event_name}`;
  by("gate").textContent = event.name;
  by("event").textContent = event.event_name;
  const doors = [event.doors_open_at && `doors open ${time(event.doors_open_at)}`, event.doors_close_at && `close ${time(event.doors_close_at)}`];
  by("times").textContent = [`${event.venue_name}, ${time(event.starts_at)}`, ...doors].filter(Boolean).join(" · ");
  by("direction").hidden = !event.has_reentry;
}

async function showCounts() {
  for (const name of ["entered", "inside", "sold"]) by(name).textContent = counts[name];
  by("waiting").textContent = (await store.waiting()).length;
}

function showResult(found) {
  const isGood = [...LETS_IN, "left"].includes(found.outcome);
  const lines = [element("p", {}, element("strong", {}, WORDS[found.outcome] ?? found.outcome))];
  if (found.place) lines.push(element("p", {}, [found.place, found.holder].filter(Boolean).join(", ")));
  if (found.outcome === "already_used" && found.used_at) lines.push(element("p", {}, used(found)));
  if (found.isOffline) lines.push(element("p", { class: "small" }, "Checked on this device."));
  by("verdict").className = `verdict ${isGood ? "yes" : "no"}`;
  by("verdict").replaceChildren(...lines);
  const who = found.place ? [found.place, found.holder].filter(Boolean).join(", ") : found.code ?? "?";
  by("last").prepend(element("li", {}, `${who}: ${WORDS[found.outcome] ?? found.outcome}`));
  if (by("last").children.length > 20) by("last").lastChild.remove();
  navigator.vibrate?.(isGood ? 60 : [120, 60, 120]);
}

const used = (found) => `on ${time(found.used_at)}${found.used_gate ? ` at ${found.used_gate}` : ""}`;

function complain(words) {
  by("verdict").className = "verdict no";
  by("verdict").replaceChildren(element("p", {}, element("strong", {}, words)));
}

function showGuests() {
  const words = by("search").value.trim().toLowerCase();
  const all = [...store.byId.values()].filter((ticket) => ticket.status !== "void");
  const found = words === "" ? [] : all.filter((ticket) => `${ticket.holder} ${ticket.place} ${ticket.ends_with}`.toLowerCase().includes(words));
  by("listed").textContent = words === "" ? `${all.length} tickets are on this device.` : `${found.length} found.`;
  by("guests").replaceChildren(...found.slice(0, SHOWN_GUESTS).map(guest));
}

function guest(ticket) {
  const state = ticket.status !== "scanned" ? "" : ticket.outside_at ? "outside" : "inside";
  const button = element("button", { type: "button", class: "plain" }, by("direction").elements.direction.value === "out" ? "Check out" : "Check in");
  button.addEventListener("click", () => present({ ticket_id: ticket.id }));
  const text = [ticket.place, `…${ticket.ends_with}`, state].filter(Boolean).join(" · ");
  return element("li", { "data-ticket": ticket.id }, element("div", {}, element("strong", {}, ticket.holder || "No name"), element("div", { class: "small" }, text)), button);
}

function showWrong(found) {
  by("attention").hidden = false;
  const who = [found.place, found.holder].filter(Boolean).join(", ") || found.code || "A ticket";
  const why = found.outcome === "already_used" && found.used_at ? `was used ${used(found)}` : (WORDS[found.outcome] ?? found.outcome).toLowerCase();
  by("wrong").prepend(element("li", { "data-outcome": found.outcome }, `${who}: let in without a network, but the ticket ${why}`));
}

// -- scans ----------------------------------------------------------------------------------------------------------------

function post(path, body) {
  return Promise.race([
    call(API + path, body, headers),
    new Promise((_, reject) => { setTimeout(() => reject(new TypeError("no answer")), ANSWER_MS); }),
  ]);
}

const isRefused = (error) => error instanceof Refused && error.status < 500 && error.status !== 429;

async function present(what) {
  const scan = { scan_id: crypto.randomUUID(), direction: by("direction").elements.direction.value, ...what };
  const taken = new Date();
  try {
    if ((await store.waiting()).length) await send(); // in their order: a guest who left without a network must be outside first
    const { results: [found] } = await post("/scans", { scans: [scan] });
    online(true);
    showResult(found);
    await moved(found.ticket_id, found.outcome, taken);
    lastScan = { ...scan, ...found };
  } catch (error) {
    if (isRefused(error)) return refused(error);
    online(false);
    await presentOffline(scan, taken);
  }
  by("undo").hidden = !["admitted", "readmitted", "left"].includes(lastScan?.outcome);
  await showCounts();
  showGuests();
}

async function presentOffline(scan, taken) {
  if (!event) return complain("No connection yet: this device has never fetched the list of guests.");
  const found = await decide(scan, taken);
  const was = found.ticket ?? null;
  await moved(found.ticket?.id, found.outcome, taken);
  const sent = { ...scan, was_offline: true, taken_at: taken.toISOString(), let_in: LETS_IN.includes(found.outcome) };
  const number = await store.wait({ ...sent, about: found.ticket?.id });
  count(found.outcome, 1);
  showResult({ ...found, isOffline: true });
  lastScan = { ...sent, outcome: found.outcome, number, was };
}

async function decide(scan, taken) {
  if (scan.ticket_id) return judged(store.byId.get(scan.ticket_id), scan, taken);
  const read = readPresented(scan.presented);
  if (read === null) return { outcome: "unknown" };
  if (read.signature !== null && !await isGenuine(event.keys, event.event_id, read)) return { outcome: "forged", code: read.code };
  const digest = await digestOf(event.event_id, read.code);
  const ticket = store.ticketOf(digest);
  if (ticket) return judged(ticket, scan, taken);
  if (read.signature === null) return { outcome: "unknown", code: read.code };
  // Sold after the list came. Kept under its digest, so that it admits once here too.
  return judged({ id: digest, digest, status: "active", holder: "", place: "", ends_with: read.code.slice(-4), isNew: true }, scan, taken);
}

function judged(ticket, scan, taken) {
  const outcome = judge(event, ticket, scan.direction, taken);
  if (ticket.isNew && outcome === "admitted") store.putTickets([ticket]);
  return { outcome, ticket, place: ticket.place, holder: ticket.holder, used_at: ticket.scanned_at, used_gate: ticket.scanned_gate };
}

async function moved(id, outcome, taken) {
  const ticket = store.byId.get(id);
  if (ticket) await store.putTickets([after(ticket, outcome, taken, event?.name ?? "")]);
}

function count(outcome, sign) {
  const [entered, inside] = { admitted: [1, 1], readmitted: [0, 1], left: [0, -1] }[outcome] ?? [0, 0];
  counts = { ...counts, entered: counts.entered + sign * entered, inside: counts.inside + sign * inside };
}

by("undo").addEventListener("click", async () => {
  const scan = lastScan;
  if (!scan) return;
  try {
    const isWaiting = (await store.waiting()).some((each) => each.number === scan.number);
    if (isWaiting) {
      await store.sent(scan.number);
      count(scan.outcome, -1);
      if (scan.was) await store.putTickets([scan.was]);
    } else {
      await post("/undo", { scan_id: scan.scan_id });
      await refresh();
    }
    by("verdict").className = "verdict";
    by("verdict").replaceChildren(element("p", {}, "Undone."));
    lastScan = null;
    by("undo").hidden = true;
  } catch (error) {
    complain(isRefused(error) ? error.message : "Not undone: no connection. Try again.");
  }
  await showCounts();
  showGuests();
});

// -- the network ----------------------------------------------------------------------------------------------------------

function online(isOnline) {
  by("line").hidden = isOnline;
}

async function refused(error) {
  complain(error.status === 404 ? "The link of this door has ended. Ask the organizer for a new one." : error.message);
  if (error.status === 404 && (await store.waiting()).length === 0) await store.clear();
}

let sending = null;
function send() {
  sending ??= sendAll().finally(() => { sending = null; });
  return sending;
}

async function sendAll() {
  for (let list = await store.waiting(); list.length; list = await store.waiting()) {
    const part = list.slice(0, SENT_AT_ONCE);
    const { results } = await post("/scans", { scans: part.map(({ number, about, ...scan }) => scan) });
    for (const found of results) if (found.was_let_in) showWrong(found);
    for (const { number } of part) await store.sent(number);
  }
}

async function refresh() {
  event = await call(API, undefined, headers);
  counts = event.counts;
  await store.setFact("event", event);
  let from = await store.fact("from") ?? FIRST;
  for (let isLast = false; !isLast;) {
    const query = new URLSearchParams({ since: from.since, after: from.after });
    const page = await call(`${API}/tickets?${query}`, undefined, headers);
    // What was scanned here in the meantime counts until it is sent.
    const waiting = new Set((await store.waiting()).map((each) => each.about));
    await store.putTickets(page.tickets.filter((ticket) => !waiting.has(ticket.id) && !waiting.has(ticket.digest)));
    from = { since: page.since, after: page.after };
    isLast = page.is_last;
  }
  await store.setFact("from", from);
}

let refreshing = false;
async function synchronise() {
  if (refreshing) return;
  refreshing = true;
  try {
    await send();
    await refresh();
    online(true);
  } catch (error) {
    if (isRefused(error)) await refused(error);
    else online(false);
  } finally {
    refreshing = false;
    showEvent();
    await showCounts();
    showGuests();
  }
}

new LiveClient("/live").subscribe("ticketing.door", { door_id: door, token }, async ({ data: now }) => {
  if (!now?.is_open || (await store.waiting()).length) return;
  counts = { entered: now.entered, inside: now.inside, sold: now.sold };
  await showCounts();
});
addEventListener("online", synchronise);
addEventListener("offline", () => online(false));
setInterval(synchronise, REFRESH_MS);

// -- input ----------------------------------------------------------------------------------------------------------------

by("typed").addEventListener("submit", (submitted) => {
  submitted.preventDefault();
  const text = by("code").value.trim();
  by("code").value = "";
  if (text) present({ presented: text.slice(0, 200) });
});
by("search").addEventListener("input", showGuests);
by("direction").addEventListener("change", showGuests);

let seen = { text: "", at: 0 };  // a ticket that stays before the camera is scanned once
by("camera").hidden = !hasCamera();
by("camera").addEventListener("click", async () => {
  try {
    await watchCamera(by("view"), async (text) => {
      const isSame = text === seen.text && performance.now() - seen.at < SAME_CODE_MS;
      if (!isSame) await present({ presented: text.slice(0, 200) });
      seen = { text, at: performance.now() };
    });
  } catch {
    complain("The camera is not available. Allow it in the settings of the browser, or type the code.");
    return;
  }
  by("view").hidden = false;
  by("camera").hidden = true;
});

showEvent();
await showCounts();
navigator.serviceWorker?.register("/doors/worker.js", { scope: "/doors/" });
await synchronise();
