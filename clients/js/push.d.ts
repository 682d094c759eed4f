export interface PushOptions {
  /** The JWT of the signed-in user. */
  token: string;
  /** The path of your service worker; default `/service-worker.js`. */
  worker?: string;
  /** The address of the Onceward server; default: the same origin. */
  server?: string;
  fetch?: typeof globalThis.fetch;
}
export function enablePush(options: PushOptions): Promise<PushSubscription | null>;
export function disablePush(options: Omit<PushOptions, "worker">): Promise<void>;
export function bytes(text: string): Uint8Array;
