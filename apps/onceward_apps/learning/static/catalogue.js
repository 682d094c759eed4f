// The catalogue: the places left of every cohort, live.

import { LiveClient } from "/live/client.js";
import { showConnection, showTimes, t } from "./shared.js";

showTimes();
const live = new LiveClient("/live");
showConnection(live, document.getElementById("connection"));
for (const card of document.querySelectorAll("[data-cohort][data-open]")) {
  live.subscribe("learning.enrollment_count", { cohort_id: card.dataset.cohort }, ({ data }) => {
    if (!data) return;
    card.querySelector("meter").value = data.percentFull;
    card.querySelector(".places").textContent = data.status === "CANCELLED" ? t("cancelled")
      : data.spotsRemaining ? t("{free} of {total} places left", { free: data.spotsRemaining, total: data.maxCapacity }) : t("full: join the waitlist");
  });
}
