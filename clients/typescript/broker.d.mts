/** What really stops a call from doing more than it was allowed. */
export type Enforcement = "kernel" | "gate" | "none";

/** An allow, or a refusal that names a caveat. */
export type Decision =
  | { readonly allowed: true; readonly enforcement: Enforcement }
  | {
      readonly allowed: false;
      readonly enforcement: Enforcement;
      readonly caveat: string;
      readonly value: string;
      readonly reason: string;
    };

/** A subject or a resource, as AuthZEN spells it. */
export interface Entity {
  type: string;
  id: string;
  properties?: Record<string, unknown>;
}

export interface Action {
  name: string;
  properties?: Record<string, unknown>;
}

export interface Options {
  /** The bearer key. */
  key?: string;
  /** The wire form of the ticket that is asked under. */
  ticket?: string;
  /** The longest wait for a whole answer, in milliseconds. */
  timeoutMs?: number;
}

export interface CallOptions {
  callId?: string;
  server?: string;
  cwd?: string;
  actor?: string;
}

export interface Described {
  sid: string;
  id: string;
  ticket: string;
  lines: string[];
  spent: number[] | null;
}

/** What went wrong, other than a refusal. */
export class BrokerError extends Error {
  readonly status: number;
  readonly code: string;
  /** The caveat that a narrower ticket would have widened. */
  readonly kind: string | undefined;
}

/** A decision service; safe for concurrent use. */
export class Broker {
  constructor(address: string, options?: Options);
  readonly ticket: string;
  holding(ticket: string): Broker;
  check(tool: string, args: Record<string, unknown>, options?: CallOptions): Promise<Decision>;
  evaluate(
    subject: Entity,
    action: Action,
    resource: Entity,
    context?: Record<string, unknown>,
  ): Promise<Decision>;
  mint(line: string, ...scope: string[]): Promise<Broker>;
  attenuate(...scope: string[]): Promise<Broker>;
  describe(): Promise<Described>;
  result(callId: string, how: { ok: boolean; output?: unknown }): Promise<void>;
  end(sid: string): Promise<void>;
  revoke(ticket: string, reason: string): Promise<void>;
}
