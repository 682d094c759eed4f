// The waitlist: join it on the page of an event, leave it on the page of the place in the line.

import { call, Refused, showTimes, t } from "./shared.js";

const main = document.querySelector("main");
const problem = (error) => (error instanceof Refused ? error.message : t("No connection. Try again."));

document.getElementById("leave")?.addEventListener("click", async ({ target }) => {
  if (!confirm(t("Leave the line? Your place goes to the next."))) return;
  target.disabled = true;
  const state = document.getElementById("state");
  try {
    await call(`/waitlist/${main.dataset.entry}/leave`, { token: main.dataset.token });
    state.textContent = t("You have left the line.");
    target.hidden = true;
  } catch (error) {
    state.textContent = problem(error);
    target.disabled = false;
  }
});

document.getElementById("join")?.addEventListener("submit", async (submitted) => {
  submitted.preventDefault();
  const form = submitted.target;
  const { email, name, seats } = Object.fromEntries(new FormData(form));
  const state = document.getElementById("joined");
  try {
    await call(`/api/v1/ticketing/public/events/${main.dataset.event}/waitlist`, { email, name, seats: Number(seats), locale: document.documentElement.lang });
    state.textContent = t("You are in the line. We have sent you an email.");
    state.className = "message good";
    form.hidden = true;
  } catch (error) {
    state.textContent = problem(error);
    state.className = "message bad";
  }
});
if (main.dataset.entry) showTimes();
