// Sign in with a link from a mail: ask for one, or use it.

import { act, call, t } from "./shared.js";

const { token } = document.querySelector("main").dataset;
const message = document.getElementById("message");
const ask = document.getElementById("ask");

document.getElementById("go")?.addEventListener("click", (event) =>
  act(event.target, message, async () => {
    const { url, refused } = await call("/api/v1/learning/public/session", { token });
    location.assign(refused ? `/learn/home?refused=${encodeURIComponent(refused)}` : new URL(url).pathname);
  }));
ask?.addEventListener("submit", (event) => {
  event.preventDefault();
  act(ask.querySelector("button"), message, async () => {
    await call("/api/v1/learning/public/sign-in", { email: ask.email.value });
    message.textContent = t("If we know this address, a mail with a link is on its way.");
    message.className = "message good";
  });
});
