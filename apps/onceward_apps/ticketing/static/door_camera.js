// Read QR codes with the camera: with the browser's own detector where there is one, otherwise with a library.
// Safari on iPhones has none.

import { decodeQR } from "./vendor/qr/decode.js";

const PAUSE_MS = 120;
const LONGER_SIDE = 720;

export const hasCamera = () => Boolean(navigator.mediaDevices?.getUserMedia);

/** Show the camera in `video` and call `found` with each text that it sees. Return a function that stops it. */
export async function watchCamera(video, found) {
  const stream = await navigator.mediaDevices.getUserMedia({ audio: false, video: { facingMode: "environment", width: { ideal: 1280 } } });
  video.srcObject = stream;
  await video.play();
  const read = await reader();
  let running = true;
  (async () => {
    while (running) {
      const text = video.readyState >= 2 ? await read(video) : null;
      if (text && running) await found(text);
      await new Promise((resolve) => { setTimeout(resolve, PAUSE_MS); });
    }
  })();
  return () => {
    running = false;
    for (const track of stream.getTracks()) track.stop();
    video.srcObject = null;
  };
}

async function reader() {
  if ("BarcodeDetector" in globalThis && (await BarcodeDetector.getSupportedFormats()).includes("qr_code")) {
    const detector = new BarcodeDetector({ formats: ["qr_code"] });
    return async (video) => (await detector.detect(video).catch(() => []))[0]?.rawValue ?? null;
  }
  const canvas = document.createElement("canvas");
  const context = canvas.getContext("2d", { willReadFrequently: true });
  return async (video) => readPicture(context, video, video.videoWidth, video.videoHeight);
}

/** Return the text of a QR code in a picture, or null. */
export function readPicture(context, picture, width, height) {
  const scale = Math.min(1, LONGER_SIDE / Math.max(width, height));
  const { canvas } = context;
  [canvas.width, canvas.height] = [Math.round(width * scale), Math.round(height * scale)];
  context.drawImage(picture, 0, 0, canvas.width, canvas.height);
  try {
    return decodeQR(context.getImageData(0, 0, canvas.width, canvas.height));
  } catch {
    return null; // the library throws if there is no code in the picture
  }
}
