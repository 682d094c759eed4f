// Shared by the pages: money and times in the reader's locale, and API calls with readable errors.

const here = document.documentElement.lang || "en";
/** The reader's own form of the page's language: de-AT on a German page. */
export const locale = navigator.language?.startsWith(here) ? navigator.language : here;
const texts = JSON.parse(document.getElementById("texts")?.textContent || "{}");

/** Return a text in the language of the page. Each `{}` stands for the next value. */
export function t(text, ...values) {
  let n = 0;
  return (texts[text] ?? text).replace(/\{\}/g, () => values[n++]);
}

/** The server sends the number of decimals, because browsers disagree about some currencies. */
export function money(cents, currency, digits) {
  const decimals = { minimumFractionDigits: digits, maximumFractionDigits: digits };
  return new Intl.NumberFormat(locale, { style: "currency", currency, ...decimals }).format(cents / 10 ** digits);
}

export function showTimes() {
  for (const time of document.querySelectorAll("time[datetime]")) {
    const options = { dateStyle: "full", timeStyle: "short", timeZone: time.dataset.zone || undefined };
    time.textContent = new Intl.DateTimeFormat(locale, options).format(new Date(time.dateTime));
  }
}

/** Rewrite the amounts of the server-rendered page in the reader's locale. */
export function showMoney() {
  for (const table of document.querySelectorAll("[data-currency]")) {
    for (const amount of table.querySelectorAll("[data-cents]")) amount.textContent = money(Number(amount.dataset.cents), table.dataset.currency, Number(table.dataset.digits));
  }
}

export class Refused extends Error {
  constructor(status, problem) {
    super(problem.detail || t("The request failed. Try again."));
    this.status = status;
    this.problem = problem;
  }
}

/** Call our API with JSON. Throw Refused with the server's message, or a TypeError without a network. */
export async function call(path, body, headers = {}) {
  const options = body === undefined ? { headers } : {
    method: "POST", headers: { "content-type": "application/json", ...headers }, body: JSON.stringify(body),
  };
  const response = await fetch(path, { credentials: "same-origin", ...options });
  const text = await response.text();
  const value = text ? JSON.parse(text) : null;
  if (!response.ok) throw new Refused(response.status, value || {});
  return value;
}

export function element(name, attributes = {}, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) if (value !== null && value !== undefined) node.setAttribute(key, value);
  node.append(...children);
  return node;
}
