/** The state of a live query. `stale` means that the connection is lost and `data` is the last known result. */
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
  /** An end user token or an API key. A function is called for each connection. Without a token the session cookie is used. */
  token?: string | (() => string | null | Promise<string | null>);
  /** The organization to act for, if the user belongs to several. */
  organization?: string;
  /** Default: `websocket`, and `sse` after two WebSockets in a row could not be opened. */
  transport?: "websocket" | "sse";
  /** The WebSocket class, if the environment has none (Node 20: the package `ws`). Without one the client uses `sse`. */
  WebSocket?: new (url: string) => unknown;
  /** Called with errors that belong to no subscription. */
  onError?: (error: LiveError) => void;
}

export interface MessageInfo {
  id?: number;
  at?: string;
  /** Messages were lost: load the data that they describe again. */
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

/** Return a result with the changes of a frame applied. */
export function applyChanges(data: unknown, changes: readonly (readonly unknown[])[]): unknown;
export function canonical(value: unknown): string;
export function reconnectDelay(attempt: number, random?: () => number): number;
