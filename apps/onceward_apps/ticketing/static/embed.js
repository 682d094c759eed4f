// The shop on the organizer's own site: <script src="https://tickets.example/ticketing/static/embed.js" data-event="..." async></script>

const script = document.currentScript;
const shop = new URL(script.src).origin;
const frame = document.createElement("iframe");
const address = new URL(`/events/${encodeURIComponent(script.dataset.event)}`, shop);
address.searchParams.set("embed", "1");
for (const name of ["code", "lang"]) if (script.dataset[name]) address.searchParams.set(name, script.dataset[name]);
frame.src = address.href;
frame.title = script.dataset.title || "Tickets";
frame.style.cssText = "width:100%;border:0;min-height:30rem";
frame.referrerPolicy = "no-referrer";

addEventListener("message", (event) => {
  if (event.source !== frame.contentWindow || event.origin !== shop) return;
  const { height, go } = event.data?.ticketing ?? {};
  if (height > 0) frame.style.height = `${Math.ceil(height)}px`;
  // The payment service's page does not work in a frame.
  if (typeof go === "string" && /^https?:/.test(new URL(go, shop).protocol)) location.assign(new URL(go, shop));
});
script.after(frame);
