// One course while it grows: five steps, the lesson being written, costs, and what one can do with it.

import { LiveClient } from "/live/client.js";
import { attempt, call, dollars, element, markdown, Refused, say, token, words } from "./shared.js";

const id = document.querySelector("main").dataset.course;
const part = (name) => document.getElementById(name);
const POLL_MS = 3000;
const ENDINGS = { markdown: "md", html: "html", scorm: "zip", json: "json" };
let shown = null;
let written = "";
let listed = "";

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
  part("lessons-panel").hidden = course.lessons.length === 0;
  part("sources").hidden = !course.sources.length;
  part("source-list").replaceChildren(...course.sources.map(source));
  if (course.error) say(course.unfinished ? `${course.error} ${words.kept}` : course.error, true);
  buttons(course);
  showQueue(course.queue);
  const finished = course.lessons.filter((each) => each.written).length;
  const key = `${course.status} ${finished}`;
  if (key !== written && course.status === "completed") loadReview();
  const version = `${course.attempt} ${course.shown} ${course.status}`;
  if (version !== listed && course.attempt > 1) loadVersions().catch(() => {});
  if (version !== listed) loadForecast(course).catch(() => {});
  listed = version;
  written = key;
}

function source(each) {
  return element("li", {}, each.url ? element("a", { href: each.url, rel: "noopener noreferrer" }, each.title) : each.title);
}

function showQueue(queue) {
  part("queue").hidden = !queue;
  if (!queue) return;
  const values = { ...queue, minutes: Math.max(1, Math.round(queue.estimated_s / 60)) };
  part("queue").textContent = words[`q.${queue.waits_for}`].replace(/{(\w+)}/g, (_, name) => values[name]);
}

async function loadForecast(course) {
  const waits = ["draft", "failed", "cancelled"].includes(course.status);
  part("forecast").hidden = !waits;
  if (!waits) return;
  const forecast = await (await call("GET", `/courses/${id}/forecast`)).json();
  const values = { expected: dollars(forecast.expected_micros), most: dollars(forecast.most_micros), calls: forecast.calls };
  part("forecast").textContent = words[forecast.fits ? "forecast" : "forecast_over"].replace(/{(\w+)}/g, (_, name) => values[name]);
}

async function loadVersions() {
  const versions = await (await call("GET", `/courses/${id}/versions`)).json();
  part("versions").hidden = versions.length < 2;
  part("version-list").replaceChildren(...versions.map((each) => {
    const state = each.shown ? words.shown_version : each.completed_at ? "" : words.not_finished;
    const item = element("li", { class: each.completed_at ? "is-completed" : "is-pending" },
      element("div", { class: "step-name" }, element("strong", {}, `${words.version} ${each.attempt}`), element("span", { class: "soft" }, state)),
      element("div", { class: "small soft" }, `${new Date(each.created_at).toLocaleString()} · ${words.lessons}: ${each.lessons}`));
    if (each.completed_at && !each.shown) {
      const choose = element("button", { type: "button", class: "small-button" }, words.show_version);
      choose.setAttribute("aria-label", `${words.show_version}: ${each.attempt}`);
      choose.addEventListener("click", () => attempt(choose, () => call("POST", `/courses/${id}/versions/${each.attempt}/show`)));
      item.append(element("div", { class: "actions" }, choose));
    }
    return item;
  }));
}

function buttons(course) {
  const running = ["queued", "generating"].includes(course.status);
  const any = course.lessons.some((each) => each.written);
  part("start").hidden = course.status !== "draft";
  part("resume").hidden = !["failed", "cancelled"].includes(course.status) && !course.unfinished;
  part("edit").hidden = running;
  part("cancel").hidden = !running;
  part("again").hidden = course.status !== "completed";
  for (const name of Object.keys(ENDINGS)) part(name).hidden = !any;
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
  if (each.version) {
    const read = element("button", { type: "button", class: "small-button" }, words.read);
    read.setAttribute("aria-label", `${words.read}: ${each.title}`);
    read.addEventListener("click", () => attempt(read, () => open(each.position, each.version)));
    const again = element("button", { type: "button", class: "small-button" }, words.retry);
    again.setAttribute("aria-label", `${words.retry}: ${each.title}`);
    again.hidden = ["queued", "generating"].includes(shown.status);
    again.addEventListener("click", () => attempt(again, () => call("POST", `/courses/${id}/lessons/${each.position}/retry`)));
    item.append(element("div", { class: "actions" }, read, again));
  }
  return item;
}

async function content(version) {
  return (await call("GET", `/courses/${id}/content${version ? `?version=${version}` : ""}`)).json();
}

async function open(position, version) {
  const chosen = (await content(version)).lessons.find((each) => each.position === position);
  part("reader-title").textContent = chosen.title;
  const nodes = markdown(chosen.content ?? "");
  if (chosen.picture) nodes.push(element("img", { src: chosen.picture.uri, alt: chosen.picture.alt, class: "picture" }));
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
  const link = element("a", { href: url, download: `course-${id}.${ENDINGS[format]}` });
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

function edit() {
  const form = part("edit-form");
  form.elements.title.value = shown.title;
  form.elements.brief.value = shown.brief;
  form.elements.lessons.value = shown.lesson_count;
  part("editor").showModal();
}

async function saveEdit(form) {
  const body = { title: form.elements.title.value, brief: form.elements.brief.value, lessons: Number(form.elements.lessons.value) };
  show(await (await call("PATCH", `/courses/${id}`, body)).json());
  part("editor").close();
  say(words.saved);
}

function poll() {
  // The places of others change without a change of this course, so a course in line is asked for also while live.
  if (live.state === "open" && !shown?.queue) { setTimeout(poll, POLL_MS); return; }
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
  html: () => download("html"),
  scorm: () => download("scorm"),
  json: () => download("json"),
  delete: async () => { if (confirm(words.delete_sure)) { await call("DELETE", `/courses/${id}`); location.assign("/coursegen"); } },
})) part(name).addEventListener("click", () => attempt(part(name), action));
part("edit").addEventListener("click", edit);
part("editor-close").addEventListener("click", () => part("editor").close());
part("edit-form").addEventListener("submit", (event) => {
  event.preventDefault();
  attempt(event.submitter, () => saveEdit(event.target));
});
part("close").addEventListener("click", () => part("reader").close());

let live = { state: "closed" };
if (token()) {
  live = new LiveClient("/live", { token });
  live.subscribe("coursegen.progress", { course_id: id, locale: document.documentElement.lang }, ({ data, error, loading }) => {
    if (data) {
      if (part("message").textContent === words.missing) say("");  // the query was refused at first, on a busy server
      show(data);
    } else if (error || !loading) say(words.missing, true);
  });
  live.subscribe("coursegen.draft", { course_id: id }, ({ data }) => showDraft(data));
  setTimeout(poll, POLL_MS);
  const kept = sessionStorage.getItem("coursegen.message");
  if (kept) { say(kept, true); sessionStorage.removeItem("coursegen.message"); }
} else {
  say(words.sign_in, true);
}
