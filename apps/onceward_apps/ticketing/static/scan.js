// The scanner: camera or keyboard. It gives each scan an id, so that a repeated request counts as the same scan.

import { call, element, Refused } from "./shared.js";

const main = document.querySelector("main");
const verdict = document.getElementById("verdict");
const code = document.getElementById("code");
const gate = document.getElementById("gate");
const key = document.getElementById("key");
const WAITING = "ticketing.waiting";
const AGAIN_MS = 3000;
const WORDS = {
  admitted: "Welcome", already_used: "Already used", void: "No longer valid", unknown: "Not a ticket",
  wrong_event: "Ticket for another event", forged: "Forged: the signature is wrong",
  frozen: "Payment disputed: send the guest to the box office",
};

for (const field of [gate, key]) {
  field.value = sessionStorage.getItem(`ticketing.${field.id}`) ?? "";
  field.addEventListener("change", () => sessionStorage.setItem(`ticketing.${field.id}`, field.value));
}

function show(found) {
  const good = found.outcome === "admitted";
  const lines = [element("p", {}, element("strong", {}, WORDS[found.outcome] ?? found.outcome))];
  if (found.place) lines.push(element("p", {}, [found.place, found.holder].filter(Boolean).join(", ")));
  if (found.outcome === "already_used") {
    const at = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" }).format(new Date(found.used_at));
    lines.push(element("p", {}, `on ${at}${found.used_gate ? ` at ${found.used_gate}` : ""}`));
  }
  verdict.className = `verdict ${good ? "yes" : "no"}`;
  verdict.replaceChildren(...lines);
  document.getElementById("last-title").hidden = false;
  document.getElementById("last").prepend(element("li", {}, `${found.code ?? "?"}: ${WORDS[found.outcome] ?? found.outcome}`));
}

const waiting = () => JSON.parse(localStorage.getItem(WAITING) ?? "[]");
const keep = (list) => localStorage.setItem(WAITING, JSON.stringify(list));

async function csrf() {
  if (key.value) return { authorization: `Bearer ${key.value}` };
  const me = await call("/api/v1/me");
  return me.csrf_token ? { "x-csrf-token": me.csrf_token } : {};
}

async function send(scan) {
  show(await call("/api/v1/ticketing/scan", scan, await csrf()));
}

let sending = false;
async function sendWaiting() {
  if (sending) return;
  sending = true;
  try {
    for (let list = waiting(); list.length; list = waiting()) {
      try {
        await send(list[0]);
      } catch (error) {
        if (!(error instanceof Refused) || error.status >= 500) throw error;
        complain(error);
      }
      keep(waiting().slice(1));
    }
    document.getElementById("line").hidden = true;
  } catch {
    document.getElementById("line").hidden = false;
    verdict.className = "verdict no";
    verdict.replaceChildren(element("p", {}, element("strong", {}, "Not checked yet: no connection")));
    setTimeout(sendWaiting, AGAIN_MS);
  } finally {
    sending = false;
  }
}

function complain(error) {
  verdict.className = "verdict no";
  const words = [401, 403].includes(error.status) ? "Log in, or enter an API key in the scanner settings." : error.message;
  verdict.replaceChildren(element("p", {}, element("strong", {}, words)));
  if ([401, 403].includes(error.status)) document.getElementById("setup").open = true;
}

function present(text) {
  keep([...waiting(), { event_id: main.dataset.event, presented: text, scan_id: crypto.randomUUID(), gate: gate.value }]);
  return sendWaiting();
}

document.getElementById("typed").addEventListener("submit", (submitted) => {
  submitted.preventDefault();
  const text = code.value.trim();
  code.value = "";
  code.focus();
  if (text) present(text);
});
addEventListener("online", sendWaiting);

let lastSeen = "";
async function watch(view, detector) {
  const [found] = await detector.detect(view).catch(() => []);
  if (found && found.rawValue !== lastSeen) {
    lastSeen = found.rawValue;
    setTimeout(() => { lastSeen = ""; }, AGAIN_MS);
    await present(found.rawValue);
  }
  setTimeout(watch, 150, view, detector);
}

const camera = document.getElementById("camera");
camera.hidden = !("BarcodeDetector" in globalThis && navigator.mediaDevices);
camera.addEventListener("click", async () => {
  const view = document.getElementById("view");
  try {
    view.srcObject = await navigator.mediaDevices.getUserMedia({ video: { facingMode: "environment" } });
  } catch {
    complain(new Refused(400, { detail: "The camera is not available. Type the code." }));
    return;
  }
  view.hidden = false;
  camera.hidden = true;
  await view.play();
  watch(view, new BarcodeDetector({ formats: ["qr_code"] }));
});
sendWaiting();
