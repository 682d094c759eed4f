// The client outside a browser: `node node_client.mjs CLIENT URL TOKEN TRANSPORT EVENT`. One line of JSON for each thing that happens.

const [path, url, token, transport, event] = process.argv.slice(2);
const { LiveClient } = await import(path);
const client = new LiveClient(url, { token, transport });
const say = (what) => process.stdout.write(`${JSON.stringify(what)}\n`);

client.onState((state) => say({ state }));
client.subscribe("occupancy", { event_id: event }, ({ data, stale }) => {
  if (data) say({ seats: data.seats, stale });
});
process.stdin.on("end", () => client.close()).resume();
