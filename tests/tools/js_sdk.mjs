// The calls of the official JavaScript SDK, each tried once. It says to the console what it waits for: not here.
import runpodSdk from "runpod-sdk";
import { check, tried } from "./trying.mjs";

console.log = () => {};

const options = { baseUrl: process.env.RUNPOD_ENDPOINT_BASE_URL };
const runpod = runpodSdk(process.env.RUNPOD_API_KEY, options);
const endpoint = runpod.endpoint("ep");
const idle = runpod.endpoint("idle");

await tried("endpoint.runSync", async () => {
  const record = await endpoint.runSync({ input: { n: 2 } }, 30000);
  check(record.output?.double === 4, record);
});
const job = await tried("endpoint.run", () => endpoint.run({ input: { n: 3 } }));
await tried("endpoint.statusSync", async () => {
  const record = await endpoint.statusSync(job.id, 30000);
  check(record.output?.double === 6, record);
});
await tried("endpoint.status", async () => {
  const record = await endpoint.status(job.id);
  check(record.completed && record.succeeded, record);
});
await tried("endpoint.stream", async () => {
  const count = runpod.endpoint("count");
  const counted = await count.run({ input: { n: 2 } });
  const parts = [];
  for await (const part of count.stream(counted.id)) parts.push(part.output.n);
  check(JSON.stringify(parts) === "[0,1]", parts);
});
await tried("endpoint.cancel", async () => {
  const waiting = await idle.run({ input: { n: 1 } });
  const record = await idle.cancel(waiting.id);
  check(record.status === "CANCELLED", record);
});
await tried("endpoint.health", async () => {
  const health = await endpoint.health();
  check("jobs" in health && "workers" in health, health);
});
await tried("endpoint.purgeQueue", async () => {
  await idle.run({ input: { n: 1 } });
  const purged = await idle.purgeQueue();
  check(purged.removed === 1, purged);
});
