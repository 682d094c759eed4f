// The catalogue: the places left of every cohort, live.

import { LiveClient } from "/live/client.js";
import { showConnection, showTimes } from "./shared.js";

showTimes();
const live = new LiveClient("/live");
showConnection(live, document.getElementById("connection"));
for (const card of document.querySelectorAll("[data-cohort]")) {
  live.subscribe("learning.enrollment_count", { cohort_id: card.dataset.cohort }, ({ data }) => {
    if (!data) return;
    card.querySelector("meter").value = data.percentFull;
    card.querySelector(".places").textContent = data.status === "CANCELLED" ? "cancelled"
      : data.spotsRemaining ? `${data.spotsRemaining} of ${data.maxCapacity} places left` : "full: join the waitlist";
  });
}
