// The home of a course: sessions, progress and certificate of the student, and the chat of the cohort.

import { LiveClient } from "/live/client.js";
import { handIn, quiz } from "./coursework.js";
import { act, call, element, moment, safeLink, showConnection, t } from "./shared.js";

const { enrollment, cohort, user, access } = document.querySelector("main").dataset;
const api = "/api/v1/learning/student";
const node = (id) => document.getElementById(id);
const PRESENCE_MS = 60_000;
const EMOJI = ["👍", "🎉", "❤️"];

// -- progress ---------------------------------------------------------------------------------------------------------

function percent(id, value, without) {
  node(id).value = value ?? 0;
  node(`${id}-text`).textContent = value === null ? without : `${Math.round(value)} %`;
}

function show(home) {
  const words = { IN_PROGRESS: "", CANCELLED: t("This course was cancelled. Your payment is refunded."), COMPLETED: t("This course has ended.") };
  const state = home.status === "EXPIRED" ? t("Your access has ended.") : home.status === "REFUNDED" ? t("This enrolment was refunded.") : words[home.cohortStatus] ?? t("The content opens when the course starts.");
  node("state").textContent = state;
  percent("completion", home.completionPercentage, t("nothing to do yet"));
  percent("attendance", home.attendancePercentage, t("no session yet"));
  node("items").replaceChildren(...home.items.map(item));
  node("sessions").replaceChildren(...home.sessions.map(session));
  node("zoom").hidden = !/^https?:\/\//.test(home.zoomLink ?? "");
  if (!node("zoom").hidden) node("zoom").href = home.zoomLink;
  certificate(home);
  // The chat is open while the course runs: outside of that the form says so before somebody writes.
  const closed = home.cohortStatus !== "IN_PROGRESS" || !home.hasAccess;
  for (const field of node("post").elements) field.disabled = closed;
  node("chat-closed").hidden = !closed;
}

function certificate({ certificate: issued, missingForCertificate: missing }) {
  const names = { completion: t("more of the content"), attendance: t("more live sessions"), exit_survey: t("the exit survey"), cohort_not_completed: t("the end of the course"), enrollment_ended: t("a valid enrolment") };
  const text = issued === null ? t("For the certificate you still need: {names}.", { names: missing.map((name) => names[name]).join(", ") })
    : issued.revokedAt ? t("Your certificate was revoked.") : null;
  node("certificate").replaceChildren(text ?? element("a", { href: `/learn/certificates/${issued.credentialId}`, class: "button" }, t("Your certificate")));
}

function item(found) {
  if (found.graded || found.has_questions) return work(found);
  const box = element("input", { type: "checkbox", id: `item-${found.id}`, checked: found.done_at ? "" : null, disabled: found.unlocked ? null : "" });
  box.addEventListener("change", () => act(box, node("state"), () => call(`${api}/enrollments/${enrollment}/items/${found.id}`, { done: box.checked }, { method: "PUT" })));
  const label = element("label", { for: box.id }, ` ${found.title}${found.required ? "" : ` (${t("optional")})`}${found.unlocked ? "" : " 🔒"}`);
  return element("li", {}, box, label, found.has_text && found.unlocked ? reading(found) : null, safeLink(found.url, ` ${t("Open")}`));
}

// Items that somebody else, or a quiz, says are done. The list is drawn again with every change, so what is open is kept apart.
const works = new Map();

function work(found) {
  const names = { DRAFT: t("not handed in"), HANDED_IN: t("handed in, not graded yet"), PASSED: t("passed"), RETURNED: t("please hand it in again") };
  const score = found.quiz_best === null ? null : t("best result {percent} %, {needed} % needed", { percent: found.quiz_best, needed: found.pass_percentage });
  const state = found.done_at ? t("passed") : found.graded ? names[found.work ?? "DRAFT"] : score ?? t("not answered yet");
  const note = [found.grade === null ? "" : t("{grade} of 100 points", { grade: found.grade }), found.feedback ?? ""].filter(Boolean).join(" · ");
  const head = element("span", {}, `${found.done_at ? "✓" : "○"} ${found.title}${found.required ? "" : ` (${t("optional")})`} · ${state}${found.unlocked ? "" : " 🔒"}`);
  const parts = [head, note ? element("p", { class: "small" }, note) : null];
  if (found.unlocked) parts.push(found.has_text ? reading(found) : null, safeLink(found.url, ` ${t("Open")}`));
  if (found.unlocked && !found.done_at) {
    if (!works.has(found.id)) works.set(found.id, found.graded ? handIn(found, `${api}/enrollments/${enrollment}/items/${found.id}`, node("state")) : quiz(found, `${api}/enrollments/${enrollment}/items/${found.id}`, node("state")));
    parts.push(works.get(found.id));
  }
  return element("li", {}, ...parts);
}

const open = new Map();  // the texts that the student has opened: they stay open when the list is drawn again

function reading(found) {
  const text = element("p", { class: "text" }, open.get(found.id) ?? "");
  const details = element("details", { open: open.has(found.id) ? "" : null }, element("summary", {}, t("Read")), text);
  details.addEventListener("toggle", () => {
    if (!details.open) open.delete(found.id);
    else if (!open.has(found.id)) act(details, node("state"), async () => {
      const { body } = await call(`${api}/enrollments/${enrollment}/items/${found.id}`);
      open.set(found.id, body);
      text.textContent = body;
    });
  });
  return details;
}

function session(found) {
  const past = new Date(found.ends_at) < new Date();
  const state = found.cancelled ? t("cancelled") : found.attended === true ? t("you were there") : found.attended === false ? t("you missed it") : past ? t("ended") : found.booking_uid ? t("booked") : "";
  return element("li", {}, `${moment(found.booked_at ?? found.starts_at)} · ${found.title}`, state ? ` · ${state}` : null, " ", safeLink(found.recording_url, t("Recording")));
}

// -- chat ---------------------------------------------------------------------------------------------------------------

let newest = 0;

function message(found) {
  const mine = found.user_id === user;
  const avatar = /^https:\/\//.test(found.avatar ?? "") ? element("img", { src: found.avatar, alt: "" }) : null;
  const head = element("div", { class: "who" }, avatar, found.name || t("A student"), found.by_school ? element("span", { class: "badge" }, t("School")) : null, " ", element("time", { datetime: found.sent_at }, moment(found.sent_at, { timeStyle: "short" }) + (found.edited_at ? ` (${t("edited")})` : "")));
  const actions = element("div", { class: "actions" });
  if (!found.deleted) {
    for (const emoji of new Set([...EMOJI, ...Object.keys(found.reactions)])) actions.append(reaction(found, emoji));
    if (mine) actions.append(editor(found));
  }
  return element("li", { "data-id": found.id, "data-mine": mine ? "" : null }, head, element("p", {}, found.deleted ? `(${found.removed ? t("removed by the school") : t("deleted")})` : found.message), actions);
}

function reaction(found, emoji) {
  const { count, mine: on } = found.reactions[emoji] ?? { count: 0, mine: false };
  const button = element("button", { type: "button", class: "small", "aria-pressed": String(on), "aria-label": `${emoji}, ${count}` }, count ? `${emoji} ${count}` : emoji);
  button.addEventListener("click", () => act(button, node("chat-state"), () => call(`${api}/cohorts/${cohort}/chat/${found.id}/reactions`, { emoji, on: !on })));
  return button;
}

function editor(found) {
  const button = element("button", { type: "button", class: "small" }, t("Edit"));
  button.addEventListener("click", () => {
    const text = prompt(t("Change your message"), found.message);
    if (text !== null && text.trim()) act(button, node("chat-state"), () => call(`${api}/cohorts/${cohort}/chat/${found.id}`, { message: text }, { method: "PATCH" }));
  });
  return button;
}

function showChat(messages) {
  const list = node("messages");
  const atEnd = list.scrollHeight - list.scrollTop - list.clientHeight < 60;
  list.replaceChildren(...messages.map(message));
  if (atEnd) list.scrollTop = list.scrollHeight;
  newest = messages.at(-1)?.id ?? 0;
  if (atEnd && !document.hidden) markRead();
}

let read = 0;
function markRead() {
  if (newest <= read) return;
  read = newest;
  call(`${api}/cohorts/${cohort}/chat/read`, { message_id: newest }).catch(() => { read = 0; });
}

node("messages").addEventListener("scroll", ({ target }) => { if (target.scrollHeight - target.scrollTop - target.clientHeight < 60) markRead(); });
node("post").addEventListener("submit", (event) => {
  event.preventDefault();
  const form = event.target;
  // The key stays the same if the person sends the same text again after a lost answer.
  form.dataset.key ||= crypto.randomUUID?.() ?? String(Math.random()).slice(2);
  act(form.querySelector("button"), node("chat-state"), async () => {
    await call(`${api}/cohorts/${cohort}/chat`, { message: form.message.value, key: form.dataset.key });
    delete form.dataset.key;
    form.reset();
    node("chat-state").textContent = "";
    node("text").focus();
  });
});

function bePresent(status) {
  call(`${api}/cohorts/${cohort}/presence`, { status }).catch(() => {});
}

function whoIsOnline({ count, users }) {
  const names = users.map((each) => each.name || t("A student")).join(", ");
  const online = `${t("{count} online", { count })}${names ? `: ${names}` : ""}`;
  return names && count > users.length ? `${online} ${t("and {count} more", { count: count - users.length })}` : online;
}

// -- live -----------------------------------------------------------------------------------------------------------------

const live = new LiveClient("/live");
showConnection(live, node("connection"));
live.subscribe("learning.student_home", { enrollment_id: enrollment, access }, ({ data }) => { if (data) show(data); });
live.subscribe("learning.chat", { cohort_id: cohort, access }, ({ data }) => { if (data) showChat(data); });
live.subscribe("learning.unread", { cohort_id: cohort, user_id: user, access }, ({ data }) => {
  node("unread").hidden = !data?.unread;
  node("unread").textContent = data?.unread ? t("{count} unread", { count: data.unread }) : "";
});
live.subscribe("learning.online_users", { cohort_id: cohort, access }, ({ data }) => { node("online").textContent = data ? whoIsOnline(data) : ""; });
bePresent("online");
setInterval(() => bePresent(document.hidden ? "away" : "online"), PRESENCE_MS);
document.addEventListener("visibilitychange", () => { bePresent(document.hidden ? "away" : "online"); if (!document.hidden) markRead(); });
