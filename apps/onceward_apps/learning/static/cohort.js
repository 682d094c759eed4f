// A cohort: places left, live; enrol, or join the waitlist.

import { LiveClient } from "/live/client.js";
import { act, call, money, showTimes, t, visit } from "./shared.js";

const main = document.querySelector("main");
const { cohort, invite } = main.dataset;
const message = document.getElementById("message");
const form = document.getElementById("enrol");
const wait = document.getElementById("wait");

showTimes();
const live = new LiveClient("/live");
live.subscribe("learning.enrollment_count", { cohort_id: cohort }, ({ data }) => {
  if (!data) return;
  document.getElementById("meter").value = data.percentFull;
  document.getElementById("places").textContent = t("{free} of {total} places left", { free: data.spotsRemaining, total: data.maxCapacity });
  if (!form || invite) return;
  const isFull = data.spotsRemaining <= 0;
  wait.hidden = !isFull;
  for (const id of ["pay", "instalments"]) if (document.getElementById(id)) document.getElementById(id).hidden = isFull;
});

const person = () => ({ email: form.email.value, name: form.elements.name.value, locale: navigator.language });
const code = () => form.elements.code?.value.trim() ?? "";
document.getElementById("apply")?.addEventListener("click", ({ target }) => {
  if (code()) act(target, message, async () => {
    const found = await call(`/api/v1/learning/public/cohorts/${cohort}/discount?code=${encodeURIComponent(code())}`);
    document.getElementById("price").textContent = money(found.price, found.currency);
    message.textContent = t("The code lowers the price to {amount}.", { amount: money(found.price, found.currency) });
    message.className = "message good";
  });
});
const pay = (button, instalments) => act(button, message, async () => {
  const body = { ...person(), instalments, discount_code: code(), ...(invite ? { invite_token: invite } : {}) };
  const { url } = await call(`/api/v1/learning/public/cohorts/${cohort}/checkout`, body);
  visit(url);
});
form?.addEventListener("submit", (event) => {
  event.preventDefault();
  if (document.getElementById("pay").hidden) wait.click();  // the Enter key
  else pay(document.getElementById("pay"), false);
});
document.getElementById("instalments")?.addEventListener("click", ({ target }) => { if (form.reportValidity()) pay(target, true); });
wait?.addEventListener("click", () => {
  if (!form.reportValidity()) return;
  act(wait, message, async () => {
    await call(`/api/v1/learning/public/cohorts/${cohort}/waitlist`, person());
    message.textContent = t("You are on the waitlist. If we have sent you a mail now, open its link to confirm your address. Another mail comes when a place is free.");
    message.className = "message good";
  });
});
