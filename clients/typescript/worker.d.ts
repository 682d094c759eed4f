import type { OncewardClient } from "./client.js";

export interface ClaimedJob<A = Record<string, unknown>> {
  id: number | string;
  lease: string;
  task: string;
  args: A;
  /** The number of this attempt, from 1. */
  attempt: number;
  expires_at: string | Date;
  /** The last checkpoint of an earlier attempt, or null. */
  cursor: unknown;
  tags: string[] | null;
  organization_id: string | null;
  caused_by: number | string | null;
  /** The W3C `traceparent` of the program that enqueued the job. */
  trace: string | null;
}

export interface Connection {
  query(text: string, values?: unknown[]): Promise<{ rows: any[] } | any[]>;
  release?(error?: unknown): void;
}

export interface JobContext {
  /** Aborted when an operator cancels the job or the claim is lost. */
  signal: AbortSignal;
  /** The connection of the transaction in which the outcome is recorded; undefined over HTTP. */
  database: any;
  /** Save how far the job has come: the next attempt gets it as `cursor`. */
  checkpoint(cursor: unknown): Promise<unknown>;
}

/** Return the result of the job, or throw: `Permanent` ends it, `RetryAfter` names the pause, anything else is repeated. */
export type Handler<A = any, R = unknown> = (job: ClaimedJob<A>, context: JobContext) => Promise<R> | R;

/** The handlers of an app: `HandlersOf<Jobs>` with the types that `onceward types` prints. */
export type HandlersOf<J extends { [N in keyof J]: { args: any; result: any } }> = {
  [N in keyof J]?: Handler<J[N]["args"], J[N]["result"]>;
};

export interface Source {
  claim(tasks: string[], most: number, waitS: number, leaseS: number): Promise<ClaimedJob[]>;
  heartbeat(job: ClaimedJob, leaseS: number): Promise<"held" | "cancel">;
  checkpoint(job: ClaimedJob, cursor: unknown): Promise<unknown>;
  fail(job: ClaimedJob, error: string, retryS: number | undefined, permanent: boolean): Promise<unknown>;
  release(job: ClaimedJob): Promise<unknown>;
  run(job: ClaimedJob, handle: (database: any) => Promise<unknown>): Promise<void>;
}

export class Permanent extends Error {}
export class RetryAfter extends Error {
  constructor(seconds: number, message?: string);
  readonly seconds: number;
}
export class LeaseLost extends Error {}

export function overHttp(client: OncewardClient, options?: { worker?: string }): Source;
export function overSql(connect: () => Promise<Connection>, options?: { worker?: string }): Source;

export interface WorkerOptions {
  /** How many jobs run at once. Default 1. */
  concurrency?: number;
  /** How long a claim lasts without a heartbeat, in seconds. Default 60. */
  leaseS?: number;
  /** How long one request waits for work, in seconds. Default 10, at most 30. */
  waitS?: number;
  log?(event: string, fields?: Record<string, unknown>): void;
}

export class Worker {
  constructor(source: Source, handlers: Record<string, Handler | undefined>, options?: WorkerOptions);
  run(): Promise<void>;
  stop(): void;
}
