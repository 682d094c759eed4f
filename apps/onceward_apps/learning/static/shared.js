// Shared by the pages: money and times in the reader's locale, API calls with readable errors, DOM nodes without HTML text.

import { PT, PT_ERRORS } from "./texts.js";

const LANGUAGE = document.documentElement.lang;

// A click before the scripts have loaded would do nothing.
for (const button of document.querySelectorAll("button[data-starts]")) button.disabled = false;

/** Return a text in the language of the page. `{name}` is replaced by a value. */
export function t(text, values = {}) {
  const words = (LANGUAGE === "pt" && PT[text]) || text;
  return words.replace(/\{(\w+)\}/g, (all, name) => values[name] ?? all);
}

export function money(amount, currency) {
  const format = new Intl.NumberFormat(LANGUAGE === "pt" ? "pt" : undefined, { style: "currency", currency });
  return format.format(amount / 10 ** format.resolvedOptions().maximumFractionDigits);
}

export function moment(text, options = { dateStyle: "medium", timeStyle: "short" }) {
  return new Intl.DateTimeFormat(LANGUAGE === "pt" ? "pt" : undefined, options).format(new Date(text));
}

export function showTimes(root = document) {
  for (const time of root.querySelectorAll("time[datetime]")) time.textContent = moment(time.dateTime);
}

export class Refused extends Error {
  constructor(status, problem) {
    super((LANGUAGE === "pt" && PT_ERRORS[problem.code]) || problem.detail || t("The request failed. Try again."));
    this.status = status;
    this.problem = problem;
  }
}

/** Call our API with JSON. Throw Refused with the server's message, or a TypeError without a network. */
export async function call(path, body, { method, headers = {} } = {}) {
  const options = body === undefined ? { method: method ?? "GET", headers } : {
    method: method ?? "POST", headers: { "content-type": "application/json", ...headers }, body: JSON.stringify(body),
  };
  const response = await fetch(path, { credentials: "same-origin", ...options });
  const text = await response.text();
  const value = text ? JSON.parse(text) : null;
  if (!response.ok) throw new Refused(response.status, value || {});
  return value;
}

/** Create a node. Children are text or nodes, so nothing that a person wrote becomes HTML. */
export function element(name, attributes = {}, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) if (value !== null && value !== undefined && value !== false) node.setAttribute(key, value);
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

/** Run something that a person asked for, and show what went wrong. */
export async function act(button, message, doing) {
  button.disabled = true;
  message.className = "message";
  try {
    await doing();
  } catch (error) {
    message.textContent = error instanceof Refused ? error.message : t("No connection. Try again.");
    message.className = "message bad";
  }
  button.disabled = false;
}

export function showConnection(live, node) {
  setInterval(() => { node.hidden = live.state === "open" || performance.now() < 3000; }, 1000);
}

/** Links of content come from operators; anything but http(s) is not made a link. */
export function safeLink(url, text) {
  return /^https?:\/\//.test(url ?? "") ? element("a", { href: url, rel: "noopener noreferrer" }, text) : null;
}

/** Go to an address that the API gave. A page of ours stays at the domain at which the person is. */
export function visit(url) {
  const { pathname, search } = new URL(url, location.href);
  location.assign(pathname.startsWith("/learn/") ? pathname + search : url);
}
