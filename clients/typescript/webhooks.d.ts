export interface Webhook<T = unknown> {
  id: string;
  type: string;
  timestamp: string;
  data: T;
}

export class VerificationFailed extends Error {}

/**
 * Return the parsed body of a webhook, or throw `VerificationFailed`.
 *
 * `body` is what arrived, before anything parsed it. Pass the old and the new secret during a rotation.
 */
export function verifyWebhook<T = Webhook>(
  body: string | ArrayBuffer | Uint8Array,
  headers: Headers | Record<string, string | string[] | undefined>,
  secrets: string | string[],
  options?: { toleranceS?: number; now?: number },
): Promise<T>;
