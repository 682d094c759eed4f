// After the payment page: times in the reader's zone, and a new look while the payment is not confirmed.

import { showTimes } from "./shared.js";

const AGAIN_MS = [1000, 2000, 3000, 5000, 10_000, 20_000, 30_000];
const tries = Number(sessionStorage.getItem(location.pathname) ?? 0);

showTimes();
if (document.querySelector("main").dataset.state === "waiting") {
  sessionStorage.setItem(location.pathname, String(tries + 1));
  setTimeout(() => location.reload(), AGAIN_MS[Math.min(tries, AGAIN_MS.length - 1)]);
} else sessionStorage.removeItem(location.pathname);
