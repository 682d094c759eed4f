// What buyers choose besides seats: ticket types and add-ons in the basket, answers to the organizer's questions.

import { element, t } from "./shared.js";

/** The choice of a ticket type for a hold, or nothing if its section has only one price. */
export function typeChooser(event, hold, price, chosen) {
  const section = event.sections.find((each) => each.id === hold.section_id);
  if (!section?.types.length) return "";
  const select = element("select", { "aria-label": t("Price of {}", hold.place) });
  select.append(element("option", { value: "" }, `${t("Full price")}, ${price(section.price_cents)}`));
  for (const type of section.types) select.append(element("option", { value: type.id }, `${type.name}, ${price(type.price_cents)}`));
  select.value = hold.type_id ?? "";
  select.addEventListener("change", () => chosen(hold, select.value || null));
  return select;
}

/** Draw the questions of the event: once, and for each ticket in the basket. What was entered stays. */
export function drawQuestions(event, holds) {
  const frame = document.getElementById("questions");
  const before = new Map([...frame.querySelectorAll("[data-question]")].map((input) => [key(input.dataset), input.value]));
  const ofTicket = event.questions.filter((each) => each.about === "ticket");
  const parts = event.questions.filter((each) => each.about === "order").map((each) => field(each, "", before));
  if (ofTicket.length) {
    for (const hold of holds.filter((each) => !each.is_addon)) {
      parts.push(element("fieldset", {}, element("legend", {}, hold.place), ...ofTicket.map((each) => field(each, hold.id, before))));
    }
  }
  frame.replaceChildren(...parts);
}

function field(question, hold, before) {
  const attributes = { "data-question": question.id, "data-hold": hold, maxlength: "1000", autocomplete: "off" };
  if (question.is_required) attributes.required = "";
  const input = question.choices.length ? element("select", attributes, ...["", ...question.choices].map((each) => element("option", { value: each }, each))) : element("input", attributes);
  input.value = before.get(key({ question: question.id, hold })) ?? "";
  const title = question.is_required ? question.title : `${question.title} ${t("(optional)")}`;
  return element("label", {}, `${title} `, input);
}

function key({ question, hold }) {
  return `${question} ${hold}`;
}

/** Return the answers as the API takes them. */
export function answers() {
  const given = { order: {}, tickets: {} };
  for (const input of document.querySelectorAll("#questions [data-question]")) {
    if (!input.value) continue;
    const { question, hold } = input.dataset;
    const of = hold ? (given.tickets[hold] ??= {}) : given.order;
    of[question] = input.value;
  }
  return given;
}
