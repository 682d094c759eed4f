// A small PostgreSQL client on Node's own modules, so that the worker needs neither npm packages nor psql.
// It speaks protocol version 3 with text values: trust, password, MD5 and SCRAM-SHA-256; TCP, TLS and Unix sockets.
import { createHash, createHmac, pbkdf2Sync, randomBytes, timingSafeEqual } from "node:crypto";
import { connect as connectTcp } from "node:net";
import { connect as connectTls } from "node:tls";

/** Return host, port, user, password, database and sslmode of a URL. A host that begins with / is a folder of sockets. */
export function parseUrl(url) {
  const match = /^postgres(?:ql)?:\/\/(?:([^:@/?]*)(?::([^@/?]*))?@)?(\[[^\]]*\]|[^:/?]*)(?::(\d+))?(?:\/([^?]*))?(?:\?(.*))?$/.exec(url);
  if (match === null) throw new Error("DATABASE_URL must look like postgresql://user:password@host:5432/database");
  const options = new URLSearchParams(match[6] ?? "");
  const text = (value) => (value === undefined ? undefined : decodeURIComponent(value));
  const user = text(match[1]) || options.get("user") || process.env.PGUSER || "postgres";
  return {
    user,
    password: text(match[2]) ?? options.get("password") ?? process.env.PGPASSWORD,
    host: options.get("host") || text(match[3])?.replace(/^\[|\]$/g, "") || "localhost",
    port: Number(match[4] ?? options.get("port") ?? 5432),
    database: text(match[5]) || options.get("dbname") || user,
    sslmode: options.get("sslmode") ?? "prefer",
  };
}

/** An error that PostgreSQL reports; `code` is its SQLSTATE. */
export class DatabaseError extends Error {
  constructor(fields) {
    super(fields.M ?? "unknown error");
    this.code = fields.C;
  }
}

/** The connection broke, or could not be opened: a new one may work. */
export class ConnectionLost extends Error {}

export async function connect(url) {
  const options = parseUrl(url);
  const connection = new Connection(await openSocket(options));
  await connection.start(options);
  return connection;
}

class Connection {
  constructor(socket) {
    this.socket = socket;
    this.received = Buffer.alloc(0);
    this.waiting = null;
    this.closed = null;
    socket.on("data", (chunk) => {
      this.received = Buffer.concat([this.received, chunk]);
      this.wake();
    });
    const end = (error) => {
      this.closed ??= new ConnectionLost(error instanceof Error ? error.message : "the database closed the connection");
      this.wake();
    };
    socket.on("error", end);
    socket.on("close", end);
  }

  /** Run one statement with text parameters and return its rows as objects of text or null. */
  async query(statement, parameters = []) {
    const values = parameters.map((value) => (value === null || value === undefined ? null : Buffer.from(String(value))));
    this.send(
      message("P", cstring(""), cstring(statement), int16(0)),
      message("B", cstring(""), cstring(""), int16(0), int16(values.length), ...values.flatMap(bound), int16(0)),
      message("D", Buffer.from("P"), cstring("")),
      message("E", cstring(""), int32(0)),
      message("S"),
    );
    const rows = [];
    let names = [];
    let failure = null;
    for (;;) {
      const { type, body } = await this.next();
      if (type === "T") names = columnNames(body);
      else if (type === "D") rows.push(readRow(body, names));
      else if (type === "E") failure = new DatabaseError(readFields(body));
      else if (type === "Z") {
        if (failure !== null) throw failure;
        return rows;
      }
    }
  }

  async end() {
    if (this.closed === null) this.socket.end(message("X"));
  }

  /** Close the socket without a farewell, whatever state it is in. */
  destroy() {
    this.socket.destroy();
  }

  async start({ user, password, database }) {
    const fields = ["user", user, "database", database, "client_encoding", "UTF8", "application_name", "webhook-worker"];
    const body = Buffer.concat([int32(196608), ...fields.map(cstring), Buffer.from([0])]);
    this.send(Buffer.concat([int32(body.length + 4), body]));
    let scram = null;
    for (;;) {
      const { type, body } = await this.next();
      if (type === "E") throw new DatabaseError(readFields(body));
      if (type === "Z") return;
      if (type !== "R") continue;
      const kind = body.readInt32BE(0);
      if (kind !== 0 && password === undefined) throw new Error(`the database asks ${user} for a password: add it to DATABASE_URL`);
      if (kind === 3) this.send(message("p", cstring(password)));
      else if (kind === 5) this.send(message("p", cstring(md5Answer(user, password, body.subarray(4, 8)))));
      else if (kind === 10) {
        scram = new Scram(password);
        const first = Buffer.from(scram.first());
        this.send(message("p", cstring("SCRAM-SHA-256"), int32(first.length), first));
      } else if (kind === 11) this.send(message("p", Buffer.from(scram.answer(body.toString("utf8", 4)))));
      else if (kind === 12) scram.check(body.toString("utf8", 4));
      else if (kind !== 0) throw new Error(`the database asks for authentication method ${kind}, which this client does not know`);
    }
  }

  send(...buffers) {
    if (this.closed !== null) throw this.closed;
    this.socket.write(Buffer.concat(buffers));
  }

  async next() {
    for (;;) {
      if (this.received.length >= 5) {
        const length = this.received.readInt32BE(1) + 1;
        if (this.received.length >= length) {
          const found = { type: String.fromCharCode(this.received[0]), body: this.received.subarray(5, length) };
          this.received = this.received.subarray(length);
          return found;
        }
      }
      if (this.closed !== null) throw this.closed;
      await new Promise((resolve) => (this.waiting = resolve));
    }
  }

  wake() {
    const resolve = this.waiting;
    this.waiting = null;
    resolve?.();
  }
}

/** SCRAM-SHA-256 (RFC 5802, RFC 7677) without channel binding. */
class Scram {
  constructor(password) {
    this.password = password;
    this.nonce = randomBytes(18).toString("base64");
  }

  first() {
    return `n,,n=,r=${this.nonce}`;
  }

  answer(challenge) {
    const { r: nonce, s: salt, i: rounds } = readPairs(challenge);
    if (!nonce.startsWith(this.nonce)) throw new Error("the database answered with a foreign SCRAM nonce");
    const salted = pbkdf2Sync(this.password.normalize("NFKC"), Buffer.from(salt, "base64"), Number(rounds), 32, "sha256");
    const clientKey = hmac(salted, "Client Key");
    const withoutProof = `c=biws,r=${nonce}`;
    const signed = `n=,r=${this.nonce},${challenge},${withoutProof}`;
    const signature = hmac(createHash("sha256").update(clientKey).digest(), signed);
    this.expected = hmac(hmac(salted, "Server Key"), signed);
    return `${withoutProof},p=${Buffer.from(clientKey.map((byte, index) => byte ^ signature[index])).toString("base64")}`;
  }

  check(final) {
    const given = Buffer.from(readPairs(final).v ?? "", "base64");
    if (given.length !== 32 || !timingSafeEqual(given, this.expected)) throw new Error("the server does not know the password: do not trust it");
  }
}

function openSocket({ host, port, sslmode }) {
  const local = host.startsWith("/");
  const plain = local ? connectTcp(`${host}/.s.PGSQL.${port}`) : connectTcp(port, host);
  return new Promise((resolve, fail) => {
    const reject = (error) => fail(error.code === undefined ? error : new ConnectionLost(error.message || error.code));
    plain.once("error", reject);
    plain.once("connect", () => {
      if (local || sslmode === "disable" || sslmode === "allow") return resolve(release(plain, reject));
      plain.write(Buffer.concat([int32(8), int32(80877103)]));
      plain.once("data", (answer) => {
        if (answer[0] === 0x53) {
          const verify = sslmode.startsWith("verify");
          const secure = connectTls({ socket: plain, servername: host, rejectUnauthorized: verify }, () => resolve(release(secure, reject)));
          secure.once("error", reject);
        } else if (sslmode === "prefer") resolve(release(plain, reject));
        else reject(new Error(`the database offers no TLS, but sslmode is ${sslmode}`));
      });
    });
  });
}

function release(socket, reject) {
  socket.removeListener("error", reject);
  return socket;
}

const hmac = (key, text) => createHmac("sha256", key).update(text).digest();
const md5 = (...parts) => createHash("md5").update(Buffer.concat(parts.map((part) => Buffer.from(part)))).digest("hex");
const md5Answer = (user, password, salt) => `md5${md5(md5(password, user), salt)}`;
const readPairs = (text) => Object.fromEntries(text.split(",").map((pair) => [pair[0], pair.slice(2)]));
const bound = (value) => (value === null ? [int32(-1)] : [int32(value.length), value]);
const cstring = (text) => Buffer.concat([Buffer.from(text), Buffer.from([0])]);

function int16(value) {
  const buffer = Buffer.alloc(2);
  buffer.writeInt16BE(value);
  return buffer;
}

function int32(value) {
  const buffer = Buffer.alloc(4);
  buffer.writeInt32BE(value);
  return buffer;
}

function message(type, ...parts) {
  const body = Buffer.concat(parts);
  return Buffer.concat([Buffer.from(type), int32(body.length + 4), body]);
}

function columnNames(body) {
  const names = [];
  let at = 2;
  for (let count = body.readInt16BE(0); count > 0; count -= 1) {
    const end = body.indexOf(0, at);
    names.push(body.toString("utf8", at, end));
    at = end + 19;
  }
  return names;
}

function readRow(body, names) {
  const row = {};
  let at = 2;
  for (const name of names) {
    const length = body.readInt32BE(at);
    at += 4;
    row[name] = length < 0 ? null : body.toString("utf8", at, at + length);
    at += Math.max(length, 0);
  }
  return row;
}

function readFields(body) {
  const fields = {};
  let at = 0;
  while (body[at] !== 0) {
    const end = body.indexOf(0, at + 1);
    fields[String.fromCharCode(body[at])] = body.toString("utf8", at + 1, end);
    at = end + 1;
  }
  return fields;
}
