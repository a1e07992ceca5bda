import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Resource } from '../../../engine/compile/index.ts';
import type { AnyPage, CurrentMember, Link, ViewData } from '../shell/index.ts';
import type { Calls } from './calls.ts';
import type { References } from './references.ts';
import { resourceNoun, type Titles } from './values.ts';

/** A request to a page of records, by a member. */
export interface DataRequest {
  readonly request: FastifyRequest;
  readonly reply: FastifyReply;
  readonly member: CurrentMember;
  readonly resource: Resource;
  /** The address of the list. */
  readonly path: string;
  readonly calls: Calls;
  readonly titles: Titles;
  readonly references: References;
  /** Shows a page in the frame of the resource. */
  readonly shown: (page: AnyPage & { readonly title: string }, more?: ViewData) => Promise<string>;
}

/** Handles a request to a page of records. */
export type DataHandler = (asked: DataRequest) => Promise<unknown>;

/** Adds routes of pages of records. `path` follows the address of the list. */
export interface DataRoutes {
  readonly get: (path: string, handle: DataHandler) => void;
  /** A form, with its token. */
  readonly post: (path: string, handle: DataHandler, options?: { readonly bodyLimit: number }) => void;
}

/** The link to the question before a record is deleted; undefined where the member may not. */
export const deletionOf = ({ calls, resource, path }: DataRequest, id: string): Link | undefined =>
  calls.may(resource, 'delete')
    ? { label: `Delete ${resourceNoun(resource)}`, href: `${path}/${id}/delete` }
    : undefined;
