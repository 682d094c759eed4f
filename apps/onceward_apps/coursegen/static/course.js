// One course while it grows: five steps, the lesson being written, costs, and what one can do with it.

import { LiveClient } from "/live/client.js";
import { attempt, call, dollars, element, markdown, Refused, say, token, words } from "./shared.js";

const id = document.querySelector("main").dataset.course;
const part = (name) => document.getElementById(name);
const POLL_MS = 3000;
let shown = null;
let written = "";

function show(course) {
  shown = course;
  document.title = course.title;
  part("title").textContent = course.title;
  part("status").textContent = words[`s.${course.status}`];
  part("status").className = `badge is-${course.status}`;
  part("percentage").textContent = `${course.percentage} %`;
  part("bar").setAttribute("aria-valuenow", course.percentage);
  part("fill").style.width = `${course.percentage}%`;
  part("bar").classList.toggle("running", ["queued", "generating"].includes(course.status));
  part("cost").textContent = dollars(course.cost_micros);
  part("budget").textContent = dollars(course.budget_micros);
  part("steps").replaceChildren(...course.steps.map(step));
  part("lessons").replaceChildren(...course.lessons.map(lesson));
  if (course.error) say(course.error, true);
  buttons(course);
  const finished = course.lessons.filter((each) => each.written).length;
  const key = `${course.status} ${finished}`;
  if (key !== written && course.status === "completed") loadReview();
  written = key;
}

function buttons(course) {
  const running = ["queued", "generating"].includes(course.status);
  const any = course.lessons.some((each) => each.written);
  part("start").hidden = course.status !== "draft";
  part("resume").hidden = !["failed", "cancelled"].includes(course.status);
  part("cancel").hidden = !running;
  part("again").hidden = course.status !== "completed";
  part("markdown").hidden = part("json").hidden = !any;
  part("delete").hidden = running;
  if (!running) part("writing").hidden = true;
}

function step(each) {
  const numbers = each.calls ? `${words.calls}: ${each.calls} · ${words.tokens}: ${each.tokens} · ${dollars(each.cost_micros)}` : "";
  return element("li", { class: `is-${each.status}`, "aria-current": each.status === "in_progress" ? "step" : null },
    element("div", { class: "step-name" }, element("strong", {}, each.name), element("span", { class: "soft" }, words[`p.${each.status}`])),
    element("div", { class: "small" }, each.message ?? ""),
    element("div", { class: "small soft" }, numbers));
}

function lesson(each) {
  const item = element("li", { class: each.written ? "is-completed" : "is-pending" },
    element("div", { class: "step-name" }, element("strong", {}, each.title)),
    element("div", { class: "small soft" }, each.summary));
  if (each.written) {
    const read = element("button", { type: "button", class: "small-button" }, words.read);
    read.setAttribute("aria-label", `${words.read}: ${each.title}`);
    read.addEventListener("click", () => attempt(read, () => open(each.position)));
    const again = element("button", { type: "button", class: "small-button" }, words.retry);
    again.setAttribute("aria-label", `${words.retry}: ${each.title}`);
    again.hidden = ["queued", "generating"].includes(shown.status);
    again.addEventListener("click", () => attempt(again, () => call("POST", `/courses/${id}/lessons/${each.position}/retry`)));
    item.append(element("div", { class: "actions" }, read, again));
  }
  return item;
}

async function content() {
  return (await call("GET", `/courses/${id}/content`)).json();
}

async function open(position) {
  const chosen = (await content()).lessons.find((each) => each.position === position);
  part("reader-title").textContent = chosen.title;
  const nodes = markdown(chosen.content ?? "");
  if (chosen.exercises.length) {
    nodes.push(element("h3", {}, words.exercises), element("ol", {}, ...chosen.exercises.map((each) => element("li", {},
      ...markdown(each.question),
      element("details", {}, element("summary", {}, words.answer), ...markdown(each.answer), ...markdown(each.explanation))))));
  }
  part("reader-text").replaceChildren(...nodes);
  part("reader").showModal();
}

async function loadReview() {
  const { review } = await content().catch(() => ({ review: null }));
  part("review").hidden = !review;
  if (!review) return;
  const list = (title, lines) => lines.length ? [element("h3", {}, title), element("ul", {}, ...lines.map((line) => element("li", {}, line)))] : [];
  part("review-text").replaceChildren(...markdown(review.summary), ...list(words.strengths, review.strengths), ...list(words.improvements, review.improvements));
}

function showDraft(draft) {
  const running = shown && ["queued", "generating"].includes(shown.status);
  part("writing").hidden = !draft || !running;
  if (!draft) return;
  part("draft-title").textContent = draft.title;
  const box = part("draft");
  const follows = box.scrollHeight - box.scrollTop - box.clientHeight < 60;
  box.replaceChildren(...markdown(draft.text));
  if (follows) box.scrollTop = box.scrollHeight;
}

async function download(format) {
  const response = await call("GET", `/courses/${id}/export?format=${format}`);
  const url = URL.createObjectURL(await response.blob());
  const link = element("a", { href: url, download: `course-${id}.${format === "json" ? "json" : "md"}` });
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

function poll() {
  if (live.state === "open") return;
  call("GET", `/courses/${id}`).then((response) => response.json()).then(show)
    .catch((error) => say(error instanceof Refused ? (error.status === 404 ? words.missing : error.message) : words.offline, true))
    .finally(() => setTimeout(poll, POLL_MS));
}

for (const [name, action] of Object.entries({
  start: () => call("POST", "/generate", { courseId: id }),
  // A course whose budget is spent can only go on with a larger one; the server knows how large it may be.
  resume: () => call("POST", `/courses/${id}/resume`, shown?.error_code === "budget_exceeded" ? { budget: (2 * shown.budget_micros) / 1e6 } : {}),
  cancel: () => call("POST", `/courses/${id}/cancel`),
  again: async () => { if (confirm(words.again_sure)) await call("POST", "/generate", { courseId: id, restart: true }); },
  markdown: () => download("markdown"),
  json: () => download("json"),
  delete: async () => { if (confirm(words.delete_sure)) { await call("DELETE", `/courses/${id}`); location.assign("/coursegen"); } },
})) part(name).addEventListener("click", () => attempt(part(name), action));
part("close").addEventListener("click", () => part("reader").close());

let live = { state: "closed" };
if (token()) {
  live = new LiveClient("/live", { token });
  live.subscribe("coursegen.progress", { course_id: id, locale: document.documentElement.lang }, ({ data, error, loading }) => {
    if (data) show(data);
    else if (error || !loading) say(words.missing, true);
  });
  live.subscribe("coursegen.draft", { course_id: id }, ({ data }) => showDraft(data));
  setTimeout(poll, POLL_MS);
  const kept = sessionStorage.getItem("coursegen.message");
  if (kept) { say(kept, true); sessionStorage.removeItem("coursegen.message"); }
} else {
  say(words.sign_in, true);
}
