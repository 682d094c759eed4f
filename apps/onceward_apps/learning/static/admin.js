// The dashboard of an organization, live: figures, cohorts, activities.

import { LiveClient } from "/live/client.js";
import { act, call, element, moment, money, showConnection } from "./shared.js";

const { organization, csrf } = document.querySelector("main").dataset;
const node = (id) => document.getElementById(id);
const NEXT = { DRAFT: ["OPEN", "CANCELLED"], OPEN: ["CONFIRMED", "CANCELLED"], CONFIRMED: ["IN_PROGRESS", "CANCELLED"], IN_PROGRESS: ["COMPLETED", "CANCELLED"] };

function figures(data) {
  for (const name of ["activeEnrollments", "todayEnrollments", "activeCohorts", "pendingRefunds"]) node(name).textContent = data[name];
  const sums = Object.entries(data.todayRevenue).map(([currency, amount]) => money(amount, currency));
  node("todayRevenue").textContent = sums.join(" + ") || "0";
  node("lastUpdated").textContent = moment(data.lastUpdated, { timeStyle: "medium" });
  node("activity").replaceChildren(...data.recentActivity.map((each) =>
    element("li", {}, `${moment(each.happened_at, { timeStyle: "medium" })} · ${each.kind.replaceAll("_", " ")}${each.cohort_name ? ` · ${each.cohort_name}` : ""}`)));
}

function cohort(row) {
  const buttons = (NEXT[row.status] ?? []).map((status) => {
    const button = element("button", { type: "button", class: "small" }, status);
    button.addEventListener("click", () => {
      if (status === "CANCELLED" && !confirm(`Cancel ${row.name} and refund all its students?`)) return;
      act(button, node("message"), () => call(`/api/v1/learning/cohorts/${row.id}/status`, { status }, { headers: { "x-csrf-token": csrf, "x-organization": organization } }));
    });
    return button;
  });
  const refunds = row.status === "CANCELLED" || row.refunds_pending ? `${row.refunded} of ${row.refunded + row.refunds_pending}` : row.refunded || "–";
  const places = `${row.sold} of ${row.max_capacity}${row.held ? ` (+${row.held} held)` : ""}`;
  const cells = [element("a", { href: `/learn/cohorts/${row.id}` }, row.name), row.status, places, row.waiting, row.nps_score ?? "–", Object.entries(row.revenue).map(([currency, amount]) => money(amount, currency)).join(" + ") || money(0, row.currency), refunds];
  return element("tr", { "data-cohort": row.id }, ...cells.map((cell) => element("td", {}, cell instanceof Node ? cell : String(cell))), element("td", {}, ...buttons));
}

const live = new LiveClient("/live", { organization });
showConnection(live, node("connection"));
live.subscribe("learning.admin_dashboard", {}, ({ data }) => { if (data) figures(data); });
live.subscribe("learning.admin_cohorts", {}, ({ data }) => { if (data) node("cohorts").replaceChildren(...data.map(cohort)); });
