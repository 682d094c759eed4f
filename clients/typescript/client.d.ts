import type { Calls, Lists, Operations } from "./operations.js";

export type * from "./operations.js";

export interface ClientOptions {
  /** The address of the server, such as `https://onceward.example`. */
  url: string;
  /** An API key (`onceward keys add`), or the token of an end user. */
  key?: string;
  /** The organization to act for, if the key belongs to several or to the instance. */
  organization?: string;
  /** How long one attempt may take. Default 30 000. */
  timeoutMs?: number;
  /** How often a failed attempt is repeated. Default 4; 0 repeats nothing. */
  retries?: number;
  /** Another `fetch`, for tests and proxies. */
  fetch?: typeof globalThis.fetch;
}

export interface CallOptions {
  /** The same key has its effect once within 24 hours. Every POST has one: without this, a random one for its attempts.
   *  `null` sends none, for requests that may be repeated as they are. */
  idempotencyKey?: string | null;
  signal?: AbortSignal;
  timeoutMs?: number;
  retries?: number;
}

export interface FieldError {
  field: string;
  reason: string;
}

export class OncewardError extends Error {
  readonly status: number;
  readonly type: string;
  readonly detail: string;
  readonly errors: FieldError[];
  readonly requestId: string | undefined;
}

export class ConnectionFailed extends Error {}

export interface OncewardClient extends Calls {}

export class OncewardClient {
  constructor(options: ClientOptions);
  call<N extends keyof Operations>(
    operation: N,
    args?: Operations[N]["args"],
    options?: CallOptions,
  ): Promise<Operations[N]["result"]>;
  paginate<N extends keyof Lists>(
    operation: N,
    args?: Operations[N]["args"],
    options?: CallOptions,
  ): AsyncGenerator<Lists[N], void, undefined>;
}
