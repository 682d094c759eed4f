// The seat map. It shows at once which seats other buyers take. Choosing a seat holds it; the server sets the countdown.

import { LiveClient } from "/live/client.js";
import { call, element, money, Refused, showTimes } from "./shared.js";

const main = document.querySelector("main");
const eventId = main.dataset.event;
const base = `/api/v1/ticketing/public/events/${eventId}`;
const message = document.getElementById("message");
const seats = new Map();       // seat id -> {button, section, index, name}
let event = null;
let holds = [];
let states = {};
let endsAt = null;
let onSale = true;

function say(text, kind = "") {
  message.textContent = text;
  message.className = `message ${kind}`;
}

function draw() {
  const map = document.getElementById("map");
  map.replaceChildren();
  for (const section of event.sections) {
    const title = element("h3", {}, `${section.name}, ${money(section.price_cents, event.currency, event.currency_digits)}`);
    const part = element("section", { "aria-label": section.name }, title);
    if (section.kind === "general") part.append(placeChooser(section));
    else drawRows(section, part);
    map.append(part);
  }
  map.querySelector(".seat")?.setAttribute("tabindex", "0");
}

function drawRows(section, part) {
  let index = 0;
  const rows = element("div", { class: "rows" });
  for (const row of section.rows) {
    const line = element("div", { class: "seatrow", role: "group", "aria-label": `Row ${row.name}` }, element("span", { "aria-hidden": "true" }, row.name));
    for (const seat of row.seats) {
      const button = element("button", { type: "button", class: "seat", tabindex: "-1", "data-id": seat.id }, String(seat.number));
      button.addEventListener("click", () => choose(seat.id));
      line.append(button);
      seats.set(seat.id, { button, section: section.id, index: index++, name: `${section.name}, row ${row.name}, seat ${seat.number}` });
    }
    rows.append(line);
  }
  part.append(rows);
}

function placeChooser(section) {
  const left = element("span", { "data-left": section.id });
  const button = element("button", { type: "button", "data-add": section.id }, "Add one");
  button.addEventListener("click", () => take({ places: { [section.id]: held(section.id) + 1 } }, `One place in ${section.name}`));
  return element("p", {}, left, " ", button);
}

function held(sectionId) {
  return holds.filter((hold) => hold.section_id === sectionId).length;
}

function paint() {
  const mine = new Map(holds.filter((hold) => hold.seat_id).map((hold) => [hold.seat_id, hold]));
  for (const [id, seat] of seats) {
    const state = states.seats?.[seat.section]?.[seat.index] ?? "f";
    const own = mine.has(id);
    const free = own || (state === "f" && onSale);
    const word = own ? "yours" : { f: "free", h: "held by somebody else", s: "sold", x: "not for sale" }[state];
    seat.button.dataset.state = state;
    seat.button.toggleAttribute("data-mine", own);
    seat.button.setAttribute("aria-pressed", String(own));
    seat.button.setAttribute("aria-disabled", String(!free));
    seat.button.setAttribute("aria-label", `${seat.name}, ${word}`);
  }
  for (const [section, free] of Object.entries(states.places ?? {})) {
    const left = document.querySelector(`[data-left="${section}"]`);
    if (left) left.textContent = free > 0 ? `${free} places left.` : "Sold out.";
    const add = document.querySelector(`[data-add="${section}"]`);
    if (add) add.disabled = free < 1 || !onSale;
  }
}

function showBasket(found) {
  holds = found.holds;
  endsAt = found.left_s === null ? null : performance.now() + found.left_s * 1000;
  const list = document.getElementById("holds");
  list.replaceChildren(...holds.map((hold) => {
    const remove = element("button", { type: "button", class: "plain", "aria-label": `Remove ${hold.place}` }, "Remove");
    remove.addEventListener("click", () => letGo(hold));
    return element("li", {}, hold.place, element("span", { class: "amount" }, money(hold.price_cents, event.currency, event.currency_digits)), remove);
  }));
  const price = (cents) => money(cents, event.currency, event.currency_digits);
  const many = `${holds.length} ${holds.length === 1 ? "ticket" : "tickets"}`;
  const total = found.total_cents ?? 0;
  // What is in the total besides the seats, so that the payment page shows no other amount.
  const parts = [];
  if (event.fee_paid_by === "buyer" && found.fee_cents) parts.push(`${price(found.fee_cents)} service fee`);
  if (found.tax_cents) parts.push(`${price(found.tax_cents)} tax`);
  document.getElementById("sum").textContent = `${many}, ${price(total)}${parts.length ? ` including ${parts.join(" and ")}` : ""}`;
  document.getElementById("shortly").textContent = `${many}, ${price(total)}`;
  document.getElementById("empty").hidden = holds.length > 0;
  for (const id of ["sum", "checkout", "clock", "tobasket"]) document.getElementById(id).hidden = holds.length === 0;
  paint();
}

async function attempt(action) {
  try {
    return await action();
  } catch (error) {
    say(error instanceof Refused ? error.message : "No connection. Nothing was changed. Try again.", "bad");
    if (error instanceof Refused) await refreshBasket();
    return null;
  }
}

async function take(wanted, name) {
  const found = await attempt(() => call(`${base}/holds`, wanted));
  if (found) {
    showBasket(found);
    say(`${name} is held for you.`, "good");
  }
}

async function letGo(hold) {
  const found = await attempt(() => call(`${base}/holds/release`, { holds: [hold.id] }));
  if (found) {
    showBasket(found);
    say(`${hold.place} was released.`);
  }
}

function choose(id) {
  const seat = seats.get(id);
  const own = holds.find((hold) => hold.seat_id === id);
  if (own) return letGo(own);
  if (seat.button.getAttribute("aria-disabled") === "true") return say(`${seat.name} is not available.`, "bad");
  return take({ seats: [id] }, seat.name);
}

async function refreshBasket() {
  try {
    showBasket(await call(`${base}/holds`));
  } catch {
    // No network: the basket keeps its last known state, and the live connection shows that it is lost.
  }
}

function move(event) {
  const button = event.target.closest?.(".seat");
  if (!button || !["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown"].includes(event.key)) return;
  event.preventDefault();
  const rows = [...document.querySelectorAll(".seatrow")].map((row) => [...row.querySelectorAll(".seat")]);
  const row = rows.findIndex((each) => each.includes(button));
  const column = rows[row].indexOf(button);
  const down = { ArrowUp: -1, ArrowDown: 1 }[event.key] ?? 0;
  const across = { ArrowLeft: -1, ArrowRight: 1 }[event.key] ?? 0;
  const target = rows[row + down];
  const next = target?.[Math.min(Math.max(column + across, 0), target.length - 1)];
  if (!next) return;
  button.setAttribute("tabindex", "-1");
  next.setAttribute("tabindex", "0");
  next.focus();
}

let warned = false;
function tick() {
  if (endsAt === null) return;
  const left = Math.max(0, Math.ceil((endsAt - performance.now()) / 1000));
  const written = `${Math.floor(left / 60)}:${String(left % 60).padStart(2, "0")}`;
  for (const id of ["left", "left-too"]) document.getElementById(id).textContent = written;
  if (left === 60 && !warned) say("One minute left to continue to payment.", "bad");
  warned = left <= 60;
  if (left === 0) {
    endsAt = null;
    say("Your time is over and your seats were released. Choose seats again.", "bad");
    refreshBasket();
  }
}

async function pay(submitted) {
  submitted.preventDefault();
  const form = submitted.target;
  const button = form.querySelector("button");
  button.disabled = true;
  const fields = Object.fromEntries(new FormData(form));
  const locale = navigator.language;
  const found = await attempt(async () => {
    const checkout = await call("/api/v1/ticketing/public/checkouts", { event_id: eventId, email: fields.email, name: fields.name, coupon: fields.coupon || null, locale });
    try {
      return await call(`/api/v1/ticketing/public/checkouts/${checkout.id}/pay`, { token: checkout.token, provider: fields.provider });
    } catch (error) {
      if (error instanceof Refused) return { url: checkout.order_url };   // the buyer can pay from the order page
      throw error;
    }
  });
  if (found) location.assign(found.url);
  else button.disabled = false;
}

async function start() {
  showTimes();
  event = await call(base);
  draw();
  document.getElementById("map").addEventListener("keydown", move);
  document.getElementById("checkout").addEventListener("submit", pay);
  await refreshBasket();
  setInterval(tick, 250);
  const toBasket = document.getElementById("tobasket");
  new IntersectionObserver(([seen]) => toBasket.toggleAttribute("data-there", seen.isIntersecting)).observe(document.getElementById("holds"));
  const live = new LiveClient("/live");
  live.onState((state) => { document.getElementById("connection").hidden = state !== "waiting"; });
  live.subscribe("ticketing.seats", { event_id: eventId }, ({ data }) => {
    if (!data) return;
    states = data;
    onSale = data.on_sale;
    document.getElementById("cancelled").hidden = data.status !== "cancelled";
    if (!onSale && data.status !== "cancelled") say("This event is not on sale at the moment.", "bad");
    paint();
  });
}

addEventListener("pageshow", (shown) => { if (shown.persisted) location.reload(); });
start();
