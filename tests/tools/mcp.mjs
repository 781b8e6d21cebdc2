// The calls of the MCP server on what is served here, each tried once, over its standard input and output.
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { tried } from "./trying.mjs";

const server = spawn("node", ["node_modules/@runpod/mcp-server/dist/stdio.mjs"], {
  stdio: ["pipe", "pipe", "ignore"],
});
const waiting = new Map();
createInterface({ input: server.stdout }).on("line", (line) => {
  const message = JSON.parse(line);
  waiting.get(message.id)?.(message);
});

let last = 0;
function send(message) {
  server.stdin.write(JSON.stringify({ jsonrpc: "2.0", ...message }) + "\n");
}
function ask(method, params) {
  const id = ++last;
  send({ id, method, params });
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error("no answer within 30 s")), 30000);
    waiting.set(id, (message) => {
      clearTimeout(timer);
      message.error ? reject(new Error(message.error.message)) : resolve(message.result);
    });
  });
}

const asked = { protocolVersion: "2025-06-18", capabilities: {}, clientInfo: { name: "tests", version: "1" } };
await ask("initialize", asked);
send({ method: "notifications/initialized" });
function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

async function call(name, given) {
  return tried(name, async () => {
    const answer = await ask("tools/call", { name, arguments: given });
    const text = answer.content?.[0]?.text;
    const found = parsed(text);
    if (answer.isError) throw new Error(found?.status ? `${found.status} ${found.detail}` : (found?.error ?? text));
    return found;
  });
}

const scaling = { type: "QUEUE_DELAY", queueDelay: 4 };
await call("list-gpu-types", {});
await call("get-capacity", {});
await call("create-template", { body: { name: "mcp", image: "me/worker:1", serverless: true } });
await call("list-templates", {});
const gpu = { pools: ["ADA_24"] };
const endpoint = { name: "mcp", type: "QUEUE", scaling, gpu, image: "me/worker:1" };
const made = await call("create-endpoint", { body: endpoint });
await call("list-endpoints", {});
if (made?.id) {
  await call("get-endpoint", { id: made.id });
  await call("update-endpoint", { id: made.id, body: { workers: { max: 1 } } });
  await call("list-endpoint-workers", { id: made.id });
  await call("delete-endpoint", { id: made.id });
}
const trainer = { name: "mcp", image: "me/trainer:1", gpu: { id: "NVIDIA GeForce RTX 4090", count: 1 } };
const pod = await call("create-pod", { body: trainer });
await call("list-pods", {});
if (pod?.id) {
  await call("get-pod", { id: pod.id });
  await call("pod-action", { id: pod.id, body: { action: "stop" } });
  await call("delete-pod", { id: pod.id });
}
await call("runsync-endpoint", { endpointId: "ep", input: { n: 2 } });
const job = await call("run-endpoint", { endpointId: "ep", input: { n: 2 } });
if (job?.id) {
  await call("get-job-status", { endpointId: "ep", jobId: job.id });
  await call("stream-job", { endpointId: "ep", jobId: job.id });
}
await call("endpoint-health", { endpointId: "ep" });
await call("purge-endpoint-queue", { endpointId: "idle" });
await call("list-registries", {});
await call("list-network-volumes", {});
server.kill();
process.exit(0);
