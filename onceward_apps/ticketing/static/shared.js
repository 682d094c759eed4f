// What the pages share: money and times as the reader writes them, and calls that say what went wrong.

/** The server says how many decimals its amounts have: browsers disagree about some currencies. */
export function money(cents, currency, digits) {
  const decimals = { minimumFractionDigits: digits, maximumFractionDigits: digits };
  return new Intl.NumberFormat(undefined, { style: "currency", currency, ...decimals }).format(cents / 10 ** digits);
}

export function showTimes() {
  for (const time of document.querySelectorAll("time[datetime]")) {
    const options = { dateStyle: "full", timeStyle: "short", timeZone: time.dataset.zone || undefined };
    time.textContent = new Intl.DateTimeFormat(undefined, options).format(new Date(time.dateTime));
  }
}

/** Amounts that the server has written, as the reader writes them. */
export function showMoney() {
  for (const table of document.querySelectorAll("[data-currency]")) {
    for (const amount of table.querySelectorAll("[data-cents]")) amount.textContent = money(Number(amount.dataset.cents), table.dataset.currency, Number(table.dataset.digits));
  }
}

export class Refused extends Error {
  constructor(status, problem) {
    super(problem.detail || "That did not work.");
    this.status = status;
    this.problem = problem;
  }
}

/** Call our API with JSON; throws Refused with the server's words, or a TypeError where there is no network. */
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
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) if (value !== null && value !== undefined) made.setAttribute(key, value);
  made.append(...children);
  return made;
}
