// The script of the dashboard: live parts, shortcuts, copying and the theme. Everything else is plain HTML.

import { LiveClient } from "/live/client.js";

const root = document.documentElement;
root.classList.add("scripted");

// -- times ------------------------------------------------------------------------------------------------------

function ago(moment) {
  const passed = (Date.now() - Date.parse(moment)) / 1000;
  const size = Math.abs(passed);
  const say = root.dataset;
  if (size < 1) return say.wordNow;
  const [unit, seconds] = size >= 86400 ? ["d", 86400] : size >= 3600 ? ["h", 3600] : size >= 60 ? ["min", 60] : ["s", 1];
  const words = `${Math.floor(size / seconds)} ${unit}`;
  return (passed > 0 ? say.wordAgo : say.wordIn).replace("{}", words);
}

function tick() {
  for (const time of document.querySelectorAll("time[data-ago]")) {
    const words = ago(time.dateTime);
    if (time.textContent !== words) time.textContent = words;
  }
  for (const time of document.querySelectorAll("time[data-local]")) {
    delete time.dataset.local;
    time.title = time.textContent;
    time.textContent = new Date(time.dateTime).toLocaleString(root.lang, { dateStyle: "medium", timeStyle: "short" });
  }
}
setInterval(tick, 1000);
tick();

// -- live parts -------------------------------------------------------------------------------------------------

const sign = document.getElementById("link-state");
const parts = [...document.querySelectorAll(".part[data-page]")];
let held = false;

function say(state) {
  if (!sign) return;
  const shown = held ? "held" : state;
  sign.dataset.state = shown;
  sign.textContent = sign.dataset[{ open: "wordOpen", held: "wordHeld", waiting: "wordWaiting", closed: "wordClosed" }[shown] ?? "wordIdle"];
}

/** Return whether the user is selecting text or typing in this part. */
function busy(part) {
  const selection = document.getSelection();
  if (selection && !selection.isCollapsed && part.contains(selection.anchorNode)) return true;
  return part.contains(document.activeElement) && document.activeElement.matches("input, select, textarea");
}

function nameOf(element) {
  if (!element) return null;
  if (element.id) return `#${CSS.escape(element.id)}`;
  const href = element.getAttribute("href");
  if (href) return `a[href="${CSS.escape(href)}"]`;
  return element.value && element.name ? `[name="${element.name}"][value="${CSS.escape(element.value)}"]` : null;
}

/** Replace the HTML of a part. Keeps focus, scroll position and open details, and marks new rows. */
function replace(part, html) {
  const focused = part.contains(document.activeElement) ? nameOf(document.activeElement) : null;
  const opened = [...part.querySelectorAll("details[data-keep][open]")].map((each) => each.dataset.keep);
  const scrolled = [...part.querySelectorAll(".scroll, pre")].map((each) => [each.scrollLeft, each.scrollTop]);
  const chosen = [...part.querySelectorAll("input[type=checkbox]:checked")].map((each) => each.value);
  const rows = new Set([...part.querySelectorAll("[data-row]")].map((each) => each.dataset.row));
  part.innerHTML = html;
  for (const keep of opened) part.querySelector(`details[data-keep="${CSS.escape(keep)}"]`)?.setAttribute("open", "");
  part.querySelectorAll(".scroll, pre").forEach((each, at) => {
    if (scrolled[at]) [each.scrollLeft, each.scrollTop] = scrolled[at];
  });
  if (rows.size) {
    for (const row of part.querySelectorAll("[data-row]")) if (!rows.has(row.dataset.row)) row.classList.add("fresh");
  }
  for (const value of chosen) part.querySelector(`input[type=checkbox][value="${CSS.escape(value)}"]`)?.click();
  if (focused) part.querySelector(focused)?.focus({ preventScroll: true });
  tick();
}

if (parts.length) {
  const organization = document.body.dataset.organization || null;
  const client = new LiveClient("/live", { organization });
  client.onState(say);
  for (const part of parts) {
    let waiting = null;
    const show = () => {
      if (waiting === null || held || busy(part)) return;
      replace(part, waiting);
      waiting = null;
    };
    setInterval(show, 500);
    const args = { page: part.dataset.page, params: JSON.parse(part.dataset.params) };
    if (part.dataset.variant) args.variant = part.dataset.variant;
    if (root.lang !== "en") args.language = root.lang;
    client.subscribe("dashboard.part", args, ({ data }) => {
      if (!data) return;
      waiting = data.html;
      show();
    });
  }
  addEventListener("pagehide", () => client.close());
} else if (sign) sign.hidden = true;

function hold() {
  held = !held;
  say("open");
}

// -- the time zone of the viewer: for days in filters and times in forms --------------------------------------------

const zone = Intl.DateTimeFormat().resolvedOptions().timeZone ?? "UTC";
if (!document.cookie.includes("onceward_zone=")) {
  document.cookie = `onceward_zone=${encodeURIComponent(zone)}; path=/dashboard; max-age=31536000; samesite=lax`;
}
for (const field of document.querySelectorAll("[data-zone]")) if (!field.value || field.value === "UTC") field.value = zone;
for (const link of document.querySelectorAll("a[data-zoned]")) link.href += `&zone=${encodeURIComponent(zone)}`;

// The tab of this page is in sight on a phone, where the row of tabs scrolls.
const tab = document.querySelector(".tabs [aria-current]");
if (tab) tab.closest("ul").scrollLeft = tab.offsetLeft - 60;

// -- forms, copying, colours --------------------------------------------------------------------------------------

document.addEventListener("change", (event) => {
  if (event.target.matches("select[data-submit]")) event.target.form.requestSubmit();
});

document.addEventListener("submit", (event) => {
  const form = event.target;
  if (form.id === "act") form.elements.back.value = location.pathname + location.search;
  // Empty filters are left out of the address.
  if (form.method === "get") for (const field of form.elements) if (field.name && !field.value) field.disabled = true;
  const days = form.elements.zone;
  if (form.method === "get" && days) days.disabled = ![...form.elements].some((each) => each.type === "date" && each.value);
});

document.addEventListener("click", (event) => {
  const all = event.target.closest("[data-choose-all]");
  if (!all) return;
  const boxes = [...document.getElementById(all.dataset.chooseAll).elements].filter((each) => each.type === "checkbox");
  const choose = boxes.some((each) => !each.checked);
  for (const each of boxes) each.checked = choose;
});

document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copy]");
  if (!button) return;
  const words = button.textContent;
  await navigator.clipboard.writeText(document.getElementById(button.dataset.copy).textContent);
  button.textContent = "Copied";
  setTimeout(() => (button.textContent = words), 1500);
});

function turn() {
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
  const body = new URLSearchParams({ theme: root.dataset.theme, csrf_token: document.querySelector("meta[name=csrf]").content });
  fetch("/dashboard/theme", { method: "POST", body });
}
document.getElementById("theme")?.addEventListener("click", turn);

const keys = document.getElementById("keys");
document.getElementById("help")?.addEventListener("click", () => keys.showModal());

// -- shortcuts --------------------------------------------------------------------------------------------------

let going = false;

function step(by) {
  const links = [...document.querySelectorAll(".rows [data-row] .id a, .rows [data-row] .name a, .groups .group-do a:first-child")];
  if (!links.length) return;
  const at = links.indexOf(document.activeElement);
  links[Math.max(0, Math.min(links.length - 1, at + by))].focus();
}

const SHORTCUTS = {
  "/": () => document.getElementById("search")?.focus(),
  "?": () => keys.showModal(),
  j: () => step(1),
  k: () => step(-1),
  c: () => document.querySelector("[data-consequences]")?.click(),
  p: hold,
  t: turn,
  g: () => {
    going = true;
    setTimeout(() => (going = false), 1200);
  },
};

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input, select, textarea") || keys?.open) return;
  if (going) {
    going = false;
    const link = document.querySelector(`.side a[data-key="${CSS.escape(event.key)}"]`);
    if (link) link.click();
    return;
  }
  const act = SHORTCUTS[event.key];
  if (!act) return;
  event.preventDefault();
  act();
});
