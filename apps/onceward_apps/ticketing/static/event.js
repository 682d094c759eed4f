// The seat map. It shows at once which seats other buyers take. Choosing a seat holds it; the server sets the countdown.

import { LiveClient } from "/live/client.js";
import { call, element, money, Refused, showTimes } from "./shared.js";

const main = document.querySelector("main");
const eventId = main.dataset.event;
const base = `/api/v1/ticketing/public/events/${eventId}`;
const message = document.getElementById("message");
const LARGE = 1000;            // a house with more seats gets a list of sections, a choice of rows, and a filter
const rows = [];               // {section, start, seats, name, label, line, buttons}; buttons are made when the row comes near
const shown = new Map();       // section id -> the states that the map shows
const near = new IntersectionObserver(fillVisible, { rootMargin: "800px 0px" });
let event = null;
let holds = [];
let own = new Map();           // label -> the buyer's own hold of that seat
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
    const part = element("section", { "aria-label": section.name, id: `section-${section.id}` }, title);
    if (section.kind === "general") part.append(placeChooser(section));
    else drawRows(section, part);
    map.append(part);
  }
  if (rows.reduce((total, row) => total + row.seats, 0) > LARGE) drawFinder();
  if (rows.length) fill(rows[0])[0].setAttribute("tabindex", "0");
}

function drawRows(section, part) {
  let start = 0;
  const frame = element("div", { class: "rows" });
  for (const { name, label, seats } of section.rows) {
    const line = element("div", { class: "seatrow", role: "group", "aria-label": `Row ${name}` }, element("span", { "aria-hidden": "true" }, name));
    line.style.setProperty("--seats", seats);
    const row = { section: section.id, start, seats, label, name: `${section.name}, row ${name}`, line, buttons: null };
    line.seatRow = row;
    rows.push(row);
    start += seats;
    frame.append(line);
    near.observe(line);
  }
  part.append(frame);
}

function fillVisible(entries) {
  for (const entry of entries) if (entry.isIntersecting) fill(entry.target.seatRow);
}

// Make the buttons of a row. A house has too many seats to make all of them at once on a phone.
function fill(row) {
  if (row.buttons) return row.buttons;
  near.unobserve(row.line);
  row.buttons = Array.from({ length: row.seats }, (_, n) => {
    const button = element("button", { type: "button", class: "seat", tabindex: "-1", "data-label": `${row.label}${n + 1}` }, String(n + 1));
    button.addEventListener("click", () => choose(row, n));
    return button;
  });
  row.line.append(...row.buttons);
  paintRow(row);
  return row.buttons;
}

// For a large house: how many seats are free in each section, a way to a row, and a filter for rows with free seats.
function drawFinder() {
  const finder = document.getElementById("finder");
  const sections = event.sections.filter((section) => section.kind !== "general");
  const list = element("ul", {}, ...sections.map((section) =>
    element("li", {}, element("a", { href: `#section-${section.id}` }, section.name), " ", element("span", { "data-free": section.id }))));
  const jump = element("select", { id: "jump" }, element("option", { value: "" }, "Choose a row"),
    ...rows.map((row, n) => element("option", { value: String(n) }, row.name)));
  jump.addEventListener("change", () => jump.value && goTo(rows[Number(jump.value)]));
  const only = element("input", { type: "checkbox", id: "only-free" });
  only.addEventListener("change", paintFree);
  finder.replaceChildren(list, element("label", {}, "Go to ", jump), element("label", { class: "choice" }, only, " Only rows with free seats"));
  finder.hidden = false;
}

function goTo(row) {
  row.line.hidden = false;
  const button = fill(row).find((each) => each.getAttribute("aria-disabled") === "false") ?? row.buttons[0];
  focusSeat(button);
  row.line.scrollIntoView({ block: "center" });
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

function statesOf(row) {
  return (states.seats?.[row.section] ?? "").slice(row.start, row.start + row.seats);
}

function paintRow(row) {
  if (!row.buttons) return;
  const letters = statesOf(row);
  row.buttons.forEach((button, n) => {
    const state = letters[n] ?? "f";
    const isOwn = own.has(`${row.label}${n + 1}`);
    const free = isOwn || (state === "f" && onSale);
    const word = isOwn ? "yours" : { f: "free", h: "held by somebody else", s: "sold", x: "not for sale" }[state];
    button.dataset.state = state;
    button.toggleAttribute("data-mine", isOwn);
    button.setAttribute("aria-pressed", String(isOwn));
    button.setAttribute("aria-disabled", String(!free));
    button.setAttribute("aria-label", `${row.name}, seat ${n + 1}, ${word}`);
  });
}

// Paint the rows that differ from what the map shows.
function paint() {
  for (const row of rows) {
    const before = shown.get(row.section);
    const now = states.seats?.[row.section];
    if (before !== now && before?.slice(row.start, row.start + row.seats) !== statesOf(row)) paintRow(row);
  }
  const isChanged = Object.entries(states.seats ?? {}).some(([section, letters]) => shown.get(section) !== letters);
  for (const [section, letters] of Object.entries(states.seats ?? {})) shown.set(section, letters);
  if (isChanged) paintFree();
  for (const [section, free] of Object.entries(states.places ?? {})) {
    const left = document.querySelector(`[data-left="${section}"]`);
    if (left) left.textContent = free > 0 ? `${free} places left.` : "Sold out.";
    const add = document.querySelector(`[data-add="${section}"]`);
    if (add) add.disabled = free < 1 || !onSale;
  }
}

function paintFree() {
  const only = document.getElementById("only-free")?.checked ?? false;
  if (document.getElementById("finder").hidden) return;
  for (const row of rows) row.line.hidden = only && !statesOf(row).includes("f") && !row.line.querySelector("[data-mine]");
  for (const [section, letters] of Object.entries(states.seats ?? {})) {
    const free = document.querySelector(`[data-free="${section}"]`);
    const count = letters.split("f").length - 1;
    if (free) free.textContent = count ? `${count} free` : "sold out";
  }
}

function showBasket(found) {
  holds = found.holds;
  own = new Map(holds.filter((hold) => hold.seat_id).map((hold) => [hold.place, hold]));
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
  for (const row of rows) if (row.buttons) paintRow(row);
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

function choose(row, n) {
  const label = `${row.label}${n + 1}`;
  const name = `${row.name}, seat ${n + 1}`;
  if (own.has(label)) return letGo(own.get(label));
  if (row.buttons[n].getAttribute("aria-disabled") === "true") return say(`${name} is not available.`, "bad");
  return take({ seats: [label] }, name);
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
  const visible = rows.filter((row) => !row.line.hidden);
  const at = visible.indexOf(button.parentElement.seatRow);
  const column = visible[at].buttons.indexOf(button);
  const down = { ArrowUp: -1, ArrowDown: 1 }[event.key] ?? 0;
  const across = { ArrowLeft: -1, ArrowRight: 1 }[event.key] ?? 0;
  const target = visible[at + down];
  if (target) focusSeat(fill(target)[Math.min(Math.max(column + across, 0), target.seats - 1)]);
}

// One seat of the map is in the tab order: the one that had the focus last.
function focusSeat(button) {
  document.querySelector('.seat[tabindex="0"]')?.setAttribute("tabindex", "-1");
  button.setAttribute("tabindex", "0");
  button.focus();
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
    if (onSale !== data.on_sale) shown.clear();
    onSale = data.on_sale;
    document.getElementById("cancelled").hidden = data.status !== "cancelled";
    if (!onSale && data.status !== "cancelled") say("This event is not on sale at the moment.", "bad");
    paint();
  });
}

addEventListener("pageshow", (shown) => { if (shown.persisted) location.reload(); });
start();
