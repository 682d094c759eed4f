/** What is known of a live query. `stale`: the connection is down, and the data is as it was then. */
export interface LiveState<T = unknown> {
  readonly data: T | undefined;
  readonly error: LiveError | null;
  readonly loading: boolean;
  readonly stale: boolean;
}

export type ConnectionState = "idle" | "connecting" | "open" | "waiting" | "closed";
export type PresenceStatus = "online" | "away" | "offline";
export type Arguments = Readonly<Record<string, unknown>>;

export interface LiveOptions {
  /** An end user's token or an API key; a function is asked at each connection. Without it the session's cookie counts. */
  token?: string | (() => string | null | Promise<string | null>);
  /** The organization to act for, for those who belong to several. */
  organization?: string;
  /** `websocket` unless two in a row could not be opened, then `sse`. */
  transport?: "websocket" | "sse";
  /** The WebSocket to use where the environment has none of its own (Node 20: the package `ws`). Without one: `sse`. */
  WebSocket?: new (url: string) => unknown;
  /** Errors that belong to no subscription. */
  onError?: (error: LiveError) => void;
}

export interface MessageInfo {
  id?: number;
  at?: string;
  /** Messages were missed: read anew what they are about. */
  reset?: true;
  error?: LiveError;
}

export interface Presence {
  place: string;
  count: number;
  users: { user_id: string; status: "online" | "away"; since: string }[];
}

export class LiveError extends Error {
  readonly code: string;
  constructor(problem: { code: string; message: string });
}

export class LiveClient {
  constructor(url?: string, options?: LiveOptions);
  readonly state: ConnectionState;
  readonly version: string;
  subscribe<T = unknown>(
    name: string,
    args: Arguments | null | undefined,
    listener: (state: LiveState<T>) => void,
  ): () => void;
  peek<T = unknown>(name: string, args?: Arguments | null): LiveState<T>;
  fetch<T = unknown>(name: string, args?: Arguments | null): Promise<T>;
  follow<T = unknown>(
    topic: string,
    listener: (data: T | undefined, info: MessageInfo) => void,
    options?: { last?: number | null },
  ): () => void;
  waitFor(version: string | number): Promise<void>;
  present(place: string, status?: PresenceStatus): () => void;
  onState(listener: (state: ConnectionState) => void): () => void;
  close(): void;
}

export function canonical(value: unknown): string;
export function reconnectDelay(attempt: number, random?: () => number): number;
