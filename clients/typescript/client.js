// Client for the HTTP API of an Onceward server. It runs wherever `fetch` and `crypto` exist.
import { OPERATIONS } from "./operations.js";

const RETRIED = new Set([429, 502, 503, 504]);
const FIRST_PAUSE_MS = 200;
const LONGEST_PAUSE_MS = 10_000;

/** An error that the server answered. `type`, `detail` and `errors` are those of its problem+json. */
export class OncewardError extends Error {
  constructor(status, problem, operation) {
    const fields = (problem.errors ?? []).map((each) => `${each.field}: ${each.reason}`).join("; ");
    super(`${operation}: ${status} ${fields || problem.detail || problem.title || "without a reason"}`);
    this.name = "OncewardError";
    this.status = status;
    this.type = problem.type ?? "about:blank";
    this.detail = problem.detail ?? "";
    this.errors = problem.errors ?? [];
    this.requestId = problem.request_id;
  }
}

/** No answer arrived: every attempt failed before one, or took too long. */
export class ConnectionFailed extends Error {
  constructor(operation, cause) {
    super(`${operation}: no answer: ${cause?.message ?? cause}`, { cause });
    this.name = "ConnectionFailed";
  }
}

export class OncewardClient {
  #url;
  #key;
  #organization;
  #fetch;
  #timeoutMs;
  #retries;

  constructor({ url, key, organization, timeoutMs = 30_000, retries = 4, fetch = globalThis.fetch } = {}) {
    if (!url) throw new TypeError("url is missing: pass the address of the server, such as https://onceward.example");
    if (typeof fetch !== "function") throw new TypeError("fetch is missing: use Node 18 or newer, or pass one");
    this.#url = String(url).replace(/\/+$/, "");
    this.#key = key;
    this.#organization = organization;
    this.#timeoutMs = timeoutMs;
    this.#retries = retries;
    this.#fetch = fetch;
    for (const name of Object.keys(OPERATIONS)) this.#add(name);
  }

  /** Call an operation by its id: `call("events.list", { limit: 10 })`. */
  async call(operation, args = {}, options = {}) {
    const response = await this.#respond(operation, args, options);
    return this.#read(response);
  }

  /** Yield the entries of a list, page after page. */
  async *paginate(operation, args = {}, options = {}) {
    let response = await this.#respond(operation, args, options);
    for (;;) {
      yield* await this.#read(response);
      const next = /<([^>]+)>;\s*rel="next"/.exec(response.headers.get("link") ?? "");
      if (next === null) return;
      const url = new URL(next[1], `${this.#url}/`);
      if (url.origin !== new URL(this.#url).origin) throw new Error(`${operation}: the next page is on another server`);
      response = await this.#send(operation, "GET", this.#under(url), undefined, options);
    }
  }

  #add(name) {
    let target = this;
    const words = name.split(".");
    const last = words.pop();
    for (const word of words) target = target[word] ??= {};
    // An operation may have others below it: `queues.get` and `queues.get.x` do not exist, `tasks` and `tasks.list` do.
    target[last] = Object.assign((args, options) => this.call(name, args, options), target[last]);
  }

  #under(url) {
    // A server below a path sends links without it.
    const base = new URL(this.#url).pathname.replace(/\/+$/, "");
    const path = base && !url.pathname.startsWith(`${base}/`) ? base + url.pathname : url.pathname;
    return `${url.origin}${path}${url.search}`;
  }

  async #respond(operation, { body, ...given }, options) {
    const known = OPERATIONS[operation];
    if (known === undefined) throw new TypeError(`there is no operation ${operation}`);
    const [method, path, query] = known;
    const url = this.#url + path.replace(/\{(\w+)\}/g, (_, name) => {
      if (given[name] === undefined || given[name] === null) throw new TypeError(`${operation}: ${name} is missing`);
      const value = encodeURIComponent(String(given[name]));
      delete given[name];
      return value;
    });
    const search = new URLSearchParams();
    for (const [name, value] of Object.entries(given)) {
      if (!query.includes(name)) throw new TypeError(`${operation}: there is no parameter ${name}; it has ${query.join(", ") || "none"}`);
      if (value === undefined || value === null) continue;
      for (const each of Array.isArray(value) ? value : [value]) search.append(name, String(each));
    }
    return this.#send(operation, method, search.size ? `${url}?${search}` : url, body, options);
  }

  async #send(operation, method, url, body, { idempotencyKey, signal, timeoutMs = this.#timeoutMs, retries = this.#retries }) {
    const headers = { accept: "application/json" };
    if (this.#key) headers.authorization = `Bearer ${this.#key}`;
    if (this.#organization) headers["x-organization"] = this.#organization;
    if (body !== undefined) headers["content-type"] = "application/json";
    // One key for all attempts of a POST: the server does what it asks for once.
    // `null`: the request may be repeated without one.
    if (method === "POST" && this.#key && idempotencyKey !== null) headers["idempotency-key"] = idempotencyKey ?? crypto.randomUUID();
    const isSafe = ["GET", "PUT", "DELETE"].includes(method) || headers["idempotency-key"] !== undefined || idempotencyKey === null;
    for (let attempt = 0; ; attempt += 1) {
      let response;
      let failure;
      const limit = AbortSignal.timeout(timeoutMs);
      try {
        response = await this.#fetch(url, {
          method,
          headers,
          body: body === undefined ? undefined : JSON.stringify(body),
          redirect: "error",
          signal: signal ? anyOf(signal, limit) : limit,
        });
      } catch (error) {
        if (signal?.aborted) throw signal.reason;
        failure = error;
      }
      if (response?.ok) return response;
      const problem = response ? await readProblem(response) : undefined;
      const mayRepeat = response ? RETRIED.has(response.status) || problem.type === "key-in-use" : true;
      if (!isSafe || !mayRepeat || attempt >= retries) {
        if (response) throw new OncewardError(response.status, problem, operation);
        throw new ConnectionFailed(operation, failure);
      }
      await pause(pauseMs(attempt, response?.headers.get("retry-after")), signal);
    }
  }

  async #read(response) {
    if (response.status === 204) return undefined;
    const text = await response.text();
    const isJson = (response.headers.get("content-type") ?? "").includes("json");
    return isJson && text !== "" ? JSON.parse(text) : text;
  }
}

async function readProblem(response) {
  try {
    const read = JSON.parse(await response.text());
    return read !== null && typeof read === "object" ? read : {};
  } catch {
    return { title: response.statusText }; // a proxy in between answered
  }
}

function pauseMs(attempt, retryAfter) {
  const asked = Number(retryAfter);
  if (retryAfter && Number.isFinite(asked)) return Math.min(asked * 1000, 60_000);
  return Math.min(FIRST_PAUSE_MS * 2 ** attempt, LONGEST_PAUSE_MS) * (0.5 + Math.random() / 2);
}

function pause(durationMs, signal) {
  return new Promise((resolve, reject) => {
    const stop = () => {
      clearTimeout(timer);
      reject(signal.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", stop);
      resolve();
    }, durationMs);
    signal?.addEventListener("abort", stop, { once: true });
  });
}

function anyOf(...signals) {
  if (AbortSignal.any) return AbortSignal.any(signals);
  const both = new AbortController();
  for (const each of signals) {
    if (each.aborted) both.abort(each.reason);
    each.addEventListener("abort", () => both.abort(each.reason), { once: true });
  }
  return both.signal;
}
