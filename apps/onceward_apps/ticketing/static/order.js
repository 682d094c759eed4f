// The order page: waits for the payment, then shows the tickets, then their QR codes.

import { LiveClient } from "/live/client.js";
import { call, element, Refused, showMoney, showTimes, t } from "./shared.js";

const main = document.querySelector("main");
const { checkout, token, event, wallets } = main.dataset;
const WALLETS = { apple: t("Add to Apple Wallet"), google: t("Add to Google Wallet") };
const state = document.getElementById("state");
const POLL_MS = 2000;
const POLL_FOR_MS = 300_000;
const WORDS = {
  started: [t("Waiting for the payment to be confirmed. This page updates automatically."), ""],
  failed: [t("The payment was declined and you were not charged. You can try again."), "bad"],
  expired: [t("The time to pay is over. If you have paid, you will get an email with your tickets or about your refund."), "bad"],
  abandoned: [t("You cancelled this order."), "bad"],
  completed: [t("Order confirmed. Here are your tickets."), "good"],
  refunded: [t("This order was refunded."), "bad"],
  cancelled: [t("This event is cancelled. Your payment is refunded to the card or account that you paid with."), "bad"],
};

function show(order) {
  const [words, kind] = WORDS[order.event_cancelled ? "cancelled" : order.status] ?? ["", ""];
  state.textContent = words;
  state.className = `message ${kind}`;
  document.getElementById("paid").hidden = order.status !== "completed";
  document.getElementById("open").hidden = order.event_cancelled || !["started", "failed"].includes(order.status);
  document.getElementById("tickets").replaceChildren(...order.tickets.map(ticket));
}

function ticket(found) {
  const image = ["void", "transferred"].includes(found.status) ? element("span", { class: "wait" }, t(found.status))
    : found.qr_code_url ? element("img", { src: `${found.qr_code_url}?access=${encodeURIComponent(token)}`, alt: t("QR code of ticket {}", found.ticket_code) })
    : element("span", { class: "wait" }, t("QR code is being made…"));
  const words = { active: t("Valid"), scanned: t("Used"), void: t("No longer valid"), transferred: t("Transferred to somebody else") }[found.status];
  const text = element("div", {}, element("strong", {}, found.place), element("div", { class: "code" }, found.ticket_code), element("div", {}, words));
  if (["active", "scanned"].includes(found.status)) {
    for (const kind of wallets.split(" ").filter(Boolean)) {
      const href = `/orders/${checkout}/tickets/${found.id}/wallet/${kind}?access=${encodeURIComponent(token)}`;
      text.append(element("div", {}, element("a", { href }, WALLETS[kind])));
    }
  }
  if (found.status === "active" && main.dataset.resale && found.is_for_everybody) {
    const button = element("button", { type: "button", class: "plain" }, t("Give back for the waitlist"));
    button.addEventListener("click", () => {
      if (!confirm(t("Give this ticket back and get its price refunded? It goes to the next in the line."))) return;
      act(button, `/orders/${checkout}/tickets/${found.id}/resell`, { token }, () => { state.textContent = t("The ticket goes to the next in the line, and your money is on its way."); });
    });
    text.append(element("div", {}, button));
  }
  return element("li", { "data-status": found.status, "data-ticket": found.id }, image, text);
}

// Without a live connection, poll every two seconds for five minutes, then tell the buyer what to do.
function poll(until = performance.now() + POLL_FOR_MS) {
  if (live.state === "open") return;
  call(`/api/tickets?checkout_id=${checkout}&token=${encodeURIComponent(token)}`)
    .then((tickets) => show({ status: "completed", tickets }))
    .catch((error) => {
      if (performance.now() > until) state.textContent = t("This takes longer than usual. Check your email: we send the tickets there too.");
      else if (!(error instanceof Refused) || error.status === 404) setTimeout(poll, POLL_MS, until);
    });
}

async function act(button, path, body, done) {
  button.disabled = true;
  try {
    done(await call(path, body));
  } catch (error) {
    state.textContent = error instanceof Refused ? error.message : t("No connection. Try again.");
    state.className = "message bad";
  }
  button.disabled = false;
}

showTimes();
showMoney();
const live = new LiveClient("/live");
live.subscribe("ticketing.order", { checkout_id: checkout, token }, ({ data }) => { if (data) show(data); });
setTimeout(poll, POLL_MS);
document.getElementById("resend").addEventListener("click", (clicked) =>
  act(clicked.target, `/orders/${checkout}/resend`, { token }, () => { state.textContent = t("The email is on its way."); }));
document.getElementById("billing")?.addEventListener("submit", (submitted) => {
  submitted.preventDefault();
  const form = submitted.target;
  act(form.querySelector("button"), `/orders/${checkout}/billing`, { token, ...Object.fromEntries(new FormData(form)) }, () => {
    state.textContent = t("The company will be on the invoice. Open this page again in a minute to get it.");
  });
});
document.getElementById("takeback")?.addEventListener("click", (clicked) => {
  if (!confirm(t("Cancel your tickets and get your money back? This cannot be undone."))) return;
  act(clicked.currentTarget, `/orders/${checkout}/refund`, { token }, () => { state.textContent = t("Your tickets are cancelled, and your money is on its way."); });
});
for (const button of document.querySelectorAll("[data-pay]")) {
  button.addEventListener("click", () =>
    act(button, `/api/v1/ticketing/public/checkouts/${checkout}/pay`, { token, provider: button.dataset.pay }, (found) => location.assign(found.url)));
}
document.getElementById("giveup").addEventListener("click", (clicked) =>
  act(clicked.target, `/api/v1/ticketing/public/checkouts/${checkout}/abandon`, { token }, () => location.assign(`/events/${event}`)));
