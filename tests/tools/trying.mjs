// A call is tried, and what came of it is one line of JSON: `why` is empty where it works.
export async function tried(call, work) {
  try {
    const found = await work();
    tell(call, "");
    return found;
  } catch (error) {
    tell(call, `${error?.name ?? "error"}: ${error?.message ?? error}`.slice(0, 200));
    return undefined;
  }
}

export function tell(call, why) {
  process.stdout.write(JSON.stringify({ call, why }) + "\n");
}

export function check(holds, seen) {
  if (!holds) throw new Error(`seen: ${JSON.stringify(seen)}`);
}
