// A page with React that uses the package onceward-live and the types that `onceward types` printed for the app.

import * as React from "react";
import { createRoot } from "react-dom/client";
import { LiveClient } from "onceward-live";
import { hooks } from "onceward-live/react";
import type { TypedLiveClient, TypedLiveHooks } from "./types";

const { LiveProvider, useQuery, useConnection } = hooks(React) as TypedLiveHooks;

function Occupancy({ eventId }: { eventId: string }) {
  const { data, error, loading, stale } = useQuery("occupancy", { event_id: eventId });
  if (error) return <output>{error.code}</output>;
  if (loading || !data) return <output>loading</output>;
  const sold: number = data.sold;
  return <output>{`${data.seats} seats, ${sold} sold${stale ? ", stale" : ""}`}</output>;
}

const states: string[] = [];

function Connection() {
  const state = useConnection();
  React.useEffect(() => void states.push(state), [state]);
  return <p id="connection">{state}</p>;
}

// Never called: the compiler must find these mistakes.
export function mistakes(client: TypedLiveClient) {
  // @ts-expect-error: there is no such query
  useQuery("occupation", { event_id: "1" });
  // @ts-expect-error: the argument is missing
  useQuery("occupancy", {});
  // @ts-expect-error: the result has no such field
  client.subscribe("occupancy", { event_id: "1" }, ({ data }) => data?.free);
}

export function start(eventId: string, token: string) {
  const client = new LiveClient("/live", { token });
  const typed = client as TypedLiveClient;
  createRoot(document.getElementById("root")!).render(
    <React.StrictMode>
      <LiveProvider client={client}>
        <Occupancy eventId={eventId} />
        <Connection />
      </LiveProvider>
    </React.StrictMode>,
  );
  return { client: typed, states };
}
