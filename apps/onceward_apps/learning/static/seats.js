// The seats of a company: take one.

import { act, call, showTimes, visit } from "./shared.js";

showTimes();
const { token } = document.querySelector("main").dataset;
const form = document.getElementById("take");
form?.addEventListener("submit", (event) => {
  event.preventDefault();
  act(form.querySelector("button"), document.getElementById("message"), async () => {
    const body = { email: form.email.value, name: form.elements.name.value, locale: navigator.language };
    const { url } = await call(`/api/v1/learning/public/seats/${token}`, body);
    visit(url);
  });
});
