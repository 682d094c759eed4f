// Web Push in the browser: asks for permission, subscribes, and saves the subscription on an Onceward server.
//
//   import { enablePush, disablePush } from "onceward-live/push";
//   button.onclick = () => enablePush({ token: await session.token(), worker: "/service-worker.js" });

/**
 * Subscribe this browser and save the subscription for the user of the token. Call it from a click: browsers ask for
 * permission only then. Returns the PushSubscription, or null if the user refused.
 */
export async function enablePush({ token, worker = "/service-worker.js", server = "", fetch = globalThis.fetch }) {
  const registration = await navigator.serviceWorker.register(worker);
  if ((await Notification.requestPermission()) !== "granted") return null;
  const { public_key: key } = await answer(await fetch(`${server}/api/v1/push/public-key`));
  const options = { userVisibleOnly: true, applicationServerKey: bytes(key) };
  const ready = await navigator.serviceWorker.ready;
  const subscription = (await registration.pushManager.getSubscription()) ?? (await ready.pushManager.subscribe(options));
  const { endpoint, keys } = subscription.toJSON();
  await answer(await fetch(`${server}/api/v1/push/subscription`, {
    method: "PUT",
    headers: { "Authorization": `Bearer ${token}`, "Content-Type": "application/json" },
    body: JSON.stringify({ endpoint, keys }),
  }));
  return subscription;
}

/** Remove the subscription on the server and in this browser. */
export async function disablePush({ token, server = "", fetch = globalThis.fetch }) {
  await answer(await fetch(`${server}/api/v1/push/subscription`, {
    method: "DELETE",
    headers: { "Authorization": `Bearer ${token}` },
  }));
  const registration = await navigator.serviceWorker.getRegistration();
  await (await registration?.pushManager.getSubscription())?.unsubscribe();
}

async function answer(response) {
  if (!response.ok) throw new Error(`${response.status}: ${(await response.json().catch(() => ({}))).detail ?? response.statusText}`);
  return response.status === 204 ? null : response.json();
}

/** Return the bytes of a base64url text. */
export function bytes(text) {
  const padded = text.replaceAll("-", "+").replaceAll("_", "/").padEnd(Math.ceil(text.length / 4) * 4, "=");
  return Uint8Array.from(atob(padded), (character) => character.charCodeAt(0));
}
