// The list of courses, and the form for a new one.

import { attempt, call, element, say, token, words } from "./shared.js";

const list = document.getElementById("courses");

function card(course) {
  const percent = course.percentage ?? 0;
  const bar = element("progress", { max: "100", value: String(percent), "aria-label": `${percent} %` });
  const status = element("span", { class: `badge is-${course.status}` }, words[`s.${course.status}`]);
  const link = element("a", { href: `/coursegen/courses/${course.id}` }, course.title);
  return element("li", { class: "panel card" }, element("div", { class: "head" }, link, status), bar);
}

async function load() {
  const courses = await (await call("GET", "/courses")).json();
  list.replaceChildren(...courses.map(card));
  document.getElementById("none").hidden = courses.length > 0;
}

// One source after the other: its title, perhaps a link, and its text; a line with --- between two of them.
function sources(text) {
  return text.split(/^---+\s*$/m).map((each) => each.trim()).filter(Boolean).map((each) => {
    const [title, ...rest] = each.split("\n");
    const url = /^https?:\/\/\S+$/.test((rest[0] ?? "").trim()) ? rest.shift().trim() : null;
    return { title: title.trim().slice(0, 200), url, text: rest.join("\n").trim() || title.trim() };
  });
}

document.getElementById("new").addEventListener("submit", (event) => {
  event.preventDefault();
  const form = new FormData(event.target);
  attempt(event.submitter, async () => {
    const course = await (await call("POST", "/courses", {
      title: form.get("title"), brief: form.get("brief"), language: form.get("language"), lessons: Number(form.get("lessons")),
      sources: sources(form.get("sources")), pictures: form.get("pictures") === "on",
    })).json();
    const page = `/coursegen/courses/${course.id}`;
    try {
      await call("POST", "/generate", { courseId: course.id });
    } catch (error) {
      sessionStorage.setItem("coursegen.message", error.message);
    }
    location.assign(page);
  });
});

setInterval(() => { if (token() && !document.hidden) load().catch(() => say(words.offline, true)); }, 5000);
if (token()) load().catch((error) => say(error.status === 401 || error.status === 403 ? words.sign_in : error.message, true));
else {
  // Without the link of an application, nothing can be created.
  document.getElementById("new").closest("section").hidden = true;
  say(words.sign_in, true);
}
