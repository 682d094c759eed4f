// The service worker of the doors: their page opens without a network. Data is kept by the page itself.

const CACHE = "ticketing-door-2";
const STATIC = "/ticketing/static/";
const SHELL = [
  "ticketing.css", "door.js", "door_camera.js", "door_rules.js", "door_store.js", "shared.js", "vendor/qr/decode.js", "vendor/qr/index.js",
].map((name) => STATIC + name).concat("/live/client.js", "/look/public.css");
const PATIENCE_MS = 4000;

addEventListener("install", (event) => event.waitUntil(caches.open(CACHE).then((cache) => cache.addAll(SHELL)).then(() => skipWaiting())));
addEventListener("activate", (event) => event.waitUntil((async () => {
  const old = (await caches.keys()).filter((name) => name.startsWith("ticketing-door-") && name !== CACHE);
  await Promise.all(old.map((name) => caches.delete(name)));
  // The page that started this worker came without it.
  const cache = await caches.open(CACHE);
  const pages = await clients.matchAll({ type: "window", includeUncontrolled: true });
  await Promise.all(pages.map(({ url }) => cache.add(new URL(url).pathname)));
  await clients.claim();
})()));

addEventListener("fetch", (event) => {
  const { pathname } = new URL(event.request.url);
  const isOurs = pathname.startsWith("/doors/") || SHELL.includes(pathname);
  if (event.request.method === "GET" && isOurs) event.respondWith(fresh(event.request, pathname));
});

// The network first, so that a device has today's page; the copy if the network is slow or gone.
async function fresh(request, pathname) {
  const cache = await caches.open(CACHE);
  try {
    const response = await fetch(request, { signal: AbortSignal.timeout(PATIENCE_MS) });
    if (response.ok) await cache.put(pathname, response.clone());
    return response;
  } catch (error) {
    const copy = await cache.match(pathname);
    if (copy) return copy;
    throw error;
  }
}
