// Hooks for React. The application passes its own React, so that only one copy of React is loaded:
//
//   import * as React from "react";
//   import { hooks } from "onceward-live/react";
//   export const { LiveProvider, useQuery, useTopic, usePresence } = hooks(React);

import { canonical } from "./client.js";

const PAUSED = Object.freeze({ data: undefined, error: null, loading: false, stale: false });

/** Return the hooks for this React. */
export function hooks(React) {
  const Context = React.createContext(null);

  function LiveProvider({ client, children }) {
    return React.createElement(Context.Provider, { value: client }, children);
  }

  function useLive() {
    const client = React.useContext(Context);
    if (!client) throw new Error("useQuery and the other hooks must be used inside <LiveProvider client={...}>");
    return client;
  }

  function useQuery(name, args, { skip = false } = {}) {
    const client = useLive();
    const text = canonical(args ?? {});
    const subscribe = React.useCallback(
      (changed) => (skip ? () => {} : client.subscribe(name, JSON.parse(text), changed)),
      [client, name, text, skip],
    );
    const snapshot = () => (skip ? PAUSED : client.peek(name, JSON.parse(text)));
    return React.useSyncExternalStore(subscribe, snapshot, snapshot);
  }

  function useTopic(topic, listener, { last = null } = {}) {
    const client = useLive();
    const latest = React.useRef(listener);
    latest.current = listener;
    React.useEffect(
      () => client.follow(topic, (data, info) => latest.current(data, info), { last }),
      [client, topic, last],
    );
  }

  /** Be present in a place while mounted, and `away` while the page is hidden. Returns everyone who is present. */
  function usePresence(place) {
    const client = useLive();
    React.useEffect(() => {
      const update = () => client.present(place, document.visibilityState === "hidden" ? "away" : "online");
      update();
      document.addEventListener("visibilitychange", update);
      return () => {
        document.removeEventListener("visibilitychange", update);
        client.present(place, "offline");
      };
    }, [client, place]);
    return useQuery("presence", { place });
  }

  function useConnection() {
    const client = useLive();
    const subscribe = React.useCallback((changed) => client.onState(changed), [client]);
    const snapshot = () => client.state;
    return React.useSyncExternalStore(subscribe, snapshot, snapshot);
  }

  return { LiveProvider, useLive, useQuery, useTopic, usePresence, useConnection };
}
