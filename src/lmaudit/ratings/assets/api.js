// Asking our own server, and nobody else. The secret of the link stands behind its "#", which browsers send to nobody;
// this script sends it as a header.

const ANSWERS_WITHIN_MS = 10000;
const LONGEST_WAIT_MS = 4000;
const token = location.hash.slice(1);

// Resolves to the JSON of the answer; throws {status, retryAfterMs}, status 0 where there was no answer.
export async function ask(path, options = {}) {
  let response;
  try {
    response = await fetch(path, {
      ...options,
      cache: "no-store",
      credentials: "omit",
      referrerPolicy: "no-referrer",
      headers: { Authorization: `Bearer ${token}`, "Content-Type": "application/json" },
      signal: AbortSignal.timeout(ANSWERS_WITHIN_MS),
    });
  } catch {
    throw { status: 0 };
  }
  if (!response.ok) throw { status: response.status, retryAfterMs: 1000 * (Number(response.headers.get("Retry-After")) || 0) };
  try {
    return await response.json();
  } catch {
    throw { status: 0 };
  }
}

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

// Tries until there is an answer, or a no that waiting does not change. waiting(): called when it has to wait.
export async function askUntilAnswered(path, waiting) {
  for (let failures = 0; ; failures++) {
    try {
      return await ask(path);
    } catch (error) {
      if (error.status === 401 || error.status === 400) throw error;
      waiting();
      await sleep(Math.max(error.retryAfterMs ?? 0, Math.min(LONGEST_WAIT_MS, 500 * 2 ** failures)));
    }
  }
}
