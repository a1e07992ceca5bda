// The shape of a domain's table of requests.

/** A domain: its callers and records, and a table of literal requests with their responses. */
export interface Domain {
  /** Names of the resources, separated by commas. */
  readonly resources: string;
  /** Members, each with the name of a profile. */
  readonly members: Readonly<Record<string, string>>;
  /** API keys, each with the name of a profile. */
  readonly keys?: Readonly<Record<string, string>>;
  /** Records created by an administrator: name, resource and body. `{name}` stands for the ID of a member or record. */
  readonly records: readonly (readonly [name: string, resource: string, body: object])[];
  /** Texts that no response to a caller contains. */
  readonly hidden: Readonly<Record<string, readonly string[]>>;
  /**
   * Requests, sent in this order. Headers follow the first line. The expected body contains only the relevant keys; undefined
   * stands for an absent key, and `total` for the header X-Total-Count.
   */
  readonly requests: readonly (readonly [
    who: string,
    request: string,
    body: object | string | null,
    status: number,
    expected?: Readonly<Record<string, unknown>> | RegExp,
  ])[];
}
