// The seat map. It shows at once which seats other buyers take. Choosing a seat holds it; the server sets the countdown.

import { LiveClient } from "/live/client.js";
import { answers, drawQuestions, typeChooser } from "./options.js";
import { call, element, locale, money, Refused, showTimes, t } from "./shared.js";

const main = document.querySelector("main");
const eventId = main.dataset.event;
const code = main.dataset.code;
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

// In a frame on another site the browser keeps no cookie of ours: the page holds the name of the basket itself.
const isEmbedded = main.dataset.embed === "yes";
let basket = null;
const ask = (path, body) => call(path, body, basket ? { "x-basket": basket } : {});

function keepBasket(name) {
  if (!isEmbedded) return;
  basket = name;
  try {
    sessionStorage.basket = name;
  } catch {
    // A browser that blocks storage in frames: the basket lasts as long as the page.
  }
}

if (isEmbedded) {
  try {
    basket = sessionStorage.basket ?? null;
  } catch {
    // As above.
  }
}

function go(url) {
  if (isEmbedded) parent.postMessage({ ticketing: { go: url } }, "*");
  else location.assign(url);
}

function say(text, kind = "") {
  message.textContent = text;
  message.className = `message ${kind}`;
}

function draw() {
  const map = document.getElementById("map");
  map.replaceChildren();
  for (const section of event.sections) {
    const name = section.kind === "addon" ? t("Add-on: {}", section.name) : section.name;
    const title = element("h3", {}, `${name}, ${price(section.price_cents)}`);
    const part = element("section", { "aria-label": section.name, id: `section-${section.id}` }, title);
    const [begins, ends] = [section.sale_from, section.sale_until].map((at) => at && new Date(at));
    if (begins > Date.now()) part.append(element("p", { class: "small" }, t("On sale from {}.", written(begins))));
    if (ends && ends > Date.now()) part.append(element("p", { class: "small" }, t("On sale until {}.", written(ends))));
    if (section.types.length) part.append(element("p", { class: "small" }, section.types.map((each) => `${each.name}: ${price(each.price_cents)}`).join(" · ")));
    if (section.kind !== "seated") part.append(placeChooser(section));
    else drawRows(section, part);
    map.append(part);
  }
  if (rows.reduce((total, row) => total + row.seats, 0) > LARGE) drawFinder();
  if (rows.length) fill(rows[0])[0].setAttribute("tabindex", "0");
}

function price(cents) {
  return money(cents, event.currency, event.currency_digits);
}

function written(at) {
  return new Intl.DateTimeFormat(locale, { dateStyle: "medium", timeStyle: "short" }).format(at);
}

function drawRows(section, part) {
  let start = 0;
  const frame = element("div", { class: "rows" });
  for (const { name, label, seats } of section.rows) {
    const line = element("div", { class: "seatrow", role: "group", "aria-label": t("Row {}", name) }, element("span", { "aria-hidden": "true" }, name));
    line.style.setProperty("--seats", seats);
    const row = { section: section.id, start, seats, label, name: t("{}, row {}", section.name, name), line, buttons: null };
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
  const jump = element("select", { id: "jump" }, element("option", { value: "" }, t("Choose a row")),
    ...rows.map((row, n) => element("option", { value: String(n) }, row.name)));
  jump.addEventListener("change", () => jump.value && goTo(rows[Number(jump.value)]));
  const only = element("input", { type: "checkbox", id: "only-free" });
  only.addEventListener("change", paintFree);
  finder.replaceChildren(list, element("label", {}, t("Go to"), " ", jump), element("label", { class: "choice" }, only, " ", t("Only rows with free seats")));
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
  const button = element("button", { type: "button", "data-add": section.id }, t("Add one"));
  button.addEventListener("click", () => take({ places: { [section.id]: held(section.id) + 1 } }, t("One place in {}", section.name)));
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
    const word = isOwn ? t("yours") : { f: t("free"), h: t("held by somebody else"), s: t("sold"), x: t("not for sale") }[state];
    button.dataset.state = state;
    button.toggleAttribute("data-mine", isOwn);
    button.setAttribute("aria-pressed", String(isOwn));
    button.setAttribute("aria-disabled", String(!free));
    button.setAttribute("aria-label", `${t("{}, seat {}", row.name, n + 1)}, ${word}`);
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
    if (left) left.textContent = free > 0 ? t("{} places left.", free) : t("Sold out.");
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
    if (free) free.textContent = count ? t("{} free", count) : t("sold out");
  }
}

function showBasket(found) {
  holds = found.holds;
  own = new Map(holds.filter((hold) => hold.seat_id).map((hold) => [hold.place, hold]));
  endsAt = found.left_s === null ? null : performance.now() + found.left_s * 1000;
  const list = document.getElementById("holds");
  list.replaceChildren(...holds.map((hold) => {
    const remove = element("button", { type: "button", class: "plain", "aria-label": t("Remove {}", hold.place) }, t("Remove"));
    remove.addEventListener("click", () => letGo(hold));
    return element("li", {}, hold.place, element("span", { class: "amount" }, price(hold.price_cents)), remove, typeChooser(event, hold, price, chooseType));
  }));
  drawQuestions(event, holds);
  const many = holds.length === 1 ? t("1 ticket") : t("{} tickets", holds.length);
  const total = found.total_cents ?? 0;
  // What is in the total besides the seats, so that the payment page shows no other amount.
  const parts = [];
  if (event.fee_paid_by === "buyer" && found.fee_cents) parts.push(t("{} service fee", price(found.fee_cents)));
  if (found.tax_cents) parts.push(t("{} tax", price(found.tax_cents)));
  const sum = parts.length ? t("{}, {} including {}", many, price(total), parts.join(" + ")) : `${many}, ${price(total)}`;
  document.getElementById("sum").textContent = found.discount_cents ? `${sum}. ${t("Group discount: {}", price(found.discount_cents))}` : sum;
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
    say(error instanceof Refused ? error.message : t("No connection. Nothing was changed. Try again."), "bad");
    if (error instanceof Refused) await refreshBasket();
    return null;
  }
}

async function take(wanted, name) {
  const found = await attempt(() => ask(`${base}/holds`, { ...wanted, code }));
  if (found) {
    keepBasket(found.basket);
    showBasket(found);
    say(t("{} is held for you.", name), "good");
  }
}

async function chooseType(hold, type) {
  const found = await attempt(() => ask(`${base}/holds/types`, { types: { [hold.id]: type }, code }));
  if (found) showBasket(found);
}

async function letGo(hold) {
  const found = await attempt(() => ask(`${base}/holds/release`, { holds: [hold.id] }));
  if (found) {
    showBasket(found);
    say(t("{} was released.", hold.place));
  }
}

function choose(row, n) {
  const label = `${row.label}${n + 1}`;
  const name = t("{}, seat {}", row.name, n + 1);
  if (own.has(label)) return letGo(own.get(label));
  if (row.buttons[n].getAttribute("aria-disabled") === "true") return say(t("{} is not available.", name), "bad");
  return take({ seats: [label] }, name);
}

async function refreshBasket() {
  try {
    showBasket(await ask(`${base}/holds`));
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
  if (left === 60 && !warned) say(t("One minute left to continue to payment."), "bad");
  warned = left <= 60;
  if (left === 0) {
    endsAt = null;
    say(t("Your time is over and your seats were released. Choose seats again."), "bad");
    refreshBasket();
  }
}

async function pay(submitted) {
  submitted.preventDefault();
  const form = submitted.target;
  const button = form.querySelector("button");
  button.disabled = true;
  const fields = Object.fromEntries(new FormData(form));
  const found = await attempt(async () => {
    const checkout = await ask("/api/v1/ticketing/public/checkouts", { event_id: eventId, email: fields.email, name: fields.name, coupon: fields.coupon || null, locale, answers: answers() });
    try {
      return await ask(`/api/v1/ticketing/public/checkouts/${checkout.id}/pay`, { token: checkout.token, provider: fields.provider });
    } catch (error) {
      if (error instanceof Refused) return { url: checkout.order_url };   // the buyer can pay from the order page
      throw error;
    }
  });
  if (found) go(found.url);
  else button.disabled = false;
}

async function start() {
  showTimes();
  event = await call(code ? `${base}?code=${encodeURIComponent(code)}` : base);
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
    if (!onSale && data.status !== "cancelled") say(t("This event is not on sale at the moment."), "bad");
    paint();
  });
}

if (isEmbedded) {
  const tell = () => parent.postMessage({ ticketing: { height: document.documentElement.scrollHeight } }, "*");
  new ResizeObserver(tell).observe(document.body);
}
addEventListener("pageshow", (shown) => { if (shown.persisted) location.reload(); });
start();
