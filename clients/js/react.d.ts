import type { Arguments, ConnectionState, LiveClient, LiveState, MessageInfo, Presence } from "./client.js";

// The result of LiveProvider is an element of the application's React, whose types this package does not depend on.
export interface LiveHooks<Element = any> {
  LiveProvider(props: { client: LiveClient; children?: unknown }): Element;
  useLive(): LiveClient;
  useQuery<T = unknown>(name: string, args?: Arguments | null, options?: { skip?: boolean }): LiveState<T>;
  useTopic<T = unknown>(
    topic: string,
    listener: (data: T | undefined, info: MessageInfo) => void,
    options?: { last?: number | null },
  ): void;
  usePresence(place: string): LiveState<Presence>;
  useConnection(): ConnectionState;
}

/** Return the hooks for the application's own React (18 or newer). */
export function hooks(React: unknown): LiveHooks;
