// Work that is graded: a quiz with questions, and an assignment that is handed in with a text and files.

import { act, call, element, Refused, t } from "./shared.js";

export function quiz(found, path, message) {
  const form = element("form");
  const details = element("details", {}, element("summary", {}, t("Answer the questions")), form);
  details.addEventListener("toggle", () => { if (details.open && !form.children.length) act(details, message, () => fill(form, path)); });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    form.dataset.key ||= crypto.randomUUID?.() ?? String(Math.random()).slice(2);
    act(form.querySelector("button"), message, async () => {
      const answers = {};
      for (const box of form.querySelectorAll("input:checked")) (answers[box.name] ??= []).push(Number(box.value));
      const { percent, passed, wrong } = await call(`${path}/answers`, { answers, key: form.dataset.key });
      delete form.dataset.key;
      for (const set of form.querySelectorAll("fieldset")) set.classList.toggle("wrong", wrong.includes(set.dataset.id));
      form.querySelector("[role=status]").textContent = passed ? t("{percent} %: passed.", { percent }) : t("{percent} %: look at the marked questions and try again.", { percent });
    });
  });
  return details;
}

async function fill(form, path) {
  const { questions } = await call(`${path}/questions`);
  const sets = questions.map(({ id, question, options, several }) => element("fieldset", { "data-id": id }, element("legend", {}, question),
    ...options.map((option, number) => element("label", { class: "option" }, element("input", { type: several ? "checkbox" : "radio", name: id, value: number }), ` ${option}`))));
  form.replaceChildren(...sets, element("p", { role: "status", class: "small" }), element("button", { type: "submit" }, t("Check the answers")));
}

export function handIn(found, path, message) {
  const text = element("textarea", { rows: 4, maxlength: 20000, "aria-label": t("Your work") });
  const files = element("ul", { class: "plain" });
  const choose = element("input", { type: "file", multiple: "", "aria-label": t("Files") });
  const button = element("button", { type: "submit" }, t("Hand in"));
  const form = element("form", {}, text, files, element("label", {}, t("Files"), " ", choose), button);
  const details = element("details", {}, element("summary", {}, t("Hand in your work")), form);
  const list = async () => {
    const work = await call(`${path}/submission`);
    if (!text.value) text.value = work.text ?? "";
    files.replaceChildren(...work.files.map((each) => {
      const remove = element("button", { type: "button", class: "small" }, t("Remove"));
      remove.addEventListener("click", () => act(remove, message, async () => { await call(`${path}/files/${each.id}`, undefined, { method: "DELETE" }); await list(); }));
      return element("li", {}, element("a", { href: `${path}/files/${each.id}` }, each.name), " ", remove);
    }));
  };
  details.addEventListener("toggle", () => { if (details.open) act(button, message, list); });
  choose.addEventListener("change", () => act(choose, message, async () => {
    for (const file of choose.files) await upload(path, file);
    choose.value = "";
    await list();
  }));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    act(button, message, async () => { await call(`${path}/submission`, { text: text.value }, { method: "PUT" }); });
  });
  return details;
}

async function upload(path, file) {
  const headers = { "content-type": file.type || "application/octet-stream" };
  const answer = await fetch(`${path}/files?name=${encodeURIComponent(file.name)}`, { method: "POST", body: file, headers, credentials: "same-origin" });
  if (!answer.ok) throw new Refused(answer.status, await answer.json().catch(() => ({})));
}
