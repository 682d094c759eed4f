// The client for live queries, topics and presence. Everything on the page shares one connection.
//
// Results survive a lost connection: when the client reconnects, it sends the hash of each result and the version of each
// topic, and the server sends only what has changed.

const FIRST_DELAY_MS = 250;
const LONGEST_DELAY_MS = 30_000;
const UNKNOWN_CREDENTIALS = 4401;
const REFUSED = new Set([4400, 4403]);
const CONNECT_WITHIN_MS = 30_000;
const ERROR_TO_CLOSE_MS = 250;
const NOTHING = Object.freeze({ data: undefined, error: null, loading: true, stale: false });

/** An error that the server reported. `code` is, for example, `refused` or `not_watched`. */
export class LiveError extends Error {
  constructor({ code, message }) {
    super(message);
    this.name = "LiveError";
    this.code = code;
  }
}

/** Return JSON with sorted keys, so that equal arguments give equal text. */
export function canonical(value) {
  return JSON.stringify(value, (_, inner) =>
    inner && typeof inner === "object" && !Array.isArray(inner)
      ? Object.fromEntries(Object.entries(inner).sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0)))
      : inner,
  );
}

/** Return the delay before the nth attempt. The limit doubles; the jitter keeps clients from reconnecting together. */
export function reconnectDelay(attempt, random = Math.random) {
  const limit = Math.min(LONGEST_DELAY_MS, FIRST_DELAY_MS * 2 ** Math.min(attempt, 16));
  return limit / 4 + random() * limit * 0.75;
}

/** Return a result with the changes of a frame applied. Parts that did not change are the same objects as before. */
export function applyChanges(data, changes) {
  for (const [path, ...change] of changes) data = changed(data, path, change);
  return data;
}

function changed(value, [key, ...rest], change) {
  if (key === undefined) {
    if (change.length === 1) return change[0];
    const [at, text] = change;
    return value.slice(0, at) + text + value.slice(at + text.length);
  }
  const copy = Array.isArray(value) ? [...value] : { ...value };
  if (!rest.length && !change.length) delete copy[key];
  else copy[key] = changed(value[key], rest, change);
  return copy;
}

class LiveQuery {
  constructor(client, id, name, args) {
    this.client = client;
    this.id = id;
    this.name = name;
    this.args = args;
    this.hash = null;
    this.state = NOTHING;
    this.listeners = new Set();
  }

  hello() {
    return { type: "subscribe", id: this.id, query: this.name, arguments: this.args, hash: this.hash };
  }

  take(result) {
    if (result.error) {
      this.change({ ...this.state, error: new LiveError(result.error), loading: false });
    } else if (result.same) {
      this.change({ ...this.state, error: null, loading: false, stale: false });
    } else if (result.changes && result.from !== this.hash) {
      this.hash = null; // these are changes of another result: ask for the whole one
      this.client._send({ type: "drop", id: this.id });
      this.client._send(this.hello());
    } else {
      const data = result.changes ? applyChanges(this.state.data, result.changes) : result.data;
      this.hash = result.hash;
      this.change({ data, error: null, loading: false, stale: false });
    }
  }

  disconnected() {
    if (!this.state.loading && !this.state.stale) this.change({ ...this.state, stale: true });
  }

  change(state) {
    this.state = Object.freeze(state);
    for (const listener of [...this.listeners]) listener(this.state);
  }
}

class LiveTopic {
  constructor(id, topic, last, listener) {
    this.id = id;
    this.topic = topic;
    this.last = last;
    this.since = null;
    this.listener = listener;
  }

  hello() {
    return { type: "follow", id: this.id, topic: this.topic, since: this.since, last: this.last };
  }

  take(part) {
    this.since = part.version;
    for (const message of part.messages) this.listener(message.data, { id: message.id, at: message.at });
    if (part.reset) this.listener(undefined, { reset: true });
  }

  disconnected() {}
}

/** One connection to a server. The first subscription opens it, and the client reopens it whenever it is lost. */
export class LiveClient {
  constructor(url = "/live", options = {}) {
    this.url = new URL(url, globalThis.location?.href ?? "http://localhost").href;
    this.options = options;
    this._WebSocket = options.WebSocket ?? globalThis.WebSocket;
    this.state = "idle";
    this.version = "";
    this._interests = new Map();
    this._queries = new Map();
    this._waits = new Map();
    this._places = new Map();
    this._listeners = new Set();
    this._nextId = 1;
    this._attempt = 0;
    this._failedSockets = 0;
    this._connection = null;
    this._timer = null;
    this._watchdog = null;
    this._pingMs = 60_000;
    this._onOnline = () => this._reconnectNow();
    globalThis.addEventListener?.("online", this._onOnline);
  }

  /** Subscribe to a query. Calls `listener` with `{data, error, loading, stale}` now and at each change. */
  subscribe(name, args, listener) {
    const query = this._query(name, args ?? {});
    query.listeners.add(listener);
    listener(query.state);
    return () => this._release(query, listener);
  }

  /** Return the current state of a query without subscribing. */
  peek(name, args) {
    return this._queries.get(`${name} ${canonical(args ?? {})}`)?.state ?? NOTHING;
  }

  /** Return the current result of a query, once. */
  fetch(name, args) {
    return new Promise((resolve, reject) => {
      let stop = null;
      const listener = (state) => {
        if (state.loading) return;
        queueMicrotask(() => stop?.());
        if (state.error) reject(state.error);
        else resolve(state.data);
      };
      stop = this.subscribe(name, args, listener);
    });
  }

  /** Follow a topic. Calls `listener(data, {id, at})` for each message, `(undefined, {reset: true})` after lost messages. */
  follow(topic, listener, { last = null } = {}) {
    const interest = new LiveTopic(this._nextId++, topic, last, listener);
    this._interests.set(interest.id, interest);
    this._send(interest.hello());
    return () => {
      if (this._interests.delete(interest.id)) this._send({ type: "drop", id: interest.id });
    };
  }

  /** Resolve when all results include the write that returned this version (in `Onceward-Version`, or in its body). */
  waitFor(version) {
    const id = this._nextId++;
    return new Promise((resolve, reject) => {
      this._waits.set(id, { version: String(version), resolve, reject });
      this._send({ type: "wait", id, version: String(version) });
    });
  }

  /** Set the user `online` or `away` in a place, until the status `offline` is set or the page closes. */
  present(place, status = "online") {
    if (status === "offline") this._places.delete(place);
    else this._places.set(place, status);
    this._send({ type: "presence", place, status });
    return () => this.present(place, "offline");
  }

  /** Call `listener(state)` when the connection becomes `connecting`, `open`, `waiting` or `closed`. */
  onState(listener) {
    this._listeners.add(listener);
    return () => this._listeners.delete(listener);
  }

  /** Close the client. It cannot be opened again. */
  close() {
    globalThis.removeEventListener?.("online", this._onOnline);
    clearTimeout(this._timer);
    clearTimeout(this._watchdog);
    this._connection?.close();
    this._connection = null;
    for (const wait of this._waits.values()) wait.reject(new Error("the live client was closed"));
    this._waits.clear();
    this._become("closed");
  }

  // -- subscriptions

  _query(name, args) {
    const key = `${name} ${canonical(args)}`;
    let query = this._queries.get(key);
    if (!query) {
      query = new LiveQuery(this, this._nextId++, name, args);
      query.key = key;
      this._queries.set(key, query);
      this._interests.set(query.id, query);
      this._send(query.hello());
    }
    clearTimeout(query.leaving);
    return query;
  }

  _release(query, listener) {
    query.listeners.delete(listener);
    if (query.listeners.size) return;
    // A component that renders again unsubscribes and subscribes at once, so the subscription is kept for a moment.
    clearTimeout(query.leaving);
    query.leaving = setTimeout(() => {
      if (query.listeners.size || !this._interests.delete(query.id)) return;
      this._queries.delete(query.key);
      this._send({ type: "drop", id: query.id });
    }, 50);
  }

  // -- the connection

  _send(message) {
    if (this.state === "closed") return;
    if (this.state === "open") this._connection.send(message);
    else if (this.state === "idle") this._connect();
  }

  _everything() {
    const messages = [...this._interests.values()].map((interest) => interest.hello());
    for (const [place, status] of this._places) messages.push({ type: "presence", place, status });
    for (const [id, { version }] of this._waits) messages.push({ type: "wait", id, version });
    return messages;
  }

  async _connect() {
    if (this.state === "connecting" || this.state === "open" || this.state === "closed") return;
    clearTimeout(this._timer);
    this._become("connecting");
    let token = null;
    try {
      token = typeof this.options.token === "function" ? await this.options.token() : (this.options.token ?? null);
    } catch {
      return this._lost(0);
    }
    if (this.state !== "connecting") return;
    const organization = this.options.organization ?? null;
    const hello = { type: "hello", token, organization, version: this.version || null };
    const Transport = this._useEvents() ? EventStream : Socket;
    this._watchdog = setTimeout(() => this._lost(0), CONNECT_WITHIN_MS);
    try {
      this._connection = new Transport(this, hello);
    } catch {
      this._lost(0); // WebSocket rejects the address, or a policy of the page forbids it
    }
  }

  _useEvents() {
    if (this.options.transport) return this.options.transport === "sse";
    return !this._WebSocket || this._failedSockets >= 2;
  }

  _opened(connection, welcome) {
    if (connection !== this._connection) return;
    this._attempt = 0;
    this._failedSockets = 0;
    this._pingMs = welcome.ping_s * 1000;
    this._become("open");
    if (connection.needsAll) for (const message of this._everything()) connection.send(message);
  }

  _lost(code, opened = false) {
    this._connection?.close();
    this._connection = null;
    clearTimeout(this._watchdog);
    if (this.state === "closed") return;
    if (REFUSED.has(code)) {
      for (const interest of this._queries.values()) {
        interest.take({ error: { code: "refused", message: "the server refused the connection" } });
      }
    }
    if (!opened && code !== UNKNOWN_CREDENTIALS) this._failedSockets += 1;
    for (const interest of this._interests.values()) interest.disconnected();
    this._become("waiting");
    this._timer = setTimeout(() => this._connect(), reconnectDelay(this._attempt++));
  }

  _reconnectNow() {
    if (this.state === "waiting") {
      this._attempt = 0;
      this._connect();
    }
  }

  _alive() {
    clearTimeout(this._watchdog);
    this._watchdog = setTimeout(() => this._lost(0, true), this._pingMs * 2 + 5_000);
  }

  _take(connection, message) {
    if (connection !== this._connection) return;
    this._alive();
    switch (message.type) {
      case "batch":
        for (const each of message.messages) this._take(connection, each);
        break;
      case "welcome":
        this._opened(connection, message);
        break;
      case "frame":
        this._takeFrame(message);
        break;
      case "ping":
        connection.send({ type: "pong" });
        break;
      case "error":
        this._takeError(message);
        break;
    }
  }

  _takeFrame(frame) {
    this.version = frame.to;
    for (const result of frame.results ?? []) this._interests.get(result.id)?.take(result);
    for (const part of frame.topics ?? []) this._interests.get(part.id)?.take(part);
    for (const id of frame.reached ?? []) {
      this._waits.get(id)?.resolve();
      this._waits.delete(id);
    }
  }

  _takeError({ id, code, message }) {
    const interest = this._interests.get(id);
    const wait = this._waits.get(id);
    if (interest instanceof LiveQuery) interest.take({ error: { code, message } });
    else if (interest) interest.listener(undefined, { error: new LiveError({ code, message }) });
    else if (wait) {
      wait.reject(new LiveError({ code, message }));
      this._waits.delete(id);
    } else this.options.onError?.(new LiveError({ code, message }));
  }

  _become(state) {
    if (this.state === state || this.state === "closed") return;
    this.state = state;
    for (const listener of [...this._listeners]) listener(state);
  }
}

/** The default transport: a WebSocket. */
class Socket {
  needsAll = true;

  constructor(client, hello) {
    this.socket = new client._WebSocket(client.url.replace(/^http/, "ws"));
    let opened = false;
    const lost = (code) => {
      if (client._connection === this) client._lost(code, opened);
    };
    this.socket.onopen = () => this.send(hello);
    this.socket.onmessage = (event) => {
      opened = true;
      client._take(this, JSON.parse(event.data));
    };
    this.socket.onclose = (event) => lost(event.code);
    // After a refused connection, browsers fire `close` after `error`, some versions of Node fire only `error`, and the
    // package ws ends the process if nothing handles `error`. The delay lets a `close` event with its code come first.
    this.socket.onerror = () => setTimeout(lost, ERROR_TO_CLOSE_MS, 0);
  }

  send(message) {
    if (this.socket.readyState === 1) this.socket.send(JSON.stringify(message));
  }

  close() {
    this.socket.onclose = null;
    // A handler must stay: closing a socket that is still connecting fires `error`.
    this.socket.onerror = () => {};
    this.socket.close();
  }
}

/** The fallback if WebSockets are blocked: an event stream, opened again whenever the subscriptions change. */
class EventStream {
  needsAll = false;

  constructor(client, hello) {
    this.client = client;
    this.hello = hello;
    this.changed = false;
    this.opened = false;
    this.open();
  }

  async open() {
    this.abort = new AbortController();
    const own = this.abort;
    this.changed = false;
    let status = 0;
    try {
      const response = await fetch(`${this.client.url.replace(/^ws/, "http").replace(/\/$/, "")}/sse`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        credentials: "include",
        signal: own.signal,
        body: JSON.stringify({ messages: [this.hello, ...this.client._everything()] }),
      });
      status = response.status;
      if (response.ok) await this.read(response.body.getReader());
    } catch {
      // An aborted stream and a broken one are handled in the same way below.
    }
    if (this.client._connection === this && own === this.abort) {
      this.client._lost(status === 401 ? UNKNOWN_CREDENTIALS : status === 403 ? 4403 : 0, this.opened);
    }
  }

  async read(reader) {
    const decoder = new TextDecoder();
    let rest = "";
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      const events = (rest + decoder.decode(value, { stream: true })).split("\n\n");
      rest = events.pop();
      for (const event of events) {
        if (!event.startsWith("data: ")) continue;
        this.opened = true;
        this.client._take(this, JSON.parse(event.slice(6)));
      }
    }
  }

  send(message) {
    if (message.type === "pong" || this.changed) return;
    this.changed = true;
    setTimeout(() => {
      if (this.client._connection !== this) return;
      this.abort.abort();
      this.hello = { ...this.hello, version: this.client.version || null };
      this.open();
    }, 0);
  }

  close() {
    this.abort.abort();
  }
}
