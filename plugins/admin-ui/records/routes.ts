import type { FastifyContextConfig, FastifyReply, FastifyRequest } from 'fastify';
import type { Resource } from '../../../engine/compile/index.ts';
import type { NamedPerson } from '../../access/identity/index.ts';
import type { AnyPage, CurrentMember, Link, ViewData } from '../shell/index.ts';
import type { Calls } from './calls.ts';
import type { People } from './people.ts';
import type { References } from './references.ts';
import { resourceNoun, type Titles } from './values.ts';

/** A member's request for a page of records. */
export interface DataRequest {
  readonly request: FastifyRequest;
  readonly reply: FastifyReply;
  readonly member: CurrentMember;
  readonly resource: Resource;
  /** The list's URL. */
  readonly path: string;
  readonly calls: Calls;
  readonly titles: Titles;
  readonly references: References;
  /** Finds users by ID. */
  readonly findPeople: (ids: readonly string[]) => Promise<People>;
  /** Lists the organization's members. */
  readonly listMembers: () => Promise<readonly NamedPerson[]>;
  /** Sends a page with the resource's navigation. */
  readonly sendPage: (page: AnyPage & { readonly title: string }, more?: ViewData) => Promise<string>;
}

/** Handles a request for a page of records. */
export type DataHandler = (context: DataRequest) => Promise<unknown>;

/** Adds routes for pages of records. `path` is relative to the list's URL. */
export interface DataRoutes {
  readonly get: (path: string, handle: DataHandler, config?: FastifyContextConfig) => void;
  /** Registers a form, protected by a token. */
  readonly post: (path: string, handle: DataHandler, options?: { readonly bodyLimit: number }) => void;
}

/** Returns the link to the page that confirms a deletion, or undefined if it is not permitted. */
export const deletionOf = ({ calls, resource, path }: DataRequest, id: string): Link | undefined =>
  calls.allows(resource, 'delete')
    ? { label: `Delete ${resourceNoun(resource)}`, href: `${path}/${id}/delete` }
    : undefined;
