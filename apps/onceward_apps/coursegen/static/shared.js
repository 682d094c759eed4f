// Shared by the pages: the user's token, API calls with readable errors, elements, and Markdown without HTML.

export const words = JSON.parse(document.getElementById("words").textContent);
const KEY = "coursegen.token";

/** The link of the application carries the token after `#token=`, which browsers never send to a server. */
export function token() {
  const found = new URLSearchParams(location.hash.slice(1)).get("token");
  if (found) {
    sessionStorage.setItem(KEY, found);
    history.replaceState(null, "", location.pathname + location.search);
  }
  return sessionStorage.getItem(KEY);
}

export class Refused extends Error {
  constructor(status, problem) {
    super(problem.error || problem.detail || words.failed);
    this.status = status;
  }
}

export async function call(method, path, body) {
  const headers = { authorization: `Bearer ${token() ?? ""}`, "accept-language": document.documentElement.lang };
  if (body !== undefined) headers["content-type"] = "application/json";
  const response = await fetch(`/api/coursegen${path}`, { method, headers, body: body === undefined ? undefined : JSON.stringify(body) });
  if (!response.ok) throw new Refused(response.status, await response.json().catch(() => ({})));
  return response;
}

export function element(name, attributes = {}, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) if (value !== null && value !== undefined) node.setAttribute(key, value);
  node.append(...children);
  return node;
}

export function dollars(micros) {
  const digits = micros > 0 && micros < 100_000 ? 4 : 2;
  return new Intl.NumberFormat(document.documentElement.lang, { style: "currency", currency: "USD", minimumFractionDigits: digits, maximumFractionDigits: digits }).format(micros / 1e6);
}

export function say(text, bad = false) {
  const message = document.getElementById("message");
  message.textContent = text;
  message.classList.toggle("bad", bad);
}

export async function attempt(button, action) {
  button.disabled = true;
  say("");
  try {
    await action();
  } catch (error) {
    say(error instanceof Refused ? error.message : words.failed, true);
  }
  button.disabled = false;
}

const INLINE = /(`[^`\n]+`)|\*\*([^*\n]+)\*\*|\*([^*\n]+)\*|\[([^\]\n]+)\]\((https?:\/\/[^)\s]+|mailto:[^)\s]+)\)/g;

function inline(text) {
  const parts = [];
  let from = 0;
  for (const found of text.matchAll(INLINE)) {
    parts.push(plain(text.slice(from, found.index)));
    const [, code, strong, light, label, url] = found;
    if (code) parts.push(element("code", {}, code.slice(1, -1)));
    else if (strong) parts.push(element("strong", {}, plain(strong)));
    else if (light) parts.push(element("em", {}, plain(light)));
    else parts.push(element("a", { href: url, rel: "noopener noreferrer nofollow", target: "_blank" }, plain(label)));
    from = found.index + found[0].length;
  }
  return [...parts, plain(text.slice(from))];
}

/** The server stores `<` of a tag as `&lt;`; here it is a text again, never a tag. */
const plain = (text) => text.replaceAll("&lt;", "<");

/** Markdown as elements. Text is only ever set as text, so nothing in it can become a tag or a script. */
export function markdown(text) {
  const nodes = [];
  const lines = text.split("\n");
  let list = null;
  let paragraph = [];
  const flush = () => {
    if (paragraph.length) nodes.push(element("p", {}, ...inline(paragraph.join(" "))));
    paragraph = [];
  };
  for (let n = 0; n < lines.length; n += 1) {
    const line = lines[n];
    const heading = /^(#{1,6})\s+(.*)$/.exec(line);
    const item = /^\s*(?:[-*+]|(\d+)[.)])\s+(.*)$/.exec(line);
    const fence = /^\s{0,3}(```+|~~~+)/.exec(line);
    if (!item) list = null;
    if (fence) {
      flush();
      const code = [];
      for (n += 1; n < lines.length && !lines[n].trim().startsWith(fence[1]); n += 1) code.push(lines[n]);
      nodes.push(element("pre", { tabindex: "0" }, element("code", {}, code.join("\n"))));
    } else if (heading) {
      flush();
      nodes.push(element(`h${Math.min(6, heading[1].length + 2)}`, {}, ...inline(heading[2])));
    } else if (item) {
      flush();
      if (!list) nodes.push((list = element(item[1] ? "ol" : "ul", {})));
      list.append(element("li", {}, ...inline(item[2])));
    } else if (line.startsWith(">")) {
      flush();
      nodes.push(element("blockquote", {}, ...inline(line.replace(/^>\s?/, ""))));
    } else if (line.trim()) {
      paragraph.push(line.trim());
    } else {
      flush();
    }
  }
  flush();
  return nodes;
}
