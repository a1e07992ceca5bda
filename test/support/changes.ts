// Test support: entries of the history and the change feed.

/** A change to a record. */
export interface Change {
  readonly position: string;
  readonly actor: { readonly kind: string; readonly id: number | null; readonly name: string | null };
  readonly request_id: string;
  readonly resource: string;
  readonly id: number;
  readonly action: string;
  readonly version: number;
  readonly changed: readonly string[];
  readonly before: Record<string, unknown> | null;
  readonly after: Record<string, unknown> | null;
}
