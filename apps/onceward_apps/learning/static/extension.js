// Buy an extension of the access.

import { act, call, showTimes } from "./shared.js";

const { token } = document.querySelector("main").dataset;
showTimes();
document.getElementById("pay")?.addEventListener("click", (event) =>
  act(event.target, document.getElementById("message"), async () => {
    const { url } = await call(`/api/v1/learning/public/extensions/${encodeURIComponent(token)}/checkout`, {});
    location.assign(url);
  }));
