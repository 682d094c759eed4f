// The handler of the contract test: it fails for `{"fail": true}` until the test repairs it through the table.
export async function handle(event, database) {
  const [{ broken }] = await database.query("select broken from contract_switch");
  if (event.payload.fail && broken === "t") throw new Error("simulated failure");
  await database.query(
    `insert into webhook_side_effects (id, provider, event_id, payload, created_at)
     values (gen_random_uuid(), $1, $2, $3::jsonb, now()) on conflict (provider, event_id) do nothing returning id`,
    ["node", event.event_id, JSON.stringify(event.payload)],
  );
}
