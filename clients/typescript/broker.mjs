/**
 * Asks a decision service of the capability broker. One file, no dependencies, Node.js 20 or newer.
 *
 * Rules a maintainer keeps: a decision is a refusal unless the whole answer says allow; a request is
 * sent once and never again, since it may have been decided; no redirect is followed, so that a key
 * goes to one address only; over the network keys travel by TLS or stay on this machine.
 */

const LEVELS = new Set(["kernel", "gate", "none"]);
const LOOPBACK = /^(localhost|127(\.\d{1,3}){3}|\[::1\])$/;
const MAX_ANSWER_BYTES = 4 * 2 ** 20;

/** What went wrong, other than a refusal; `code` is the service's own. */
export class BrokerError extends Error {
  constructor(message, { status = 0, code = "", kind = undefined } = {}) {
    super(message);
    this.name = "BrokerError";
    this.status = status;
    this.code = code;
    this.kind = kind;
  }
}

/** A decision service; safe for concurrent use. */
export class Broker {
  #address;
  #key;
  #ticket;
  #timeout;

  /**
   * @param address `https://HOST:PORT`, or `http://` on this machine.
   * @param options the bearer `key`, the `ticket` (its wire form) that is asked under, and
   *   `timeoutMs`, the longest wait for a whole answer.
   */
  constructor(address, { key = "", ticket = "", timeoutMs = 30_000 } = {}) {
    const url = new URL(address);
    if (!["https:", "http:"].includes(url.protocol) || url.pathname !== "/" || url.search) {
      throw new BrokerError(`\`${address}\` is no address of a service: write https://HOST:PORT`);
    }
    if (url.protocol === "http:" && !LOOPBACK.test(url.hostname)) {
      throw new BrokerError(`\`${address}\` would send keys and tickets in the clear`);
    }
    this.#address = url.origin;
    this.#key = key;
    this.#ticket = ticket;
    this.#timeout = timeoutMs;
  }

  /** The wire form that is asked under. */
  get ticket() {
    return this.#ticket;
  }

  /** Return a client of the same service that asks under another ticket. */
  holding(ticket) {
    const options = { key: this.#key, ticket, timeoutMs: this.#timeout };
    return new Broker(this.#address, options);
  }

  /** Ask whether a call is allowed; never rejects: what cannot be asked is refused. */
  async check(tool, args, { callId, server, cwd, actor } = {}) {
    const body = { ticket: this.#ticket, tool, arguments: args, call_id: callId, server, cwd, actor };
    try {
      return readDecision(await this.#ask("/v1/check", body));
    } catch (error) {
      return closed(error);
    }
  }

  /** Ask as AuthZEN spells it; never rejects: what cannot be asked is refused. */
  async evaluate(subject, action, resource, context = {}) {
    const given = this.#ticket ? { ...context, ticket: this.#ticket } : context;
    try {
      const body = { subject, action, resource, context: given };
      const answer = await this.#ask("/access/v1/evaluation", body);
      const told = isObject(answer.context) ? answer.context : {};
      const words = { true: "allow", false: "refuse" };
      const decision = typeof answer.decision === "boolean" ? words[answer.decision] : "";
      return readDecision({ enforcement: "gate", ...told, decision });
    } catch (error) {
      return closed(error);
    }
  }

  /** Mint a ticket by an operator's key, from the line that a person typed; return its client. */
  async mint(line, ...scope) {
    return this.#kept(await this.#ask("/v1/mint", { line, scope }));
  }

  /** Derive a narrower ticket, and return its client. */
  async attenuate(...scope) {
    return this.#kept(await this.#ask("/v1/attenuate", { ticket: this.#ticket, scope }));
  }

  /** Return what this client's ticket permits, and what was spent. */
  async describe() {
    return this.#ask("/v1/describe", { ticket: this.#ticket });
  }

  /** Tell how an allowed call ended; the receipt keeps a digest of the output. */
  async result(callId, { ok, output = null }) {
    await this.#ask("/v1/result", { ticket: this.#ticket, call_id: callId, ok, output });
  }

  /** Seal a minted session by an operator's key. */
  async end(sid) {
    await this.#ask("/v1/end", { sid });
  }

  /** Take a ticket back by an operator's key (its id or wire form), with all narrowed from it. */
  async revoke(ticket, reason) {
    await this.#ask("/v1/revoke", { ticket, reason });
  }

  #kept(answer) {
    if (typeof answer.ticket !== "string" || answer.ticket === "") {
      throw new BrokerError("the service's answer holds no ticket");
    }
    return this.holding(answer.ticket);
  }

  async #ask(path, body) {
    const headers = { "content-type": "application/json" };
    if (this.#key) headers.authorization = `Bearer ${this.#key}`;
    let answer;
    let text;
    try {
      answer = await fetch(this.#address + path, {
        method: "POST",
        headers,
        body: JSON.stringify(body),
        redirect: "error",
        signal: AbortSignal.timeout(this.#timeout),
      });
      text = await whole(answer);
    } catch (error) {
      const why = error?.cause?.message || error?.message || "no answer";
      throw new BrokerError(`the service cannot be asked: ${why}`);
    }
    const found = parsed(text);
    if (answer.status >= 200 && answer.status < 300) return found;
    const told = isObject(found.error) ? found.error : {};
    const message = told.message ?? `the service answered with ${answer.status}`;
    throw new BrokerError(message, { status: answer.status, code: told.code, kind: told.kind });
  }
}

/** Return a body's text, or fail where it does not end within the limit. */
async function whole(answer) {
  const parts = [];
  let size = 0;
  for await (const part of answer.body ?? []) {
    size += part.length;
    if (size > MAX_ANSWER_BYTES) throw new Error("the answer is too long");
    parts.push(part);
  }
  return new TextDecoder("utf-8", { fatal: true }).decode(Buffer.concat(parts));
}

function parsed(text) {
  let found;
  try {
    found = JSON.parse(text);
  } catch {
    throw new BrokerError("the service's answer cannot be read");
  }
  if (!isObject(found)) throw new BrokerError("the service's answer is no object");
  return found;
}

function readDecision({ decision, enforcement, caveat, value, reason }) {
  const known = LEVELS.has(enforcement);
  if (known && decision === "allow") return Object.freeze({ allowed: true, enforcement });
  const told = [caveat, value, reason].every((part) => typeof part === "string");
  if (known && decision === "refuse" && told) {
    return Object.freeze({ allowed: false, enforcement, caveat, value, reason });
  }
  return closed(new Error("the service's answer cannot be read"));
}

function closed(error) {
  const reason = `${error.message}; no call is allowed; tell the person`;
  const refusal = { allowed: false, enforcement: "gate", caveat: "session", value: "", reason };
  return Object.freeze(refusal);
}

function isObject(value) {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
