// The list of courses.

import { call, showTimes } from "./shared.js";

showTimes();
document.getElementById("out").addEventListener("click", async () => {
  await call("/api/v1/learning/public/session", undefined, { method: "DELETE" });
  location.assign("/learn/sign-in");
});
