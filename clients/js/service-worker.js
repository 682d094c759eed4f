// A sample service worker for Web Push. Copy it to the root of your site: a worker controls only pages below its own path.
// The server sends { title, body, url?, metadata? }.

self.addEventListener("push", (event) => {
  const message = event.data?.json() ?? {};
  const options = { body: message.body ?? "", data: { url: message.url ?? "/" }, tag: message.metadata?.tag };
  event.waitUntil(self.registration.showNotification(message.title ?? "Notification", options));
});

self.addEventListener("notificationclick", (event) => {
  event.notification.close();
  const target = new URL(event.notification.data?.url ?? "/", self.location.origin);
  // Only pages of this site: the address comes from a message.
  if (target.origin !== self.location.origin) return;
  event.waitUntil((async () => {
    const pages = await self.clients.matchAll({ type: "window", includeUncontrolled: true });
    const open = pages.find((page) => page.url === target.href);
    await (open ? open.focus() : self.clients.openWindow(target.href));
  })());
});
